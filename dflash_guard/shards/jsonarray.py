"""A JSON array of any size to Arrow: one element a row, cut at the commas between elements."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dflash_guard.shards.jsonl import text_rows
from dflash_guard.shards.model import ShardFault
from dflash_guard.shards.structure import WHITE, Forms, Texts, find_marks, padded

__all__ = ["ArrayScanner"]

_BOM = b"\xef\xbb\xbf"
_LARGEST = 1 << 30  # bytes of one element


@dataclass(slots=True)
class ArrayScanner:
    """Cuts the bytes of one JSON array into rows, block by block.

    Attributes:
        faults: What is wrong with the array as a whole; complete after the last block.
    """

    faults: list[ShardFault] = field(default_factory=list)
    _forms: Forms = field(default_factory=Forms)
    _carry: bytes = b""  # from the start of the element that is not whole yet
    _waiting: list[bytes] = field(default_factory=list)
    _size: int = 0
    _opened: bool = False
    _closed: bool = False
    _elements: int = 0
    _stray: str = ""

    def feed(self, block: bytes, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Take the next bytes and hand out the rows that are whole.

        Args:
            block: The next bytes of the array.
            last: Whether the data ends with them.

        Yields:
            Batches with the columns of `jsonl.TEXT_COLUMNS`; `line` is null.
        """
        self._waiting.append(block)
        self._size += len(block)
        # An element larger than a block is not looked through again for every block.
        if not last and self._size < 2 * len(self._carry) and not self._closed:
            return
        data = self._take()
        if self._opened and not self._closed:
            yield from self._cut(data)
        elif not self._closed:
            yield from self._open(data)
        elif bytes(data).strip(b" \t\r\n"):
            self._trailing(len(bytes(data).strip(b" \t\r\n")))
        if last and not self._closed:
            self.faults.append(
                ShardFault(
                    "truncated-shard", f"the JSON array has no closing bracket after {self._elements:,} elements"
                )
            )

    def _take(self) -> npt.NDArray[np.uint8]:
        data = padded(self._carry, *self._waiting)
        self._carry, self._waiting, self._size = b"", [], 0
        return data

    def _open(self, data: npt.NDArray[np.uint8]) -> Iterator[pa.RecordBatch]:
        raw = data.tobytes()
        start = 0
        if raw.startswith(_BOM):
            start, self._stray = len(_BOM), "a byte-order mark before the array"
        start += len(raw) - start - len(raw[start:].lstrip(b" \t\r\n"))
        if start >= len(raw) or raw in (_BOM[:1], _BOM[:2]):
            self._carry = raw
            return
        self._opened = True
        yield from self._cut(padded(raw[start + 1 :]))

    def _cut(self, data: npt.NDArray[np.uint8]) -> Iterator[pa.RecordBatch]:
        commas, close = _boundaries(data)
        ends = commas if close is None else np.concatenate([commas, [close]])
        starts = np.concatenate([[0], ends + 1])[: len(ends)]
        if close is None:
            self._carry = data[ends[-1] + 1 if len(ends) else 0 :].tobytes()
            if len(self._carry) > _LARGEST:
                self._closed = True
                self.faults.append(ShardFault("unreadable-shard", "one element of the JSON array is larger than 1 GiB"))
        else:
            self._closed = True
            rest = data[close + 1 :].tobytes().strip(b" \t\r\n")
            if rest:
                self._trailing(len(rest))
        starts, stops = _trim(data, starts, ends)
        if close is not None and self._elements == 0 and len(starts) == 1 and stops[0] <= starts[0]:
            return  # an empty array
        if len(starts):
            yield self._rows(data, starts, stops, ends)

    def _rows(
        self,
        data: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        stray = {0: self._stray} if self._stray and self._elements == 0 else {}
        self._elements += len(starts)
        data[ends] = 0x20  # a comma between elements belongs to neither
        return text_rows(Texts(data, starts, stops), self._forms, lines=None, stray=stray)

    def _trailing(self, size: int) -> None:
        if not any(fault.rule == "unreadable-shard" for fault in self.faults):
            self.faults.append(ShardFault("unreadable-shard", f"{size:,} bytes after the JSON array's closing bracket"))


def _boundaries(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], int | None]:
    """Commas between elements, and the bracket that closes the array."""
    quotes = find_marks(data).quotes
    wanted = (data == 0x2C) | (data == 0x5B) | (data == 0x5D) | (data == 0x7B) | (data == 0x7D)
    at = np.flatnonzero(wanted)
    at = at[(np.searchsorted(quotes, at) & 1) == 0]
    mark = data[at]
    step = np.zeros(len(at), dtype=np.int64)
    step[(mark == 0x5B) | (mark == 0x7B)] = 1
    step[(mark == 0x5D) | (mark == 0x7D)] = -1
    depth = np.cumsum(step)
    below = np.flatnonzero(depth < 0)
    close = int(at[below[0]]) if len(below) else None
    commas = at[(mark == 0x2C) & (depth == 0)]
    return (commas if close is None else commas[commas < close]), close


def _trim(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    starts, stops = starts.copy(), ends.copy()
    last = max(len(data) - 1, 0)
    moving = np.flatnonzero((starts < stops) & WHITE[data[np.minimum(starts, last)]])
    while len(moving):
        starts[moving] += 1
        moving = moving[(starts[moving] < stops[moving]) & WHITE[data[np.minimum(starts[moving], last)]]]
    moving = np.flatnonzero((stops > starts) & WHITE[data[stops - 1]])
    while len(moving):
        stops[moving] -= 1
        moving = moving[(stops[moving] > starts[moving]) & WHITE[data[stops[moving] - 1]]]
    return starts, stops
