"""Lines of JSON to Arrow: one text a row, each told whether it is one standard JSON object."""

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dflash_guard.shards.jsontext import TextFault, judge_text
from dflash_guard.shards.structure import WHITE, Forms, Texts, padded

__all__ = ["TEXT_COLUMNS", "LineScanner", "text_rows"]

TEXT_COLUMNS = pa.schema(
    [
        ("line", pa.int64()),
        ("text", pa.string()),
        ("fault", pa.string()),
        ("fault_detail", pa.string()),
        ("stray", pa.string()),
    ]
)
_BOM = b"\xef\xbb\xbf"
_WHITE = b" \t\r"
_CONTROL_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u00(0[0-8bBcCeEfF]|1[0-9a-fA-F])")


@dataclass(slots=True)
class LineScanner:
    """Cuts blocks of lines into rows; remembers the forms of text that it has met.

    Attributes:
        forms: What it knows of the texts' forms.
        line: 1-based number of the next block's first line.
    """

    forms: Forms = field(default_factory=Forms)
    line: int = 1

    def scan(self, *pieces: bytes | memoryview, last: bool) -> pa.RecordBatch:
        """Turn whole lines into rows.

        Args:
            pieces: Lines, each with its newline; only with `last` may the final one lack it. One piece may end, and
                the next begin, anywhere.
            last: Whether the data ends with them.

        Returns:
            A batch with the columns of TEXT_COLUMNS, one row a line that is not blank.
        """
        data = padded(*pieces)
        newlines = np.flatnonzero(data == 0x0A)
        starts = np.concatenate([[0], newlines + 1])
        ends = np.concatenate([newlines, [len(data)]])
        if starts[-1] == len(data):  # the last line has its newline
            starts, ends = starts[:-1], ends[:-1]
        lines = np.arange(self.line, self.line + len(starts), dtype=np.int64)
        self.line += len(newlines)
        stray: dict[int, str] = {}
        starts, ends, keep = _trim(data, starts, ends, stray)
        unfinished = len(data) - 1 if last and len(data) and data[-1] != 0x0A else None
        stray = {int(np.count_nonzero(keep[:i])): what for i, what in stray.items() if keep[i]}
        return text_rows(
            Texts(data, starts[keep], ends[keep]), self.forms, lines=lines[keep], stray=stray, unfinished_at=unfinished
        )


def _trim(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], stray: dict[int, str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Take byte-order marks and CR line ends off, note them in `stray`, and find the lines that are not blank."""
    keep = ends > starts
    if not len(starts):
        return starts, ends, keep
    head = data[np.minimum(starts, len(data) - 1)]
    for i in np.flatnonzero(keep & (head == _BOM[0])):
        if data[starts[i] : starts[i] + 3].tobytes() == _BOM:
            starts[i] += 3
            stray[int(i)] = "a byte-order mark before the text"
    cr = keep & (ends > starts) & (data[np.maximum(ends - 1, 0)] == 0x0D)
    for i in np.flatnonzero(cr):
        stray.setdefault(int(i), "a CR before the line end")
    ends = ends - cr
    # A line that begins with white space may hold nothing else.
    head = data[np.minimum(starts, len(data) - 1)]
    white = (head == 0x20) | (head == 0x09) | (head == 0x0D)
    keep = ends > starts
    for i in np.flatnonzero(keep & white):
        keep[i] = bool(data[starts[i] : ends[i]].tobytes().strip(_WHITE))
    return starts, ends, keep


def text_rows(
    texts: Texts,
    forms: Forms,
    *,
    lines: npt.NDArray[np.int64] | None,
    stray: dict[int, str],
    unfinished_at: int | None = None,
) -> pa.RecordBatch:
    """Judge texts and hand them out as rows.

    Args:
        texts: The texts of one block.
        forms: What is known of forms; learns more.
        lines: Their line numbers; None where there are none (a JSON array).
        stray: Stray bytes found around a text, by its index.
        unfinished_at: Index of the last byte of data that ends without a newline.
    """
    count = len(texts.starts)
    odd = forms.odd(texts)
    invalid = _invalid_utf8(texts)
    faults: dict[int, TextFault] = {}
    for i in np.flatnonzero(odd | invalid).tolist():
        raw = texts.block[texts.starts[i] : texts.ends[i]].tobytes()
        fault = judge_text(raw, unfinished=unfinished_at is not None and texts.ends[i] > unfinished_at)
        if fault:
            faults[i] = fault
        elif control := _CONTROL_ESCAPE.search(raw):
            stray.setdefault(i, f"control character \\u00{control[1].decode()} in text")
    return pa.record_batch(
        [
            pa.nulls(count, pa.int64()) if lines is None else pa.array(lines, pa.int64()),
            _strings(texts, faults),
            _sparse(count, {i: fault.rule for i, fault in faults.items()}),
            _sparse(count, {i: fault.detail for i, fault in faults.items()}),
            _sparse(count, stray),
        ],
        schema=TEXT_COLUMNS,
    )


def _invalid_utf8(texts: Texts) -> npt.NDArray[np.bool_]:
    bad = np.zeros(len(texts.starts), dtype=np.bool_)
    try:
        _whole(texts.block).validate(full=True)
    except pa.ArrowInvalid:
        for i, (start, end) in enumerate(zip(texts.starts.tolist(), texts.ends.tolist(), strict=True)):
            try:
                texts.block[start:end].tobytes().decode()
            except UnicodeDecodeError:
                bad[i] = True
    return bad


def _whole(block: npt.NDArray[np.uint8]) -> pa.StringArray:
    offsets = np.array([0, len(block)], dtype=np.int32)
    return pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(block)))


def _strings(texts: Texts, faults: dict[int, TextFault]) -> pa.StringArray:
    """The texts as strings; `{}` for one that nothing can read, so that whoever parses them never fails."""
    unreadable = [i for i, fault in faults.items() if fault.rule != "duplicate-key"]
    starts, lengths = texts.starts, texts.ends - texts.starts
    block = texts.block
    if unreadable:
        starts, lengths = starts.copy(), lengths.copy()
        starts[unreadable] = len(block)
        lengths[unreadable] = 2
        block = np.concatenate([block, np.frombuffer(b"{}", dtype=np.uint8)])
    return _gather(block, starts, lengths)


def _gather(
    block: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> pa.StringArray:
    """Strings that lie in a block, without copying where they stand one behind another.

    White space between two texts goes with the first: it is no part of the JSON value, and does no harm.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.string())
    offsets = np.empty(count + 1, dtype=np.int32)
    offsets[:-1] = starts
    offsets[-1] = starts[-1] + lengths[-1]
    gaps = starts[1:] - (starts[:-1] + lengths[:-1])
    if (gaps < 0).any() or not _only_white(block, starts[:-1] + lengths[:-1], gaps):
        taken = [block[s : s + n].tobytes().decode() for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
        return pa.array(taken, pa.string())
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(block))


def _only_white(block: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], gaps: npt.NDArray[np.int64]) -> bool:
    within = np.arange(int(gaps.sum())) - np.repeat(np.cumsum(gaps) - gaps, gaps)
    return bool(WHITE[block[np.repeat(ends, gaps) + within]].all())


def _sparse(count: int, values: dict[int, str]) -> pa.StringArray:
    if not values:
        return pa.nulls(count, pa.string())
    column: list[str | None] = [None] * count
    for i, value in values.items():
        column[i] = value
    return pa.array(column, pa.string())
