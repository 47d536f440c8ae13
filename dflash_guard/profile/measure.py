"""From facts to a profile: SQL over the view `measured`, one row a sample."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from dflash_guard.facts.sql import sql
from dflash_guard.profile.model import Distribution, Figures, Group, HistogramBin, Profile, TopResponse

__all__ = ["FACTS", "empty_profile", "measure", "measure_distribution", "prepare_profile"]

FACTS: Mapping[str, tuple[str, ...]] = {
    "prompts": ("prompt_chars", "response_chars", "turns", "user_turns"),
    "completions": (
        "prompt_chars",
        "response_chars",
        "answer_chars",
        "thinking_chars",
        "completion_tokens",
        "turns",
        "user_turns",
    ),
    "tokenized": (
        "tokens",
        "loss_tokens",
        "loss_fraction",
        "response_tokens",
        "thinking_tokens",
        "loss_spans",
        "turns",
    ),
}
"""The facts that are measured, by stage."""

_TWENTIETHS = [i / 20 for i in range(20)]  # the last one holds 1 as well
_DECADES = [0, *(m * 10**e for e in range(10) for m in (1, 2, 5))]
_COMMON = 10  # sequences of roles, and finish reasons


def prepare_profile(connection: duckdb.DuckDBPyConnection, stage: str) -> None:
    """Make the view `measured` on a connection of `open_facts` that has rows."""
    connection.execute(_sql("macros.sql"))
    connection.execute(_sql(f"measured_{stage}.sql"))


def measure_distribution(connection: duckdb.DuckDBPyConnection) -> Distribution:
    """Measure what distribution rules bound, on a connection that was prepared."""
    found = _rows(connection, _sql("distribution.sql"))[0]
    shares = _rows(
        connection,
        "SELECT source, count(*) AS rows FROM measured WHERE source IS NOT NULL GROUP BY source ORDER BY ALL",
    )
    return Distribution(**found, source_shares={each["source"]: each["rows"] / found["rows"] for each in shares})


def measure(connection: duckdb.DuckDBPyConnection, stage: str, shard_names: Sequence[str]) -> Profile:
    """Measure a data set, on a connection that was prepared. Texts of top responses are not in facts, so not here.

    Args:
        connection: One with the view `measured`.
        stage: `prompts`, `completions` or `tokenized`.
        shard_names: Of all shards, in order.
    """
    facts = FACTS[stage]
    whole = _groups(connection, facts, "''")[0]
    sources = sorted(_groups(connection, facts, "source", whole), key=lambda g: (-g.rows, g.name))
    by_shard = {group.name: group for group in _groups(connection, facts, "shard", whole)}
    return Profile(
        stage=stage,
        shards=len(shard_names),
        whole=whole,
        sources=tuple(sources),
        by_shard=tuple(
            replace(by_shard[str(i)], name=name) for i, name in enumerate(shard_names) if str(i) in by_shard
        ),
        roles=_common(connection, "roles"),
        finish_reasons=_common(connection, "finish_reason"),
        top_responses=tuple(_top_responses(connection, stage)),
        histograms={fact: tuple(_histogram(connection, fact, whole.facts[fact])) for fact in facts},
        distribution=measure_distribution(connection),
    )


def empty_profile(stage: str, shard_names: Sequence[str]) -> Profile:
    """The profile of shards none of which has a row that could be read."""
    nothing = Figures(0, 0, None, None, None, None, None, None, None)
    whole = Group("", 0, None, None, None, dict.fromkeys(FACTS[stage], nothing))
    shares = Distribution(rows=0)
    empty = dict.fromkeys(FACTS[stage], ())
    return Profile(stage, len(shard_names), whole, (), (), (), (), (), empty, shares)


def _groups(
    connection: duckdb.DuckDBPyConnection, facts: Sequence[str], by: str, whole: Group | None = None
) -> list[Group]:
    """Figures by source or shard; where there is one such group of all rows, it is the whole."""
    if whole is not None:
        names = connection.execute(f"SELECT DISTINCT {by} FROM measured LIMIT 2").fetchall()  # noqa: S608 - a column
        if len(names) == 1:
            return [] if names[0][0] is None else [replace(whole, name=str(names[0][0]))]
    figures = ", ".join(f"figures({fact}) AS {fact}" for fact in facts)
    query = f"""
        SELECT {by} AS name, count(*) AS rows, count(*) / (SELECT count(*) FROM measured) AS share,
            CASE WHEN count(has_system) > 0 THEN count(*) FILTER (has_system) END AS system_rows,
            CASE WHEN count(thinks) > 0 THEN count(*) FILTER (thinks) END AS thinking_rows, {figures}
        FROM measured WHERE name IS NOT NULL GROUP BY ALL"""  # noqa: S608 - names of facts
    return [
        Group(
            name=str(row["name"]),
            rows=row["rows"],
            share=row["share"],
            system_rows=row["system_rows"],
            thinking_rows=row["thinking_rows"],
            facts={fact: _figures(row[fact]) for fact in facts},
        )
        for row in _rows(connection, query)
    ]


def _figures(found: Mapping[str, Any]) -> Figures:
    median, p90, p99 = found["quantiles"] or (None, None, None)
    return Figures(
        count=found["count"],
        nulls=found["nulls"],
        min=found["min"],
        mean=found["mean"],
        median=median,
        p90=p90,
        p99=p99,
        max=found["max"],
        sum=None if found["sum"] is None else float(found["sum"]),
    )


def _common(connection: duckdb.DuckDBPyConnection, column: str) -> tuple[tuple[str, int], ...]:
    query = f"""
        SELECT {column}, count(*) AS rows FROM measured WHERE {column} IS NOT NULL
        GROUP BY ALL ORDER BY rows DESC, {column} LIMIT {_COMMON}"""  # noqa: S608 - a column
    return tuple((str(value), int(rows)) for value, rows in connection.execute(query).fetchall())


def _top_responses(connection: duckdb.DuckDBPyConnection, stage: str) -> Iterator[TopResponse]:
    length = (
        "response_tokens" if stage == "tokenized" else "answer_chars" if stage == "completions" else "response_chars"
    )
    for row in _rows(connection, _sql("top_responses.sql").replace("response_length", length)):
        amount = row.pop("length")
        tokens = stage == "tokenized"
        yield TopResponse(**row, chars=None if tokens else amount, loss_tokens=amount if tokens else None)


def _histogram(connection: duckdb.DuckDBPyConnection, fact: str, figures: Figures) -> Iterator[HistogramBin]:
    """Bins of 1, 2, 5 and their decades for counts, of twentieths for shares."""
    if figures.max is None:
        return
    edges = _TWENTIETHS if fact == "loss_fraction" else _DECADES
    query = f"""
        SELECT list_last(list_filter($edges, lambda edge: edge <= value)) AS start, sum(rows)::BIGINT AS rows
        FROM (SELECT {fact} AS value, count(*) AS rows FROM measured WHERE value IS NOT NULL GROUP BY value)
        GROUP BY start"""  # noqa: S608 - a fact
    rows = dict(connection.execute(query, {"edges": edges}).fetchall())
    last = 1.0 if fact == "loss_fraction" else 10 * edges[-3]
    for start, end in zip(edges, [*edges[1:], last], strict=True):
        if start <= figures.max and end > (figures.min or 0):
            yield HistogramBin(start, end, rows.get(start, 0))


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _sql(name: str) -> str:
    return sql(name, "dflash_guard.profile")
