"""`check`: judge a data set at a stage boundary, and leave the evidence behind."""

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.contract.family import detect_family, family_names
from dflash_guard.contract.load import load_contract, read_contract
from dflash_guard.contract.model import Contract, Family, Stage
from dflash_guard.errors import ExitCode, NothingToJudgeError, UsageError
from dflash_guard.facts.scan import Scan, first_ids, scan_shards
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.model import Listing
from dflash_guard.shards.writer import whole_path
from dflash_guard.verdict.failures import FAILURES, Failures
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.judgement import Judgement, RowCounts
from dflash_guard.verdict.model import Counts, RuleResult, Verdict
from dflash_guard.verdict.statement import passed_rows, statement_of, write_statement

__all__ = ["check"]


def check(
    data: str | Path | Sequence[str | Path],
    *,
    stage: Stage,
    contract: str | None = None,
    mode: str | None = None,
    family: str | None = None,
    upstream: str | None = None,
    ignore: Sequence[str] = (),
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    jobs: int | None = None,
    memory_limit: str | None = None,
    fail_on: str = "error",
    redact: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Verdict:
    """Judge shards against a contract, and write facts, failures and verdict to the guard folder.

    Args:
        data: Files, folders or globs.
        stage: `prompts`, `completions` or `tokenized`.
        contract: A contract's name or file; the stage's by default.
        mode: `thinking`, `off` or `row`: how the data is to be served.
        family: The target's family; detected where nothing names it.
        upstream: The data set that this one was made from.
        ignore: Rules to leave out.
        sets: Changes of the contract, as `RULE.FIELD=VALUE`.
        out: The guard folder; beside the data by default.
        jobs: Threads; all cores by default.
        memory_limit: For the engine, such as `1GiB`.
        fail_on: `error`, or `warn`: warnings fail the data set too.
        redact: Keep sample text out of everything that is written.
        progress: Called with the bytes that were read since the last call.

    Raises:
        UsageError: An option, path or contract is wrong (exit 2).
        JudgeError: The data could not be judged (exit 3).
        NothingToJudgeError: There is no shard, or no row in any shard (exit 4).
    """
    started = datetime.now(UTC)
    given = [data] if isinstance(data, str | Path) else list(data)
    draft = read_contract(contract, stage=stage, mode=mode, family=family, sets=sets, ignore=ignore)
    listing = find_shards(given)
    effective = draft.resolve(_find_family(listing) if stage == "tokenized" and draft.family is None else None)
    folder = GuardFolder.locate(given, out)
    run_id = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    threads = jobs or os.cpu_count() or 1
    try:
        scan = scan_shards(
            listing.shards,
            effective,
            folder.facts,
            jobs=threads,
            memory_limit=memory_limit,
            progress=progress or _unseen,
        )
        with Judgement(
            scan, effective, scratch=folder.scratch(run_id), jobs=threads, memory_limit=memory_limit
        ) as judgement:
            if upstream is not None and stage != "prompts":
                judgement.compare_with(_scan_upstream(upstream, effective, threads, memory_limit))
            counts = judgement.judge(manifest_generator=False)
            accounts = _account(upstream, effective, judgement)
            broken = pa.concat_tables([_shard_failures(scan, effective), _as_failures(accounts, effective)])
            if not scan.rows and not any(level == "error" for level in broken["level"].to_pylist()):
                raise NothingToJudgeError(_say_empty(listing), hint="check that the stage before has written its rows.")
            failures = folder.run(run_id) / "failures.parquet"
            with whole_path(failures) as temporary:
                judgement.write_failures(temporary, counts, broken, redact=redact)
    finally:
        folder.clean(run_id)
    rules = _results(effective, counts, broken, scan.rows, upstream, accounts)
    verdict = _verdict(effective, rules, counts, scan, listing, given, folder, failures, started, fail_on)
    write_statement(folder.verdict(stage), statement_of(verdict, {"failures": failures}))
    return verdict


def _find_family(listing: Listing) -> Family | None:
    """The target's family by the begin-of-turn ids in the data; None where no shard has any ids."""
    seen = False
    for ids in first_ids(listing.shards):
        seen = True
        if (family := detect_family(ids)) is not None:
            return family
    if not seen:
        return None
    raise UsageError(
        "no begin-of-turn id of a known family stands in the token ids.",
        hint=f"name the target's family: --family {' or '.join(family_names())}.",
    )


def _unseen(_: int) -> None:
    pass


def _shard_failures(scan: Scan, contract: Contract) -> pa.Table:
    rows = [
        {
            "rule": fault.rule,
            "level": contract.rules[fault.rule].level,
            "shard": seal.shard.name,
            "detail": fault.detail,
        }
        for seal in scan.seals
        for fault in seal.faults
        if not contract.rules[fault.rule].ignored
    ]
    return pa.Table.from_pylist(rows, schema=FAILURES)


def _scan_upstream(upstream: str | Path, contract: Contract, jobs: int, memory_limit: str | None) -> Scan:
    """The facts of the upstream data set, as completions: they hold the prompt of any conversation."""
    shards = find_shards([upstream]).shards
    reading = load_contract(None, stage="completions", family=contract.family.name)
    facts = GuardFolder.locate([upstream]).facts
    scan = scan_shards(shards, reading, facts, jobs=jobs, memory_limit=memory_limit, progress=_unseen)
    if not any(scan.facts):
        what = f"--upstream {upstream} holds no conversation that could be read."
        raise UsageError(what, hint="name the prompts or completions that this data was made from.")
    return scan


@dataclass(frozen=True, slots=True)
class _Accounts:
    """Whether every row that passed upstream is here: None where nobody can tell."""

    expected: int | None
    found: int

    @property
    def failed(self) -> bool:
        return self.expected is not None and self.expected != self.found


def _account(upstream: str | None, contract: Contract, judgement: Judgement) -> _Accounts:
    setting = contract.rules.get("unaccounted-rows")
    if upstream is None or setting is None or setting.ignored:
        return _Accounts(None, 0)
    return _Accounts(passed_rows(GuardFolder.locate([upstream])), judgement.ids)


def _as_failures(accounts: _Accounts, contract: Contract) -> pa.Table:
    if not accounts.failed:
        return FAILURES.empty_table()
    detail = f"{accounts.found:,} ids here, {accounts.expected:,} rows passed upstream"
    row = {"rule": "unaccounted-rows", "level": contract.rules["unaccounted-rows"].level, "detail": detail}
    return pa.Table.from_pylist([row], schema=FAILURES)


def _say_empty(listing: Listing) -> str:
    if len(listing.shards) == 1:
        return f"{listing.shards[0].name} holds no row."
    return f"there is no row in any of {len(listing.shards):,} shards."


def _results(
    contract: Contract, counts: RowCounts, broken: pa.Table, rows: int, upstream: str | None, accounts: _Accounts
) -> tuple[RuleResult, ...]:
    shards_failing: dict[str, int] = {}
    for name in broken["rule"].to_pylist():
        shards_failing[name] = shards_failing.get(name, 0) + 1
    results = []
    for name, setting in contract.rules.items():
        if setting.ignored:
            continue
        failing = counts.failing.get(name, 0) + shards_failing.get(name, 0)
        skipped = None
        judged_here = name in counts.failing or (name == "unaccounted-rows" and accounts.expected is not None)
        if not judged_here and CATALOG[name].scope != "shard":
            skipped = _why_skipped(name, rows, upstream)
        beyond = shards_failing.get(name, 0) > 0 or counts.failing.get(name, 0) > setting.tolerance * rows
        results.append(
            RuleResult(
                rule=name,
                level=setting.level,
                failing_rows=failing,
                share=failing / rows if rows and skipped is None else None,
                tolerance=setting.tolerance,
                bound=setting.bound,
                failed=failing > 0 and beyond,
                skipped=skipped,
            )
        )
    return tuple(results)


# Why a rule was not judged, where it is not for want of an upstream.
_WITHOUT = {
    "unaccounted-rows": "the upstream data set has no verdict",
    "wrong-model": "the contract names no target",
    "tokenizer-mismatch": "no manifest records the digests",
    "template-mismatch": "no manifest records the digests",
    "changed-prompt": "no manifest records the prompts",
    "lost-turns": "no manifest records the prompts",
}


def _why_skipped(name: str, rows: int, upstream: str | None) -> str:
    rule = CATALOG[name]
    if not rows:
        return "no row could be read"
    if upstream is None and (rule.scope == "cross" or name == "unaccounted-rows"):
        return "no upstream was given"
    if rule.table == "distribution":
        return "distribution rules are not judged by this version"
    return _WITHOUT.get(name, "not judged by this version")


def _verdict(
    contract: Contract,
    rules: tuple[RuleResult, ...],
    counts: RowCounts,
    scan: Scan,
    listing: Listing,
    data: Sequence[str | Path],
    folder: GuardFolder,
    failures: Path,
    started: datetime,
    fail_on: str,
) -> Verdict:
    failed = any(r.failed and (r.level == "error" or fail_on == "warn") for r in rules)
    return Verdict(
        result="fail" if failed else "pass",
        exit_code=ExitCode.VIOLATED if failed else ExitCode.PASSED,
        contract=contract,
        counts=Counts(len(scan.seals), scan.rows, counts.failed, counts.warned, counts.quarantined),
        rules=rules,
        found=Failures(failures),
        seals=scan.seals,
        left_out=listing.left_out,
        data=tuple(str(d) for d in data),
        folder=str(folder.path),
        started=started,
        ended=datetime.now(UTC),
    )
