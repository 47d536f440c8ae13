"""One shard divided in two of the same format: its rows by a mask, unchanged to the byte or the value."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from dflash_guard.errors import UsageError
from dflash_guard.shards.model import Seal
from dflash_guard.shards.reader import ShardReader
from dflash_guard.shards.row_groups import RowGroupWriter

__all__ = ["Mask", "divide"]

Mask = npt.NDArray[np.bool_]

_BLOCK: Final = 8 << 20
_BATCH_ROWS: Final = 4096


def divide(
    seal: Seal, passes: Mask, lines: npt.NDArray[np.int64] | None, outputs: tuple[Path | None, Path | None]
) -> None:
    """Write the rows of a sound shard to two files; one that gets no row is not made.

    Args:
        seal: The shard as it was read: format, compression by content, and rows.
        passes: For each row, whether it goes to the first file.
        lines: For JSONL, the 1-based line of each row.
        outputs: The two files; rows that would go to None are left out.

    Raises:
        UsageError: A row that is to be written is no JSON, and stands in a JSON array.
    """
    wanted = [(path, kept) for path, kept in zip(outputs, (passes, ~passes), strict=True) if path and kept.any()]
    for path, _ in wanted:
        path.parent.mkdir(parents=True, exist_ok=True)
    if seal.format == "jsonl":
        _divide_lines(seal, lines if lines is not None else np.arange(1, len(passes) + 1), wanted)
    elif seal.format == "json-array":
        _divide_array(seal, wanted)
    else:
        _divide_columns(seal, wanted)


def _divide_lines(seal: Seal, lines: npt.NDArray[np.int64], wanted: list[tuple[Path, Mask]]) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(_reading(Path(seal.shard.location), seal.compression))
        sinks = [(stack.enter_context(_writing(path, seal.compression)), lines[kept]) for path, kept in wanted]
        first = 1
        for block in _line_blocks(source):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
            starts = np.concatenate([[0], ends[:-1]])
            numbers = np.arange(first, first + len(ends))
            for sink, kept in sinks:
                for begin, end in _runs(np.isin(numbers, kept, assume_unique=True)):
                    sink.write(block[starts[begin] : ends[end - 1]])
            first += len(ends)


def _line_blocks(source: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines; a last line without a newline gets one."""
    carry = b""
    while block := source.read(_BLOCK):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield carry + block[:cut]
            carry = block[cut:]
        else:
            carry += block
    if carry:
        yield carry + b"\n"


def _runs(kept: Mask) -> Iterator[tuple[int, int]]:
    """The runs of true values, as [begin, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _reading(path: Path, compression: str) -> IO[bytes]:
    if compression == "gzip":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if compression == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True, closefd=True)
    return path.open("rb")


def _writing(path: Path, compression: str) -> IO[bytes]:
    if compression == "gzip":
        return cast("IO[bytes]", gzip.open(path, "wb", compresslevel=6))
    if compression == "zstd":
        return cast("IO[bytes]", zstandard.open(path, "wb"))
    return path.open("wb")


def _divide_array(seal: Seal, wanted: list[tuple[Path, Mask]]) -> None:
    with ExitStack() as stack:
        reader = stack.enter_context(ShardReader(seal.shard))
        sinks = [(stack.enter_context(_writing(path, seal.compression)), kept) for path, kept in wanted]
        opening = [b"[\n"] * len(sinks)
        for batch in reader:
            for i, (sink, kept) in enumerate(sinks):
                here = np.flatnonzero(kept[batch.first_row : batch.first_row + batch.rows.num_rows])
                if len(here):
                    said = _elements(seal, batch.rows.take(pa.array(here)))
                    sink.write(opening[i] + ",\n".join(said).encode())
                    opening[i] = b",\n"
        for sink, _ in sinks:
            sink.write(b"\n]\n")


def _elements(seal: Seal, rows: pa.RecordBatch) -> list[str]:
    if set(rows.column("fault").to_pylist()) - {None, "duplicate-key"}:
        raise UsageError(
            f"{seal.shard.name} holds elements that are no JSON objects, and can't be written to an array.",
            hint="leave --failed away, or convert the array to JSONL first.",
        )
    said: list[str] = rows.column("text").to_pylist()
    return said


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


def _divide_columns(seal: Seal, wanted: list[tuple[Path, Mask]]) -> None:
    """Batches as they are stored, never decoded: dictionaries, extension types and metadata stay."""
    with ExitStack() as stack:
        file = stack.enter_context(pa.OSFile(seal.shard.location))
        schema, batches, make = _source(seal, file)
        sinks = [(stack.enter_context(closing(make(path, schema))), kept) for path, kept in wanted]
        first = 0
        for batch in batches:
            for sink, kept in sinks:
                here = kept[first : first + batch.num_rows]
                if here.any():
                    sink.write_batch(batch if here.all() else batch.filter(pa.array(here)))
            first += batch.num_rows


def _source(
    seal: Seal, file: pa.NativeFile
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Callable[[Path, pa.Schema], _Writer]]:
    """A columnar shard's schema and batches, and what makes a writer of its kind."""
    if seal.format == "parquet":
        parquet = pq.ParquetFile(file)
        codec = (
            parquet.metadata.row_group(0).column(0).compression.lower() if parquet.metadata.num_row_groups else "zstd"
        )
        codec = "none" if codec == "uncompressed" else codec
        return (
            parquet.schema_arrow,
            (
                batch
                for group in range(parquet.num_row_groups)
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[group])
            ),
            lambda path, schema: RowGroupWriter(path, schema, codec),
        )
    if seal.format == "arrow-file":
        reader = pa.ipc.open_file(file)
        options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
        return (
            reader.schema,
            (reader.get_batch(i) for i in range(reader.num_record_batches)),
            lambda path, schema: pa.ipc.new_file(path, schema, options=options),
        )
    stream = pa.ipc.open_stream(file)
    return stream.schema, iter(stream), pa.ipc.new_stream
