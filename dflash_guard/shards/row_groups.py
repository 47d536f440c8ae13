"""Parquet written batch by batch, in row groups of a sensible size."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["RowGroupWriter"]

_GROUP: Final = 16 << 20  # bytes of a row group, before compression


class RowGroupWriter:
    """Gathers batches: pyarrow's own writer makes a row group of each.

    Args:
        path: The file.
        schema: Of its rows.
        codec: Such as `zstd`, or `none`.
    """

    def __init__(self, path: Path, schema: pa.Schema, codec: str = "zstd") -> None:
        self._writer = pq.ParquetWriter(path, schema, compression=codec)
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(batch)
        self._size += batch.nbytes
        if self._size >= _GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is waiting, and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._size = [], 0
