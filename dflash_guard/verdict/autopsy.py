"""Why a data set is bad: what fails most, where it comes from, and a few rows to look at."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from dflash_guard.chat.tokenizer import Decoder
from dflash_guard.contract.catalog import CATALOG
from dflash_guard.facts.samples import Sample, read_samples
from dflash_guard.profile.model import Profile, TopResponse
from dflash_guard.shards.model import Shard
from dflash_guard.verdict.failures import FAILURES
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["Autopsy", "Finding", "Piece", "Specimen", "examine"]

SOURCES = 5  # of a rule
MOST_RULES = 12  # with rows shown


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of ids of a token row that are supervised, or are not. `text` is None where there is no tokenizer."""

    supervised: bool
    ids: tuple[int, ...]
    text: str | None


@dataclass(frozen=True, slots=True)
class Specimen:
    """A failing row, whole.

    Attributes:
        shard, row, line, sample_id, detail: As in the failures.
        sample: The row.
        pieces: Of a token row.
    """

    shard: str
    row: int
    line: int | None
    sample_id: str | None
    detail: str
    sample: Sample
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that something broke.

    Attributes:
        result: How it came out.
        sources: Failing rows by source, the most first.
        specimens: A few of its rows.
    """

    result: RuleResult
    sources: tuple[tuple[str, int], ...]
    specimens: tuple[Specimen, ...]


@dataclass(frozen=True, slots=True)
class Autopsy:
    """What is wrong with a data set.

    Attributes:
        dominant: What fails most, in words.
        response: The response that it is about, where it is one.
        findings: Rules that fail, what concerns most rows first, then warnings.
    """

    dominant: str
    response: TopResponse | None
    findings: tuple[Finding, ...]


def examine(
    verdict: Verdict,
    profile: Profile,
    connection: duckdb.DuckDBPyConnection,
    *,
    decoder: Decoder | None = None,
    specimens: int = 2,
) -> Autopsy:
    """Examine a data set that was judged.

    Args:
        verdict: Its verdict.
        profile: Its profile.
        connection: One with its facts, on which it was profiled.
        decoder: Makes text of ids.
        specimens: Rows shown of each rule.
    """
    broken = [r for r in verdict.rules if r.skipped is None and (r.failed or r.failing_rows)]
    broken.sort(key=_weight)
    shown = {r.rule for r in broken[:MOST_RULES]}
    first = [
        row for row in verdict.found.first(specimens).to_pylist() if row["row"] is not None and row["rule"] in shown
    ]
    found = _specimens(verdict, first, decoder) if specimens else {}
    sources = _sources(verdict, connection) if any(verdict.facts) else {}
    findings = tuple(Finding(r, tuple(sources.get(r.rule, ())), tuple(found.get(r.rule, ()))) for r in broken)
    dominant, response = _dominant(verdict, profile, broken)
    return Autopsy(dominant, response, findings)


def _weight(result: RuleResult) -> tuple[bool, bool, bool, bool, int, str]:
    """What comes first: errors, a common response, what concerns the whole data set, what most rows fail."""
    whole = CATALOG[result.rule].scope == "dataset"
    return (
        result.level != "error",
        not result.failed,
        result.rule != "response-collapse",
        not whole,
        -result.failing_rows,
        result.rule,
    )


def _specimens(
    verdict: Verdict, rows: Sequence[Mapping[str, object]], decoder: Decoder | None
) -> dict[str, list[Specimen]]:
    shards: dict[str, tuple[int, Shard]] = {}
    for index, seal in enumerate(verdict.seals):
        shards.setdefault(seal.shard.name, (index, seal.shard))
    places = {(shards[str(row["shard"])][0], int(str(row["row"]))) for row in rows}
    samples = read_samples([seal.shard for seal in verdict.seals], places, verdict.contract)
    found: dict[str, list[Specimen]] = defaultdict(list)
    for row in rows:
        sample = samples.get((shards[str(row["shard"])][0], int(str(row["row"]))))
        if sample is not None:
            found[str(row["rule"])].append(
                Specimen(
                    shard=str(row["shard"]),
                    row=int(str(row["row"])),
                    line=None if row["line"] is None else int(str(row["line"])),
                    sample_id=None if row["sample_id"] is None else str(row["sample_id"]),
                    detail=str(row["detail"]),
                    sample=sample,
                    pieces=_pieces(sample, decoder),
                )
            )
    return found


def _pieces(sample: Sample, decoder: Decoder | None) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    start = 0
    for end in range(1, len(sample.ids) + 1):
        if end == len(sample.ids) or sample.mask[end] != sample.mask[start]:
            ids = sample.ids[start:end]
            pieces.append(Piece(sample.mask[start], ids, decoder.decode(ids) if decoder is not None else None))
            start = end
    return tuple(pieces)


def _sources(verdict: Verdict, connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[str, int]]]:
    """Failing rows by rule and source."""
    source = verdict.found.source
    if isinstance(source, pa.Table):
        connection.register("broken", source.cast(FAILURES))
        table = "broken"
    else:
        connection.execute("SET VARIABLE broken = ?", [str(source)])
        table = "read_parquet(getvariable('broken'))"
    query = f"""
        SELECT b.rule, shown_source(f.source) AS name, count(*) AS rows
        FROM {table} AS b JOIN raw_facts AS f ON f.shard_name = b.shard AND f.row = b.row
        GROUP BY b.rule, name
        QUALIFY row_number() OVER (PARTITION BY b.rule ORDER BY rows DESC, name) <= {SOURCES}
        ORDER BY b.rule, rows DESC, name"""  # noqa: S608 - no text of anyone's
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for rule, name, rows in connection.execute(query).fetchall():
        found[rule].append((name, rows))
    return found


def _dominant(verdict: Verdict, profile: Profile, broken: Sequence[RuleResult]) -> tuple[str, TopResponse | None]:
    rows = verdict.counts.rows
    if not broken:
        return "no rule is broken", None
    worst = broken[0]
    top = profile.top_responses[0] if profile.top_responses else None
    if worst.rule == "response-collapse" and top is not None:
        size = (
            f"{top.loss_tokens:,} supervised tokens"
            if top.loss_tokens is not None
            else f"{top.chars or 0:,} characters"
        )
        return f"{_share(top.rows, rows)} of the rows share one response of {size}", top
    if worst.message:
        return worst.message, None
    if worst.share is None:
        return f"{worst.rule}: {worst.failing_rows:,} of {verdict.counts.shards:,} shards", None
    return f"{_share(worst.failing_rows, rows)} of the rows fail {worst.rule}", None


def _share(part: int, rows: int) -> str:
    share = 100 * part / rows if rows else 0
    return f"{share:.1f} %" if share >= 0.1 or not part else f"{part:,}"
