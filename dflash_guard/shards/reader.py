"""One whole read of a shard: its rows as batches, and at the end its seal."""

import hashlib
import io
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from dflash_guard.errors import ShardAccessError, ShardChangedError
from dflash_guard.shards.columnar import ColumnarReader
from dflash_guard.shards.compression import Decompressor, decompressor
from dflash_guard.shards.format import HEAD, Told, tell_compression, tell_content
from dflash_guard.shards.jsonarray import ArrayScanner
from dflash_guard.shards.jsonl import LineScanner
from dflash_guard.shards.model import Batch, Seal, Shard, ShardFault

__all__ = ["ShardReader"]

_BLOCK = 8 << 20  # bytes read, and of text cut into rows, at a time
_AHEAD = 2  # blocks read ahead
_LONGEST_LINE = 1 << 30
_COLUMNAR = ("parquet", "arrow-file", "arrow-stream")


class ShardReader:
    """Reads a shard once, from its first byte to its last.

    Iterate over it for the batches; then `seal` says what was found. A broken shard never raises: its faults are in
    the seal, and the rows before the break are handed out. Use it as a context manager: leaving early stops its thread.

    Args:
        shard: What to read.
        columns: For columnar formats, the columns to hand out where they exist; None for all.

    Raises:
        ShardAccessError: The shard can't be read for reasons outside itself.
        ShardChangedError: It is not, or not any more, what was listed.
    """

    def __init__(self, shard: Shard, columns: Sequence[str] | None = None) -> None:
        self.shard = shard
        self.schema: pa.Schema | None = None
        self._columns = columns
        self._seal: Seal | None = None
        try:
            self._file = io.FileIO(shard.location, "rb")
        except OSError as error:
            raise self._refused(error) from error
        self._stored = _StoredBytes(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading; does nothing after the end."""
        self._stored.stop()
        self._file.close()

    @property
    def bytes_read(self) -> int:
        """How many of its stored bytes have been read so far."""
        return self._stored.read

    @property
    def seal(self) -> Seal:
        """What the read established; there once the batches are exhausted."""
        if self._seal is None:
            raise ValueError("the shard has not been read to its end")
        return self._seal

    def __iter__(self) -> Iterator[Batch]:
        try:
            self._check_unchanged()
            yield from self._read()
            self._check_unchanged()
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> ShardAccessError:
        what = f"{self.shard.name} can't be read: {error.strerror or error}."
        return ShardAccessError(what, hint="check its permissions, and the disk or mount.")

    def _check_unchanged(self) -> None:
        now = os.fstat(self._file.fileno())
        listed = (self.shard.size, self.shard.mtime_ns, self.shard.ctime_ns, self.shard.inode)
        found = (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)
        if any(was and was != is_ for was, is_ in zip(listed, found, strict=True)) or now.st_size != self.shard.size:
            raise self._changed()

    def _changed(self) -> ShardChangedError:
        what = f"{self.shard.name} changed during the run."
        return ShardChangedError(what, hint="run again when nothing writes to the data any more.")

    def _read(self) -> Iterator[Batch]:
        head = os.pread(self._file.fileno(), HEAD, 0)
        compression = tell_compression(head)
        if not compression:
            told = tell_content(head, name=self.shard.name, whole=len(head) >= self.shard.size)
            if told.format in _COLUMNAR:
                yield from self._read_columns(told.format)
                return
        yield from self._read_text(compression)

    def _read_columns(self, kind: str) -> Iterator[Batch]:
        self._stored.start(keep=False)
        with io.FileIO(os.dup(self._file.fileno()), "rb") as file:
            file.seek(0)
            source = ColumnarReader(file, self.shard.size, kind, self._columns)
            rows = 0
            for batch in source.batches():
                self.schema = source.schema
                yield Batch("columns", rows, batch)
                rows += batch.num_rows
        self.schema = source.schema
        faults = source.faults
        if not rows and not faults:
            faults.append(ShardFault("empty-shard", "no rows"))
        self._seal = self._sealed(kind, "", rows, faults)

    def _read_text(self, compression: str) -> Iterator[Batch]:
        self._stored.start(keep=True)
        content = _Content(self._stored, decompressor(compression))
        told, first, whole = self._tell_text(content, compressed=bool(compression))
        faults = [told.fault] if told.fault else []
        rows = 0
        if told.format in ("jsonl", "json-array") and not faults:
            cut = _array_rows if told.format == "json-array" else _line_rows
            for batch in cut(first, whole, content, faults):
                if batch.num_rows:
                    yield Batch("text", rows, batch)
                    rows += batch.num_rows
        self._stored.drain()
        if content.fault is not None:
            faults = [content.fault]
        elif not rows and not faults:
            faults.append(ShardFault("empty-shard", "no rows"))
        self._seal = self._sealed(told.format, compression, rows, faults)

    def _tell_text(self, content: "_Content", *, compressed: bool) -> tuple[Told, bytes, bool]:
        first = b""
        while len(first) < HEAD and (block := content.next()) is not None:
            first += block
        whole = len(first) < HEAD and content.ended
        told = tell_content(first[:HEAD], name=self.shard.name, whole=whole, compressed=compressed)
        return told, first, content.ended

    def _sealed(self, kind: str, compression: str, rows: int, faults: list[ShardFault]) -> Seal:
        digest, size = self._stored.digest()
        if size != self.shard.size:
            raise self._changed()
        return Seal(self.shard, digest, size, rows, kind, compression, tuple(faults), self.schema)  # type: ignore[arg-type]


def _line_rows(first: bytes, ended: bool, content: "_Content", faults: list[ShardFault]) -> Iterator[pa.RecordBatch]:
    """Cut content at newlines; the piece behind the last one waits for the next block."""
    scanner = LineScanner()
    waiting: list[bytes | memoryview] = [first]
    size = len(first)
    while True:
        block = None if ended else content.next()
        ended = block is None
        if block is not None:
            waiting.append(block)
            size += len(block)
            if size < _BLOCK:
                continue
        tail = _split_tail(waiting) if not ended else b""
        if tail is None and size >= _LONGEST_LINE:
            faults.append(ShardFault("unreadable-shard", f"line {scanner.line:,} is longer than 1 GiB"))
            return
        if tail is not None:
            yield scanner.scan(*waiting, last=ended)
            waiting, size = [tail], len(tail)
        if ended:
            return


def _split_tail(pieces: list[bytes | memoryview]) -> bytes | None:
    """Take what stands behind the last newline off the last piece; None where that piece has no newline."""
    last = bytes(pieces[-1])
    cut = last.rfind(b"\n") + 1
    if not cut:
        return None
    pieces[-1] = memoryview(last)[:cut]
    return last[cut:]


def _array_rows(first: bytes, ended: bool, content: "_Content", faults: list[ShardFault]) -> Iterator[pa.RecordBatch]:
    scanner = ArrayScanner()
    yield from scanner.feed(first, last=ended)
    while not ended:
        block = content.next()
        ended = block is None
        yield from scanner.feed(block or b"", last=ended)
    faults += scanner.faults


class _Content:
    """What is inside the stored bytes, block by block."""

    def __init__(self, stored: "_StoredBytes", codec: Decompressor) -> None:
        self._stored = stored
        self._codec = codec
        self._blocks: list[bytes] = []
        self.ended = False

    @property
    def fault(self) -> ShardFault | None:
        """What is wrong with the compressed stream."""
        return self._codec.fault

    def next(self) -> bytes | None:
        """The next block, None at the end."""
        while not self._blocks and not self.ended:
            stored = self._stored.next()
            if stored is None:
                self._codec.finish()
                self.ended = True
            else:
                self._blocks = [block for block in self._codec.feed(stored) if block]
                self._blocks.reverse()
                self.ended = self._codec.fault is not None and not self._blocks
        return self._blocks.pop() if self._blocks else None


class _StoredBytes:
    """Reads and hashes a file in a thread of its own, a few blocks ahead of whoever takes them."""

    def __init__(self, file: io.FileIO) -> None:
        self._descriptor = file.fileno()
        self._hash = hashlib.sha256()
        self.read = 0
        self._blocks: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._over = False

    def start(self, *, keep: bool) -> None:
        """Begin to read; without `keep` the bytes are only hashed."""
        self._thread = threading.Thread(target=self._run, args=(keep,), name="read-ahead", daemon=True)
        self._thread.start()

    def _run(self, keep: bool) -> None:
        try:
            while not self._stopped.is_set():
                block = os.pread(self._descriptor, _BLOCK, self.read)
                if not block:
                    break
                self._hash.update(block)
                self.read += len(block)
                if keep:
                    self._put(block)
        except BaseException as error:  # noqa: BLE001 - it surfaces where the blocks are taken
            self._put(error)
        self._put(None)

    def _put(self, item: bytes | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self._blocks.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def next(self) -> bytes | None:
        """The next block, None at the end."""
        if self._over:
            return None
        item = self._blocks.get()
        if isinstance(item, BaseException):
            self._over = True
            raise item
        self._over = item is None
        return item

    def drain(self) -> None:
        """Let the rest be hashed, whatever became of the content."""
        while self.next() is not None:
            pass

    def digest(self) -> tuple[str, int]:
        """The sha256 of all bytes, and how many they are."""
        self.drain()
        if self._thread is not None:
            self._thread.join()
        return self._hash.hexdigest(), self.read

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
