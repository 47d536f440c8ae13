"""A data set opened for looking at it: its contract, its shards, and its facts in DuckDB."""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dflash_guard.contract.family import detect_family, family_names
from dflash_guard.contract.load import Draft, read_contract
from dflash_guard.contract.model import Contract, Family, Stage
from dflash_guard.errors import NothingToJudgeError, UsageError
from dflash_guard.facts.scan import Scan, first_ids, scan_shards
from dflash_guard.facts.stage import detect_stage
from dflash_guard.facts.view import open_facts
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.model import Listing, Shard
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.record import known_shards

__all__ = ["Opened", "Reading", "open_data", "resolve", "say_empty", "scan_data"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a data set is to be read.

    Attributes:
        stage: What its rows are; found out where None.
        contract, mode, family: As in `check`; a contract says where source and id stand.
        out: The guard folder; beside the data by default.
        jobs: Threads; all cores by default.
        memory_limit: For the engine, such as `1GiB`.
        progress: Called with the bytes that were read since the last call.
    """

    stage: Stage | None = None
    contract: str | None = None
    mode: str | None = None
    family: str | None = None
    out: str | Path | None = None
    jobs: int | None = None
    memory_limit: str | None = None
    progress: Callable[[int], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Opened:
    """A data set with its facts.

    Attributes:
        data: As given.
        contract: The effective contract.
        listing: Its shards.
        scan: Their seals and facts files.
        connection: DuckDB with the view `raw_facts`, where any row has facts.
        folder: Its guard folder.
    """

    data: tuple[str, ...]
    contract: Contract
    listing: Listing
    scan: Scan
    connection: duckdb.DuckDBPyConnection
    folder: GuardFolder

    @property
    def has_rows(self) -> bool:
        """Whether any row has facts."""
        return any(self.scan.facts)

    @property
    def shard_names(self) -> list[str]:
        """Of all shards, in order."""
        return [shard.name for shard in self.listing.shards]


@contextmanager
def open_data(data: Sequence[str | Path], reading: Reading) -> Iterator[Opened]:
    """Read a data set, but for shards whose facts are there, and open its facts.

    Raises:
        UsageError: An option, path or contract is wrong.
        JudgeError: The data could not be read.
        NothingToJudgeError: There is no shard, or no row in any.
    """
    listing = find_shards(data)
    stage = reading.stage or detect_stage(listing.shards)
    if stage is None:
        raise NothingToJudgeError(say_empty(listing.shards), hint="name the stage with --stage if the data is broken.")
    draft = read_contract(reading.contract, stage=stage, mode=reading.mode, family=reading.family)
    contract = resolve(draft, listing)
    folder = GuardFolder.locate(data, reading.out)
    run_id = f"reading-{uuid.uuid4().hex[:8]}"
    try:
        jobs, limit = reading.jobs, reading.memory_limit
        scan = scan_data(listing.shards, contract, folder, jobs=jobs, memory_limit=limit, progress=reading.progress)
        connection = open_facts(scan, scratch=folder.scratch(run_id), jobs=jobs, memory_limit=limit)
        try:
            yield Opened(tuple(str(d) for d in data), contract, listing, scan, connection, folder)
        finally:
            connection.close()
    finally:
        folder.clean(run_id)


def scan_data(
    shards: Sequence[Shard],
    contract: Contract,
    folder: GuardFolder,
    *,
    jobs: int | None,
    memory_limit: str | None,
    progress: Callable[[int], None] = lambda _: None,
) -> Scan:
    """Scan shards into a guard folder; those that it knows not to have changed are not read.

    Args:
        shards: In order.
        contract: The effective contract.
        folder: The guard folder.
        jobs: Threads; all cores where None.
        memory_limit: For the engine.
        progress: Told the bytes that were read.

    Raises:
        JudgeError: The data could not be read.
    """
    return scan_shards(
        shards,
        contract,
        folder.facts,
        jobs=jobs or os.cpu_count() or 1,
        memory_limit=memory_limit,
        progress=progress,
        known=known_shards(folder, shards),
    )


def resolve(draft: Draft, listing: Listing) -> Contract:
    """Put a contract in force; for tokens that name no family, by the ids in the data.

    Raises:
        UsageError: There are ids, and they are of no known family.
    """
    return draft.resolve(_find_family(listing) if draft.stage == "tokenized" and draft.family is None else None)


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


def say_empty(shards: Sequence[Shard]) -> str:
    """That there is no row, and where."""
    return (
        f"{shards[0].name} holds no row." if len(shards) == 1 else f"there is no row in any of {len(shards):,} shards."
    )
