"""Where output goes: results to stdout, everything else to stderr, files whole or not at all."""

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

__all__ = ["colourful", "note", "out", "steady", "write_whole"]


def steady() -> None:
    """Makes the standard streams escape what their encoding lacks, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and getattr(stream, "errors", "") == "strict":
            with contextlib.suppress(ValueError, OSError):
                reconfigure(errors="backslashreplace")


def out(pieces: Iterable[str]) -> None:
    """Prints results. A reader that went away, such as `head`, is no error."""
    _print(pieces, sys.stdout)


def note(text: str) -> None:
    """Prints one line to stderr. A stderr that is closed or full stops nothing."""
    with contextlib.suppress(OSError, ValueError):
        _print((text, "\n"), sys.stderr)


def _print(pieces: Iterable[str], stream: TextIO | None) -> None:
    if stream is None:  # started with the stream closed
        return
    try:
        for piece in pieces:
            stream.write(piece)
        stream.flush()
    except BrokenPipeError:
        _hush(stream)


def _hush(stream: TextIO) -> None:
    """Points the stream at nothing, so that what is left in its buffer is not tried again."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def colourful(stream: TextIO | None) -> bool:
    """Whether to colour what goes to this stream: a terminal, and NO_COLOR not set (https://no-color.org)."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Writes a file under a temporary name beside it, then renames it, so that no reader sees half of it.

    Raises:
        OSError: It cannot be written; what stood there before is left as it was.
    """
    if path.exists() and not path.is_file():  # a terminal, a pipe: nothing to rename onto
        with path.open("w", encoding="utf-8") as device:
            device.writelines(pieces)
        return
    path = path.resolve()  # a link is written through, not replaced
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
