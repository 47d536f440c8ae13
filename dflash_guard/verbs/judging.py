"""One judgement from shards to verdict: what `check` does once the contract is read."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.contract.gx_process import GxProcess
from dflash_guard.contract.model import Contract
from dflash_guard.contract.rows import import_pandera
from dflash_guard.errors import ExitCode, NothingToJudgeError, UsageError
from dflash_guard.facts.samples import read_samples
from dflash_guard.facts.scan import Scan
from dflash_guard.profile.model import Distribution
from dflash_guard.shards.model import LeftOut, Shard
from dflash_guard.shards.writer import whole_path
from dflash_guard.verbs.asked import Asked
from dflash_guard.verbs.opening import resolve, say_empty, scan_data
from dflash_guard.verbs.upstream import Upstream, look_upstream
from dflash_guard.verbs.whole import judge_whole
from dflash_guard.verdict.chain import copy_verdicts
from dflash_guard.verdict.distribution import Outcome, judge_distribution, say_response
from dflash_guard.verdict.failures import FAILURES, Failures
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.judgement import Judgement, RowCounts
from dflash_guard.verdict.manifest import Manifest, tool_version
from dflash_guard.verdict.model import Counts, RuleResult, Verdict
from dflash_guard.verdict.record import Evidence, is_as_written
from dflash_guard.verdict.statement import statement_of, write_verdict

__all__ = ["judge", "judge_scan"]

NO_UPSTREAM: Final = Upstream()


def judge(
    asked: Asked,
    gx: GxProcess | None,
    *,
    started: datetime,
    jobs: int | None,
    memory_limit: str | None,
    progress: Callable[[int], None],
) -> Verdict:
    """Judge a data set by a contract that was read.

    Args:
        asked: The data set, and how it is to be judged.
        gx: The process of Great Expectations; None where no distribution rule is in force.
        started: When the command began.
        jobs: Threads; all cores by default.
        memory_limit: For the engine.
        progress: Told the bytes that were read.

    Raises:
        GuardError: As `check` does.
    """
    listing, folder, manifest = asked.listing, asked.folder, asked.manifest
    contract = resolve(asked.draft, listing)
    threading.Thread(target=import_pandera, daemon=True).start()  # it takes half a second; the scan leaves room
    scan = scan_data(listing.shards, contract, folder, jobs=jobs, memory_limit=memory_limit, progress=progress)
    if manifest is not None and (why := manifest.why_other(scan.seals)) is not None:
        raise UsageError(
            f"{folder.manifest} is of other shards: {why}.",
            hint="let its stage write the data set again, or remove the manifest.",
        )
    upstream = look_upstream(asked.upstream, manifest, contract, jobs=jobs, memory_limit=memory_limit)
    copy_verdicts(folder, upstream.parents)
    verdict = judge_scan(
        scan,
        contract,
        folder,
        gx,
        data=asked.data,
        left_out=listing.left_out,
        manifest=manifest,
        upstream=upstream,
        started=started,
        jobs=jobs,
        memory_limit=memory_limit,
        fail_on=asked.fail_on,
        redact=asked.redact,
    )
    failures = verdict.found.source
    if not isinstance(failures, Path):
        raise TypeError(failures)
    write_verdict(folder, contract.stage, statement_of(verdict, {"failures": failures}), asked.signer)
    return verdict


def judge_scan(
    scan: Scan,
    contract: Contract,
    folder: GuardFolder,
    gx: GxProcess | None,
    *,
    data: Sequence[str | Path],
    left_out: tuple[LeftOut, ...] = (),
    manifest: Manifest | None = None,
    upstream: Upstream = NO_UPSTREAM,
    started: datetime,
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
        manifest: What the data set's maker says of it.
        upstream: The data set behind it.
        started: When the judgement began.
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
        if upstream.scan is not None:
            judgement.compare_with(upstream.scan, prompts=_prompts_of(manifest, folder))
        whole = _WholeJudgement(contract, judgement.measure_whole() if gx is not None else None, gx)
        counts = judgement.judge(generator=manifest.generator if manifest is not None else None)
        outcomes = {**whole.outcomes([] if redact else shards), **judge_whole(contract, judgement, manifest, upstream)}
        said = {name: outcome.message for name, outcome in outcomes.items() if outcome.failed}
        broken = pa.concat_tables([_shard_failures(scan, contract), _as_failures(said, contract)])
        if not scan.rows and not any(level == "error" for level in broken["level"].to_pylist()):
            raise NothingToJudgeError(say_empty(shards), hint="check that the stage before has written its rows.")
        failures = folder.run(run_id) / "failures.parquet"
        with whole_path(failures) as temporary:
            judgement.write_failures(temporary, counts, broken, redact=redact)
    rules = _results(contract, counts, broken, scan.rows, upstream, outcomes)
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
        upstream=upstream.parents,
        manifest=manifest.digest if manifest is not None else "",
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


def _prompts_of(manifest: Manifest | None, folder: GuardFolder) -> Path | None:
    """The file that says which prompt each token row has, where a manifest has one that this DuckDB can compare."""
    said = manifest.evidence.get("prompts") if manifest is not None else None
    if said is None:
        return None
    evidence = Evidence(said["path"], said["sha256"])
    if not is_as_written(folder, evidence):
        raise UsageError(
            f"{folder.path / evidence.path}, which the manifest names, is missing or was changed.",
            hint="let its stage write the data set again, or bring the file back.",
        )
    return folder.path / evidence.path if said.get("duckdb") == tool_version("duckdb") else None


def _as_failures(said: Mapping[str, str], contract: Contract) -> pa.Table:
    rows = [{"rule": rule, "level": contract.rules[rule].level, "detail": detail} for rule, detail in said.items()]
    return pa.Table.from_pylist(rows, schema=FAILURES)


def _results(
    contract: Contract,
    counts: RowCounts,
    broken: pa.Table,
    rows: int,
    upstream: Upstream,
    whole: Mapping[str, Outcome],
) -> tuple[RuleResult, ...]:
    said = Counter(broken["rule"].to_pylist())
    results = []
    for name, setting in contract.rules.items():
        if setting.ignored:
            continue
        failing = counts.failing.get(name, 0) + said[name]
        outcome = whole.get(name, Outcome())
        told = name in counts.failing or name in whole or CATALOG[name].scope == "shard"
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
    "wrong-model": "the contract names no target",
    "changed-prompt": "no manifest records the prompts",
    "lost-turns": "no manifest records the prompts",
}


def _why_skipped(name: str, rows: int, upstream: Upstream) -> str:
    if not rows:
        return "no row could be read"
    if upstream.why_not and CATALOG[name].scope == "cross":
        return upstream.why_not
    return _WITHOUT.get(name, "not judged by this version")
