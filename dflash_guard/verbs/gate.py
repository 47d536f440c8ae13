"""`gate`: verify that data has a verdict that opens it, for the bytes and the contract as they are now."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash_guard.contract.catalog import STAGES
from dflash_guard.contract.family import load_family
from dflash_guard.contract.model import Contract, Stage
from dflash_guard.contract.terms import why_looser
from dflash_guard.errors import GateError, UsageError
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.model import Listing
from dflash_guard.verbs.drafting import draft_contract
from dflash_guard.verdict.chain import Link, parent_of, verify_chain
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.identity import verify_shards
from dflash_guard.verdict.manifest import Manifest, manifest_of
from dflash_guard.verdict.model import Parent
from dflash_guard.verdict.record import Evidence, Record, is_as_written, read_record

__all__ = ["Passage", "gate"]


@dataclass(frozen=True, slots=True)
class Passage:
    """An open gate: what was verified.

    Attributes:
        data: As given.
        record: The verdict.
        contract: The contract in force, which the verdict answers for.
        folder: The guard folder that holds its evidence.
        listing: The shards, which are those that were judged.
        chain: The verdicts behind it, the nearest first.
    """

    data: tuple[str, ...]
    record: Record
    contract: Contract
    folder: GuardFolder
    listing: Listing
    chain: tuple[Link, ...]

    @property
    def as_parent(self) -> Parent:
        """What is recorded of it by what is made from it."""
        return parent_of(self.data, self.folder, self.record, [each.sha256 for each in self.record.shards])

    @property
    def reaches_prompts(self) -> bool:
        """Whether the chain of verdicts goes back to raw prompts, wherever it goes."""
        ends = [link.record for link in self.chain if not link.record.upstream]
        return all(end.stage == "prompts" for end in ends or [self.record])


def gate(
    data: str | Path | Sequence[str | Path],
    *,
    stage: Stage | None = None,
    contract: str | None = None,
    mode: str | None = None,
    family: str | None = None,
    upstream: str | None = None,
    ignore: Sequence[str] = (),
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    verdict: str | Path | None = None,
    rehash: bool = False,
    trust: Sequence[str | Path] = (),
) -> Passage:
    """Verify a data set's verdict: that it passes, is of these bytes, and answers for the contract now in force.

    The chain of upstream verdicts is verified with it. Nothing is judged.

    Args:
        data: Files, folders or globs.
        stage: The stage of the verdict; found out where the data set has only one.
        contract: The contract in force; the stage's by default.
        mode: The serving mode in force.
        family: The target's family in force; by default the one that the data was judged for.
        upstream: A data set that it must have been compared with.
        ignore: Rules that need not have been judged.
        sets: Changes of the contract in force, as `RULE.FIELD=VALUE`.
        out: The guard folder; beside the data by default.
        verdict: The verdict file, in its guard folder; found by `data` and `stage` by default.
        rehash: Whether every byte is read, whatever the file system says.
        trust: Public keys, one of which must have signed the verdict.

    Raises:
        GateError: The gate is shut; the message says why, the hint what to run.
        UsageError: An option, path or contract is wrong.
        JudgeError: A shard can't be read.
        NothingToJudgeError: There is no shard.
    """
    given = (data,) if isinstance(data, str | Path) else tuple(data)
    listing = find_shards(given)
    path = _find_verdict(given, stage, out, verdict)
    folder = GuardFolder(path.parent)
    words = " ".join(shlex.quote(str(each)) for each in given)
    said = [("--contract", contract), ("--mode", mode), ("--family", family), ("--upstream", upstream), ("--out", out)]
    said += [("--set", each) for each in sets] + [("--ignore", ",".join(ignore))]
    options = "".join(f" {option} {shlex.quote(str(value))}" for option, value in said if value)
    named = stage or path.name.removesuffix(".verdict.json")
    again = f"judge it: dflash-guard check {words} --stage {named}{options}"
    record = read_record(path)
    if record is None:
        raise GateError(f"{_said(given)} has no verdict at {path}.", hint=again)
    if trust:
        from dflash_guard.verdict.signature import verify_signature

        verify_signature(folder, record, trust)
    if record.stage != named:
        raise GateError(f"{path} is a verdict of stage {record.stage}, not {named}.", hint=again)
    _verify_result(record, given, words)
    verify_shards(record, listing.shards, rehash=rehash, hint=again)
    manifest = _manifest(folder, record.stage)
    asked = _contract_now(manifest, record, contract, mode, family, sets, ignore)
    if (why := why_looser(record.terms, record.settings, asked)) is not None:
        raise GateError(f"the verdict does not answer for the contract now in force: {why}.", hint=again)
    if not is_as_written(folder, record.evidence["failures"]):
        raise GateError("the list of failing rows that the verdict names is missing or was changed.", hint=again)
    _verify_manifest(folder, manifest, record, again)
    chain = verify_chain(folder, record.upstream, ignore=ignore, rehash=rehash)
    passage = Passage(tuple(map(str, given)), record, asked, folder, listing, chain)
    _verify_reach(passage, upstream, again)
    return passage


def _find_verdict(
    data: Sequence[str | Path], stage: Stage | None, out: str | Path | None, verdict: str | Path | None
) -> Path:
    if verdict is not None:
        path = Path(verdict).absolute()
        if not path.is_file():
            raise GateError(f"there is no verdict {verdict}.", hint="name the STAGE.verdict.json of a guard folder.")
        return path
    folder = GuardFolder.find(data, out)
    if stage is not None:
        return folder.verdict(stage)
    found = [each for each in STAGES if folder.has_verdict(each)]
    if len(found) == 1:
        return folder.verdict(found[0])
    if found:
        raise UsageError(
            f"{_said(data)} has verdicts of {' and '.join(found)}.", hint="say which one must pass with --stage."
        )
    words = " ".join(shlex.quote(str(each)) for each in data)
    raise GateError(
        f"{_said(data)} has no verdict: it was never judged, or its guard folder was left behind.",
        hint=f"judge it: dflash-guard check {words} --stage tokenized (or completions, prompts)",
    )


def _verify_result(record: Record, data: Sequence[str | Path], words: str) -> None:
    if record.result == "pass" and record.exit_code == 0:
        return
    broken = [each.rule for each in record.rules if each.failed and (each.level == "error" or record.fail_on == "warn")]
    named = ", ".join(broken[:3]) + (f" and {len(broken) - 3} more" if len(broken) > 3 else "")
    raise GateError(
        f"{_said(data)} failed its contract at stage {record.stage}: {named}.",
        hint=f"see why: dflash-guard autopsy {words} --stage {record.stage}",
    )


def _contract_now(
    manifest: Manifest | None,
    record: Record,
    contract: str | None,
    mode: str | None,
    family: str | None,
    sets: Sequence[str],
    ignore: Sequence[str],
) -> Contract:
    stage = next(each for each in STAGES if each == record.stage)
    draft = draft_contract(manifest, contract, stage=stage, mode=mode, family=family, sets=sets, ignore=ignore)
    return draft.resolve(load_family(record.family) if draft.family is None else None)


def _manifest(folder: GuardFolder, stage: str) -> Manifest | None:
    try:
        return manifest_of(folder, stage)
    except UsageError as error:
        raise GateError(error.what, hint=error.hint) from error


def _verify_manifest(folder: GuardFolder, manifest: Manifest | None, record: Record, hint: str) -> None:
    digest = manifest.digest if manifest is not None else ""
    if digest != record.manifest:
        what = "was not there" if not record.manifest else "is not the one that was there"
        raise GateError(f"the manifest of the data {what} when it was judged.", hint=hint)
    for name, said in manifest.evidence.items() if manifest is not None else ():
        if not is_as_written(folder, Evidence(said["path"], said["sha256"])):
            raise GateError(f"{said['path']}, the manifest's evidence of {name}, is missing or was changed.", hint=hint)


def _verify_reach(passage: Passage, upstream: str | None, hint: str) -> None:
    """That the chain goes as far as is asked for."""
    recorded = {path for parent in passage.record.upstream for path in parent.data}
    if upstream is not None and os.path.abspath(upstream) not in recorded:  # noqa: PTH100 - links stay what they are
        raise GateError(
            f"the data was not compared with {upstream} when it was judged.", hint=f"{hint} --upstream {upstream}"
        )
    if passage.contract.upstream == "required" and not passage.reaches_prompts:
        end = next((link.parent.name for link in passage.chain if not link.record.upstream), _said(passage.data))
        raise GateError(
            f"the chain of verdicts ends at {end}, and the contract asks that it reaches raw prompts.",
            hint="judge that data set again with --upstream, then what was made from it.",
        )


def _said(data: Sequence[str | Path]) -> str:
    return ", ".join(str(each) for each in data)
