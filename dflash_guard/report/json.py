"""The JSON report, schema `dflash-guard/report/1`: one object, one failure a line."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

from dflash_guard.report._failures import Failure, Shown
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["SCHEMA", "dumps", "entry", "head", "pieces", "standard"]

SCHEMA = "dflash-guard/report/1"


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """The report, in the order of keys that the schema gives."""
    members = [f"  {dumps(key)}: {_laid_out(value)}" for key, value in head(verdict).items()]
    yield "{\n" + ",\n".join(members) + ',\n  "failures": ['
    separator = "\n    "
    for failure in Shown(verdict, style):
        yield separator + dumps(entry(failure))
        separator = ",\n    "
    yield ("]" if separator == "\n    " else "\n  ]") + "\n}\n"


def head(verdict: Verdict) -> dict[str, Any]:
    """The report without its failures."""
    counts = verdict.counts
    return {
        "schema": SCHEMA,
        "result": verdict.result,
        "exit_code": int(verdict.exit_code),
        "stage": verdict.contract.stage,
        "contract": {"name": verdict.contract.name, "digest": verdict.contract.digest},
        "counts": {
            "shards": counts.shards,
            "rows": counts.rows,
            "failed_rows": counts.failed_rows,
            "warned_rows": counts.warned_rows,
            "quarantined_rows": counts.quarantined_rows,
        },
        "rules": [_rule(result) for result in verdict.rules],
    }


def entry(failure: Failure) -> dict[str, Any]:
    """One failure."""
    return {
        "rule": failure.rule,
        "level": failure.level,
        "shard": failure.shard,
        "row": failure.row,
        "line": failure.line,
        "sample_id": failure.sample_id,
        "detail": failure.detail,
    }


def dumps(value: Any) -> str:
    """JSON in ASCII, which every reader takes, and in which no CI runner finds a command."""
    return json.dumps(standard(value), allow_nan=False).replace("##[", r"##\u005b")


def _rule(result: RuleResult) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "rule": result.rule,
        "level": result.level,
        "failing_rows": result.failing_rows,
        "share": result.share,
        "tolerance": result.tolerance,
        "bound": dict(result.bound),
        "observed": result.observed,
        "failed": result.failed,
    }
    if result.skipped is not None:
        rule["skipped"] = result.skipped
    return rule


def _laid_out(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n    " + ",\n    ".join(dumps(each) for each in value) + "\n  ]"
    return dumps(value)


def standard(value: Any) -> Any:
    """Values that standard JSON has: a number that is none becomes null, what JSON lacks becomes text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): standard(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [standard(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date | datetime | time) else str(value)
