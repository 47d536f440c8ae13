"""`autopsy`: why a data set is bad, with its verdict and its profile."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dflash_guard.chat.tokenizer import load_tokenizer
from dflash_guard.contract.gx_process import gx_process
from dflash_guard.profile.model import Profile
from dflash_guard.verbs.judging import judge_scan
from dflash_guard.verbs.opening import Opened, Reading, open_data
from dflash_guard.verbs.profile import profile_opened
from dflash_guard.verdict.autopsy import Autopsy, examine
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.model import Verdict
from dflash_guard.verdict.recall import recall
from dflash_guard.verdict.record import fresh_record

__all__ = ["Examined", "autopsy", "verdict_of"]


@dataclass(frozen=True, slots=True)
class Examined:
    """All that is known of a data set.

    Attributes:
        opened: The data set.
        verdict: Of the contract in force.
        profile: What it looks like.
        autopsy: What is wrong with it.
    """

    opened: Opened
    verdict: Verdict
    profile: Profile
    autopsy: Autopsy


@contextmanager
def autopsy(
    data: Sequence[str | Path], reading: Reading, *, tokenizer: str | None = None, specimens: int = 2
) -> Iterator[Examined]:
    """Judge, profile and examine a data set; no verdict is written.

    Args:
        data: Files, folders or globs.
        reading: How to read it, and by which contract.
        tokenizer: Of the target, to show ids as text: a folder or a `tokenizer.json`.
        specimens: Rows shown of each rule.

    Raises:
        GuardError: As `check` does.
    """
    decoder = load_tokenizer(tokenizer) if tokenizer is not None else None
    with open_data(data, reading) as opened, verdict_of(opened, reading) as verdict:
        profile = profile_opened(opened, decoder)
        found = examine(verdict, profile, opened.connection, decoder=decoder, specimens=specimens)
        yield Examined(opened, verdict, profile, found)


@contextmanager
def verdict_of(opened: Opened, reading: Reading) -> Iterator[Verdict]:
    """The verdict of a data set that is open: the one in its guard folder, where it is fresh, else judged for now."""
    contract, shards = opened.contract, opened.listing.shards
    record = fresh_record(opened.folder, contract, shards)
    if record is not None:
        left_out = opened.listing.left_out
        yield recall(record, contract, opened.folder, shards=shards, left_out=left_out, data=opened.data)
        return
    with tempfile.TemporaryDirectory(prefix="dflash-guard-") as scratch, gx_process() as gx:
        verdict = judge_scan(
            opened.scan,
            contract,
            GuardFolder(Path(scratch)),
            gx,
            data=opened.data,
            left_out=opened.listing.left_out,
            started=datetime.now(UTC),
            jobs=reading.jobs,
            memory_limit=reading.memory_limit,
        )
        yield verdict
