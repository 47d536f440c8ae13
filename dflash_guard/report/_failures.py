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
        self._table = verdict.failures
        self._all = style.max_failures == 0
        self._places = {} if self._all else _first(self._table, style.max_failures)

    def __iter__(self) -> Iterator[Failure]:
        """In the order of the data."""
        table = self._table
        if not self._all:
            table = _taken(table, sorted(place for places in self._places.values() for place in places))
        yield from self._read(table)

    def of(self, rule: str) -> Iterator[Failure]:
        """Those of one rule, in the order of the data."""
        if self._all:
            yield from self._read(self._table.filter(pc.equal(self._table["rule"], rule)))
        else:
            yield from self._read(_taken(self._table, self._places.get(rule, [])))

    def first(self, rule: str) -> Failure | None:
        """The first of one rule."""
        if not self._all:
            return next(self.of(rule), None)
        place = pc.index(self._table["rule"], rule).as_py()
        return None if place < 0 else next(self._read(self._table.slice(place, 1)))

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


def _first(table: pa.Table, most: int) -> dict[str, list[int]]:
    """The places of the first failures of each rule. Reads the rule column once, whatever its size."""
    places: dict[str, list[int]] = {}
    start = 0
    for chunk in table["rule"].chunks:
        for offset in range(0, len(chunk), ROWS):
            part = chunk.slice(offset, ROWS)
            for rule in pc.unique(part).to_pylist():
                found = places.setdefault(rule, [])
                missing = most - len(found)
                if missing > 0:
                    here = pc.indices_nonzero(pc.equal(part, rule)).slice(0, missing).to_pylist()
                    found.extend(start + offset + place for place in here)
        start += len(chunk)
    return places


def _taken(table: pa.Table, places: list[int]) -> pa.Table:
    """The rows at these places, in order, batch by batch: a table's own `take` would copy its text as a whole."""
    parts, start, at = [], 0, 0
    for batch in table.to_batches(max_chunksize=ROWS):
        end, here = start + batch.num_rows, at
        while at < len(places) and places[at] < end:
            at += 1
        if at > here:
            parts.append(batch.take(pa.array([place - start for place in places[here:at]], pa.int64())))
        if at == len(places):
            break
        start = end
    return pa.Table.from_batches(parts, table.schema)
