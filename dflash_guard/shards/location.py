"""Where shards are: files, folders and globs to a list of shards, and what was left out of it."""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from dflash_guard.errors import DataNotFoundError, NothingToJudgeError, ShardAccessError, UsageError
from dflash_guard.shards.format import looks_like_shard
from dflash_guard.shards.model import LeftOut, Listing, Shard

__all__ = ["find_shards", "is_side_file"]

_SIDE_FILES = {
    "dataset_info.json",
    "dataset_dict.json",
    "state.json",
    "dataset_infos.json",
    ".gitattributes",
    "manifest.json",
}
_DATA_SUFFIXES = {".parquet", ".arrow", ".feather", ".ipc", ".jsonl", ".ndjson", ".gz", ".zst", ".zstd"}
_SIDE_STEMS = ("readme", "license", "licence", "notice", "citation", "changelog", "copying")
_SIDE_SUFFIXES = {
    ".md", ".sha256", ".sha512", ".md5", ".crc", ".py", ".yaml", ".yml", ".toml", ".lock", ".sh", ".log", ".png",
    ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".ipynb", ".html", ".css", ".js", ".ini", ".cfg",
}  # fmt: skip


def find_shards(data: Sequence[str | Path]) -> Listing:
    """List the shards of a call, in the order they are judged: as given, then by name.

    Args:
        data: Files, folders and globs. A name that exists is that file, whatever characters it holds.

    Raises:
        DataNotFoundError: A path does not exist, or a glob matches nothing.
        ShardAccessError: A folder or file may not be read.
        NothingToJudgeError: There is no shard in any of them.
    """
    shards: list[Shard] = []
    left_out: list[LeftOut] = []
    seen: set[str] = set()
    several = len(data) > 1
    for given in data:
        root, paths, explicit = _expand(str(given))
        prefix = f"{_clean(root.name)}/" if several and not explicit else ""
        for path in paths:
            name = path.name if explicit else path.relative_to(root).as_posix()
            found = _shard(path, prefix + _clean(name), explicit=explicit)
            if isinstance(found, LeftOut):
                left_out.append(found)
            elif found.location not in seen:  # another name of the same file is another shard, as it is to who reads it
                seen.add(found.location)
                shards.append(found)
    if not shards:
        raise NothingToJudgeError(
            _say_nothing(data, left_out), hint="name files or folders that hold JSONL, JSON, Parquet or Arrow."
        )
    return Listing(tuple(_unique(shards)), tuple(left_out))


def _expand(given: str) -> tuple[Path, list[Path], bool]:
    """The folder that names are relative to, the files in order, and whether they were named by hand."""
    if given.startswith("s3://"):
        raise UsageError(
            f"{given} is in S3, which this version can't read yet.", hint="copy the shards to a local folder first."
        )
    path = Path(given)
    try:
        mode = path.stat().st_mode if os.path.lexists(path) else None
    except FileNotFoundError as error:
        raise DataNotFoundError(
            f"{given} is a link to a file that does not exist.", hint="check where it points."
        ) from error
    except OSError as error:
        raise _refused(given, error) from error
    if mode is None:
        return _expand_glob(given)
    if stat.S_ISDIR(mode):
        root = path.resolve()
        return root, sorted(_walk(root, given), key=lambda p: p.relative_to(root).as_posix()), False
    if not stat.S_ISREG(mode):
        raise UsageError(
            f"{given} is neither a file nor a folder.", hint="write the data to a file first; pipes can't be judged."
        )
    return path.parent, [path], True


def _expand_glob(given: str) -> tuple[Path, list[Path], bool]:
    if not glob.has_magic(given):
        raise DataNotFoundError(f"{given} does not exist.", hint="check the spelling, and the folder you are in.")
    found = sorted(Path(p) for p in glob.glob(given, recursive=True) if os.path.isfile(p))  # noqa: PTH113, PTH207
    if not found:
        raise DataNotFoundError(
            f"no file matches {given}.", hint="check the pattern, and quote it so that the shell leaves it alone."
        )
    return Path(), found, True


def _walk(root: Path, given: str) -> Iterator[Path]:
    visited: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise _refused(error.filename or given, error) from error

    for folder, folders, names in os.walk(root, followlinks=True, onerror=refuse):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in visited:  # a link back to a folder above
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = sorted(f for f in folders if not f.startswith((".", "_")))
        yield from (Path(folder) / name for name in names)


def _shard(path: Path, name: str, *, explicit: bool) -> Shard | LeftOut:
    if not explicit and (why := _side_file(path)):
        return LeftOut(name, why)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return LeftOut(name, "not a regular file")
        if not explicit and not looks_like_shard(path):
            return LeftOut(name, "not a format that shards come in")
    except FileNotFoundError:
        return LeftOut(name, "a link to a file that does not exist")
    except OSError as error:
        raise _refused(name, error) from error
    return Shard(name, os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)  # noqa: PTH100 - links stay what they are


def is_side_file(path: Path) -> bool:
    """Whether a file of a folder is no shard, by its name."""
    return bool(_side_file(path))


def _side_file(path: Path) -> str:
    lower = path.name.lower()
    if lower.startswith((".", "_")):
        return "its name begins with . or _"
    if lower.endswith(".tmp"):
        return "a temporary file"
    suffix = path.suffix.lower()
    is_told = suffix not in _DATA_SUFFIXES and path.stem.lower().startswith(_SIDE_STEMS)
    if lower in _SIDE_FILES or is_told or suffix in _SIDE_SUFFIXES:
        return "a side file"
    return ""


def _clean(name: str) -> str:
    """A name that can be printed and stored: bytes that are no UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _unique(shards: list[Shard]) -> Iterator[Shard]:
    """Tell shards of one name apart by their folder; the file's own name stays at the end."""
    counts: dict[str, int] = {}
    for shard in shards:
        counts[shard.name] = counts.get(shard.name, 0) + 1
    for shard in shards:
        if counts[shard.name] == 1:
            yield shard
        else:
            name = _clean(Path(shard.location).as_posix().lstrip("/"))
            yield Shard(name, shard.location, shard.size, shard.mtime_ns, shard.ctime_ns, shard.inode)


def _refused(name: str, error: OSError) -> ShardAccessError:
    return ShardAccessError(
        f"{name} can't be read: {error.strerror or error}.", hint="check its permissions, and the disk or mount."
    )


def _say_nothing(data: Sequence[str | Path], left_out: list[LeftOut]) -> str:
    where = ", ".join(str(d) for d in data)
    if not left_out:
        return f"there is no shard in {where}."
    shown = ", ".join(f"{each.name} ({each.why})" for each in left_out[:3])
    more = f" and {len(left_out) - 3:,} more" if len(left_out) > 3 else ""
    return f"there is no shard in {where}: left out {shown}{more}."
