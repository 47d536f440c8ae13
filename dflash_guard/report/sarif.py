"""SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), which code-scanning pages read."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.report._cells import inert
from dflash_guard.report._failures import Failure, Shown
from dflash_guard.report._lines import repository_paths, said
from dflash_guard.report._style import Style
from dflash_guard.report.json import dumps
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["pieces"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warn": "warning"}


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """One run: the rules as the tool's, each failure a result."""
    places = {result.rule: place for place, result in enumerate(verdict.rules)}
    tool = {
        "driver": {
            "name": "dflash-guard",
            "semanticVersion": _version(),
            "rules": [_rule(result) for result in verdict.rules],
        }
    }
    invocation = {
        "executionSuccessful": verdict.result != "error",
        "exitCode": int(verdict.exit_code),
        "startTimeUtc": verdict.started.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "endTimeUtc": verdict.ended.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    yield f'{{"$schema": {dumps(SCHEMA)}, "version": "2.1.0", "runs": [{{\n'
    yield f' "tool": {dumps(tool)},\n "invocations": [{dumps(invocation)}],\n "columnKind": "unicodeCodePoints",\n'
    yield ' "results": ['
    separator = "\n  "
    paths = repository_paths(verdict)
    seen: set[str] = set()
    for failure in Shown(verdict, style):
        seen.add(failure.rule)
        yield separator + dumps(_result(failure, places, paths))
        separator = ",\n  "
    for result in verdict.rules:  # a rule of the whole data set has no row that failed it
        if result.failed and result.rule not in seen:
            yield separator + dumps(_whole(result, places))
            separator = ",\n  "
    yield "\n ]\n}]}\n"


def _rule(result: RuleResult) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": result.rule,
        "defaultConfiguration": {"level": LEVELS[result.level], "enabled": result.skipped is None},
    }
    if result.rule in CATALOG:
        known = CATALOG[result.rule]
        rule["shortDescription"] = {"text": _message(known.says)}
        rule["fullDescription"] = {"text": _message(known.why)}
        rule["help"] = {"text": _message(known.fix)}
    return rule


def _result(failure: Failure, places: dict[str, int], paths: dict[str, str]) -> dict[str, Any]:
    text = f"{failure.place}: {failure.detail}" if failure.line is None else failure.detail
    result: dict[str, Any] = {
        "ruleId": failure.rule,
        "level": LEVELS[failure.level],
        "message": {"text": _message(text) or failure.rule},
    }
    if failure.rule in places:
        result["ruleIndex"] = places[failure.rule]
    if failure.shard is not None:
        physical: dict[str, Any] = {
            "artifactLocation": {"uri": quote(paths.get(failure.shard, failure.shard), errors="surrogateescape")}
        }
        if failure.line is not None:
            physical["region"] = {"startLine": failure.line}
        location: dict[str, Any] = {"physicalLocation": physical}
        if failure.row is not None:
            location["logicalLocations"] = [{"name": f"row {failure.row}"}]
        result["locations"] = [location]
    if failure.sample_id is not None:
        result["properties"] = {"sample_id": failure.sample_id}
    return result


def _whole(result: RuleResult, places: dict[str, int]) -> dict[str, Any]:
    return {
        "ruleId": result.rule,
        "ruleIndex": places[result.rule],
        "level": LEVELS[result.level],
        "message": {"text": _message(said(result))},
    }


def _message(text: str) -> str:
    r"""Plain text of a SARIF message: `{}` would be a placeholder (§ 3.11.5), `[](…)` a link (§ 3.11.6)."""
    text = inert(text).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return text.replace("{", "{{").replace("}", "}}")


def _version() -> str:
    try:
        return version("dflash-guard")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0.0.0"
