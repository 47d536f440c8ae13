"""Rows as they stand in the shards, for people to look at: a few, picked by place."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from dflash_guard.contract.model import Contract, Family
from dflash_guard.facts.columns import Columns, wanted_columns
from dflash_guard.facts.scan import open_conversations, text_rows, token_facts
from dflash_guard.facts.sql import sql
from dflash_guard.shards.model import Batch, Shard
from dflash_guard.shards.reader import ShardReader

__all__ = ["Sample", "Turn", "read_samples"]

Place = tuple[int, int]
"""A shard, and a row of it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation. `calls` is JSON text."""

    role: str
    content: str
    thinking: str | None
    calls: str | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One row.

    Attributes:
        turns: Of a conversation; empty for token rows, and where there is no conversation.
        answer: The text of the last assistant turn, behind its thinking.
        ids, mask: Of a token row, as long as the shorter of the two.
        response: The supervised ids of the last assistant turn of a token row, as facts know them.
        raw: The row's JSON text as it stands, of a text row.
    """

    turns: tuple[Turn, ...] = ()
    answer: str | None = None
    ids: tuple[int, ...] = ()
    mask: tuple[bool, ...] = ()
    response: tuple[int, ...] = ()
    raw: str | None = None


def read_samples(shards: Sequence[Shard], places: Iterable[Place], contract: Contract) -> dict[Place, Sample]:
    """Read the rows at some places; each shard up to the last of them.

    Args:
        shards: Of the data set, in order.
        places: Shard and row.
        contract: The effective contract, for role names and declared columns.

    Raises:
        ShardAccessError, ShardChangedError: A shard can't be read, or is not what was listed.
    """
    wanted: dict[int, set[int]] = defaultdict(set)
    for shard, row in places:
        wanted[shard].add(row)
    found: dict[Place, Sample] = {}
    connection = duckdb.connect(config={"threads": 1})
    try:
        for index, rows in sorted(wanted.items()):
            for batch in _pick(shards[index], rows, wanted_columns(contract)):
                found[index, batch.first_row] = _read(connection, index, batch, contract)
    finally:
        connection.close()
    return found


def _pick(shard: Shard, wanted: set[int], columns: Sequence[str]) -> Iterator[Batch]:
    """Each wanted row as a batch of one."""
    last = max(wanted)
    with ShardReader(shard, columns) as reader:
        for batch in reader:
            end = batch.first_row + batch.rows.num_rows
            for row in sorted(row for row in wanted if batch.first_row <= row < end):
                yield Batch(batch.kind, row, batch.rows.slice(row - batch.first_row, 1))
            if end > last:
                return


def _read(connection: duckdb.DuckDBPyConnection, index: int, batch: Batch, contract: Contract) -> Sample:
    if contract.stage == "tokenized":
        rows = batch.rows if batch.kind == "columns" else Columns().to_tokens(batch.rows)
        return _token_sample(rows, contract.family)
    rows = text_rows(Columns(), index, batch, None)
    connection.register("rows", pa.table(rows))
    open_conversations(connection, contract)
    shown = connection.sql(sql("samples.sql")).to_arrow_table().to_pylist()
    return _text_sample(shown[0], rows.column("text")[0].as_py())


def _text_sample(shown: Mapping[str, Any], raw: str) -> Sample:
    turns = tuple(
        Turn(turn["role"], turn["content"] or "", turn["thinking"], turn["calls"]) for turn in shown["turns"] or ()
    )
    return Sample(turns=turns, answer=shown["answer"], raw=raw)


def _token_sample(rows: pa.RecordBatch, family: Family) -> Sample:
    row = rows.select([n for n in ("input_ids", "loss_mask", "labels") if n in rows.schema.names]).to_pylist()[0]
    ids = [-1 if token is None else int(token) for token in row["input_ids"] or ()]
    mask = row.get("loss_mask")
    if mask is None:
        mask = [label is not None and label != -100 for label in row.get("labels") or ()]
    both = list(zip(ids, map(bool, mask), strict=False))
    facts = token_facts(rows, family).to_pylist()[0]
    start, length = facts["response_at"], facts["response_tokens"]
    response = [
        token
        for at, (token, counts) in enumerate(both[start:], start)
        if counts and not (token == family.newline and at and ids[at - 1] == family.end_turn)
    ]
    return Sample(
        ids=tuple(token for token, _ in both),
        mask=tuple(counts for _, counts in both),
        response=tuple(response[:length]) if start >= 0 else (),
    )
