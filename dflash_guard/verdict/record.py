"""Verdicts as they were written: read back, without anything heavy, by gates and by whoever wants to skip work."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_guard.contract.model import RuleSetting
from dflash_guard.errors import GateError
from dflash_guard.shards.digest import sha256_of
from dflash_guard.verdict.canonical import canonical, canonical_digest
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.model import Counts, Parent, RuleResult

if TYPE_CHECKING:
    from dflash_guard.contract.model import Contract
    from dflash_guard.shards.model import Shard

__all__ = [
    "PREDICATE_TYPE",
    "STATEMENT_TYPE",
    "Evidence",
    "Record",
    "ShardRecord",
    "fresh_record",
    "is_as_written",
    "known_shards",
    "read_record",
    "record_of",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:dflash-guard:predicate:verdict:v1"
STAGES = ("prompts", "completions", "tokenized")
SETTLED_NS = 50_000_000
"""A file whose times are this much older than the read that judged it can't have changed since without new times:
file systems stamp changes with clocks that tick every few milliseconds."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file of the guard folder, by its path in it, and the sha256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard as it was judged: the digest of its bytes, what the file system said of it, its facts file if any."""

    name: str
    sha256: str
    size: int
    rows: int
    format: str
    compression: str
    mtime_ns: int
    ctime_ns: int
    inode: int
    facts: Evidence | None

    def stands_for(self, shard: "Shard", since_ns: int) -> bool:
        """Whether a shard as it is listed now can only be the bytes that were judged.

        Args:
            shard: As listed now.
            since_ns: When the judgement began; times that are not settled by then prove nothing.
        """
        said = (self.size, self.mtime_ns, self.ctime_ns, self.inode)
        settled = max(self.mtime_ns, self.ctime_ns) < since_ns - SETTLED_NS
        return settled and self.ctime_ns > 0 and said == (shard.size, shard.mtime_ns, shard.ctime_ns, shard.inode)


@dataclass(frozen=True, slots=True)
class Record:
    """A verdict file.

    Attributes:
        path: The file.
        digest: sha256 of its bytes.
        result, exit_code, stage, mode, family, contract_name, contract_digest, counts, rules: As judged.
        terms: What the contract asked beside its rules; see `terms_of`.
        ignored: Rules that were left out.
        shards: In order.
        columns: Names and types of a row's columns.
        evidence: Files by what they hold.
        declared: What was declared of provenance.
        upstream: What the data set was compared with, or says it was made from.
        manifest: sha256 of the data set's manifest, "" without one.
        fail_on: The least level that failed the data set.
        redacted: Whether details were kept out.
        tools: Versions of what judged.
        started, ended: UTC.
    """

    path: Path
    digest: str
    result: str
    exit_code: int
    stage: str
    mode: str
    family: str
    contract_name: str
    contract_digest: str
    terms: Mapping[str, Any]
    counts: Counts
    rules: tuple[RuleResult, ...]
    ignored: tuple[str, ...]
    shards: tuple[ShardRecord, ...]
    columns: tuple[tuple[str, str], ...]
    evidence: Mapping[str, Evidence]
    declared: Mapping[str, Mapping[str, str]]
    upstream: tuple[Parent, ...]
    manifest: str
    fail_on: str
    redacted: bool
    tools: Mapping[str, str]
    started: datetime
    ended: datetime

    @property
    def started_ns(self) -> int:
        """When the judgement began, in nanoseconds since the epoch."""
        return int(self.started.timestamp() * 1_000) * 1_000_000

    def stands_for(self, shards: Sequence["Shard"]) -> bool:
        """Whether shards as they are listed now can only be those that were judged, in the same order."""
        return len(self.shards) == len(shards) and all(
            was.name == shard.name and was.stands_for(shard, self.started_ns)
            for was, shard in zip(self.shards, shards, strict=True)
        )

    @property
    def settings(self) -> dict[str, RuleSetting]:
        """How each rule was applied, ignored ones included."""
        judged = {
            each.rule: RuleSetting(each.rule, "error" if each.level == "error" else "warn", each.tolerance, each.bound)
            for each in self.rules
        }
        return judged | {name: RuleSetting(name, "error", 0.0, {}, ignored=True) for name in self.ignored}

    @property
    def passed_rows(self) -> int:
        """Rows that failed no error rule."""
        return self.counts.rows - self.counts.quarantined_rows


def read_record(path: Path) -> Record | None:
    """Read a verdict file; None where there is none.

    Raises:
        GateError: It is there and can't be read as a verdict.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GateError(
            f"the verdict {path} can't be read: {error.strerror or error}.", hint="check its permissions."
        ) from error
    try:
        return _parse(path, data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GateError(
            f"the verdict {path} is damaged, or no verdict of this version.",
            hint="judge the data again: dflash-guard check.",
        ) from error


def _parse(path: Path, data: bytes) -> Record:
    said = json.loads(data)
    if canonical(said) != data:
        raise ValueError
    integrity = said["predicate"].pop("integrity")
    if (
        canonical_digest(said) != integrity
        or said["_type"] != STATEMENT_TYPE
        or said["predicateType"] != PREDICATE_TYPE
    ):
        raise ValueError
    predicate = said["predicate"]
    pairs = list(zip(said["subject"], predicate["shards"], strict=True))
    shards = tuple(_shard(each, subject["digest"]["sha256"]) for subject, each in pairs)
    if (
        any(subject["name"] != each["name"] for subject, each in pairs)
        or predicate["result"] not in {"pass", "fail"}
        or (predicate["result"] == "pass") != (predicate["exitCode"] == 0)
    ):
        raise ValueError
    counts = predicate["counts"]
    rules = tuple(_rule(each) for each in predicate["rules"])
    if predicate["result"] == "pass" and any(each.failed and each.level == "error" for each in rules):
        raise ValueError
    return Record(
        path=path,
        digest=hashlib.sha256(data).hexdigest(),
        result=predicate["result"],
        exit_code=int(predicate["exitCode"]),
        stage=predicate["stage"],
        mode=predicate["mode"],
        family=predicate["family"],
        contract_name=predicate["contract"]["name"],
        contract_digest=predicate["contract"]["digest"],
        terms=predicate["contract"]["terms"],
        counts=Counts(
            counts["shards"], counts["rows"], counts["failedRows"], counts["warnedRows"], counts["quarantinedRows"]
        ),
        rules=rules,
        ignored=tuple(predicate["ignored"]),
        shards=shards,
        columns=tuple((str(name), str(kind)) for name, kind in predicate["columns"]),
        evidence={name: _evidence(each) for name, each in predicate["evidence"].items()},
        declared=predicate["declared"],
        upstream=tuple(Parent.from_json(each) for each in predicate["upstream"]),
        manifest=predicate["manifest"],
        fail_on=predicate["failOn"],
        redacted=bool(predicate["redacted"]),
        tools=predicate["tools"],
        started=datetime.fromisoformat(predicate["startedOn"]),
        ended=datetime.fromisoformat(predicate["finishedOn"]),
    )


def _shard(said: Mapping[str, Any], sha256: str) -> ShardRecord:
    return ShardRecord(
        name=said["name"],
        sha256=sha256,
        size=int(said["size"]),
        rows=int(said["rows"]),
        format=said["format"],
        compression=said["compression"],
        mtime_ns=int(said["mtimeNs"]),
        ctime_ns=int(said["ctimeNs"]),
        inode=int(said["inode"]),
        facts=_evidence(said["facts"]) if "facts" in said else None,
    )


def _rule(said: Mapping[str, Any]) -> RuleResult:
    return RuleResult(
        rule=said["rule"],
        level=said["level"],
        failing_rows=int(said["failingRows"]),
        share=said["share"],
        tolerance=float(said["tolerance"]),
        bound=dict(said["bound"]),
        failed=bool(said["failed"]),
        observed=said["observed"],
        skipped=said.get("skipped"),
        message=said["message"],
    )


def _evidence(said: Mapping[str, Any]) -> Evidence:
    return Evidence(str(said["path"]), str(said["sha256"]))


def known_shards(folder: GuardFolder, shards: Sequence["Shard"]) -> dict[int, str]:
    """The sha256 of the shards that are, by an earlier verdict in the folder, known not to have changed since.

    By index. Their facts files must be there, and be those that were written then.
    """
    known: dict[int, str] = {}
    for stage in STAGES:
        try:
            record = read_record(folder.verdict(stage))
        except GateError:
            continue
        judged = {(each.name, each.inode): each for each in record.shards} if record is not None else {}
        for index, shard in enumerate(shards):
            was = judged.get((shard.name, shard.inode))
            if record is None or was is None or was.facts is None or not was.stands_for(shard, record.started_ns):
                continue
            if is_as_written(folder, was.facts):
                known[index] = was.sha256
    return known


def fresh_record(folder: GuardFolder, contract: "Contract", shards: Sequence["Shard"]) -> Record | None:
    """The verdict of a contract's stage, where it is of this very contract and of shards that did not change since."""
    record = record_of(folder, contract.stage, shards)
    return record if record is not None and record.contract_digest == contract.digest else None


def record_of(folder: GuardFolder, stage: str, shards: Sequence["Shard"]) -> Record | None:
    """The verdict of a stage, where it is of shards that did not change since, and its evidence is as written."""
    try:
        record = read_record(folder.verdict(stage))
    except GateError:
        return None
    if record is None or not record.stands_for(shards) or not is_as_written(folder, record.evidence["failures"]):
        return None
    return record


def is_as_written(folder: GuardFolder, evidence: Evidence) -> bool:
    """Whether a file of the guard folder has the bytes that a verdict binds."""
    try:
        return sha256_of(folder.path / evidence.path) == evidence.sha256
    except OSError:
        return False
