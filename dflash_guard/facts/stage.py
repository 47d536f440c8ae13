"""What stage a data set looks like, where nobody said."""

import json
from collections.abc import Sequence

import pyarrow as pa

from dflash_guard.contract.model import Stage
from dflash_guard.shards.model import Batch, Shard
from dflash_guard.shards.reader import ShardReader

__all__ = ["detect_stage"]

_PEEK = 20  # rows
_MADE = {"generator", "finish_reason", "usage", "output_ids"}
_THOUGHT = {"reasoning_content", "reasoning"}


def detect_stage(shards: Sequence[Shard]) -> Stage | None:
    """`tokenized` where there are token columns, `completions` where rows say who made them, else `prompts`.

    None where no shard has a row that could be read.
    """
    for shard in shards:
        with ShardReader(shard) as reader:
            for batch in reader:
                if (found := _stage_of(batch)) is not None:
                    return found
    return None


def _stage_of(batch: Batch) -> Stage | None:
    if batch.kind == "columns":
        return _of_names(set(batch.rows.schema.names), _turn_fields(batch.rows)) if batch.rows.num_rows else None
    for text in batch.rows.column("text").slice(0, _PEEK).to_pylist():
        row = json.loads(text)
        if row:
            turns = row.get("messages") or row.get("conversations") or []
            fields = (
                {key for turn in turns if isinstance(turn, dict) for key in turn} if isinstance(turns, list) else set()
            )
            return _of_names({key for key, value in row.items() if value is not None}, fields)
    return None


def _of_names(names: set[str], turn_fields: set[str]) -> Stage:
    if "input_ids" in names:
        return "tokenized"
    return "completions" if names & _MADE or turn_fields & _THOUGHT else "prompts"


def _turn_fields(rows: pa.RecordBatch) -> set[str]:
    for name in ("messages", "conversations"):
        if name in rows.schema.names:
            of = rows.schema.field(name).type
            inner = of.value_type if pa.types.is_list(of) or pa.types.is_large_list(of) else of
            if pa.types.is_struct(inner):
                return {inner.field(i).name for i in range(inner.num_fields)}
    return set()
