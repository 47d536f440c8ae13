"""Markdown for a pull request or a job summary: what failed, where, and what to do."""

import re
from collections.abc import Iterator
from itertools import islice

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.report._cells import cut, inert
from dflash_guard.report._failures import Shown
from dflash_guard.report._lines import WORDS, amounts, broken, last_line, outcome, said, skipped, warned
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["escaped", "pieces"]

MOST = 500  # places of one rule: a job summary ends at 1 MiB


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """A heading, a table of the rules that something broke, and the places, folded."""
    shown = Shown(verdict, style)
    data = cut(" ".join(verdict.data), 120)
    yield f"### dflash-guard: {WORDS[verdict.result]} · {escaped(verdict.contract.stage)} · {_code(data)}\n\n"
    yield f"{escaped(last_line(verdict))}\n\n"
    results = broken(verdict) + warned(verdict)
    if results:
        yield "| rule | outcome | rows | share | first place | what to do |\n|---|---|---:|---:|---|---|\n"
        for result in results:
            yield _row(result, shown)
        yield "\n"
    for result in results:
        yield from _places(result, shown)
    if left := skipped(verdict):
        yield f"Not judged: {', '.join(_code(result.rule) for result in left)}.\n\n"
    contract = verdict.contract
    yield (
        f"Contract {_code(contract.name)} {_code(verdict.contract.digest)} · family {_code(contract.family.name)} · "
        f"mode {_code(contract.mode)}\n"
    )


def _row(result: RuleResult, shown: Shown) -> str:
    first = shown.first(result.rule)
    cells = (
        _code(result.rule),
        outcome(result),
        *amounts(result),
        _code(first.place) if first is not None else "",
        escaped(CATALOG[result.rule].fix) if result.rule in CATALOG else "",
    )
    return f"| {' | '.join(cells)} |\n"


def _places(result: RuleResult, shown: Shown) -> Iterator[str]:
    yield f"<details><summary>{_code(result.rule)}: {escaped(said(result))}</summary>\n\n"
    for failure in islice(shown.of(result.rule), MOST):
        yield f"- {_code(failure.place)} {_code(failure.detail)}\n"
    yield "\n</details>\n\n"


def escaped(text: str) -> str:
    """Text in which nothing is markup: every mark of punctuation as a character reference."""
    return re.sub(r"[&<>\"'|`*_~\[\](){}#!$@\\+=:/]", lambda mark: f"&#{ord(mark[0])};", inert(text))


def _code(text: str) -> str:
    return f"<code>{escaped(text)}</code>" if text else ""
