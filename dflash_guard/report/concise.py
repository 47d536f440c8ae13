"""One failure a line, `shard:line: rule: detail`, as compilers write theirs; then the last line."""

from collections.abc import Iterator

from dflash_guard.report._failures import Shown
from dflash_guard.report._lines import last_line
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import Verdict

__all__ = ["pieces"]


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """The failures in the order of the data. A row of a columnar shard is written `shard:row N`, counted from 0."""
    for failure in Shown(verdict, style):
        level = "warning: " if failure.level == "warn" else ""
        yield f"{failure.place}: {level}{failure.rule}: {failure.detail}\n"
    yield last_line(verdict) + "\n"
