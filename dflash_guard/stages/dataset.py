"""Gated tokens as a PyTorch dataset: shuffled, split over ranks and workers, resumable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import IterableDataset, get_worker_info

from dflash_guard.errors import UsageError
from dflash_guard.verbs.gated import GatedData

__all__ = ["GatedDataset"]

Sample = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Window:
    """Rows that are permuted together: the place of the first in the epoch's order, the rows, and their order."""

    start: int
    rows: pa.RecordBatch
    order: "np.ndarray[Any, Any]"

    @property
    def end(self) -> int:
        return int(self.start + self.rows.num_rows)


class GatedDataset(IterableDataset[Sample]):
    """The rows of gated data as samples: lists of numbers are tensors (1-D, int64), all else is as it stands.

    Every rank gets equally many samples, so that none waits for another; up to `world_size - 1` rows at the end of an
    epoch are left out for that. The order depends on seed and epoch alone, not on how many ranks or workers share it:
    shards are permuted, then the rows of each window of a shard.

    Args:
        data: As `open_gated` gives it.
        columns: The columns of a sample.
        shuffle: Whether rows are permuted; else they come in the order of the data.
        seed: Of the permutation.
        window: Rows that are permuted together, and held in memory.
        rank: Of this process.
        world_size: Processes that share the data.

    Raises:
        UsageError: The rank is not below the world size.
    """

    def __init__(
        self,
        data: GatedData,
        *,
        columns: Sequence[str] = ("input_ids", "loss_mask"),
        shuffle: bool = False,
        seed: int = 0,
        window: int = 16_384,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not 0 <= rank < world_size:
            raise UsageError(f"rank {rank} is not below the world size {world_size}.", hint="ranks count from 0.")
        self.data = data
        self.columns = tuple(columns)
        self.shuffle, self.seed, self.window = shuffle, seed, window
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self._given = 0  # samples that this process (or worker) gave in this epoch

    def __len__(self) -> int:
        """Samples of this rank in an epoch."""
        return int(self.data.rows // self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, which has an order of its own."""
        self.epoch, self._given = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Where this process (or worker) is: enough to go on with the next sample."""
        return {"epoch": self.epoch, "given": self._given, "order": self._order_said()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises:
            UsageError: It was taken of other data, or in another order.
        """
        if state["order"] != self._order_said():
            raise UsageError(
                "the position belongs to other data, or to another order of it.",
                hint="resume with the same data, seed, shuffle, window and world size, or begin anew.",
            )
        self.epoch, self._given = int(state["epoch"]), int(state["given"])

    def _order_said(self) -> dict[str, Any]:
        return {
            "verdict": self.data.passage.record.digest,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "window": self.window,
            "world_size": self.world_size,
        }

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        workers, me = (worker.num_workers, worker.id) if worker is not None else (1, 0)
        # The rank's samples are every world_size-th row; this worker's are every workers-th of those.
        mine = range(self.rank + me * self.world_size, len(self) * self.world_size, workers * self.world_size)
        wanted = mine[self._given :]
        for window in self._windows(wanted.start):
            while wanted and wanted.start < window.end:
                row = int(window.order[wanted.start - window.start])
                self._given += 1
                wanted = wanted[1:]
                yield {name: _value(window.rows.column(name), row) for name in self.columns}
            if not wanted:
                break
        self._given = 0

    def _windows(self, first: int) -> Iterator[_Window]:
        """The epoch's windows, from one at or before the place `first`; whole shards before it are not read."""
        rows = self.data.shard_rows
        start = 0
        for shard in self._permuted(len(rows), 0):
            end = start + rows[shard]
            if end <= first:
                start = end
                continue
            pending: list[pa.RecordBatch] = []
            for piece in self.data.read(int(shard), self.columns):
                batch = piece.rows.select(self.columns)
                while batch.num_rows:
                    cut = batch.slice(0, self.window - sum(each.num_rows for each in pending))
                    batch = batch.slice(cut.num_rows)
                    pending.append(cut)
                    if sum(each.num_rows for each in pending) == self.window:
                        yield self._window(start, pending)
                        start, pending = start + self.window, []
            if pending:
                yield self._window(start, pending)
            start = end

    def _window(self, start: int, pending: Sequence[pa.RecordBatch]) -> _Window:
        rows = pa.Table.from_batches(pending).combine_chunks().to_batches()[0]
        return _Window(start, rows, self._permuted(rows.num_rows, 1 + start))

    def _permuted(self, count: int, salt: int) -> "np.ndarray[Any, Any]":
        if not self.shuffle:
            return np.arange(count)
        return np.random.default_rng([self.seed, self.epoch, salt]).permutation(count)


def _value(column: pa.Array, row: int) -> Any:
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        begin, end = column.offsets[row].as_py(), column.offsets[row + 1].as_py()
        values = column.values.slice(begin, end - begin).to_numpy(zero_copy_only=False)
        return torch.from_numpy(values.astype(np.int64))
    if pa.types.is_fixed_size_list(column.type):
        return torch.from_numpy(column[row].values.to_numpy(zero_copy_only=False).astype(np.int64))
    return column[row].as_py()
