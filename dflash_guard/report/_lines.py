"""The lines that several formats share."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.report._cells import count, cut, inert, number, percent, seconds
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = [
    "WORDS",
    "amounts",
    "bounds",
    "broken",
    "duration",
    "found",
    "judged",
    "last_line",
    "outcome",
    "repository_paths",
    "said",
    "skipped",
    "warned",
]

WORDS: Mapping[str, str] = {"pass": "PASS", "fail": "FAIL", "error": "ERROR"}


def last_line(verdict: Verdict) -> str:
    """The line that every report ends with: what was judged, and how it came out."""
    counts = verdict.counts
    parts = (
        count(counts.rows, "row"),
        count(counts.shards, "shard"),
        count(len(judged(verdict)), "rule"),
        f"{counts.failed_rows:,} failed",
        f"{counts.warned_rows:,} warned",
        f"{counts.quarantined_rows:,} quarantined",
        f"{WORDS[verdict.result]} in {seconds(duration(verdict))} s",
    )
    return " · ".join(parts)


def duration(verdict: Verdict) -> float:
    """How long the judgement took, in seconds."""
    return (verdict.ended - verdict.started).total_seconds()


def judged(verdict: Verdict) -> list[RuleResult]:
    """Rules that were judged."""
    return [result for result in verdict.rules if result.skipped is None]


def skipped(verdict: Verdict) -> list[RuleResult]:
    """Rules that could not be judged."""
    return [result for result in verdict.rules if result.skipped is not None]


def said(result: RuleResult) -> str:
    """What a rule found, and what a distribution rule says of it; safe to print."""
    if result.message:
        return f"{inert(cut(result.message, 400))} ({found(result)})"
    return found(result)


def broken(verdict: Verdict) -> list[RuleResult]:
    """Error rules that fail the data set, those of the whole data set first, then the most frequent."""
    return _with(verdict, "failed")


def warned(verdict: Verdict) -> list[RuleResult]:
    """Rules that rows broke without failing the data set: warnings, and errors within their tolerance."""
    return _with(verdict, "warned", "tolerated")


def outcome(result: RuleResult) -> str:
    """`failed`, `warned`, `tolerated`, `passed` or `skipped`."""
    if result.skipped is not None:
        return "skipped"
    if result.level == "warn":
        return "warned" if result.failed or result.failing_rows else "passed"
    if result.failed:
        return "failed"
    return "tolerated" if result.failing_rows else "passed"


def found(result: RuleResult) -> str:
    """What a rule found, in words: rows and their share, or what a distribution rule saw."""
    if result.observed is not None:
        return f"observed {number(result.observed)}, bound {bounds(result.bound)}"
    share = f" ({percent(result.share)})" if result.share is not None else ""
    tolerance = f", tolerance {percent(result.tolerance)}" if result.tolerance else ""
    noun = "shard" if _scope(result) == "shard" else "row"
    return f"{count(result.failing_rows, noun)}{share if noun == 'row' else ''}{tolerance}"


def amounts(result: RuleResult) -> tuple[str, str]:
    """Rows that failed a rule, and their share; for a shard rule shards, for one of the data set nothing."""
    match _scope(result):
        case "dataset":
            return "–", "–"
        case "shard":
            return count(result.failing_rows, "shard"), "–"
        case _:
            return f"{result.failing_rows:,}", percent(result.share)


def bounds(bound: Mapping[str, Any]) -> str:
    """A rule's bounds, such as `min 32`."""
    return ", ".join(f"{inert(str(field))} {number(value)}" for field, value in bound.items()) or "–"


def _with(verdict: Verdict, *outcomes: str) -> list[RuleResult]:
    results = [result for result in verdict.rules if outcome(result) in outcomes]
    return sorted(results, key=lambda result: (_scope(result) != "dataset", -result.failing_rows, result.rule))


def _scope(result: RuleResult) -> str:
    known = CATALOG.get(result.rule)
    return known.scope if known is not None else "row"


def repository_paths(verdict: Verdict) -> dict[str, str]:
    """Shard name → its path from the root of the repository, where it lies in it, as code hosts want it."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    paths: dict[str, str] = {}
    for seal in verdict.seals:
        location = Path(seal.shard.location)
        inside = "://" not in seal.shard.location and location.is_relative_to(root)
        paths.setdefault(seal.shard.name, location.relative_to(root).as_posix() if inside else seal.shard.name)
    return paths
