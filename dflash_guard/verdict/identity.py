"""Whether shards as they are now are those that were judged: by what the file system says, else byte for byte."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_guard.errors import GateError, ShardAccessError
from dflash_guard.verdict.record import Record, ShardRecord

if TYPE_CHECKING:
    from dflash_guard.shards.model import Shard

__all__ = ["verify_shards"]


def verify_shards(
    record: Record, shards: "Sequence[Shard]", *, what: str = "", rehash: bool = False, hint: str = ""
) -> None:
    """Verify that shards are exactly those of a verdict.

    Args:
        record: The verdict.
        shards: As listed now.
        what: What to say before a shard's name, such as `upstream `.
        rehash: Whether every byte is read; otherwise only of shards that the file system does not vouch for.
        hint: What to do where they are not.

    Raises:
        GateError: A shard was added, taken away or changed.
        ShardAccessError: A shard can't be read.
    """
    judged = {each.name: each for each in record.shards}
    for shard in shards:
        if shard.name not in judged:
            raise GateError(f"{what}{shard.name} was not judged: it came after the verdict.", hint=hint)
    there = {shard.name for shard in shards}
    for each in record.shards:
        if each.name not in there:
            raise GateError(f"{what}{each.name} was judged and is not there any more.", hint=hint)
    doubtful = [
        (shard, judged[shard.name])
        for shard in shards
        if rehash or not judged[shard.name].stands_for(shard, record.started_ns)
    ]
    if not doubtful:
        return
    with ThreadPoolExecutor(min(len(doubtful), os.cpu_count() or 1)) as pool:
        for (shard, _), differs in zip(doubtful, pool.map(_differs, doubtful), strict=True):
            if differs:
                raise GateError(f"{what}{shard.name} was changed since it was judged: {differs}.", hint=hint)


def _differs(pair: "tuple[Shard, ShardRecord]") -> str:
    """How a shard's bytes differ from those that were judged, "" where they do not."""
    shard, was = pair
    if shard.size != was.size:
        return f"it has {shard.size:,} bytes, and had {was.size:,}"
    try:
        with Path(shard.location).open("rb") as file:
            before = os.fstat(file.fileno())
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        return "it is gone"
    except OSError as error:
        raise ShardAccessError(
            f"{shard.name} can't be read: {error.strerror or error}.", hint="check its permissions, and the disk."
        ) from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return "it is being written to"
    return "" if sha256 == was.sha256 else "its sha256 is another"
