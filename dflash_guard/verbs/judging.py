"""One judgement from shards to verdict: what `check` does once the contract is read."""

import os
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
from dflash_guard.contract.family import detect_family, family_names
from dflash_guard.contract.gx_process import GxProcess
from dflash_guard.contract.load import Draft, load_contract
from dflash_guard.contract.model import Contract, Family
from dflash_guard.contract.rows import import_pandera
from dflash_guard.errors import ExitCode, NothingToJudgeError, UsageError
from dflash_guard.facts.samples import read_samples
from dflash_guard.facts.scan import Scan, first_ids, scan_shards
from dflash_guard.profile.model import Distribution
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.model import Listing, Shard
from dflash_guard.shards.writer import whole_path
from dflash_guard.verdict.distribution import Outcome, judge_distribution, say_response
from dflash_guard.verdict.failures import FAILURES, Failures
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.judgement import Judgement, RowCounts
from dflash_guard.verdict.model import Counts, RuleResult, Verdict
from dflash_guard.verdict.record import known_shards, passed_rows
from dflash_guard.verdict.statement import statement_of, write_statement

__all__ = ["judge"]


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
    effective = draft.resolve(_find_family(listing) if draft.stage == "tokenized" and draft.family is None else None)
    folder = GuardFolder.locate(data, out)
    run_id = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    threads = jobs or os.cpu_count() or 1
    with ExitStack() as stack:
        stack.callback(folder.clean, run_id)
        threading.Thread(target=import_pandera, daemon=True).start()  # it takes half a second; the scan leaves room
        scan = scan_shards(
            listing.shards,
            effective,
            folder.facts,
            jobs=threads,
            memory_limit=memory_limit,
            progress=progress,
            known=known_shards(folder, listing.shards),
        )
        judgement = stack.enter_context(
            Judgement(scan, effective, scratch=folder.scratch(run_id), jobs=threads, memory_limit=memory_limit)
        )
        if upstream is not None and draft.stage != "prompts":
            judgement.compare_with(_scan_upstream(upstream, effective, threads, memory_limit))
        whole = _WholeJudgement(effective, judgement.measure_whole() if gx is not None else None, gx)
        counts = judgement.judge(manifest_generator=False)
        accounts = _account(upstream, effective, judgement)
        outcomes = whole.outcomes([] if redact else listing.shards)
        broken = pa.concat_tables(
            [_shard_failures(scan, effective), _as_failures(_said_of_the_whole(accounts, outcomes), effective)]
        )
        if not scan.rows and not any(level == "error" for level in broken["level"].to_pylist()):
            raise NothingToJudgeError(_say_empty(listing), hint="check that the stage before has written its rows.")
        failures = folder.run(run_id) / "failures.parquet"
        with whole_path(failures) as temporary:
            judgement.write_failures(temporary, counts, broken, redact=redact)
    rules = _results(effective, counts, broken, scan.rows, upstream, accounts, outcomes)
    verdict = _verdict(effective, rules, counts, scan, listing, data, folder, failures, started, fail_on)
    write_statement(folder.verdict(draft.stage), statement_of(verdict, {"failures": failures}))
    return verdict


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
    folder = GuardFolder.locate([upstream])
    scan = scan_shards(
        shards,
        reading,
        folder.facts,
        jobs=jobs,
        memory_limit=memory_limit,
        progress=lambda _: None,
        known=known_shards(folder, shards),
    )
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


def _say_empty(listing: Listing) -> str:
    if len(listing.shards) == 1:
        return f"{listing.shards[0].name} holds no row."
    return f"there is no row in any of {len(listing.shards):,} shards."


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
        facts=scan.facts,
        started=started,
        ended=datetime.now(UTC),
    )
