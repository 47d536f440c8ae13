"""Gated data: rows that passed, read from shards that are held against their verdict while they are read."""

import copyreg
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dflash_guard.errors import GateError, ShardChangedError
from dflash_guard.shards.model import Batch, Shard
from dflash_guard.shards.reader import ShardReader
from dflash_guard.verbs.gate import Passage, gate
from dflash_guard.verdict.record import is_as_written

__all__ = ["GatedBatch", "GatedData", "open_gated"]


def _read_only(values: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(values)


# Data loaders hand what they read from to worker processes, and a contract's mappings are read-only.
copyreg.pickle(MappingProxyType, lambda proxy: (_read_only, (dict(proxy),)))


@dataclass(frozen=True, slots=True)
class GatedBatch:
    """A run of rows that passed.

    Attributes:
        shard: Its index in the data set.
        kind: `text` or `columns`.
        places: The rows' 0-based places in the shard, int64.
        rows: As in `Batch.rows`, without the rows that failed.
    """

    shard: int
    kind: Literal["text", "columns"]
    places: "np.ndarray[Any, np.dtype[np.int64]]"
    rows: pa.RecordBatch


class GatedData:
    """A data set behind an open gate. Rows that failed within their rule's tolerance are left out.

    Attributes:
        passage: What the gate verified.
    """

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self._judged = {each.name: each for each in passage.record.shards}
        self._failed = _failed_rows(passage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards, in order."""
        return self.passage.listing.shards

    @property
    def shard_rows(self) -> list[int]:
        """How many rows of each shard passed."""
        return [self._judged[shard.name].rows - len(self._failed.get(shard.name, ())) for shard in self.shards]

    @property
    def rows(self) -> int:
        """How many rows passed."""
        return sum(self.shard_rows)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows that passed, as Arrow: the shards' own columns, or for text rows the column `text` (JSON).

        Args:
            columns: The columns to read, where there are columns; all by default.

        Raises:
            GateError: A shard is not what was judged.
            ShardAccessError: A shard can't be read.
        """
        for index in range(len(self.shards)):
            for piece in self.read(index, columns):
                yield piece.rows.select(["text"]) if piece.kind == "text" else piece.rows

    def read(self, index: int, columns: Sequence[str] | None = None) -> Iterator[GatedBatch]:
        """The rows of one shard that passed; it is verified when it is opened, and again by what was read.

        Args:
            index: Of the shard.
            columns: As in `batches`.

        Raises:
            GateError: The shard is not what was judged.
            ShardAccessError: It can't be read.
        """
        shard = self.shards[index]
        judged = self._judged[shard.name]
        failed = np.array(sorted(self._failed.get(shard.name, ())), np.int64)
        hint = "judge the data again: dflash-guard check."
        try:
            with ShardReader(shard, columns) as reader:
                for batch in reader:
                    yield _passed(index, batch, failed)
                seal = reader.seal
        except ShardChangedError as error:
            raise GateError(f"{shard.name} was changed since the gate opened.", hint=hint) from error
        if seal.sha256 != judged.sha256:
            raise GateError(f"{shard.name} was changed since it was judged: its sha256 is another.", hint=hint)

    def identities(self, index: int) -> pa.Table:
        """The id and source of every row of a shard, as they were judged: columns `id` and `source`, in order of rows.

        Where a contract declares id or source, rows do not say them; facts do.

        Raises:
            GateError: The facts are gone, or not those of the verdict.
        """
        judged, folder = self._judged[self.shards[index].name], self.passage.folder
        if judged.facts is None or not is_as_written(folder, judged.facts):
            raise GateError(f"the facts of {judged.name} are gone or were changed.", hint="judge the data again.")
        return pq.read_table(folder.path / judged.facts.path, columns=["id", "source"])


def open_gated(data: str | Path | Sequence[str | Path], **options: Any) -> GatedData:
    """Open a data set behind its gate.

    Args:
        data: Files, folders or globs.
        **options: As of `gate`: stage, contract, mode, family, ignore, sets, out, verdict, rehash, trust.

    Raises:
        GateError: The gate is shut.
        GuardError: As `gate` raises.

    >>> with open_gated("shards/", stage="tokenized") as data:  # doctest: +SKIP
    ...     for batch in data.batches(["input_ids", "loss_mask"]):
    ...         print(batch.num_rows)
    """
    return GatedData(gate(data, **options))


def _failed_rows(passage: Passage) -> dict[str, set[int]]:
    """The rows that failed an error rule, by shard."""
    if not passage.record.counts.quarantined_rows:
        return {}
    path = passage.folder.path / passage.record.evidence["failures"].path
    found = pq.read_table(path, columns=["shard", "row", "level"])
    found = found.filter(pc.and_(pc.equal(found["level"], "error"), pc.is_valid(found["row"])))
    failed: dict[str, set[int]] = {}
    for shard, row in zip(found["shard"].to_pylist(), found["row"].to_pylist(), strict=True):
        failed.setdefault(shard, set()).add(row)
    return failed


def _passed(index: int, batch: Batch, failed: "np.ndarray[Any, np.dtype[np.int64]]") -> GatedBatch:
    places = np.arange(batch.first_row, batch.first_row + batch.rows.num_rows, dtype=np.int64)
    if len(failed):
        keeps = ~np.isin(places, failed, assume_unique=True)
        return GatedBatch(index, batch.kind, places[keeps], batch.rows.filter(pa.array(keeps)))
    return GatedBatch(index, batch.kind, places, batch.rows)
