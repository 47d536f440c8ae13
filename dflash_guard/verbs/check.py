"""`check`: judge a data set at a stage boundary, and leave the evidence behind."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_guard.contract.gx_process import gx_process
from dflash_guard.contract.model import Stage
from dflash_guard.shards.location import find_shards
from dflash_guard.verbs.asked import Asked, recall_verdict
from dflash_guard.verbs.drafting import draft_contract
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import manifest_of
from dflash_guard.verdict.signature import Signer

if TYPE_CHECKING:
    from dflash_guard.verdict.model import Verdict

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
    sign: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> "Verdict":
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
        sign: A private key (Ed25519, PEM) that signs the verdict.
        progress: Called with the bytes that were read since the last call.

    Raises:
        UsageError: An option, path or contract is wrong (exit 2).
        JudgeError: The data could not be judged (exit 3).
        NothingToJudgeError: There is no shard, or no row in any shard (exit 4).
    """
    started = datetime.now(UTC)
    given = [data] if isinstance(data, str | Path) else list(data)
    listing = find_shards(given)
    folder = GuardFolder.locate(given, out)
    manifest = manifest_of(folder, stage)
    draft = draft_contract(manifest, contract, stage=stage, mode=mode, family=family, sets=sets, ignore=ignore)
    signer = Signer(sign) if sign is not None else None
    asked = Asked(
        tuple(given), listing, folder, manifest, draft, upstream, fail_on=fail_on, redact=redact, signer=signer
    )
    if (verdict := recall_verdict(asked, started)) is not None:
        (progress or _unseen)(sum(shard.size for shard in listing.shards))
        return verdict
    # Great Expectations takes longest to import, so its process is started before anything else is.
    with gx_process() if draft.judges_distribution else nullcontext() as gx:
        from dflash_guard.verbs.judging import judge

        return judge(asked, gx, started=started, jobs=jobs, memory_limit=memory_limit, progress=progress or _unseen)


def _unseen(_: int) -> None:
    pass
