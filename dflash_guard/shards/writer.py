"""Files that are whole or absent: a temporary name, fsync, rename."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dflash_guard.errors import JudgeError

__all__ = ["make_folder", "publish", "sync_tree", "temporary_name", "whole_file", "whole_path", "write_whole"]


def make_folder(path: Path) -> None:
    """Make a folder and those above it.

    Raises:
        JudgeError: It can't be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{path} can't be made: {error.strerror or error}."
        raise JudgeError(message, hint="name a folder that can be written with --out.") from error


@contextlib.contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """Hand out a temporary name beside `path`; what stands there afterwards becomes `path`, or nothing does.

    Raises:
        JudgeError: The disk is full, or the folder can't be written.
    """
    temporary = temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        publish(temporary, path)
    except OSError as error:
        message = f"{path} can't be written: {error.strerror or error}."
        raise JudgeError(
            message, hint="check the disk and its permissions, or name another folder with --out."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Like `whole_path`, with the temporary file open for writing."""
    with whole_path(path) as temporary, temporary.open("wb") as file:
        yield file


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is whole or absent, whatever happens."""
    with whole_file(path) as file:
        file.write(data)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that no other run or thread takes, and no reader takes for data."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def publish(temporary: Path, path: Path) -> None:
    """Give a file that is written whole its name: its bytes are on the disk before the name is."""
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def sync_tree(folder: Path) -> None:
    """Bring all that is in a folder to the disk, before the folder gets its name."""
    for each in [*folder.rglob("*"), folder]:
        _sync(each)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
