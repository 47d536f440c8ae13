"""The rows of a data set as they stand in the shards, as an Arrow stream that SQL can read again and again."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from dflash_guard.facts.columns import Columns
from dflash_guard.shards.columnar import FAULT_COLUMN
from dflash_guard.shards.model import Batch, Shard
from dflash_guard.shards.reader import ShardReader

__all__ = ["RowStream", "json_rows"]

_PEEK = 1_000  # rows of text whose keys become columns
_PLACE = [pa.field("shard", pa.string()), pa.field("row", pa.int64())]
_TEXT = pa.schema([*_PLACE, ("line", pa.int64()), ("fault", pa.string()), ("json", pa.string())])
_OWN = frozenset({"shard", "row", "line", "fault", "json"})


class RowStream:
    """All rows of some shards, with their place.

    Columnar shards keep their columns. Where any shard is text, every row is one JSON object, and the keys of the
    first rows become columns: text where they only hold text or whole numbers, JSON else.

    Args:
        shards: In order.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        kinds, self._keys, schema = _peek(shards)
        self._text = kinds != {"columns"}
        self.schema = _TEXT if self._text else pa.schema([*_PLACE, *schema])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A new pass over the rows (the Arrow PyCapsule interface)."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def query(self, stored: str) -> str:
        """The SELECT that makes columns of what is registered under a name."""
        if not self._text:
            return f"SELECT * FROM {stored}"  # noqa: S608 - a quoted name
        columns = [
            f"json ->> {_path(key)} AS {_name(key)}" if plain else f"json_extract(json, {_path(key)}) AS {_name(key)}"
            for key, plain in self._keys.items()
        ]
        names = ", ".join(["shard", "row", "line", "fault", *columns, "json::JSON AS json"])
        return f"SELECT {names} FROM {stored}"  # noqa: S608 - quoted names

    def _batches(self) -> Iterator[pa.RecordBatch]:
        columns = Columns()
        for shard in self._shards:
            with ShardReader(shard) as reader:
                for batch in reader:
                    yield self._placed(shard.name, batch, columns)

    def _placed(self, name: str, batch: Batch, columns: Columns) -> pa.RecordBatch:
        rows = batch.rows
        count = rows.num_rows
        place = {
            "shard": pa.array([name], pa.string()).take(pa.array([0] * count, pa.int64())),
            "row": pa.array(range(batch.first_row, batch.first_row + count), pa.int64()),
        }
        if self._text:
            rows = columns.to_text(rows) if batch.kind == "columns" else rows
            place |= {"line": rows.column("line"), "fault": rows.column("fault"), "json": rows.column("text")}
        else:
            names = set(rows.schema.names)
            for field in self.schema:
                if field.name not in place:
                    found = rows.column(field.name) if field.name in names else pa.nulls(count, field.type)
                    place[field.name] = found if found.type.equals(field.type) else found.cast(field.type)
        return pa.record_batch([place[field.name] for field in self.schema], schema=self.schema)


def json_rows(shard: Shard, rows: Collection[int]) -> Iterator[str | None]:
    """The rows at some places of a shard as JSON text, in order; None where a row is no JSON that can be read."""
    columns = Columns()
    wanted = np.array(sorted(rows), np.int64)
    with ShardReader(shard) as reader:
        for batch in reader:
            here = wanted[(wanted >= batch.first_row) & (wanted < batch.first_row + batch.rows.num_rows)]
            if len(here):
                found = batch.rows.take(pa.array(here - batch.first_row))
                texts = columns.to_text(found) if batch.kind == "columns" else found
                for text, fault in zip(
                    texts.column("text").to_pylist(), texts.column("fault").to_pylist(), strict=True
                ):
                    yield text if fault in {None, "duplicate-key"} else None


def _peek(shards: Sequence[Shard]) -> tuple[set[str], dict[str, bool], list[pa.Field]]:
    """Kinds of the shards, keys of text rows (whether they only hold text or whole numbers), and columns."""
    kinds: set[str] = set()
    keys: dict[str, bool] = {}
    columns: dict[str, pa.Field] = {}
    for shard in shards:
        with ShardReader(shard) as reader:
            batch = next((batch for batch in reader if batch.rows.num_rows), None)
        if batch is None:
            continue
        kinds.add(batch.kind)
        if batch.kind == "columns":
            for field in batch.rows.schema:
                if field.name not in {*_OWN, FAULT_COLUMN}:
                    columns.setdefault(field.name, field.with_nullable(nullable=True))
                    keys[field.name] = bool(pa.types.is_string(field.type))
        else:
            for text in batch.rows.column("text").slice(0, _PEEK).to_pylist():
                _note_keys(json.loads(text), keys)
    return kinds, keys, list(columns.values())


def _note_keys(row: Mapping[str, object], keys: dict[str, bool]) -> None:
    for key, value in row.items():
        if key not in _OWN:
            plain = value is None or (isinstance(value, str | int) and not isinstance(value, bool))
            keys[key] = plain and keys.get(key, plain)


def _path(key: str) -> str:
    quoted = key.replace('"', '\\"')
    return "'" + f'$."{quoted}"'.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
