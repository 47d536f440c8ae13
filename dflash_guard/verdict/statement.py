"""The verdict as a file: an in-toto Statement v1, canonical JSON, written whole."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dflash_guard.contract.terms import terms_of
from dflash_guard.shards.digest import sha256_of
from dflash_guard.shards.writer import write_whole
from dflash_guard.verdict.canonical import canonical, canonical_digest
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import tool_version
from dflash_guard.verdict.model import RuleResult, Verdict
from dflash_guard.verdict.record import PREDICATE_TYPE, STATEMENT_TYPE
from dflash_guard.verdict.signature import Signer

__all__ = ["statement_of", "write_verdict"]

_TOOLS = ("dflash-guard", "duckdb", "pyarrow", "pandera", "polars", "great-expectations")


def statement_of(verdict: Verdict, files: Mapping[str, Path]) -> dict[str, Any]:
    """The verdict as an in-toto statement.

    Args:
        verdict: What was judged.
        files: Evidence files by name (`failures`, …), whose digests are bound in.
    """
    contract = verdict.contract
    statement: dict[str, Any] = {
        "_type": STATEMENT_TYPE,
        "predicateType": PREDICATE_TYPE,
        "subject": [{"name": seal.shard.name, "digest": {"sha256": seal.sha256}} for seal in verdict.seals],
        "predicate": {
            "result": verdict.result,
            "exitCode": int(verdict.exit_code),
            "stage": contract.stage,
            "mode": contract.mode,
            "family": contract.family.name,
            "contract": {"name": contract.name, "digest": contract.digest, "terms": terms_of(contract)},
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
                    "compression": seal.compression,
                    "mtimeNs": seal.shard.mtime_ns,
                    "ctimeNs": seal.shard.ctime_ns,
                    "inode": seal.shard.inode,
                    **({"facts": _evidence(verdict, Path(facts))} if facts else {}),
                }
                for seal, facts in zip(verdict.seals, verdict.facts, strict=True)
            ],
            "columns": _columns(verdict),
            "evidence": {name: _evidence(verdict, path) for name, path in sorted(files.items())},
            "declared": {
                what: {"kind": said.kind, "value": said.value}
                for what, said in (("source", contract.source), ("id", contract.id))
                if said is not None
            },
            "upstream": [parent.as_json() for parent in verdict.upstream],
            "manifest": verdict.manifest,
            "failOn": verdict.fail_on,
            "redacted": verdict.redacted,
            "tools": {name: tool_version(name) for name in _TOOLS},
            "startedOn": _time(verdict.started),
            "finishedOn": _time(verdict.ended),
        },
    }
    # Not a signature: it tells a verdict that was damaged, or edited without thought, from one that was written so.
    statement["predicate"]["integrity"] = canonical_digest(statement)
    return statement


def write_verdict(folder: GuardFolder, stage: str, statement: Mapping[str, Any], signer: Signer | None = None) -> None:
    """Write a verdict as canonical JSON, whole or not at all; its signature first, as the verdict makes a run count."""
    data = canonical(statement)
    if signer is not None:
        signer.sign(folder, stage, data)
    write_whole(folder.verdict(stage), data)
    if signer is None:
        folder.envelope(stage).unlink(missing_ok=True)  # of a verdict that is no more


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


def _columns(verdict: Verdict) -> list[list[str]]:
    """Names and types of a row's columns, by the first shard that has any; rows of text are JSON objects."""
    schema = next((seal.schema for seal in verdict.seals if seal.schema is not None), None)
    return [["(row)", "JSON object"]] if schema is None else [[field.name, str(field.type)] for field in schema]


def _evidence(verdict: Verdict, path: Path) -> dict[str, Any]:
    """A file of the guard folder, and its digest."""
    return {"path": path.relative_to(verdict.folder).as_posix(), "sha256": sha256_of(path)}


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
