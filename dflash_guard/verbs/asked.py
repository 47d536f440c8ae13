"""What one call of `check` asks, and whether it was answered before."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_guard.contract.family import load_family
from dflash_guard.contract.load import Draft
from dflash_guard.shards.model import Listing
from dflash_guard.verdict.chain import is_as_it_was
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import Manifest, tool_version
from dflash_guard.verdict.record import Record, record_of
from dflash_guard.verdict.signature import Signer

if TYPE_CHECKING:
    from dflash_guard.verdict.model import Verdict

__all__ = ["Asked", "recall_verdict"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A data set, and how it is to be judged.

    Attributes:
        data: As given.
        listing: Its shards.
        folder: Its guard folder.
        manifest: What its maker says of it, None without one.
        draft: The contract, its family perhaps still to be found in the data.
        upstream: The data set behind it, as named.
        fail_on: The least level that fails the data set.
        redact: Whether sample text is kept out.
        signer: What signs the verdict, None where nothing does.
    """

    data: Sequence[str | Path]
    listing: Listing
    folder: GuardFolder
    manifest: Manifest | None
    draft: Draft
    upstream: str | None = None
    fail_on: str = "error"
    redact: bool = False
    signer: Signer | None = None


def recall_verdict(asked: Asked, started: datetime) -> "Verdict | None":
    """The verdict that is there, where nothing that it depends on has changed.

    Args:
        asked: What is asked now.
        started: When it was asked.
    """
    record = record_of(asked.folder, asked.draft.stage, asked.listing.shards)
    if record is None or not _answers(record, asked):
        return None
    contract = asked.draft.resolve(load_family(record.family)) if _was_detected(asked) else asked.draft.resolve()
    if contract.digest != record.contract_digest:
        return None
    if asked.signer is not None:
        asked.signer.sign(asked.folder, record.stage, record.path.read_bytes())
    from dflash_guard.verdict.recall import recall

    return recall(
        record,
        contract,
        asked.folder,
        shards=asked.listing.shards,
        left_out=asked.listing.left_out,
        data=[str(each) for each in asked.data],
        started=started,
    )


def _was_detected(asked: Asked) -> bool:
    """Whether the family is found in the data: in the same bytes, the same one."""
    return asked.draft.stage == "tokenized" and asked.draft.family is None


def _answers(record: Record, asked: Asked) -> bool:
    manifest = asked.manifest.digest if asked.manifest is not None else ""
    named = [asked.upstream] if asked.upstream is not None else None
    recorded = [path for parent in record.upstream for path in parent.data]
    return (
        (record.fail_on, record.redacted, record.manifest) == (asked.fail_on, asked.redact, manifest)
        and all(tool_version(name) == version for name, version in record.tools.items())
        and (asked.draft.stage == "prompts" or _same_upstream(named, manifest, recorded))
        and all(is_as_it_was(parent) for parent in record.upstream)
    )


def _same_upstream(named: list[str] | None, manifest: str, recorded: list[str]) -> bool:
    """Whether the upstream that is asked for is the one that is recorded; a manifest's own goes with its digest."""
    if named is None:
        return bool(manifest) or not recorded
    return [os.path.abspath(each) for each in named] == recorded  # noqa: PTH100 - links stay what they are
