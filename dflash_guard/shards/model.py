"""What the shards room hands out: shards, batches of rows, and what a whole read found.

Bytes and formats only; nothing here knows what a row means.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # a gate lists shards without reading a row
    import pyarrow as pa

__all__ = ["Batch", "LeftOut", "Listing", "Seal", "Shard", "ShardFault"]

Kind = Literal["text", "columns"]
Format = Literal["jsonl", "json-array", "parquet", "arrow-file", "arrow-stream", "unknown"]


@dataclass(frozen=True, slots=True)
class Shard:
    """One file (or object) of a data set.

    Attributes:
        name: Path relative to the DATA that was given, with `/`; a single file's own name.
        location: Absolute path, or URL.
        size: Bytes, as the store lists them.
        mtime_ns, ctime_ns, inode: As the store lists them; 0 where it has none.
    """

    name: str
    location: str
    size: int
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file in a data folder that is no shard, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The shards of one call, in the order they are judged (as given, then by name)."""

    shards: tuple[Shard, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardFault:
    """A fault of a whole shard: a rule of the catalog, and what was found."""

    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class Batch:
    """A run of rows of one shard.

    Attributes:
        kind: `text` for rows that are JSON text, `columns` for columnar rows.
        first_row: 0-based index of the first row in its shard.
        rows: For `text` the columns
            `line` int64 (1-based, blank lines counted; null in a JSON array),
            `text` string (one standard JSON object in valid UTF-8; `{}` where `fault` forbids reading it),
            `fault` string (null, or malformed-row, torn-last-line, invalid-text, duplicate-key),
            `fault_detail` string (what is wrong, null without a fault),
            `stray` string (null, or which stray bytes were found: the stray-bytes rule).
            For `columns` the shard's own columns (those asked for that are there).
    """

    kind: Kind
    first_row: int
    rows: "pa.RecordBatch"


@dataclass(frozen=True, slots=True)
class Seal:
    """What one whole read of a shard established.

    Attributes:
        shard: The shard that was read.
        sha256: Hex digest of all its bytes as stored.
        size: Bytes read.
        rows: Rows handed out.
        format, compression: As told by content (`compression` is "", "gzip" or "zstd").
        faults: Faults of the whole shard.
        schema: Its columns, for columnar formats.
    """

    shard: Shard
    sha256: str
    size: int
    rows: int
    format: Format
    compression: str = ""
    faults: tuple[ShardFault, ...] = ()
    schema: "pa.Schema | None" = field(default=None, compare=False)
