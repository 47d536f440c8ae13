"""Reports: a verdict as text, or as one of seven formats for machines. They print what it says and compute nothing.

A sample's text cannot break out of any of them: control characters are written as escapes, long text is cut, and
each format escapes what means something to whoever reads it.
"""

import importlib
from collections.abc import Iterator
from typing import Literal, get_args

from dflash_guard.report._lines import last_line
from dflash_guard.report._redaction import withheld
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import Verdict

__all__ = ["FORMATS", "WITH_LAST_LINE", "Format", "Style", "last_line", "pieces", "render"]

Format = Literal["full", "concise", "json", "jsonl", "github", "junit", "sarif", "markdown"]

FORMATS: tuple[Format, ...] = get_args(Format)

WITH_LAST_LINE: frozenset[Format] = frozenset({"full", "concise"})
"""Formats that end with the last line themselves; for the others it goes to stderr."""

_MODULES: dict[Format, str] = {"full": "text"}


def pieces(verdict: Verdict, format: Format = "full", style: Style | None = None) -> Iterator[str]:  # noqa: A002
    """A report, piece by piece, however many failures it shows.

    Args:
        verdict: What to report.
        format: How to write it.
        style: How many failures, redacted or not, colour, width.

    Yields:
        Text to be written as it stands; the last piece ends with a newline.
    """
    style = style or Style()
    if style.redact:
        verdict = withheld(verdict)
    module = importlib.import_module(f"dflash_guard.report.{_MODULES.get(format, format)}")
    yield from module.pieces(verdict, style)


def render(verdict: Verdict, format: Format = "full", style: Style | None = None) -> str:  # noqa: A002
    """A report as one text; see `pieces`."""
    return "".join(pieces(verdict, format, style))
