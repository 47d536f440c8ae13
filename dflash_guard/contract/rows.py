"""Row rules as a pandera schema, run over facts in batches.

`judged_STAGE.sql` makes one column a rule out of the facts; here each becomes a pandera column with one check,
and the rows that fail it become failures, with words for them made in SQL. Nothing is left to pandera's defaults:
frames are eager, no column may be null, nulls never pass a check, and the environment can't switch it off.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pyarrow as pa

from dflash_guard.contract.model import Contract, RuleSetting
from dflash_guard.errors import JudgeError
from dflash_guard.facts.sql import sql

if TYPE_CHECKING:
    import pandera.polars as pandera
    import polars as pl

__all__ = [
    "BATCH_ROWS",
    "compile_schema",
    "count_failing",
    "details",
    "failing_sql",
    "import_pandera",
    "judge_rows",
    "judged_rules",
    "prepare",
]

BATCH_ROWS = 500_000
Kind = Literal["at_least", "at_most", "below"]

# How a rule's column is bounded, where it is neither a truth value nor a turn.
_NUMBERS: Mapping[str, tuple[Kind, str]] = {
    "few-loss-tokens": ("at_least", "min"),
    "short-response": ("at_least", "min"),
    "stub-response": ("at_least", "min"),
    "prompt-too-long": ("at_most", "max"),
    "repetition-loop": ("below", "share"),
}


def import_pandera() -> None:
    """Import what row rules are judged with, ahead of time."""
    import pandera.polars as _  # noqa: F401


def compile_schema(contract: Contract, columns: Mapping[str, pa.DataType]) -> "pandera.DataFrameSchema":
    """Compile a contract's row rules to a pandera (polars) schema over judged facts.

    Args:
        contract: The effective contract; ignored rules are left out.
        columns: The judged columns and their types: a rule without one is judged elsewhere.
    """
    import pandera.polars as pandera

    fields = {}
    for name, setting in contract.rules.items():
        if name in columns and not setting.ignored:
            check, dtype = _check(name, setting, columns[name])
            fields[name] = pandera.Column(dtype, check, nullable=False, required=True, coerce=False)
    return pandera.DataFrameSchema(fields, strict=False, coerce=False, name=contract.name)


def _check(name: str, setting: RuleSetting, of: pa.DataType) -> "tuple[pandera.Check, pl.DataType | type[pl.DataType]]":
    import pandera.polars as pandera
    import polars as pl

    options: dict[str, Any] = {"name": name, "ignore_na": False}
    if name in _NUMBERS:
        kind, bound = _NUMBERS[name]
        makers: dict[str, Any] = {
            "at_least": pandera.Check.ge,
            "at_most": pandera.Check.le,
            "below": pandera.Check.lt,
        }
        make = makers[kind]
        return make(setting.bound[bound], **options), _polars_type(of)
    if pa.types.is_boolean(of):
        return pandera.Check.eq(value=False, **options), pl.Boolean
    return pandera.Check.eq(-1, **options), _polars_type(of)


def _polars_type(of: pa.DataType) -> "pl.DataType | type[pl.DataType]":
    import polars as pl

    empty = pl.from_arrow(pa.table({"x": pa.array([], of)}))
    if not isinstance(empty, pl.DataFrame):
        raise TypeError(of)
    return empty.schema["x"]


def prepare(
    connection: duckdb.DuckDBPyConnection,
    contract: Contract,
    *,
    generator: Mapping[str, Any] | None = None,
    upstream: bool = False,
    prompts: bool = False,
) -> None:
    """Make the view `judged` out of `facts`, and what details need, on a connection.

    Args:
        connection: One that has `facts` and the macros of `json.sql` (and `upstream`, for cross-stage rules).
        contract: The effective contract.
        generator: Who made the rows, by the data set's manifest.
        upstream: Whether there is an upstream to compare with.
        prompts: Whether `prompts_here` says which prompt each token row has.
    """
    bounds = {
        f"{name}.{field}": float(value)
        for name, setting in contract.rules.items()
        for field, value in setting.bound.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    connection.execute("SET VARIABLE bounds = map(?, ?)", [list(bounds), list(bounds.values())])
    connection.execute(
        "SET VARIABLE sources = ?::VARCHAR[]", [list(contract.sources) if contract.sources is not None else None]
    )
    connection.execute("SET VARIABLE mode = ?", [contract.mode])
    connection.execute("SET VARIABLE target = ?", [contract.target])
    said = generator or {}
    whole = all(said.get(key) for key in ("model", "sampling", "chat_template_sha256"))
    connection.execute("SET VARIABLE manifest_generator = ?", [whole])
    connection.execute("SET VARIABLE manifest_model = ?", [said.get("model")])
    package = "dflash_guard.contract"
    connection.execute(sql("judged.sql", package))
    if contract.stage != "tokenized":
        connection.execute(sql("judged_text.sql", package))
    connection.execute(sql(f"judged_{contract.stage}.sql", package))
    if upstream:
        connection.execute("ALTER VIEW judged RENAME TO judged_alone")
        connection.execute(sql(f"judged_{contract.stage}_upstream.sql", package))
    if prompts:
        connection.execute("ALTER VIEW judged RENAME TO judged_unprompted")
        connection.execute(sql("judged_tokenized_prompts.sql", package))


def judge_rows(connection: duckdb.DuckDBPyConnection, contract: Contract) -> dict[str, int]:
    """Run the row rules over the view `judged`, batch by batch.

    Returns:
        Failing rows by rule; every rule that was judged is in it.

    Raises:
        JudgeError: A check raised, or a fact is not what the schema was compiled for.
    """
    import polars as pl

    rules = judged_rules(connection, contract)
    if not rules:
        return {}
    columns = ", ".join(f'"{name}"' for name in rules)
    counts = dict.fromkeys(rules, 0)
    schema = None
    for batch in connection.sql(f"SELECT {columns} FROM judged").to_arrow_reader(BATCH_ROWS):  # noqa: S608
        if schema is None:
            schema = compile_schema(contract, {field.name: field.type for field in batch.schema})
        frame = pl.from_arrow(batch)
        if isinstance(frame, pl.DataFrame):
            for name, failing in count_failing(frame, schema).items():
                counts[name] += failing
    return counts


def judged_rules(connection: duckdb.DuckDBPyConnection, contract: Contract) -> list[str]:
    """The rules of the contract that have a column in `judged`."""
    columns = set(connection.sql("SELECT * FROM judged LIMIT 0").columns)
    if not contract.target:
        columns.discard("wrong-model")  # there is nothing to compare with: not judged is not passed
    return [name for name, setting in contract.rules.items() if name in columns and not setting.ignored]


def count_failing(frame: "pl.DataFrame", schema: "pandera.DataFrameSchema") -> dict[str, int]:
    """Count the rows of an eager frame that fail each rule.

    Raises:
        JudgeError: A check raised, or the frame is not what the schema was compiled for.
    """
    from pandera.config import ValidationDepth, config_context
    from pandera.errors import SchemaErrorReason, SchemaErrors

    # The environment (PANDERA_VALIDATION_ENABLED, …_DEPTH) must not be able to switch the guard off.
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        try:
            schema.validate(frame, lazy=True)
        except SchemaErrors as errors:
            counts = {}
            for error in errors.schema_errors:
                if error.reason_code != SchemaErrorReason.DATAFRAME_CHECK or error.check_output is None:
                    message = f"a fact is not what rule {error.schema.name!r} was compiled for: {error.reason_code}."
                    raise JudgeError(message, hint="this is a fault of dflash-guard; please report it.") from errors
                output = error.check_output["check_output"]
                counts[error.schema.name] = int(output.len() - output.sum())
            return counts
    return {}


@cache
def details(stage: str) -> Mapping[str, str]:
    """What is said of a failing row, by rule: SQL expressions over `judged`."""
    names = {"prompts": ("text",), "completions": ("text", "completions"), "tokenized": ("tokenized",)}[stage]
    found: dict[str, str] = {}
    for name in names:
        pieces = re.split(r"^-- ([a-z-]+)$", sql(f"details_{name}.sql", "dflash_guard.contract"), flags=re.MULTILINE)
        found |= {rule: said.strip() for rule, said in zip(pieces[1::2], pieces[2::2], strict=True)}
    return found


def failing_sql(name: str, of: str) -> str:
    """The condition that a row fails a rule: for listing the rows that pandera counted.

    Args:
        name: The rule.
        of: DuckDB's type of its column in `judged`.
    """
    if name in _NUMBERS:
        kind, field = _NUMBERS[name]
        sign = {"at_least": "<", "at_most": ">", "below": ">="}[kind]
        return f"\"{name}\" {sign} bound('{name}.{field}')"
    return f'"{name}"' if of == "BOOLEAN" else f'"{name}" <> -1'
