"""A verdict out of its record: as it was judged, for whoever prints it again."""

from collections.abc import Sequence
from datetime import UTC, datetime

from dflash_guard.contract.model import Contract
from dflash_guard.errors import ExitCode
from dflash_guard.shards.model import LeftOut, Seal, Shard
from dflash_guard.verdict.failures import Failures
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.model import Verdict
from dflash_guard.verdict.record import Record

__all__ = ["recall"]


def recall(
    record: Record,
    contract: Contract,
    folder: GuardFolder,
    *,
    shards: Sequence[Shard],
    left_out: tuple[LeftOut, ...],
    data: Sequence[str],
    started: datetime | None = None,
) -> Verdict:
    """The verdict of a record that `fresh_record` found.

    Args:
        record: What was written.
        contract: The contract in force, whose digest it has.
        folder: The guard folder that holds its evidence.
        shards: As listed now.
        left_out: Of the same listing.
        data: As given.
        started: When it was asked for; by default when it was judged.
    """
    return Verdict(
        result="pass" if record.result == "pass" else "fail",
        exit_code=ExitCode(record.exit_code),
        contract=contract,
        counts=record.counts,
        rules=record.rules,
        found=Failures(folder.path / record.evidence["failures"].path),
        seals=tuple(
            Seal(shard, was.sha256, was.size, was.rows, was.format, was.compression)  # type: ignore[arg-type]
            for shard, was in zip(shards, record.shards, strict=True)
        ),
        left_out=left_out,
        data=tuple(data),
        folder=str(folder.path),
        facts=tuple("" if was.facts is None else str(folder.path / was.facts.path) for was in record.shards),
        started=started or record.started,
        ended=datetime.now(UTC) if started else record.ended,
        fail_on=record.fail_on,
        redacted=record.redacted,
        upstream=record.upstream,
        manifest=record.manifest,
    )
