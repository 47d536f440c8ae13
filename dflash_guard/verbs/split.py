"""`split`: the rows that pass, and those that do not, as data sets of their own."""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dflash_guard.contract.model import Stage
from dflash_guard.errors import GateError, JudgeError, UsageError
from dflash_guard.facts.sql import sql
from dflash_guard.facts.stage import detect_stage
from dflash_guard.shards.digest import sha256_of
from dflash_guard.shards.division import Mask, divide
from dflash_guard.shards.location import find_shards, is_side_file
from dflash_guard.shards.model import Seal
from dflash_guard.shards.writer import sync_tree
from dflash_guard.verbs.check import check
from dflash_guard.verbs.outputs import refuse_nested
from dflash_guard.verbs.worklist import write_worklist
from dflash_guard.verdict.chain import copy_verdicts, parent_of
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import Manifest, Part, manifest_of, read_manifest, write_manifest
from dflash_guard.verdict.model import Parent, Verdict
from dflash_guard.verdict.record import read_record

__all__ = ["Division", "Side", "split"]


@dataclass(frozen=True, slots=True)
class Side:
    """One data set that a split wrote.

    Attributes:
        path: Its folder.
        rows: Rows in it.
        shards: Shards in it.
    """

    path: str
    rows: int
    shards: int


@dataclass(frozen=True, slots=True)
class Division:
    """What a split did.

    Attributes:
        verdict: By which the rows were told apart.
        passed_rows, failed_rows: They add up to the data set.
        passed, failed, regenerate: What was written; None where it was not asked for.
        whole: Rules that the data set fails as a whole: leaving rows out need not mend them.
        not_regenerated: Failing rows whose prompt could not be read.
    """

    verdict: Verdict
    passed_rows: int
    failed_rows: int
    passed: Side
    failed: Side | None
    regenerate: Side | None
    whole: tuple[str, ...]
    not_regenerated: int = 0


def split(
    data: str | Path | Sequence[str | Path],
    *,
    passed: str | Path,
    failed: str | Path | None = None,
    regenerate: str | Path | None = None,
    stage: Stage | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Division:
    """Write the rows of a data set that fail no error rule as new shards of the same format, and the others too.

    The data set is judged first, where no fresh verdict says which rows fail.

    Args:
        data: Files, folders or globs.
        passed: A new folder for the rows that pass.
        failed: A new folder for those that do not; they are left out where None.
        regenerate: A new folder for the prompts of those that do not, as a work list for `generate`.
        stage: What the rows are; found out by default.
        progress: Told the bytes that were read while judging.
        **options: As of `check`.

    Raises:
        UsageError: A folder is there already, or lies in the data.
        GateError: The data changed after it was judged.
        GuardError: As `check` raises.
    """
    given = [data] if isinstance(data, str | Path) else list(data)
    targets = {"passed": Path(passed), "failed": failed and Path(failed), "regenerate": regenerate and Path(regenerate)}
    outputs = {name: Path(path).absolute() for name, path in targets.items() if path}
    refuse_nested(given, outputs)
    stage = stage or _stage_of(given, options.get("out"))
    verdict = check(given, stage=stage, progress=progress, **options)
    work = _Work(verdict, given)
    for name, path in outputs.items():
        _refuse_other(path, name, work.source)
    with _staged(outputs) as staged:
        work.divide(staged["passed"], staged.get("failed"))
        lost = 0
        if "regenerate" in staged:
            lost = write_worklist(staged["regenerate"], verdict, work.failing, options.get("upstream"))
        work.finish(staged)
    sides = {name: work.side(name, path) for name, path in outputs.items()}
    return Division(
        verdict=verdict,
        passed_rows=work.passed_rows,
        failed_rows=work.failed_rows,
        passed=sides["passed"],
        failed=sides.get("failed"),
        regenerate=sides.get("regenerate"),
        whole=work.whole,
        not_regenerated=lost,
    )


def _stage_of(data: Sequence[str | Path], out: str | Path | None) -> Stage:
    folder = GuardFolder.find(data, out)
    judged: list[Stage] = [each for each in ("prompts", "completions", "tokenized") if folder.has_verdict(each)]
    if len(judged) == 1:
        return judged[0]
    stage = detect_stage(find_shards(data).shards) if not judged else None
    if stage is None:
        why = f"has verdicts of {' and '.join(judged)}" if judged else "does not show what its rows are"
        raise UsageError(f"{', '.join(map(str, data))} {why}.", hint="say which stage it is of with --stage.")
    return stage


def _refuse_other(path: Path, name: str, source: Parent) -> None:
    """Refuse a folder that holds anything but an earlier split of the very same data."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    manifest = read_manifest(GuardFolder(path / "__guard__")) if path.is_dir() else None
    made_here = manifest is not None and manifest.split_from is not None and manifest.split_from.shards == source.shards
    known = {part.name for part in manifest.shards} if manifest is not None else set()
    here = {each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()} if path.is_dir() else set()
    if not made_here or {each for each in here if not each.startswith("__guard__/")} != known:
        raise UsageError(f"--{name} {path} is there already.", hint="name a new folder, or remove it first.")


@contextmanager
def _staged(outputs: Mapping[str, Path]) -> Iterator[dict[str, Path]]:
    """Folders beside the outputs, that become the outputs at the end; `passed` is the last, and tells that all are."""
    staged = {name: path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp") for name, path in outputs.items()}
    try:
        for path in staged.values():
            path.mkdir(parents=True)
        yield staged
        for name in sorted(outputs, key=lambda name: name == "passed"):
            sync_tree(staged[name])
            _publish(staged[name], outputs[name])
    except OSError as error:
        raise JudgeError(
            f"{error.filename or 'an output'} can't be written: {error.strerror or error}.",
            hint="check the disk and its permissions.",
        ) from error
    finally:
        for path in staged.values():
            shutil.rmtree(path, ignore_errors=True)


def _publish(staged: Path, path: Path) -> None:
    if path.exists() and any(path.iterdir()):  # an earlier split of the same data
        aside = staged.with_name(staged.name + ".old")
        path.rename(aside)
        staged.rename(path)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        staged.rename(path)


@dataclass(slots=True)
class _Work:
    """A data set, its verdict, and where its rows go."""

    verdict: Verdict
    data: Sequence[str | Path]
    passed_rows: int = 0
    failed_rows: int = 0
    failing: dict[str, set[int]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    whole: tuple[str, ...] = ()
    strangers: set[str] = field(default_factory=set)
    source: Parent = field(init=False)
    names: dict[str, str] = field(init=False)
    _sides: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folder = GuardFolder(Path(self.verdict.folder))
        record = read_record(folder.verdict(self.verdict.contract.stage))
        if record is None:
            raise GateError("the verdict is gone.", hint="judge the data again: dflash-guard check.")
        self.source = parent_of(self.data, folder, record, [seal.sha256 for seal in self.verdict.seals])
        self.names = _output_names([seal.shard.name for seal in self.verdict.seals])
        self._read_failures()

    def _read_failures(self) -> None:
        found = self.verdict.failures
        levels = ["error", "warn"] if self.verdict.fail_on == "warn" else ["error"]
        found = found.filter(pc.is_in(found["level"], pa.array(levels)))
        whole = []
        columns = (found[name].to_pylist() for name in ("rule", "shard", "row", "sample_id"))
        for rule, shard, row, sample_id in zip(*columns, strict=True):
            if rule == "unknown-prompt":
                self.strangers.add(sample_id)
            if shard is None:
                whole.append(rule)
            elif row is None:
                self.broken.add(shard)
            else:
                self.failing.setdefault(shard, set()).add(row)
        self.whole = tuple(dict.fromkeys(whole))

    def divide(self, passed: Path, failed: Path | None) -> None:
        """Write all shards' rows, and count them."""
        for seal, facts in zip(self.verdict.seals, self.verdict.facts, strict=True):
            name = self.names[seal.shard.name]
            if sha256_of(Path(seal.shard.location)) != seal.sha256:
                raise GateError(f"{seal.shard.name} was changed since it was judged.", hint="run split again.")
            if seal.shard.name in self.broken:
                # Its bytes are evidence: they are kept as they are, on the failing side.
                self.failed_rows += seal.rows
                self.failing[seal.shard.name] = set(range(seal.rows))
                if failed is not None:
                    (failed / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(seal.shard.location, failed / name)
                continue
            passes = self._passes(seal)
            lines = _lines(facts, seal) if seal.format == "jsonl" else None
            divide(seal, passes, lines, (passed / name, failed / name if failed is not None else None))
            self.passed_rows += int(passes.sum())
            self.failed_rows += int((~passes).sum())
        if self.passed_rows + self.failed_rows != self.verdict.counts.rows:
            raise JudgeError(
                f"{self.passed_rows:,} and {self.failed_rows:,} rows do not add up to {self.verdict.counts.rows:,}.",
                hint="this is a fault of dflash-guard; please report it.",
            )

    def _passes(self, seal: Seal) -> Mask:
        passes = np.ones(seal.rows, bool)
        passes[sorted(self.failing.get(seal.shard.name, ()))] = False
        return passes

    def finish(self, staged: Mapping[str, Path]) -> None:
        """Write each side's manifest, once its rows were counted in what was written."""
        base = manifest_of(GuardFolder(Path(self.verdict.folder)), self.verdict.contract.stage)
        missing = {"passed": self._only("failed"), "failed": self._only("passed")}
        for name, path in staged.items():
            listing = [each for each in sorted(path.rglob("*")) if each.is_file()]
            rows = self._rows_of(listing, path, name)
            parts = tuple(
                Part(each.relative_to(path).as_posix(), count, sha256_of(each))
                for each, count in zip(listing, rows, strict=True)
            )
            self._sides[name] = (sum(rows), len(parts))
            if listing and len(find_shards([path]).shards) != len(listing):
                raise JudgeError(
                    f"some of the shards written to --{name} would not be seen as shards.",
                    hint="this is a fault of dflash-guard; please report it.",
                )
            if name == "passed" and sum(rows) != self.passed_rows:
                raise JudgeError(
                    f"{sum(rows):,} rows were written, and {self.passed_rows:,} pass.",
                    hint="this is a fault of dflash-guard; please report it.",
                )
            self._describe(path, name, parts, base, missing.get(name, 0))

    def _rows_of(self, files: Sequence[Path], root: Path, name: str) -> list[int]:
        """Rows of each file of a side: of a broken shard those that could be read."""
        if name == "regenerate":
            return [path.read_bytes().count(b"\n") for path in files]
        seals = {self.names[seal.shard.name]: seal for seal in self.verdict.seals}
        counts = []
        for path in files:
            seal = seals[path.relative_to(root).as_posix()]
            passing = 0 if seal.shard.name in self.broken else int(self._passes(seal).sum())
            counts.append(passing if name == "passed" else seal.rows - passing)
        return counts

    def _describe(self, path: Path, name: str, parts: tuple[Part, ...], base: Manifest | None, missing: int) -> None:
        contract = self.verdict.contract
        folder = GuardFolder(path / "__guard__")
        aside = dict(base.set_aside) if base is not None else {}
        if missing:
            aside["split off"] = aside.get("split off", 0) + missing
        manifest = Manifest(
            stage=contract.stage if name != "regenerate" else "prompts",
            maker="split",
            format=parts[0].name.rpartition(".")[2] if name == "regenerate" and parts else _format(self.verdict),
            shards=parts,
            parents=self.verdict.upstream if name != "regenerate" else (),
            split_from=self.source,
            mode=contract.mode if contract.mode_from != "default" else "",
            family=contract.family.name if contract.family_from != "default" else "",
            parameters={"part": name},
            set_aside=aside if name != "regenerate" else {},
        )
        if base is not None and name != "regenerate":
            manifest = replace(manifest, generator=base.generator, tokenizer=base.tokenizer, evidence=base.evidence)
            for each in base.evidence.values():
                target = folder.path / each["path"]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(self.verdict.folder) / each["path"], target)
        copy_verdicts(folder, [self.source, *self.verdict.upstream], beside=GuardFolder(Path(self.verdict.folder)))
        write_manifest(folder, manifest)

    def _only(self, side: str) -> int:
        """Distinct ids that stand on one side only; of those that upstream has, where that is known."""
        files = [
            (path, seal.shard.name) for path, seal in zip(self.verdict.facts, self.verdict.seals, strict=True) if path
        ]
        if not files:
            return 0
        places = [(index, row) for index, (_, name) in enumerate(files) for row in self.failing.get(name, ())]
        with duckdb.connect() as connection:
            table = pa.table(
                {
                    "file_index": pa.array([each[0] for each in places], pa.int64()),
                    "row": pa.array([each[1] for each in places], pa.int64()),
                }
            )
            connection.register("failing", table)
            connection.register("strangers", pa.table({"id": pa.array(sorted(self.strangers), pa.string())}))
            facts = [path for path, _ in files]
            found = connection.execute(
                sql("one_sided_ids.sql", "dflash_guard.verbs"), [facts, side == "failed"]
            ).fetchall()
        return int(found[0][0])

    def side(self, name: str, path: Path) -> Side:
        """What was written."""
        rows, shards = self._sides[name]
        return Side(str(path), rows, shards)


def _format(verdict: Verdict) -> str:
    return ",".join(dict.fromkeys(seal.format for seal in verdict.seals))


def _lines(facts: str, seal: Seal) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The line of each row of a JSONL shard, by its facts."""
    if not facts:
        return np.empty(0, np.int64)
    table = pq.read_table(facts, columns=["row", "line"])
    lines = np.zeros(seal.rows, np.int64)
    lines[table["row"].to_numpy()] = table["line"].to_numpy()
    return lines


def _output_names(names: Sequence[str]) -> dict[str, str]:
    """Where each shard goes: under its own name, unless that would hide it there, or stand in another's way."""
    own = {name: "/".join(part for part in name.split("/") if part not in {"", ".", ".."}) for name in names}
    folders = {parent.as_posix() for name in own.values() for parent in Path(name).parents}
    apart = len(set(own.values())) == len(own) and not folders & set(own.values())
    hidden = any(part.startswith((".", "_")) for name in own.values() for part in name.split("/"))
    if apart and not hidden and not any(is_side_file(Path(name)) for name in own.values()):
        return own
    return {name: f"shard-{index:05d}-{Path(name).name.lstrip('._')}" for index, name in enumerate(own)}
