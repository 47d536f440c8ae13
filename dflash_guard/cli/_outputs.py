"""Reports beside the one on stdout: files asked for with `-o`, and what GitHub Actions takes."""

import difflib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_guard import report
from dflash_guard.cli._console import note, write_whole
from dflash_guard.errors import JudgeError, UsageError
from dflash_guard.verdict.model import Verdict

__all__ = ["Output", "asked_for", "under_github", "write"]


@dataclass(frozen=True, slots=True)
class Output:
    """A report to write to a file: the format, and where to."""

    format: str
    path: Path


def asked_for(values: Sequence[str], formats: Sequence[str] = report.FORMATS) -> tuple[Output, ...]:
    """Reads the values of `-o`, and makes the folders, before the work begins.

    Args:
        values: As given.
        formats: Those that there are.

    Raises:
        UsageError: A value is not FORMAT:PATH, or its folder cannot be made.
    """
    return tuple(_output(value, formats) for value in values)


def _output(value: str, formats: Sequence[str]) -> Output:
    name, colon, path = value.partition(":")
    if not colon or not path:
        raise UsageError(f"-o {value!r} is not FORMAT:PATH.", hint="Write for example -o junit:report.xml.")
    if name not in formats:
        near = difflib.get_close_matches(name, formats, n=1)
        hint = f"Did you mean {near[0]}:{path}?" if near else f"Formats: {', '.join(formats)}."
        raise UsageError(f"-o {value!r} names no known format.", hint=hint)
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"-o {value!r} names a folder.", hint=f"Name a file, such as {target / 'report'}.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder of -o {value!r} cannot be made: {error.strerror}.", hint="Name a path that can be written."
        ) from error
    return Output(name, target)


def write(outputs: Sequence[Output], pieces: Callable[[Any], Iterable[str]]) -> None:
    """Writes each report, whole.

    Args:
        outputs: As `asked_for` read them.
        pieces: Makes the report in a format.

    Raises:
        JudgeError: One could not be written; those before it stand.
    """
    for output in outputs:
        try:
            write_whole(output.path, pieces(output.format))
        except OSError as error:
            raise JudgeError(
                f"The {output.format} report could not be written to {output.path}: {error.strerror}.",
                hint="The data was judged; free the disk or name another path, and run it again.",
            ) from error


def under_github(verdict: Verdict, printed: str, style: report.Style) -> None:
    """Under GitHub Actions: annotations, unless they were just printed, and the step summary."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    plain = style.plain()
    if printed != "github":
        for piece in report.pieces(verdict, "github", plain):
            note(piece.rstrip("\n"))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.writelines(report.pieces(verdict, "markdown", plain))
        except OSError as error:
            note(f"warning: the step summary could not be written: {error.strerror}")
