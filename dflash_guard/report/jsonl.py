"""One failure a line, as in the JSON report; the last line is the report without its failures."""

from collections.abc import Iterator

from dflash_guard.report._failures import Shown
from dflash_guard.report._style import Style
from dflash_guard.report.json import dumps, entry, head
from dflash_guard.verdict.model import Verdict

__all__ = ["pieces"]


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """The failures, then the summary. The summary alone has a key `schema`."""
    for failure in Shown(verdict, style):
        yield dumps(entry(failure)) + "\n"
    yield dumps(head(verdict)) + "\n"
