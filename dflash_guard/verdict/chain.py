"""The chain of verdicts behind a data set: recorded when it is judged, verified when a gate is asked to open."""

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dflash_guard.errors import DataNotFoundError, GateError, JudgeError, NothingToJudgeError
from dflash_guard.shards.location import find_shards
from dflash_guard.shards.writer import write_whole
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.identity import verify_shards
from dflash_guard.verdict.model import Parent
from dflash_guard.verdict.record import Record, read_record

__all__ = ["Link", "copy_verdicts", "find_parent", "is_as_it_was", "parent_of", "upstream_record", "verify_chain"]


_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    "completions": ("prompts", "completions"),
    "tokenized": ("completions", "prompts"),
    "hidden_states": ("tokenized",),
}


@dataclass(frozen=True, slots=True)
class Link:
    """One data set of a verified chain.

    Attributes:
        parent: What was recorded of it.
        record: Its verdict, as it was when the next stage was judged.
        is_here: Whether its shards are where they were, and the same.
        depth: How many stages it is away.
    """

    parent: Parent
    record: Record
    is_here: bool
    depth: int


def upstream_record(folder: GuardFolder, stage: str) -> Record | None:
    """The verdict of an upstream data set that a stage looks for: of the nearest stage before it.

    Raises:
        GateError: It can't be read.
    """
    for each in _BEFORE[stage]:
        if (record := read_record(folder.verdict(each))) is not None:
            return record
    return None


def find_parent(data: Sequence[str | Path], stage: str, shards: Sequence[str]) -> tuple[Parent, Record | None]:
    """What is to be recorded of an upstream data set, with its verdict where it has one of these very bytes.

    Args:
        data: As given.
        stage: The stage that looks upstream.
        shards: The sha256 of its shards as they were read, in order.

    Raises:
        GateError: Its verdict can't be read.
    """
    folder = GuardFolder.find(data)
    record = upstream_record(folder, stage)
    if record is not None and sorted(each.sha256 for each in record.shards) != sorted(shards):
        record = None
    return parent_of(data, folder, record, shards), record


def parent_of(data: Sequence[str | Path], folder: GuardFolder, record: Record | None, shards: Sequence[str]) -> Parent:
    """What is recorded of a data set that another is made from, or compared with.

    Args:
        data: As given.
        folder: Its guard folder.
        record: Its verdict, None without one.
        shards: The sha256 of its shards, in order.
    """
    where = tuple(os.path.abspath(each) for each in data)  # noqa: PTH100 - a glob is no path
    verdict = ("", "") if record is None else (record.stage, record.digest)
    return Parent(where, str(folder.path), *verdict, tuple(shards))


def copy_verdicts(folder: GuardFolder, parents: Sequence[Parent], *, beside: GuardFolder | None = None) -> None:
    """Copy the verdicts of parents, and of theirs, into a guard folder: the chain must not end where data is moved.

    Args:
        folder: The folder that gets them.
        parents: As recorded.
        beside: Another folder that has copies of them.

    Raises:
        GateError: A verdict that is recorded is nowhere to be found.
    """
    for parent in parents:
        if not parent.verdict:
            continue
        path = folder.upstream(parent.verdict)
        data = next(_copies(parent, [folder, *([beside] if beside else [])]), None)
        if data is None:
            raise _lost(parent)
        if not path.exists():
            write_whole(path, data)
        record = read_record(path)
        if record is not None:
            copy_verdicts(folder, record.upstream, beside=GuardFolder(Path(parent.folder)))


def _copies(parent: Parent, folders: Sequence[GuardFolder]) -> Iterator[bytes]:
    """The bytes of a parent's verdict, from wherever they are still found."""
    own = GuardFolder(Path(parent.folder))
    paths = [each.upstream(parent.verdict) for each in (*folders, own)] + [own.verdict(parent.stage)]
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == parent.verdict:
            yield data


def _lost(parent: Parent) -> GateError:
    return GateError(
        f"the verdict of upstream {parent.name} that was in force is not to be found any more.",
        hint="judge upstream again, then this data set.",
    )


def verify_chain(
    folder: GuardFolder, parents: Sequence[Parent], *, ignore: Sequence[str] = (), rehash: bool = False, depth: int = 1
) -> tuple[Link, ...]:
    """Verify the verdicts behind a data set, down to where the chain ends.

    Args:
        folder: The guard folder that holds copies of them.
        parents: Of the data set.
        ignore: Rules that need not have been judged upstream.
        rehash: Whether every byte of upstream shards is read.
        depth: How many stages away these parents are.

    Returns:
        Every data set behind, the nearest first.

    Raises:
        GateError: One is missing, failed, was judged without provenance, or its data is not what it was.
    """
    links: list[Link] = []
    for parent in parents:
        record = _verified(folder, parent, ignore)
        links.append(Link(parent, record, _is_here(parent, record, rehash=rehash), depth))
        links += verify_chain(folder, record.upstream, ignore=ignore, rehash=rehash, depth=depth + 1)
    return tuple(links)


def _verified(folder: GuardFolder, parent: Parent, ignore: Sequence[str]) -> Record:
    again = "then judge this data set again, which binds the new verdict."
    if not parent.verdict:
        raise GateError(
            f"upstream {parent.name} had no verdict of its own when this data set was judged.",
            hint=f"judge it first (dflash-guard check {_words(parent.data)} --stage …), {again}",
        )
    path = folder.upstream(parent.verdict)
    record = read_record(path)
    if record is None or record.digest != parent.verdict:
        raise _lost(parent)
    if record.result != "pass":
        raise GateError(
            f"upstream {parent.name} failed its contract at stage {record.stage}.",
            hint=f"split or repair it (dflash-guard autopsy {_words(parent.data)}), {again}",
        )
    source = record.settings.get("unknown-source")
    if "unknown-source" not in ignore and (source is None or source.ignored or source.level != "error"):
        raise GateError(
            f"upstream {parent.name} was judged without asking where its rows come from (unknown-source).",
            hint=f"declare `source` in its contract and judge it again, {again}",
        )
    return record


def _is_here(parent: Parent, record: Record, *, rehash: bool) -> bool:
    """Whether an upstream data set is where it was; where it is, it must be the same, and not have failed since.

    Raises:
        GateError: It was changed, or failed since.
    """
    hint = "judge upstream again, then make or judge this data set from it."
    try:
        listing = find_shards(parent.data)
    except (DataNotFoundError, NothingToJudgeError):
        return False
    verify_shards(record, listing.shards, what="upstream ", rehash=rehash, hint=hint)
    now = read_record(GuardFolder(Path(parent.folder)).verdict(parent.stage))
    if now is not None and now.result != "pass":
        raise GateError(f"upstream {parent.name} has failed its contract since.", hint=hint)
    return True


def is_as_it_was(parent: Parent) -> bool:
    """Whether a recorded upstream is where it was, unchanged, with the very verdict that was recorded; cheaply."""
    if not parent.verdict:
        return False
    try:
        record = read_record(GuardFolder(Path(parent.folder)).verdict(parent.stage))
        shards = find_shards(parent.data).shards
    except (GateError, DataNotFoundError, NothingToJudgeError, JudgeError):
        return False
    return record is not None and record.digest == parent.verdict and record.stands_for(shards)


def _words(data: Sequence[str]) -> str:
    return " ".join(shlex.quote(each) for each in data)
