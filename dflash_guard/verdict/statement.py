"""The verdict as a file: an in-toto Statement v1, canonical JSON, written whole."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dflash_guard.shards.writer import write_whole
from dflash_guard.verdict.model import RuleResult, Verdict
from dflash_guard.verdict.record import PREDICATE_TYPE, STATEMENT_TYPE

__all__ = ["statement_of", "write_statement"]

_TOOLS = ("dflash-guard", "duckdb", "pyarrow", "pandera", "polars", "great-expectations")


def statement_of(verdict: Verdict, files: Mapping[str, Path]) -> dict[str, Any]:
    """The verdict as an in-toto statement.

    Args:
        verdict: What was judged.
        files: Evidence files by name (`failures`, …), whose digests are bound in.
    """
    contract = verdict.contract
    return {
        "_type": STATEMENT_TYPE,
        "predicateType": PREDICATE_TYPE,
        "subject": [{"name": seal.shard.name, "digest": {"sha256": seal.sha256}} for seal in verdict.seals],
        "predicate": {
            "result": verdict.result,
            "exitCode": int(verdict.exit_code),
            "stage": contract.stage,
            "mode": contract.mode,
            "family": contract.family.name,
            "contract": {"name": contract.name, "digest": contract.digest},
            "counts": {
                "shards": verdict.counts.shards,
                "rows": verdict.counts.rows,
                "failedRows": verdict.counts.failed_rows,
                "warnedRows": verdict.counts.warned_rows,
                "quarantinedRows": verdict.counts.quarantined_rows,
            },
            "rules": [_rule(result) for result in verdict.rules],
            "ignored": sorted(name for name, setting in contract.rules.items() if setting.ignored),
            "shards": [
                {
                    "name": seal.shard.name,
                    "size": seal.size,
                    "rows": seal.rows,
                    "format": seal.format,
                    "mtimeNs": seal.shard.mtime_ns,
                    "ctimeNs": seal.shard.ctime_ns,
                    "inode": seal.shard.inode,
                    **({"facts": _evidence(verdict, Path(facts))} if facts else {}),
                }
                for seal, facts in zip(verdict.seals, verdict.facts, strict=True)
            ],
            "evidence": {name: _evidence(verdict, path) for name, path in sorted(files.items())},
            "declared": {
                what: {"kind": said.kind, "value": said.value}
                for what, said in (("source", contract.source), ("id", contract.id))
                if said is not None
            },
            "upstream": [],
            "failOn": verdict.fail_on,
            "redacted": verdict.redacted,
            "tools": {name: _version(name) for name in _TOOLS},
            "startedOn": _time(verdict.started),
            "finishedOn": _time(verdict.ended),
        },
    }


def write_statement(path: Path, statement: Mapping[str, Any]) -> None:
    """Write a statement: sorted keys, no white space, one newline at the end; whole or not at all."""
    write_whole(
        path, (json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()
    )


def _rule(result: RuleResult) -> dict[str, Any]:
    return {
        "rule": result.rule,
        "level": result.level,
        "tolerance": result.tolerance,
        "bound": dict(result.bound),
        "failingRows": result.failing_rows,
        "share": result.share,
        "observed": result.observed,
        "failed": result.failed,
        "message": result.message,
        **({"skipped": result.skipped} if result.skipped is not None else {}),
    }


def _evidence(verdict: Verdict, path: Path) -> dict[str, Any]:
    """A file of the guard folder, and its digest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path.relative_to(verdict.folder).as_posix(), "sha256": digest}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
