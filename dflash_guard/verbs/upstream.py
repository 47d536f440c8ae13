"""The data set behind the one that is judged: named by `--upstream` or by the manifest, scanned and recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dflash_guard.contract.load import load_contract
from dflash_guard.contract.model import Contract, Declaration
from dflash_guard.errors import DataNotFoundError, GateError, NothingToJudgeError, UsageError
from dflash_guard.facts.scan import Scan
from dflash_guard.shards.location import find_shards
from dflash_guard.verbs.opening import scan_data
from dflash_guard.verdict.chain import find_parent, parent_of, upstream_record
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import Manifest, read_manifest
from dflash_guard.verdict.model import Parent

__all__ = ["Upstream", "look_upstream"]


@dataclass(frozen=True, slots=True)
class Upstream:
    """What is known of the data set behind.

    Attributes:
        parents: What the verdict records of it.
        scan: Its facts, as completions: they hold the prompt of any conversation; None where it can't be compared.
        why_not: Why it can't, "" where it can.
        passed: Rows that passed there, by its verdict; None without one.
        generator: Who made its completions, by its manifest.
    """

    parents: tuple[Parent, ...] = ()
    scan: Scan | None = None
    why_not: str = "no upstream was given"
    passed: int | None = None
    generator: dict[str, str] | None = None


def look_upstream(
    given: str | None,
    manifest: Manifest | None,
    contract: Contract,
    *,
    jobs: int | None = None,
    memory_limit: str | None = None,
) -> Upstream:
    """Find, scan and record the upstream data set.

    Args:
        given: As named by `--upstream`; the manifest's parents where None.
        manifest: Of the data set that is judged.
        contract: The effective contract.
        jobs: Threads.
        memory_limit: For the engine.

    Raises:
        GuardError: The data set that was named can't be read, or holds no conversation.
    """
    if contract.stage == "prompts":
        return Upstream()
    if given is not None:
        return _compared([given], contract, None, jobs=jobs, memory_limit=memory_limit)
    if manifest is None or not manifest.parents:
        return Upstream()
    recorded = manifest.parents
    try:
        data = [path for parent in recorded for path in parent.data]
        found = _compared(data, contract, recorded, jobs=jobs, memory_limit=memory_limit)
    except (DataNotFoundError, NothingToJudgeError):
        return Upstream(recorded, why_not="the upstream data set that the manifest names is not where it was")
    return found


def _compared(
    data: Sequence[str],
    contract: Contract,
    recorded: Sequence[Parent] | None,
    *,
    jobs: int | None,
    memory_limit: str | None,
) -> Upstream:
    shards = find_shards(data).shards
    folder = GuardFolder.locate(data)
    reading = _reading(contract, GuardFolder.find(data))
    scan = scan_data(shards, reading, folder, jobs=jobs, memory_limit=memory_limit)
    digests = [seal.sha256 for seal in scan.seals]
    if recorded is not None and digests != [each for parent in recorded for each in parent.shards]:
        return Upstream(tuple(recorded), why_not="upstream was changed since this data set was made from it")
    if not any(scan.facts):
        what = f"--upstream {data[0]} holds no conversation that could be read."
        raise UsageError(what, hint="name the prompts or completions that this data was made from.")
    try:
        parent, record = find_parent(data, contract.stage, digests)
        passed = record.passed_rows if record is not None else None
    except GateError:  # its verdict is damaged: for a check that is no verdict, and a gate will say so
        parent, passed = parent_of(data, folder, None, digests), None
    parents = (parent,) if parent.verdict or recorded is None else tuple(recorded)
    generator = said.generator if (said := read_manifest(GuardFolder.find(data))) is not None else None
    return Upstream(parents, scan, "", passed, dict(generator) if generator else None)


def _reading(contract: Contract, folder: GuardFolder) -> Contract:
    """How upstream is read: as completions, with id, source and roles where its own verdict says that they are."""
    reading = load_contract(None, stage="completions", family=contract.family.name)
    try:
        record = upstream_record(folder, contract.stage)
    except GateError:
        record = None
    if record is None:
        return reading
    declared = {what: Declaration(said["kind"], said["value"]) for what, said in record.declared.items()}  # type: ignore[arg-type]
    return replace(reading, **declared, aliases=record.terms["aliases"])  # type: ignore[arg-type]
