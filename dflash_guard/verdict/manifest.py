"""The manifest of a data set: what the stage that wrote it says of itself, and of what it was made from."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from dflash_guard.errors import UsageError
from dflash_guard.shards.writer import write_whole
from dflash_guard.verdict.canonical import canonical
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.model import Parent

if TYPE_CHECKING:
    from dflash_guard.shards.model import Seal

__all__ = ["MANIFEST_SCHEMA", "Manifest", "Part", "manifest_of", "read_manifest", "tool_version", "write_manifest"]

MANIFEST_SCHEMA: Final = "dflash-guard/manifest/1"


@dataclass(frozen=True, slots=True)
class Part:
    """One shard as its writer left it."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a stage says of the data set that it wrote.

    Attributes:
        stage: The stage that its rows are of.
        maker: The command that wrote it: `split`, `generate`, `tokenize`, …
        format: Of its shards.
        shards: In order.
        parents: What it was made from, across a stage.
        split_from: The data set of the same stage that its rows were taken from, None where it is no split.
        generator: Who made the completions: model, revision, engine, sampling, chat_template_sha256, tokenizer_sha256.
        tokenizer: What made the tokens: tokenizer_sha256, chat_template_sha256, builder, end_token_supervised, ….
        mode, family: As declared, "" where the maker does not say.
        parameters: Of the command.
        set_aside: Ids that were left out on purpose, by reason: they count as accounted for.
        version: Of dflash-guard.
        created: UTC, ISO 8601.
        evidence: Files beside it, by what they hold: path in the guard folder and sha256.
        digest: sha256 of the manifest file; "" until it is read.
    """

    stage: str
    maker: str
    format: str
    shards: tuple[Part, ...]
    parents: tuple[Parent, ...] = ()
    split_from: Parent | None = None
    generator: Mapping[str, Any] | None = None
    tokenizer: Mapping[str, Any] | None = None
    mode: str = ""
    family: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    set_aside: Mapping[str, int] = field(default_factory=dict)
    version: str = ""
    created: str = ""
    evidence: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    digest: str = ""

    def why_other(self, seals: "Sequence[Seal]") -> str | None:
        """Say how shards differ from those that it describes; None where they are the same."""
        described = {part.name: part for part in self.shards}
        for seal in seals:
            part = described.pop(seal.shard.name, None)
            if part is None:
                return f"it does not know {seal.shard.name}"
            if part.sha256 != seal.sha256:
                return f"{seal.shard.name} has other bytes than it says"
        return f"it tells of {next(iter(described))}, which is not there" if described else None


def read_manifest(folder: GuardFolder) -> Manifest | None:
    """Read a guard folder's manifest; None where there is none.

    Raises:
        UsageError: It is there and can't be read as a manifest.
    """
    try:
        data = folder.manifest.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"{folder.manifest} can't be read: {error.strerror or error}.", hint="check its permissions."
        ) from error
    try:
        return _parse(json.loads(data), hashlib.sha256(data).hexdigest())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{folder.manifest} is damaged, or no manifest of this version.",
            hint="let the stage write the data set again; without a manifest, name what it says by options.",
        ) from error


def manifest_of(folder: GuardFolder, stage: str) -> Manifest | None:
    """A guard folder's manifest, where it speaks of this stage; its errors are those of `read_manifest`."""
    manifest = read_manifest(folder)
    return manifest if manifest is not None and manifest.stage == stage else None


def _parse(said: Mapping[str, Any], digest: str) -> Manifest:
    if said["schema"] != MANIFEST_SCHEMA:
        raise ValueError(said["schema"])
    split_from = said["split_from"]
    return Manifest(
        stage=said["stage"],
        maker=said["maker"],
        format=said["format"],
        shards=tuple(Part(each["name"], int(each["rows"]), each["sha256"]) for each in said["shards"]),
        parents=tuple(Parent.from_json(each) for each in said["parents"]),
        split_from=None if split_from is None else Parent.from_json(split_from),
        generator=said["generator"],
        tokenizer=said["tokenizer"],
        mode=said["mode"],
        family=said["family"],
        parameters=dict(said["parameters"]),
        set_aside={str(why): int(count) for why, count in said["set_aside"].items()},
        version=said["version"],
        created=said["created"],
        evidence={str(name): dict(each) for name, each in said["evidence"].items()},
        digest=digest,
    )


def write_manifest(folder: GuardFolder, manifest: Manifest) -> None:
    """Write a manifest, with this version and time, whole or not at all."""
    said = {
        "schema": MANIFEST_SCHEMA,
        "stage": manifest.stage,
        "maker": manifest.maker,
        "format": manifest.format,
        "shards": [asdict(part) for part in manifest.shards],
        "parents": [parent.as_json() for parent in manifest.parents],
        "split_from": manifest.split_from.as_json() if manifest.split_from else None,
        "generator": manifest.generator,
        "tokenizer": manifest.tokenizer,
        "mode": manifest.mode,
        "family": manifest.family,
        "parameters": dict(manifest.parameters),
        "set_aside": dict(manifest.set_aside),
        "version": manifest.version or tool_version("dflash-guard"),
        "created": manifest.created or datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "evidence": {name: dict(each) for name, each in manifest.evidence.items()},
    }
    write_whole(folder.manifest, canonical(said))


def tool_version(name: str) -> str:
    """The version of an installed distribution, `unknown` where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
