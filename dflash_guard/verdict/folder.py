"""The guard folder: where facts, failures and verdicts of a data set are kept."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GUARD", "GuardFolder"]

GUARD = "__guard__"


@dataclass(frozen=True, slots=True)
class GuardFolder:
    """A guard folder.

    Attributes:
        path: The folder; made when something is written.
    """

    path: Path

    @classmethod
    def locate(cls, data: Sequence[str | Path], out: str | Path | None = None) -> "GuardFolder":
        """Find the folder that belongs to DATA: beside it, where that can be written; else in the user's state folder.

        Args:
            data: As given.
            out: A folder named by hand, which wins.
        """
        if out is not None:
            return cls(Path(out).absolute())
        if len(data) == 1 and (beside := _beside(Path(data[0]))) is not None and _can_write(beside):
            return cls(beside)
        return cls(_state_folder(data))

    @classmethod
    def find(cls, data: Sequence[str | Path], out: str | Path | None = None) -> "GuardFolder":
        """Find the folder that was written last: beside the data, or in the state folder where that can't be written.

        Args:
            data: As given.
            out: A folder named by hand, which wins.
        """
        if out is not None:
            return cls(Path(out).absolute())
        beside = _beside(Path(data[0])) if len(data) == 1 else None
        folders = [folder for folder in (beside, _state_folder(data)) if folder is not None]
        return cls(max(folders, key=_last_written))

    @property
    def manifest(self) -> Path:
        """The manifest, where a stage wrote the data."""
        return self.path / "manifest.json"

    @property
    def facts(self) -> Path:
        """Where facts files go."""
        return self.path / "facts"

    def run(self, run_id: str) -> Path:
        """The folder of one run."""
        return self.path / "runs" / run_id

    def verdict(self, stage: str) -> Path:
        """The verdict file of a stage."""
        return self.path / f"{stage}.verdict.json"

    def upstream(self, digest: str) -> Path:
        """The copy of an upstream verdict, by the sha256 of its bytes."""
        return self.path / "upstream" / f"{digest}.verdict.json"

    def envelope(self, stage: str) -> Path:
        """The signed envelope of a stage's verdict."""
        return self.path / f"{stage}.verdict.dsse.json"

    def has_verdict(self, stage: str) -> bool:
        """Whether there is a verdict of a stage, or something in its place that can't be looked at."""
        try:
            return self.verdict(stage).exists()
        except OSError:
            return True

    def scratch(self, run_id: str) -> Path:
        """A folder for what does not fit in memory; gone after the run."""
        return self.path / f".scratch-{run_id}"

    def clean(self, run_id: str) -> None:
        """Remove what the run does not leave behind."""
        shutil.rmtree(self.scratch(run_id), ignore_errors=True)


def _last_written(folder: Path) -> float:
    """When a verdict was last written to a folder; of folders without any, one that is there counts more."""
    try:
        times = [path.stat().st_mtime for path in folder.glob("*.verdict.json")]
    except OSError:
        return 0.0  # it is there, and can't be read: whoever reads it says so
    return max(times, default=0.0 if folder.exists() else -1.0)


def _beside(data: Path) -> Path | None:
    if data.is_dir():
        return data.absolute() / GUARD
    if data.is_file():
        return data.absolute().parent / GUARD / "files" / data.name
    return None


def _can_write(folder: Path) -> bool:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return os.access(there, os.W_OK | os.X_OK)


def _state_folder(data: Sequence[str | Path]) -> Path:
    import platformdirs

    key = "\n".join(os.path.abspath(d) for d in data)  # noqa: PTH100 - a glob is no path, yet has a place
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:32]
    return Path(platformdirs.user_state_dir("dflash-guard")) / "guards" / digest
