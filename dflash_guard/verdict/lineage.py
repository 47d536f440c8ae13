"""Where a data set comes from: the chain of manifests and verdicts behind it, as far as it is on record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dflash_guard.errors import DataNotFoundError, GateError, GuardError, JudgeError, NothingToJudgeError
from dflash_guard.shards.location import find_shards
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.identity import verify_shards
from dflash_guard.verdict.manifest import Manifest, read_manifest
from dflash_guard.verdict.model import Parent
from dflash_guard.verdict.record import STAGES, Record, read_record

__all__ = ["Node", "trace"]

Bytes = Literal["as judged", "changed", "gone", "not judged"]


@dataclass(frozen=True, slots=True)
class Node:
    """One data set of a lineage.

    Attributes:
        data: Its paths, as given or as recorded.
        stage: What its rows are; "" where nobody says.
        via: How what comes after it was made of it: `upstream`, `split from`, or "" for the data set asked about.
        record: Its verdict; None without one that can be read.
        manifest: What its maker says of it; None without one.
        problem: Why its verdict can't be read, "" where nothing is wrong.
        bytes: Whether its shards are those that were judged.
        parents: What it was made from.
    """

    data: tuple[str, ...]
    stage: str
    via: str
    record: Record | None
    manifest: Manifest | None
    problem: str
    bytes: Bytes
    parents: "tuple[Node, ...]"

    @property
    def name(self) -> str:
        """Its paths, for people."""
        return ", ".join(self.data)

    @property
    def result(self) -> str:
        """`pass`, `fail`, or `not judged`."""
        return self.record.result if self.record is not None else "not judged"

    @property
    def made_by(self) -> str:
        """Who made it, in a few words; "" where nobody says."""
        if self.manifest is None:
            return ""
        model = (self.manifest.generator or {}).get("model", "")
        return f"{self.manifest.maker} {self.manifest.version}" + (f" with {model}" if model else "")

    def walk(self) -> "Iterator[Node]":
        """This data set and all behind it, each before what it was made from."""
        yield self
        for parent in self.parents:
            yield from parent.walk()


def trace(data: Sequence[str | Path], *, stage: str | None = None, out: str | Path | None = None) -> Node:
    """Follow a data set back as far as manifests and verdicts tell.

    Args:
        data: Files, folders or globs.
        stage: Whose verdict is meant; by default the manifest's stage, else the last stage that was judged.
        out: The guard folder; beside the data by default.

    Raises:
        GateError: Nothing is on record about it.
        UsageError: A path does not exist, or the manifest can't be read.
    """
    find_shards(data)
    folder = GuardFolder.find(data, out)
    manifest = read_manifest(folder)
    problem, record = "", None
    for each in [stage] if stage else [*([manifest.stage] if manifest else []), *reversed(STAGES)]:
        try:
            record = read_record(folder.verdict(each))
        except GateError as error:
            problem = error.what
        if record is not None:
            break
    if record is None and manifest is None and not problem:
        raise GateError(
            f"nothing is on record about {', '.join(map(str, data))}: it has neither verdict nor manifest.",
            hint="judge it: dflash-guard check DATA --stage STAGE.",
        )
    if manifest is not None and record is not None and manifest.stage != record.stage:
        manifest = None
    return _node(tuple(map(str, data)), "", record, manifest, problem, folder)


def _node(
    data: tuple[str, ...], via: str, record: Record | None, manifest: Manifest | None, problem: str, folder: GuardFolder
) -> Node:
    parents = record.upstream if record is not None else manifest.parents if manifest is not None else ()
    behind = [_parent(parent, "upstream", folder) for parent in parents]
    if manifest is not None and manifest.split_from is not None:
        # What a split left out is told here; what lies behind its source lies behind the part as well.
        source = _parent(manifest.split_from, "split from", folder)
        behind.insert(0, source)
    stage = record.stage if record is not None else manifest.stage if manifest is not None else ""
    return Node(data, stage, via, record, manifest, problem, _state(data, record), tuple(behind))


def _parent(parent: Parent, via: str, folder: GuardFolder) -> Node:
    own = GuardFolder(Path(parent.folder))
    record, problem = None, ""
    for path in (folder.upstream(parent.verdict), own.upstream(parent.verdict), own.verdict(parent.stage)):
        if not parent.verdict:
            problem = "it had no verdict of its own then"
            break
        try:
            found = read_record(path)
        except GateError as error:
            problem = error.what
            continue
        if found is not None and found.digest == parent.verdict:
            record, problem = found, ""
            break
        problem = "the verdict that was in force is not to be found"
    try:
        manifest = read_manifest(own)
    except GuardError:
        manifest = None
    if manifest is not None and tuple(each.sha256 for each in manifest.shards) != parent.shards:
        manifest = None  # of whatever stands there now
    return _node(parent.data, via, record, manifest, problem, own if record is None else folder)


def _state(data: Sequence[str], record: Record | None) -> Bytes:
    try:
        shards = find_shards(data).shards
    except (DataNotFoundError, NothingToJudgeError, JudgeError):
        return "gone"
    if record is None:
        return "not judged"
    try:
        verify_shards(record, shards)
    except (GateError, JudgeError):
        return "changed"
    return "as judged"
