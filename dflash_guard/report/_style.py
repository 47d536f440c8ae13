"""How a report is to look, whatever its format."""

import os
import shutil
from dataclasses import dataclass, replace
from typing import Self, TextIO

__all__ = ["Style"]

NARROWEST, WIDEST, USUAL = 80, 120, 100


@dataclass(frozen=True, slots=True)
class Style:
    """How a report is to look.

    Attributes:
        max_failures: Failures shown per rule; 0 for all.
        redact: Whether text that came from samples is left out.
        color: Whether to colour it (text formats).
        width: Characters in a line (the full text format).
    """

    max_failures: int = 20
    redact: bool = False
    color: bool = False
    width: int = USUAL

    @classmethod
    def of(cls, stream: TextIO | None, *, max_failures: int, redact: bool, color: bool) -> Self:
        """The style for a stream: as wide as its terminal, or as COLUMNS says, within reason."""
        terminal = stream is not None and stream.isatty()
        width = shutil.get_terminal_size((USUAL, 24)).columns if terminal or os.environ.get("COLUMNS") else USUAL
        return cls(max_failures=max_failures, redact=redact, color=color, width=min(max(width, NARROWEST), WIDEST))

    def plain(self) -> Self:
        """The same for a file: no colour, the usual width."""
        return replace(self, color=False, width=USUAL)
