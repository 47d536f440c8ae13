"""Annotations for GitHub Actions, by its workflow commands.

It shows ten errors and ten warnings of a step and drops the rest, so the rules take turns: one place of each, then
the second of each, and so on.
"""

from collections.abc import Iterator
from itertools import islice

from dflash_guard.report._cells import inert
from dflash_guard.report._failures import Failure, Shown
from dflash_guard.report._lines import broken, last_line, repository_paths, said, warned
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["pieces"]

MOST = 10  # annotations of one level in one step
_PROPERTY = {"%": "%25", ":": "%3A", ",": "%2C"}


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """Up to ten errors, up to ten warnings, and a notice that sums up."""
    shown = Shown(verdict, style)
    paths = repository_paths(verdict)
    for command, results in (("error", broken(verdict)), ("warning", warned(verdict))):
        for result, failure in islice(_turns(results, shown), MOST):
            yield _annotation(command, result, failure, paths)
    yield f"::notice title=dflash-guard::{_message(last_line(verdict))}\n"


def _turns(results: list[RuleResult], shown: Shown) -> Iterator[tuple[RuleResult, Failure | None]]:
    """Each rule's first place, then each rule's second, …; a rule without a place comes once."""
    places: list[list[Failure | None]] = [[*islice(shown.of(result.rule), MOST)] or [None] for result in results]
    for turn in range(MOST):
        for result, found in zip(results, places, strict=True):
            if turn < len(found):
                yield result, found[turn]


def _annotation(command: str, result: RuleResult, failure: Failure | None, paths: dict[str, str]) -> str:
    properties = {"title": f"dflash-guard: {result.rule}"}
    text = said(result)
    if failure is not None:
        text = f"{failure.place}: {failure.detail} — {text}"
        if failure.shard is not None:
            properties["file"] = paths.get(failure.shard, failure.shard)
        if failure.line is not None:
            properties["line"] = str(failure.line)
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {written}::{_message(text)}\n"


def _message(text: str) -> str:
    return inert(text).replace("%", "%25")


def _property(text: str) -> str:
    return "".join(_PROPERTY.get(character, character) for character in inert(text))
