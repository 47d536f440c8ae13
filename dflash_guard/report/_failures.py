"""Which failures a report shows: the first of each rule, in the order of the data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dflash_guard.report._cells import cut, inert
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import Verdict

__all__ = ["Failure", "Shown"]

ROWS = 16_384  # of the failures table at a time


@dataclass(frozen=True, slots=True)
class Failure:
    """One row of a verdict's failures. Its detail is safe to print; the names are as they are."""

    rule: str
    level: str
    shard: str | None
    row: int | None
    line: int | None
    sample_id: str | None
    detail: str

    @property
    def place(self) -> str:
        """Where it is, as a person writes it; safe to print."""
        if self.shard is None:
            return "(data set)"
        name = inert(self.shard)
        if self.line is not None:
            return f"{name}:{self.line}"
        return name if self.row is None else f"{name}:row {self.row}"


class Shown:
    """The failures of a verdict that a report shows.

    Args:
        verdict: Whose failures.
        style: How many per rule.
    """

    def __init__(self, verdict: Verdict, style: Style) -> None:
        self._found = verdict.found
        self._all = style.max_failures == 0
        self._first = verdict.found.first(style.max_failures or 1)

    def __iter__(self) -> Iterator[Failure]:
        """In the order of the data."""
        for piece in self._found.pieces() if self._all else [self._first]:
            yield from self._read(piece)

    def of(self, rule: str) -> Iterator[Failure]:
        """Those of one rule, in the order of the data."""
        for piece in self._found.pieces() if self._all else [self._first]:
            yield from self._read(piece.filter(pc.equal(piece["rule"], rule)))

    def first(self, rule: str) -> Failure | None:
        """The first of one rule."""
        return next(self._read(self._first.filter(pc.equal(self._first["rule"], rule)).slice(0, 1)), None)

    def _read(self, table: pa.Table) -> Iterator[Failure]:
        for batch in table.to_batches(max_chunksize=ROWS):
            for row in batch.to_pylist():
                yield self._failure(row)

    def _failure(self, row: dict[str, Any]) -> Failure:
        return Failure(
            rule=row["rule"],
            level=row["level"],
            shard=row["shard"],
            row=row["row"],
            line=row["line"],
            sample_id=row["sample_id"],
            detail=inert(cut(row["detail"] or "")),
        )
