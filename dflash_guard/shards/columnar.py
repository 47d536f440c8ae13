"""Parquet, Arrow files and Arrow streams to record batches of bounded size."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from dflash_guard.shards.model import ShardFault

__all__ = ["FAULT_COLUMN", "ColumnarReader", "is_text"]

FAULT_COLUMN = "__fault__"  # names the column of a row whose text is no UTF-8
_TARGET = 16 << 20  # bytes of a batch that is handed out
_MOST_ROWS = 1 << 16
_MAGIC = {"parquet": b"PAR1", "arrow-file": b"ARROW1"}


@dataclass(slots=True)
class ColumnarReader:
    """Reads one columnar shard from an open file.

    Attributes:
        file: The shard, open for reading; seekable.
        size: Its bytes.
        format: parquet, arrow-file or arrow-stream.
        columns: The columns to hand out, where they exist; None for all.
        schema: The shard's columns, once known.
        faults: What is wrong with the shard; complete when the batches are exhausted.
    """

    file: io.RawIOBase
    size: int
    format: str
    columns: Sequence[str] | None
    schema: pa.Schema | None = None
    faults: list[ShardFault] = field(default_factory=list)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of about 16 MiB; a break ends them and becomes a fault.

        A row whose text is not UTF-8 has that cell nulled and its column named in FAULT_COLUMN.
        """
        if end := _MAGIC.get(self.format):
            self.file.seek(max(0, self.size - len(end)))
            if self.size < 2 * len(end) or self.file.read(len(end)) != end:
                self.faults.append(ShardFault("truncated-shard", f"the {self.format} footer is missing"))
                return
            self.file.seek(0)
        source = self._decode()
        while True:
            try:
                batch = next(source, None)
            except (KeyboardInterrupt, MemoryError, GeneratorExit):
                raise
            except Exception as error:  # noqa: BLE001 - corrupt files raise whatever the decoder stumbled over
                self._broke(error)
                return
            if batch is None:
                return
            yield batch

    def _broke(self, error: Exception) -> None:
        detail = (str(error).splitlines() or [type(error).__name__])[0][:200]
        cut = self.format == "arrow-stream" and self.file.tell() >= self.size
        self.faults.append(ShardFault("truncated-shard" if cut else "unreadable-shard", detail))

    def _decode(self) -> Iterator[pa.RecordBatch]:
        read = {"parquet": self._parquet, "arrow-file": self._arrow_file, "arrow-stream": self._arrow_stream}[
            self.format
        ]
        for batch in _sized(_plain(_sound(each)) for each in read()):
            yield _checked(batch)

    def _selected(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.columns is None or name in self.columns]

    def _parquet(self) -> Iterator[pa.RecordBatch]:
        parquet = pq.ParquetFile(self.file, buffer_size=1 << 20, pre_buffer=False)
        self.schema = parquet.schema_arrow
        metadata = parquet.metadata
        names = self._selected(self.schema.names)
        stored = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        rows = max(1, min(_MOST_ROWS, _TARGET * max(metadata.num_rows, 1) // max(stored, 1)))
        seen = 0
        for batch in parquet.iter_batches(batch_size=rows, columns=names, use_threads=False):
            seen += batch.num_rows
            yield _select(batch, names)
        if seen != metadata.num_rows and names:
            raise ValueError(f"{seen:,} rows instead of the {metadata.num_rows:,} that the footer tells")

    def _arrow_file(self) -> Iterator[pa.RecordBatch]:
        reader = pa.ipc.open_file(self.file)
        self.schema = reader.schema
        names = self._selected(self.schema.names)
        for i in range(reader.num_record_batches):
            yield _select(reader.get_batch(i), names)

    def _arrow_stream(self) -> Iterator[pa.RecordBatch]:
        watched = _Watched(self.file, self.size)
        reader = pa.ipc.open_stream(pa.PythonFile(watched, "r"))
        self.schema = reader.schema
        names = self._selected(self.schema.names)
        for batch in reader:
            yield _select(batch, names)
        # pyarrow takes the end of the file for the end of the stream; a marker would have kept it from reading so far.
        if watched.met_end:
            self.faults.append(ShardFault("truncated-shard", "the Arrow stream has no end-of-stream marker"))
        else:
            self._check_rest()

    def _check_rest(self) -> None:
        rest = self.size - self.file.tell()
        while block := self.file.read(1 << 20):
            if block.strip(b"\0"):
                self.faults.append(ShardFault("unreadable-shard", f"{rest:,} bytes after the end of the Arrow stream"))
                return


class _Watched:
    """A file for pyarrow that remembers whether a read met the end."""

    def __init__(self, file: io.RawIOBase, length: int) -> None:
        self._file = file
        self._length = length
        self.met_end = False
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read like a file, and whole: a raw file may give less."""
        wanted, size = size, min(size, self._length)  # a broken message can claim to be of any size
        data = self._file.read(size) or b""
        while 0 < len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        self.met_end = self.met_end or len(data) < wanted
        return data

    def tell(self) -> int:
        """Where the next read begins."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move there."""
        return self._file.seek(offset, whence)

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Whoever opened the file closes it."""
        self.closed = True


def _sized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches and cut large ones, so that each is near the target size."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        nbytes = max(1, batch.nbytes)
        if nbytes > 2 * _TARGET:
            if waiting:
                yield _joined(waiting)
                waiting, size = [], 0
            step = max(1, batch.num_rows * _TARGET // nbytes)
            yield from (batch.slice(at, step) for at in range(0, batch.num_rows, step))
            continue
        waiting.append(batch)
        size += nbytes
        if size >= _TARGET:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


def _select(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """The wanted columns; where there is none, a column of nothing, so that the rows are still counted."""
    return batch.select(names) if names else pa.record_batch({"__rows__": pa.nulls(batch.num_rows)})


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries decoded (they differ from batch to batch), extension types as what they are stored as."""
    stored = (c.storage if isinstance(c.type, pa.BaseExtensionType) else c for c in batch.columns)
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in stored]
    return pa.record_batch(columns, names=batch.schema.names)


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Null the cells whose text is not UTF-8, and name them: readers do not look, and what comes behind would crash."""
    faults: list[str | None] = [None] * batch.num_rows
    columns = list(batch.columns)
    for i, column in enumerate(columns):
        if _holds_text(column.type) and (bad := _bad_rows(column)):
            for row in bad:
                faults[row] = batch.schema.names[i]
            mask = pa.array([row in bad for row in range(batch.num_rows)])
            columns[i] = pc.if_else(mask, pa.scalar(None, column.type), column)
    if not any(faults):
        return batch
    return pa.record_batch([*columns, pa.array(faults, pa.string())], names=[*batch.schema.names, FAULT_COLUMN])


def is_text(of: pa.DataType) -> bool:
    """Whether a type is text, of any width."""
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of))


def _holds_text(of: pa.DataType) -> bool:
    return is_text(of) or any(_holds_text(of.field(i).type) for i in range(of.num_fields))


def _bad_rows(column: Any) -> set[int]:
    if _is_utf8(column):
        return set()
    # `take` copies the one row: a slice of a struct would be validated with all of its children.
    return {row for row in range(len(column)) if not _is_utf8(column.take(pa.array([row])))}


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Refuse offsets and sizes that point outside the data, before anything follows them."""
    for column in batch.columns:
        _is_utf8(column)
    return batch


def _is_utf8(column: Any) -> bool:
    """Whether a column's text is UTF-8.

    Raises:
        ArrowInvalid: The column is broken in another way.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        return False
    return True
