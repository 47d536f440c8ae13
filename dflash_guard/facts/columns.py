"""Which columns each stage needs, whether a shard has them, and how rows of either kind become what facts read."""

from collections import Counter
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from dflash_guard.contract.model import Contract
from dflash_guard.facts.sql import sql
from dflash_guard.facts.tokens import column_problem
from dflash_guard.shards.columnar import FAULT_COLUMN, is_text
from dflash_guard.shards.jsonl import TEXT_COLUMNS
from dflash_guard.shards.model import Seal, ShardFault

__all__ = ["ID_COLUMNS", "TOKEN_COLUMNS_READ", "Columns", "drift", "schema_faults", "wanted_columns"]

ID_COLUMNS = ("id", "sample_id", "uuid", "conversation_id")
_TURNS = ("messages", "conversations", "instruction")
_TEXT = (
    *ID_COLUMNS, *_TURNS, "input", "output", "history", "system", "source", "tools", "finish_reason", "error", "status",
    "status_code", "http_status", "enable_thinking", "chat_template_kwargs", "generator", "usage", "ended_early",
)  # fmt: skip
TOKEN_COLUMNS_READ = (*ID_COLUMNS, "source", "turn", "input_ids", "loss_mask", "labels", "seq_len", "enable_thinking")


def wanted_columns(contract: Contract) -> tuple[str, ...]:
    """The columns that are read at a stage, those that the contract declares included."""
    declared = [d.value for d in (contract.source, contract.id) if d and d.kind == "column"]
    return (*(TOKEN_COLUMNS_READ if contract.stage == "tokenized" else _TEXT), *declared)


def schema_faults(stage: str, schema: pa.Schema, *, has_rows: bool) -> list[ShardFault]:
    """Say which needed column of a columnar shard is absent, or of a type that cannot be read."""
    if stage == "tokenized":
        return (
            _missing(schema, ("input_ids",))
            + _missing(schema, ("loss_mask", "labels"))
            + _token_types(schema, has_rows=has_rows)
        )
    found = _found(schema, _TURNS)
    faults = _missing(schema, _TURNS)
    if has_rows and len(found) == 1 and pa.types.is_null(schema.field(found[0]).type):
        faults.append(_null_type(found[0]))
    return faults


def _null_type(name: str) -> ShardFault:
    return ShardFault("column-type", f"column {name!r} is of type null, though the shard has rows")


def _missing(schema: pa.Schema, any_of: tuple[str, ...]) -> list[ShardFault]:
    if _found(schema, any_of):
        return []
    wanted = " or ".join(any_of)
    lower = {name.lower() for name in any_of}
    near = [name for name in schema.names if name.lower() in lower]
    instead = f"; {near[0]!r} is another name, as case counts" if near else f"; it has {', '.join(schema.names[:8])}"
    return [ShardFault("missing-column", f"no column {wanted}{instead}")]


def _found(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in schema.names]


def _token_types(schema: pa.Schema, *, has_rows: bool) -> list[ShardFault]:
    faults = []
    for name in [
        *_found(schema, ("input_ids",)),
        *_found(schema, ("loss_mask", "labels"))[:1],
        *_found(schema, ("seq_len",)),
    ]:
        field = schema.field(name)
        if pa.types.is_null(field.type):
            faults += [_null_type(name)] if has_rows else []
        elif problem := column_problem(field):
            faults.append(ShardFault("column-type", problem))
    return faults


def drift(stage: str, seals: Sequence[Seal]) -> dict[int, str]:
    """Shards whose needed columns are not those of the others, by index, with words.

    The reference is the most frequent form, the first shard's on a tie.
    """
    forms = {i: _form(stage, seal.schema) for i, seal in enumerate(seals) if seal.schema is not None}
    if len(set(forms.values())) < 2:
        return {}
    counts = Counter(forms.values())
    reference = max(counts, key=lambda form: counts[form])  # the first of equals: Counter keeps the order
    other = next(seals[i].shard.name for i, form in forms.items() if form == reference)
    return {
        i: f"columns {_words(form)}; {other} and {counts[reference] - 1:,} others have {_words(reference)}"
        if counts[reference] > 1
        else f"columns {_words(form)}; {other} has {_words(reference)}"
        for i, form in forms.items()
        if form != reference
    }


Form = tuple[tuple[str, str], ...]


def _form(stage: str, schema: pa.Schema) -> Form:
    groups = [("input_ids",), ("loss_mask", "labels")] if stage == "tokenized" else [_TURNS]
    form: list[tuple[str, str]] = []
    for group in groups:
        name = next(iter(_found(schema, group)), None)
        form.append(("no " + " or ".join(group), "") if name is None else (name, _kind(schema.field(name).type)))
    return tuple(form)


def _kind(of: pa.DataType) -> str:
    if pa.types.is_dictionary(of):
        return _kind(of.value_type)
    if _is_list(of):
        return f"list of {_kind(of.value_type)}"
    if pa.types.is_integer(of) or pa.types.is_boolean(of):
        return "integers"
    if is_text(of):
        return "text"
    return "struct" if pa.types.is_struct(of) else str(of)


def _is_list(of: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of)
        or pa.types.is_list_view(of) or pa.types.is_large_list_view(of)
    )  # fmt: skip


def _words(form: Form) -> str:
    return ", ".join(f"{name} ({kind})" if kind else name for name, kind in form)


class Columns:
    """Turns rows of one kind into the other: columnar rows to JSON text, JSON text to token columns."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute(sql("json.sql"))

    def to_text(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Columnar conversations as text rows (columns of `jsonl.TEXT_COLUMNS`): each row one JSON object."""
        table = pa.table(rows)
        if FAULT_COLUMN in table.column_names:
            table = table.drop_columns([FAULT_COLUMN])
        self._connection.register("columns", table)
        text = self._connection.sql("SELECT to_json(c)::VARCHAR AS text FROM columns AS c").to_arrow_table()["text"]
        count = rows.num_rows
        nothing = pa.nulls(count, pa.string())
        fault, detail = _text_faults(rows) if FAULT_COLUMN in rows.schema.names else (nothing, nothing)
        columns = [pa.nulls(count, pa.int64()), text.combine_chunks().cast(pa.string()), fault, detail, nothing]
        return pa.record_batch(columns, schema=TEXT_COLUMNS)

    def to_tokens(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Token rows that came as JSON text as columns; wrong types and absent keys become the row's `fault`."""
        self._connection.register("texts", pa.table(rows))
        return self._connection.sql(sql("token_rows.sql")).to_arrow_table().combine_chunks().to_batches()[0]


def _text_faults(rows: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The fault, and its words, of each row whose text the reader found to be no UTF-8."""
    bad = rows.column(FAULT_COLUMN).to_pylist()
    words = [f"column {name!r} holds bytes that are not UTF-8" if name else None for name in bad]
    return pa.array(["invalid-text" if name else None for name in bad], pa.string()), pa.array(words, pa.string())
