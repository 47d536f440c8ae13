"""One judgement from shards to verdict: what `check` does once the contract is read."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.contract.gx_process import GxProcess
from dflash_guard.contract.load import Draft, load_contract
from dflash_guard.contract.model import Contract
from dflash_guard.contract.rows import import_pandera
from dflash_guard.errors import ExitCode, NothingToJudgeError, UsageError
from dflash_guard.facts.samples import read_samples
from dflash_guard.facts.scan import Scan
from dflash_guard.profile.model import Distribution
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.model import LeftOut, Shard
from dflash_guard.shards.writer import whole_path
from dflash_guard.verbs.opening import resolve, say_empty, scan_data
from dflash_guard.verdict.distribution import Outcome, judge_distribution, say_response
from dflash_guard.verdict.failures import FAILURES, Failures
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.judgement import Judgement, RowCounts
from dflash_guard.verdict.model import Counts, RuleResult, Verdict
from dflash_guard.verdict.record import passed_rows
from dflash_guard.verdict.statement import statement_of, write_statement

__all__ = ["judge", "judge_scan"]


def judge(
    data: Sequence[str | Path],
    draft: Draft,
    gx: GxProcess | None,
    *,
    started: datetime,
    upstream: str | None,
    out: str | Path | None,
    jobs: int | None,
    memory_limit: str | None,
    fail_on: str,
    redact: bool,
    progress: Callable[[int], None],
) -> Verdict:
    """Judge a data set by a contract that was read.

    Args:
        data: Files, folders or globs.
        draft: The contract, its family perhaps still to be found in the data.
        gx: The process of Great Expectations; None where no distribution rule is in force.
        started: When the command began.
        upstream: As in `check`, like all that follow.
        out: The guard folder.
        jobs: Threads.
        memory_limit: For the engine.
        fail_on: The least level that fails the data set.
        redact: Whether sample text is kept out.
        progress: Told the bytes that were read.

    Raises:
        GuardError: As `check` does.
    """
    listing = find_shards(data)
    contract = resolve(draft, listing)
    folder = GuardFolder.locate(data, out)
    threading.Thread(target=import_pandera, daemon=True).start()  # it takes half a second; the scan leaves room
    scan = scan_data(listing.shards, contract, folder, jobs=jobs, memory_limit=memory_limit, progress=progress)
    verdict = judge_scan(
        scan,
        contract,
        folder,
        gx,
        data=data,
        left_out=listing.left_out,
        started=started,
        upstream=upstream,
        jobs=jobs,
        memory_limit=memory_limit,
        fail_on=fail_on,
        redact=redact,
    )
    failures = verdict.found.source
    if not isinstance(failures, Path):
        raise TypeError(failures)
    write_statement(folder.verdict(draft.stage), statement_of(verdict, {"failures": failures}))
    return verdict


def judge_scan(
    scan: Scan,
    contract: Contract,
    folder: GuardFolder,
    gx: GxProcess | None,
    *,
    data: Sequence[str | Path],
    left_out: tuple[LeftOut, ...] = (),
    started: datetime,
    upstream: str | None = None,
    jobs: int | None = None,
    memory_limit: str | None = None,
    fail_on: str = "error",
    redact: bool = False,
) -> Verdict:
    """Judge what a scan found; failures are written to the folder, the verdict is not.

    Args:
        scan: The data set's seals and facts.
        contract: The effective contract.
        folder: Where failures go.
        gx: The process of Great Expectations; None where no distribution rule is in force.
        data: As given.
        left_out: Files that are no shards.
        started: When the judgement began.
        upstream: As in `check`, like all that follow.
        jobs: Threads.
        memory_limit: For the engine.
        fail_on: The least level that fails the data set.
        redact: Whether sample text is kept out.

    Raises:
        GuardError: As `check` does.
    """
    shards = tuple(seal.shard for seal in scan.seals)
    run_id = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        stack.callback(folder.clean, run_id)
        judgement = stack.enter_context(
            Judgement(scan, contract, scratch=folder.scratch(run_id), jobs=jobs, memory_limit=memory_limit)
        )
        if upstream is not None and contract.stage != "prompts":
            judgement.compare_with(_scan_upstream(upstream, contract, jobs, memory_limit))
        whole = _WholeJudgement(contract, judgement.measure_whole() if gx is not None else None, gx)
        counts = judgement.judge(manifest_generator=False)
        accounts = _account(upstream, contract, judgement)
        outcomes = whole.outcomes([] if redact else shards)
        said = _said_of_the_whole(accounts, outcomes)
        broken = pa.concat_tables([_shard_failures(scan, contract), _as_failures(said, contract)])
        if not scan.rows and not any(level == "error" for level in broken["level"].to_pylist()):
            raise NothingToJudgeError(say_empty(shards), hint="check that the stage before has written its rows.")
        failures = folder.run(run_id) / "failures.parquet"
        with whole_path(failures) as temporary:
            judgement.write_failures(temporary, counts, broken, redact=redact)
    rules = _results(contract, counts, broken, scan.rows, upstream, accounts, outcomes)
    failed = any(r.failed and (r.level == "error" or fail_on == "warn") for r in rules)
    return Verdict(
        result="fail" if failed else "pass",
        exit_code=ExitCode.VIOLATED if failed else ExitCode.PASSED,
        contract=contract,
        counts=Counts(len(scan.seals), scan.rows, counts.failed, counts.warned, counts.quarantined),
        rules=rules,
        found=Failures(failures),
        seals=scan.seals,
        left_out=left_out,
        data=tuple(str(d) for d in data),
        folder=str(folder.path),
        facts=scan.facts,
        started=started,
        ended=datetime.now(UTC),
        fail_on=fail_on,
        redacted=redact,
    )


class _WholeJudgement:
    """The distribution rules, judged in their own process while row rules are judged in this one."""

    def __init__(self, contract: Contract, figures: Distribution | None, gx: GxProcess | None) -> None:
        self._contract = contract
        self._figures = figures
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="distribution")
        self._pending = None
        if figures is not None and gx is not None:
            self._pending = self._pool.submit(judge_distribution, contract, figures, gx.ask)

    def outcomes(self, shards: Sequence[Shard]) -> Mapping[str, Outcome]:
        """How they came out, with the text of a response that is too common, where shards are given to read it."""
        self._pool.shutdown()
        if self._pending is None or self._figures is None:
            return {}
        found = self._pending.result()
        collapse = found.get("response-collapse", Outcome())
        if collapse.failed and shards and self._figures.top_response_shard is not None:
            place = (self._figures.top_response_shard, self._figures.top_response_row or 0)
            said = say_response(read_samples(shards, [place], self._contract)[place])
            found["response-collapse"] = replace(collapse, message=f"{collapse.message}: {said}")
        return found


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


def _scan_upstream(upstream: str | Path, contract: Contract, jobs: int | None, memory_limit: str | None) -> Scan:
    """The facts of the upstream data set, as completions: they hold the prompt of any conversation."""
    shards = find_shards([upstream]).shards
    reading = load_contract(None, stage="completions", family=contract.family.name)
    folder = GuardFolder.locate([upstream])
    scan = scan_data(shards, reading, folder, jobs=jobs, memory_limit=memory_limit)
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


def _said_of_the_whole(accounts: _Accounts, whole: Mapping[str, Outcome]) -> dict[str, str]:
    """What is wrong with the data set as a whole, by rule."""
    said = {name: outcome.message for name, outcome in whole.items() if outcome.failed}
    if accounts.failed:
        said["unaccounted-rows"] = f"{accounts.found:,} ids here, {accounts.expected:,} rows passed upstream"
    return said


def _as_failures(said: Mapping[str, str], contract: Contract) -> pa.Table:
    rows = [{"rule": rule, "level": contract.rules[rule].level, "detail": detail} for rule, detail in said.items()]
    return pa.Table.from_pylist(rows, schema=FAILURES)


def _results(
    contract: Contract,
    counts: RowCounts,
    broken: pa.Table,
    rows: int,
    upstream: str | None,
    accounts: _Accounts,
    whole: Mapping[str, Outcome],
) -> tuple[RuleResult, ...]:
    said = Counter(broken["rule"].to_pylist())
    results = []
    for name, setting in contract.rules.items():
        if setting.ignored:
            continue
        failing = counts.failing.get(name, 0) + said[name]
        outcome = whole.get(name, Outcome())
        judged = (
            name in counts.failing or name in whole or (name == "unaccounted-rows" and accounts.expected is not None)
        )
        told = judged or CATALOG[name].scope == "shard"
        skipped = outcome.skipped if told else _why_skipped(name, rows, upstream)
        beyond = said[name] > 0 or counts.failing.get(name, 0) > setting.tolerance * rows
        results.append(
            RuleResult(
                rule=name,
                level=setting.level,
                failing_rows=failing,
                share=failing / rows if rows and skipped is None and CATALOG[name].scope != "dataset" else None,
                tolerance=setting.tolerance,
                bound=setting.bound,
                failed=failing > 0 and beyond,
                observed=outcome.observed,
                skipped=skipped,
                message=outcome.message,
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
    return _WITHOUT.get(name, "not judged by this version")
