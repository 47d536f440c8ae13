"""`diff`: two data sets side by side, by their profiles and verdicts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dflash_guard.errors import UsageError
from dflash_guard.verbs.autopsy import verdict_of
from dflash_guard.verbs.opening import Reading, open_data
from dflash_guard.verbs.profile import profile_opened

__all__ = ["Change", "diff"]

PROFILE, REPORT = "dflash-guard/profile/1", "dflash-guard/report/1"
FIGURES = ("mean", "median", "p90", "max")


@dataclass(frozen=True, slots=True)
class Change:
    """One figure or rule on both sides; None where a side has none."""

    name: str
    first: float | str | None
    second: float | str | None


def diff(first: str, second: str, reading: Reading) -> list[Change]:
    """What differs between two sides, each a data set, a profile or report as JSON, or a verdict file.

    Args:
        first: DATA, or a file.
        second: The same.
        reading: How data is read.

    Raises:
        UsageError: A file is JSON of another kind, or the sides have nothing in common.
        GuardError: A data set can't be opened.
    """
    one, other = _side(first, reading), _side(second, reading)
    if not set(one) & set(other):
        raise UsageError(f"{first} and {second} have nothing in common.", hint="compare two of a kind.")
    names = dict.fromkeys([*one, *other])
    return [Change(n, one.get(n), other.get(n)) for n in names if one.get(n) != other.get(n)]


def _side(given: str, reading: Reading) -> dict[str, Any]:
    path = Path(given)
    if path.suffix == ".json" and path.is_file() and (said := _document(path)) is not None:
        return dict(_of_document(said, given))
    with open_data([given], reading) as opened, verdict_of(opened, reading) as verdict:
        rules = [asdict(result) for result in verdict.rules]
        measured = profile_opened(opened)
        whole = {"rows": measured.whole.rows, "system_rows": measured.whole.system_rows}
        whole["thinking_rows"] = measured.whole.thinking_rows
        facts = {fact: asdict(each) for fact, each in measured.whole.facts.items()}
        sources = [{"source": each.name, "share": each.share} for each in measured.sources]
        return dict(
            [
                *_of_profile(
                    {**whole, "facts": facts, "sources": sources, "distribution": asdict(measured.distribution)}
                ),
                *_of_rules(rules),
            ]
        )


def _document(path: Path) -> dict[str, Any] | None:
    """A JSON file that is one object and no row of data; None for others."""
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) and ("schema" in said or "predicate" in said) else None


def _of_document(said: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    readers = {PROFILE: _of_profile, REPORT: _of_report}
    read = readers.get(said.get("schema", ""), _of_statement)
    try:
        return list(read(said))
    except (KeyError, TypeError) as error:
        hint = "give data, the output of profile or check with --format json, or a verdict file."
        raise UsageError(f"{name} is JSON, and neither a profile, a report nor a verdict.", hint=hint) from error


def _of_report(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from (("rows", said["counts"]["rows"]), ("failed rows", said["counts"]["failed_rows"]))
    yield from _of_rules(said["rules"])


def _of_statement(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    counts = said["predicate"]["counts"]
    yield from (("rows", counts["rows"]), ("failed rows", counts["failedRows"]))
    yield from _of_rules([{**rule, "failing_rows": rule["failingRows"]} for rule in said["predicate"]["rules"]])


def _of_profile(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "rows", said["rows"]
    for name in ("system_rows", "thinking_rows"):
        if said.get(name) is not None:
            yield name.replace("_", " "), said[name]
    for fact, figures in said["facts"].items():
        for figure in FIGURES:
            yield f"{fact} {figure}", figures[figure]
    for source in said["sources"]:
        yield f"share of source {source['source']}", source["share"]
    for name in ("top_response_share", "top_loss_tokens_share", "thinking_share", "truncated_share", "duplicate_share"):
        if said.get("distribution", {}).get(name) is not None:
            yield name.replace("_", " "), said["distribution"][name]


def _of_rules(rules: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for rule in rules:
        if rule.get("skipped"):
            yield f"rule {rule['rule']}", "not judged"
        else:
            outcome = "failed" if rule["failed"] else "passed"
            observed = f", observed {rule['observed']:.4g}" if isinstance(rule["observed"], int | float) else ""
            rows = f", {rule['failing_rows']:,} rows" if rule["failing_rows"] and not observed else ""
            yield f"rule {rule['rule']}", f"{outcome}{observed}{rows}"
