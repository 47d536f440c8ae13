"""One pass over the shards: bytes in, one narrow row of facts a sample out, as Parquet in the guard folder.

Text streams through one DuckDB query (a projection: nothing is kept), token columns through one vectorised scan.
Facts of a shard are one immutable file, named by the shard's bytes and by what the facts depend on.
"""

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dflash_guard.contract.model import Contract, Declaration, Family
from dflash_guard.errors import GuardError, JudgeError, UsageError
from dflash_guard.facts.columns import ID_COLUMNS, Columns, drift, schema_faults, wanted_columns
from dflash_guard.facts.loops import LoopBound, loop_share
from dflash_guard.facts.seal import read_seal, seal_metadata
from dflash_guard.facts.sql import sql
from dflash_guard.facts.tokens import TOKEN_COLUMNS, column_problem, scan_tokens
from dflash_guard.shards.columnar import is_text
from dflash_guard.shards.model import Batch, Seal, Shard, ShardFault
from dflash_guard.shards.reader import ShardReader
from dflash_guard.shards.writer import make_folder, publish, temporary_name

__all__ = [
    "Scan",
    "facts_key",
    "first_ids",
    "limit_memory",
    "open_conversations",
    "scan_shards",
    "text_rows",
    "token_facts",
]

_PEEK_ROWS, _PEEK_SHARDS = 1000, 20  # that tell the family

Progress = Callable[[int], None]
FACTS_VERSION = 1  # raised whenever a fact's meaning changes
_PLACE = [("shard", pa.int32()), ("row", pa.int64()), ("line", pa.int64())]
_FAULT = [("fault", pa.string()), ("fault_detail", pa.string()), ("stray", pa.string())]
TEXT_ROWS = pa.schema([*_PLACE, *_FAULT, ("text", pa.string()), ("shard_source", pa.string())])
TOKEN_ROWS = pa.schema(
    [
        *_PLACE,
        *_FAULT,
        ("id", pa.string()),
        ("source", pa.string()),
        ("turn", pa.int64()),
        ("asks_thinking", pa.bool_()),
        *TOKEN_COLUMNS,
    ]
)
_NO_DICTIONARY = {"id", "context_digest", "prompt_trail", "response_digest", "row", "line"}


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a data set left behind.

    Attributes:
        seals: One for each shard, in order, faults of columns and drift included.
        facts: The Parquet file of each shard's facts, in the same order; "" for a shard without rows to judge.
        rows: Rows of all shards.
        read: How many shards were read; of the others the facts were there.
    """

    seals: tuple[Seal, ...]
    facts: tuple[str, ...]
    rows: int
    read: int


def facts_key(contract: Contract) -> str:
    """A digest of what facts depend on beside the shard's bytes: SQL, family, role aliases, declared provenance."""
    names = ("json.sql", "turns.sql", "conversation.sql", f"{contract.stage}.sql", "token_rows.sql")
    parts: dict[str, Any] = {
        "version": FACTS_VERSION,
        "duckdb": duckdb.__version__,  # digests in facts are made by its hash function
        "sql": {name: hashlib.sha256(sql(name).encode()).hexdigest() for name in names},
        "family": {k: v for k, v in asdict(_plain(contract)).items() if k != "sampling"},
        "aliases": dict(contract.aliases or {}),
        "source": asdict(contract.source) if contract.source else None,
        "id": asdict(contract.id) if contract.id else None,
        "loop": dict(contract.rules["repetition-loop"].bound) if "repetition-loop" in contract.rules else None,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:16]


def _plain(contract: Contract) -> Any:
    return replace(contract.family, roles=dict(contract.family.roles), sampling={})


def scan_shards(
    shards: Sequence[Shard],
    contract: Contract,
    folder: Path,
    *,
    jobs: int,
    memory_limit: str | None,
    progress: Progress,
    known: Mapping[int, str] | None = None,
) -> Scan:
    """Read every shard once and write its facts; a shard that is known keeps those that it has.

    Args:
        shards: What to read, in order.
        contract: The effective contract.
        folder: Where facts files go.
        jobs: Threads that compute facts.
        memory_limit: DuckDB's, such as `1GiB`; None for its default.
        progress: Called with the number of bytes that were read since the last call.
        known: The sha256 of shards, by index, that are known not to have changed since they were last read.

    Raises:
        ShardAccessError, ShardChangedError: A shard could not be read for reasons outside itself.
        JudgeError: The engine failed.
    """
    make_folder(folder)
    key = facts_key(contract)
    kept = dict(_kept(shards, contract, folder, key, known or {}))
    source = _Source(shards, contract, jobs, progress, kept)
    writer = _FactsWriter(folder, key, source, {index: str(path) for index, (_, path) in kept.items()})
    connection = duckdb.connect(config={"threads": jobs, "preserve_insertion_order": True})
    if memory_limit:
        limit_memory(connection, memory_limit)
    try:
        for facts in _query(connection, contract, source):
            writer.write(facts)
        return writer.close()
    except GuardError:
        raise
    except Exception as error:
        if source.error is not None:  # what the generator raised, not what DuckDB made of it
            raise source.error from error
        message = (
            f"the facts of {source.at()} could not be computed: {type(error).__name__}: {str(error).splitlines()[0]}."
        )
        raise JudgeError(
            message, hint="this is a fault of dflash-guard, or too little memory; please report it."
        ) from error
    finally:
        writer.abandon()
        source.close()
        connection.close()


def _kept(
    shards: Sequence[Shard], contract: Contract, folder: Path, key: str, known: Mapping[int, str]
) -> Iterator[tuple[int, tuple[Seal, Path]]]:
    """Shards whose facts are there, by index, with their seals. A facts file that can't be read is made again."""
    for index, shard in enumerate(shards):
        if index in known:
            path = folder / _facts_name(known[index], key, _shard_source(shard, contract))
            if path.is_file() and (seal := read_seal(path, shard)) is not None:
                yield index, (seal, path)


def _facts_name(sha256: str, key: str, shard_source: str | None) -> str:
    """Facts hold the source; where the shard's name gives it, equal bytes may have other facts."""
    if shard_source is not None:
        key = hashlib.sha256(f"{key} {shard_source}".encode()).hexdigest()[:16]
    return f"{sha256}-{key}.parquet"


def limit_memory(connection: duckdb.DuckDBPyConnection, limit: str) -> None:
    """Set the engine's memory limit.

    Raises:
        UsageError: The limit is no size.
    """
    try:
        connection.execute("SET memory_limit = ?", [limit])
    except duckdb.Error as error:
        raise UsageError(f"--memory-limit: {limit!r} is no size.", hint="write it like 1GiB or 800MB.") from error


def first_ids(shards: Sequence[Shard]) -> Iterator[list[int]]:
    """Token ids of the first rows of each shard that has any; of the first few such shards."""
    columns = Columns()
    found = 0
    for shard in shards:
        ids = _ids_of(shard, columns)
        if ids:
            yield ids
            found += 1
        if found == _PEEK_SHARDS:
            return


def _ids_of(shard: Shard, columns: Columns) -> list[int]:
    with ShardReader(shard, ["input_ids"]) as reader:
        for batch in reader:
            rows = batch.rows.slice(0, _PEEK_ROWS)
            rows = rows if batch.kind == "columns" else columns.to_tokens(rows)
            if "input_ids" not in rows.schema.names or column_problem(rows.schema.field("input_ids")):
                return []
            ids = pc.drop_null(pc.list_flatten(rows.column("input_ids")))
            if len(ids):
                return [int(each) for each in ids.slice(0, 1_000_000).to_pylist()]
    return []


def _query(connection: duckdb.DuckDBPyConnection, contract: Contract, source: "_Source") -> Iterator[pa.RecordBatch]:
    tokens = contract.stage == "tokenized"
    schema = TOKEN_ROWS if tokens else TEXT_ROWS
    connection.register("rows", pa.RecordBatchReader.from_batches(schema, source.batches(schema)))
    if tokens:
        connection.execute(sql("json.sql"))
    else:
        open_conversations(connection, contract)
    reader = connection.sql(sql(f"{contract.stage}.sql")).to_arrow_reader(100_000)
    for batch in reader:
        yield _with_loops(batch, contract) if contract.stage == "completions" else batch


def open_conversations(connection: duckdb.DuckDBPyConnection, contract: Contract) -> None:
    """Make the view `conversations` on a connection that has `rows`, as `text_rows` makes them."""
    connection.execute(sql("json.sql"))
    _set_variables(connection, contract)
    connection.execute(sql("turns.sql"))
    connection.execute(sql("conversation.sql"))


_LETTERS = {"system": "s", "developer": "d", "user": "u", "assistant": "a", "function_call": "f", "tool": "t"}


def _set_variables(connection: duckdb.DuckDBPyConnection, contract: Contract) -> None:
    family = contract.family
    letters = {role: _LETTERS[role] for role in _LETTERS}
    letters |= {alias: _LETTERS[role] for alias, role in (contract.aliases or {}).items()}
    opening, *closing = family.turn_texts
    roles = "|".join(sorted(re.escape(role) for role in letters))
    turn_pattern = "|".join([*(re.escape(text) for text in closing), f"{re.escape(opening)}(?:{roles})"])
    control = sorted({*family.control_texts, *family.thinking_tags, *family.turn_texts}, key=len, reverse=True)
    loop = contract.rules["repetition-loop"].bound if "repetition-loop" in contract.rules else {}
    values = {
        "turn_pattern": turn_pattern,
        "control_pattern": "|".join(re.escape(text) for text in control),
        "loop_min_chars": int(loop.get("min_chars", 600)),
        "source_path": _json_path(contract.source),
        "id_path": _json_path(contract.id),
        "id_kind": contract.id.kind if contract.id else "",
        "source_kind": contract.source.kind if contract.source else "",
    }
    connection.execute("SET VARIABLE letters = map(?, ?)", [list(letters), list(letters.values())])
    for name, value in values.items():
        connection.execute(f"SET VARIABLE {name} = ?", [value])


def _json_path(declared: Declaration | None) -> str:
    if declared is None or declared.kind != "column":
        return "$"
    return '$."' + declared.value.replace('"', '\\"') + '"'


def _with_loops(batch: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Replace the texts that may run in a loop by the share that a loop covers."""
    bound = contract.rules["repetition-loop"].bound
    limits = LoopBound(int(bound["max_words"]), int(bound["min_repeats"]))
    share = [0.0] * batch.num_rows
    for name in ("loop_answer", "loop_thinking"):
        column = batch.column(name)
        if column.null_count < len(column):
            for i in pc.indices_nonzero(pc.is_valid(column)).to_pylist():
                share[i] = max(share[i], loop_share(column[i].as_py(), limits))
    kept = batch.drop_columns(["loop_answer", "loop_thinking"])
    return kept.append_column("loop_share", pa.array(share, pa.float64()))


@dataclass(slots=True)
class _Source:
    """Reads shards one after another and hands their rows to the query; keeps the seals, and the first error."""

    shards: Sequence[Shard]
    contract: Contract
    jobs: int
    progress: Progress
    kept: Mapping[int, tuple[Seal, Path]]
    seals: list[Seal] = field(default_factory=list)
    error: BaseException | None = None
    _columns: Columns = field(default_factory=Columns)
    _local: threading.local = field(default_factory=threading.local)
    _reader: ShardReader | None = None

    def at(self) -> str:
        return self.shards[min(len(self.seals), len(self.shards) - 1)].name

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            if self.contract.stage == "tokenized":
                yield from self._parallel(self._raw(), lambda item: self._token_rows(item, schema))
            else:
                for index, batch in self._raw():
                    yield text_rows(self._columns, index, batch, _shard_source(self.shards[index], self.contract))
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise

    def _raw(self) -> Iterator[tuple[int, Batch]]:
        wanted = wanted_columns(self.contract)
        for index, shard in enumerate(self.shards):
            if index in self.kept:
                self.seals.append(self.kept[index][0])
                self.progress(shard.size)
                continue
            with ShardReader(shard, wanted) as reader:
                self._reader = reader
                faults: list[ShardFault] = []
                schema, told = None, 0
                for batch in reader:
                    if batch.kind == "columns" and schema is None:
                        schema = reader.schema
                        faults = schema_faults(self.contract.stage, schema, has_rows=True) if schema is not None else []
                    if not faults and batch.rows.num_rows:
                        yield index, batch
                    self.progress(reader.bytes_read - told)
                    told = reader.bytes_read
                seal = reader.seal
            if seal.schema is not None and schema is None:
                faults = schema_faults(self.contract.stage, seal.schema, has_rows=seal.rows > 0)
            self.seals.append(replace(seal, faults=(*seal.faults, *faults)))
            self.progress(seal.size - told)

    def _parallel(
        self, items: Iterable[tuple[int, Batch]], work: Callable[[tuple[int, Batch]], pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Map in threads, in order, with no more items in hand than there are threads, and one."""
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="tokens") as pool:
            waiting: deque[Future[pa.RecordBatch]] = deque()
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > self.jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _thread_columns(self) -> Columns:
        """A converter of this thread's own: a DuckDB connection is not for two threads at once."""
        found: Columns | None = getattr(self._local, "columns", None)
        if found is None:
            found = self._local.columns = Columns()
        return found

    def _token_rows(self, item: tuple[int, Batch], schema: pa.Schema) -> pa.RecordBatch:
        index, batch = item
        rows = batch.rows if batch.kind == "columns" else self._thread_columns().to_tokens(batch.rows)
        count = rows.num_rows
        columns: dict[str, pa.Array] = {
            **_place(index, batch.first_row, count),
            **{name: pa.nulls(count, pa.string()) for name, _ in _FAULT},
            **_provenance(rows, self.contract, _shard_source(self.shards[index], self.contract)),
        }
        if batch.kind == "text":
            columns |= {name: rows.column(name) for name in ("line", "fault", "fault_detail", "stray")}
        facts = token_facts(rows, self.contract.family)
        columns |= {name: facts.column(name) for name in facts.schema.names}
        return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def _constant(text: str | None, count: int) -> pa.Array:
    return pa.nulls(count, pa.string()) if text is None else pa.repeat(pa.scalar(text, pa.string()), count)


def _shard_source(shard: Shard, contract: Contract) -> str | None:
    """The source that the contract declares for all rows of a shard; None where rows say it themselves."""
    declared = contract.source
    if declared is None or declared.kind not in ("constant", "path_pattern"):
        return None
    if declared.kind == "constant":
        return declared.value
    group = re.compile(declared.value).groupindex["source"]
    found = duckdb.execute("SELECT regexp_extract(?, ?, ?)", [shard.name, declared.value, group]).fetchall()
    return found[0][0] or None


def text_rows(columns: Columns, index: int, batch: Batch, shard_source: str | None) -> pa.RecordBatch:
    """A batch of conversations as rows for `conversation.sql`.

    Args:
        columns: Makes text of columnar rows.
        index: The shard.
        batch: Its rows.
        shard_source: The source that the contract declares for the shard; None where rows say it themselves.
    """
    rows = batch.rows if batch.kind == "text" else columns.to_text(batch.rows)
    count = rows.num_rows
    found = {
        **_place(index, batch.first_row, count),
        **{name: rows.column(name) for name in rows.schema.names},
        "shard_source": _constant(shard_source, count),
    }
    return pa.record_batch([found[name] for name in TEXT_ROWS.names], schema=TEXT_ROWS)


def _place(index: int, first_row: int, count: int) -> dict[str, pa.Array]:
    return {
        "shard": pa.array(np.full(count, index, dtype=np.int32)),
        "row": pa.array(np.arange(first_row, first_row + count, dtype=np.int64)),
        "line": pa.nulls(count, pa.int64()),
    }


def _provenance(rows: pa.RecordBatch, contract: Contract, shard_source: str | None) -> dict[str, pa.Array]:
    count, names = rows.num_rows, rows.schema.names
    ids = (contract.id.value,) if contract.id and contract.id.kind == "column" else ID_COLUMNS
    found = [pc.cast(rows.column(name), pa.string()) for name in ids if name in names and _may_be_id(rows, name)]
    source_name = contract.source.value if contract.source and contract.source.kind == "column" else "source"
    source: pa.Array = pa.nulls(count, pa.string())
    if shard_source is not None:
        source = _constant(shard_source, count)
    elif source_name in names and is_text(rows.column(source_name).type):
        source = pc.cast(rows.column(source_name), pa.string())
    asks = rows.column("asks_thinking") if "asks_thinking" in names else None
    if asks is None and "enable_thinking" in names and pa.types.is_boolean(rows.column("enable_thinking").type):
        asks = pc.fill_null(rows.column("enable_thinking"), fill_value=True)
    turn = rows.column("turn") if "turn" in names and pa.types.is_integer(rows.column("turn").type) else None
    return {
        "id": pc.coalesce(*found) if found else pa.nulls(count, pa.string()),
        "source": source,
        "turn": pc.cast(turn, pa.int64()) if turn is not None else pa.nulls(count, pa.int64()),
        "asks_thinking": asks if asks is not None else pa.array([True] * count, pa.bool_()),
    }


def _may_be_id(rows: pa.RecordBatch, name: str) -> bool:
    of = rows.schema.field(name).type
    return is_text(of) or bool(pa.types.is_integer(of))


def token_facts(rows: pa.RecordBatch, family: Family) -> pa.RecordBatch:
    """Scan token rows; where some have a mask and others labels (JSON text), each kind by itself."""
    names = rows.schema.names
    if not {"loss_mask", "labels"} <= set(names):
        return scan_tokens(rows, family)
    has_mask = pc.is_valid(rows.column("loss_mask"))
    masked = rows.drop_columns(["labels"])
    if pc.all(has_mask).as_py() or not pc.any(pc.is_valid(rows.column("labels"))).as_py():
        return scan_tokens(masked, family)
    labelled = rows.drop_columns(["loss_mask"]).filter(pc.invert(has_mask))
    both = pa.Table.from_batches([scan_tokens(masked.filter(has_mask), family), scan_tokens(labelled, family)])
    place = pa.concat_arrays([pc.indices_nonzero(has_mask), pc.indices_nonzero(pc.invert(has_mask))])
    return both.take(pc.sort_indices(place)).combine_chunks().to_batches()[0]


@dataclass(slots=True)
class _FactsWriter:
    """Writes each shard's facts to a file of its own: under a temporary name until the shard's digest is known."""

    folder: Path
    key: str
    source: _Source
    files: dict[int, str]
    _open: tuple[int, Path, pq.ParquetWriter] | None = None

    def write(self, facts: pa.RecordBatch) -> None:
        shards = facts.column("shard")
        for index in pc.unique(shards).to_pylist():
            part = facts.filter(pc.equal(shards, index)) if len(pc.unique(shards)) > 1 else facts
            self._writer(index, part.schema).write_batch(part.drop_columns(["shard"]))

    def _writer(self, index: int, schema: pa.Schema) -> pq.ParquetWriter:
        if self._open is None or self._open[0] != index:
            self._finish()
            path = temporary_name(self.folder / f"{index}.parquet")
            kept = schema.remove(schema.get_field_index("shard"))
            dictionary = [f.name for f in kept if f.name not in _NO_DICTIONARY and not pa.types.is_integer(f.type)]
            writer = pq.ParquetWriter(path, kept, compression="zstd", compression_level=1, use_dictionary=dictionary)
            self._open = (index, path, writer)
        return self._open[2]

    def _finish(self) -> None:
        """Give the open file its name; the next shard's rows follow only when this shard has been read whole."""
        if self._open is None:
            return
        index, path, writer = self._open
        seal = self.source.seals[index]
        writer.add_key_value_metadata(seal_metadata(seal))
        writer.close()
        final = self.folder / _facts_name(seal.sha256, self.key, _shard_source(seal.shard, self.source.contract))
        publish(path, final)
        self.files[index] = str(final)
        self._open = None

    def close(self) -> Scan:
        self._finish()
        seals = self.source.seals
        drifted = drift(self.source.contract.stage, seals)
        seals = [
            replace(seal, faults=(*seal.faults, ShardFault("schema-drift", drifted[i]))) if i in drifted else seal
            for i, seal in enumerate(seals)
        ]
        files = tuple(self.files.get(i, "") for i in range(len(seals)))
        return Scan(tuple(seals), files, sum(s.rows for s in seals), len(seals) - len(self.source.kept))

    def abandon(self) -> None:
        """Remove what has no name yet; nothing to do after `close`."""
        if self._open is not None:
            self._open[2].close()
            self._open[1].unlink(missing_ok=True)
            self._open = None
