"""The prompts of failing rows, as JSONL: the work list for generating them again."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from dflash_guard.errors import UsageError
from dflash_guard.facts.rows import json_rows
from dflash_guard.shards.model import Shard
from dflash_guard.verbs.opening import Reading, open_data
from dflash_guard.verdict.model import Verdict

__all__ = ["WORKLIST", "write_worklist"]

WORKLIST: Final = "prompts.jsonl"
_MADE: Final = ("finish_reason", "usage", "generator", "prompt_ids", "output_ids", "error", "status", "ended_early")


def write_worklist(folder: Path, verdict: Verdict, failing: Mapping[str, set[int]], upstream: str | None) -> int:
    """Write the prompts of failing rows; of token rows, those that their ids have upstream.

    Args:
        folder: Where `prompts.jsonl` goes.
        verdict: Of the data set.
        failing: Its failing rows by shard.
        upstream: The data set behind it, as named.

    Returns:
        How many failing rows have no prompt that could be read.

    Raises:
        UsageError: The rows are tokens, and nothing says what they were made from.
    """
    places = _places(verdict, failing)
    if verdict.contract.stage == "tokenized":
        shards, places, wanted = _upstream_places(verdict, failing, upstream)
    else:
        shards, wanted = [seal.shard for seal in verdict.seals], sum(map(len, places.values()))
    written = 0
    with (folder / WORKLIST).open("w", encoding="utf-8") as file:
        for row in _read(shards, places):
            if (prompt := _prompt_of(row)) is not None:
                file.write(json.dumps(prompt, ensure_ascii=False) + "\n")
                written += 1
    if not written:
        (folder / WORKLIST).unlink()
    return wanted - written


def _places(verdict: Verdict, failing: Mapping[str, set[int]]) -> dict[int, set[int]]:
    return {index: failing[seal.shard.name] for index, seal in enumerate(verdict.seals) if seal.shard.name in failing}


def _upstream_places(
    verdict: Verdict, failing: Mapping[str, set[int]], upstream: str | None
) -> tuple[list[Shard], dict[int, set[int]], int]:
    """Where the ids of failing token rows stand upstream."""
    data = [upstream] if upstream is not None else [path for each in verdict.upstream for path in each.data]
    if not data:
        raise UsageError(
            "nothing says which prompts the token rows were made from.", hint="name them with --upstream DATA."
        )
    ids = _ids(verdict, failing)
    with open_data(data, Reading(stage="completions", family=verdict.contract.family.name)) as opened:
        opened.connection.register("wanted", pa.table({"id": pa.array(sorted(ids), pa.string())}))
        found = opened.connection.execute(
            "SELECT shard, min(row) FROM raw_facts SEMI JOIN wanted USING (id) GROUP BY shard, id"
        ).fetchall()
        shards = list(opened.listing.shards)
    places: dict[int, set[int]] = {}
    for shard, row in found:
        places.setdefault(shard, set()).add(row)
    return shards, places, len(ids)


def _ids(verdict: Verdict, failing: Mapping[str, set[int]]) -> set[str]:
    ids: set[str] = set()
    for path, seal in zip(verdict.facts, verdict.seals, strict=True):
        rows = failing.get(seal.shard.name)
        if path and rows:
            with duckdb.connect() as connection:
                connection.register("failing", pa.table({"row": pa.array(sorted(rows), pa.int64())}))
                found = connection.execute("SELECT id FROM read_parquet(?) SEMI JOIN failing USING (row)", [path])
                ids.update(str(each) for (each,) in found.fetchall() if each is not None)
    return ids


def _read(shards: list[Shard], places: Mapping[int, set[int]]) -> Iterator[dict[str, Any]]:
    for index in sorted(places):
        for text in json_rows(shards[index], places[index]):
            if text is not None:
                row = json.loads(text)
                if isinstance(row, dict):
                    yield row


def _prompt_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row without what answered it: the turns up to its last assistant turn, and nothing that a generator wrote."""
    kept = {key: value for key, value in row.items() if key not in _MADE}
    for key in ("messages", "conversations"):
        turns = kept.get(key)
        if isinstance(turns, str):
            try:
                turns = json.loads(turns)
            except ValueError:
                return None
        if isinstance(turns, list):
            while turns and isinstance(turns[-1], dict) and _speaker(turns[-1]) in {"assistant", "gpt"}:
                turns = turns[:-1]
            return {**kept, key: turns} if turns else None
    if "instruction" in kept:
        return {key: value for key, value in kept.items() if key not in {"output", "response"}}
    return None


def _speaker(turn: Mapping[str, Any]) -> object:
    return turn.get("role", turn.get("from"))
