"""The full report: what a person reads. Failures first, then warnings, then what was not judged."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.report._cells import count, cut, inert, percent
from dflash_guard.report._failures import Failure, Shown
from dflash_guard.report._lines import WORDS, amounts, bounds, broken, found, last_line, skipped, warned
from dflash_guard.report._style import Style
from dflash_guard.report._table import aligned
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["pieces"]

Paint = Callable[..., str]
"""Text and ANSI codes → coloured text."""

BOLD, DIM, RED, YELLOW, GREEN = "1", "2", "31", "33", "32"
HUES = {"pass": GREEN, "fail": RED, "error": RED}
LEFT_OUT = 10  # files named
GAP = "  "
FROM = {  # what no option named
    "contract": " (by the contract)",
    "manifest": " (by the manifest)",
    "data": " (found in the data)",
    "default": " (by default)",
}


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """Heading, contract, the table of rules that something broke, their rows, the rest, the last line."""
    shown = Shown(verdict, style)
    paint = _painter(style)
    yield from _heading(verdict, style, paint)
    groups = (("Failures", RED, broken(verdict)), ("Warnings", YELLOW, warned(verdict)))
    for title, hue, results in groups:
        if results:
            yield f"\n{paint(title, hue, BOLD)}\n"
            yield from _table(results, shown, paint)
    for _, hue, results in groups:
        for result in results:
            yield from _rows(result, shown, style, paint, hue)
    yield from _skipped(verdict, style)
    yield from _left_out(verdict)
    if verdict.folder:
        yield f"\nFacts, failures and verdict: {inert(verdict.folder)}\n"
    yield f"\n{paint(last_line(verdict), HUES[verdict.result], BOLD)}\n"


def _painter(style: Style) -> Paint:
    def paint(text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if style.color else text

    return paint


def _heading(verdict: Verdict, style: Style, paint: Paint) -> Iterator[str]:
    contract = verdict.contract
    data = cut(inert(" ".join(verdict.data)), style.width)
    yield f"{paint(WORDS[verdict.result], HUES[verdict.result], BOLD)} · {contract.stage} · {data}\n"
    digest = verdict.contract.digest
    yield f"contract {inert(contract.name)} · {inert(contract.path)}\n         {digest}\n"
    family_from, mode_from = FROM.get(contract.family_from, ""), FROM.get(contract.mode_from, "")
    yield f"family {inert(contract.family.name)}{family_from} · mode {contract.mode}{mode_from}\n"
    changed = [setting for setting in contract.rules.values() if setting.set_by]
    for setting in changed:
        value = f"{setting.level}, tolerance {percent(setting.tolerance)}, {bounds(setting.bound)}"
        yield f"changed by {inert(setting.set_by)}: {setting.rule} ({value})\n"
    if ignored := [setting.rule for setting in contract.rules.values() if setting.ignored]:
        yield _wrapped(f"ignored: {', '.join(ignored)}", style, "")


def _table(results: Sequence[RuleResult], shown: Shown, paint: Paint) -> Iterator[str]:
    firsts = {result.rule: shown.first(result.rule) for result in results}
    lines = [("rule", "level", "rows", "share", "first place")]
    for result in results:
        first = firsts[result.rule]
        where = first.place if first is not None else "–"
        lines.append((result.rule, result.level, *amounts(result), where))
    for place, text in enumerate(aligned(lines, {2, 3})):
        yield f"{paint(GAP + text, BOLD) if place == 0 else GAP + text}\n"


def _rows(result: RuleResult, shown: Shown, style: Style, paint: Paint, hue: str) -> Iterator[str]:
    yield f"\n{paint(result.rule, hue, BOLD)}: {found(result)}\n"
    if result.message:
        yield _wrapped(inert(cut(result.message, 1000)), style, GAP)
    known = CATALOG.get(result.rule)
    if known is not None:
        yield _wrapped(f"{known.says}", style, GAP)
        yield _wrapped(f"To do: {known.fix}", style, GAP)
    total = 0
    for failure in shown.of(result.rule):
        total += 1
        yield f"    {_line(failure)}\n"
    if total and result.failing_rows > total:
        yield paint(f"    … and {result.failing_rows - total:,} more (--max-failures 0 shows all)", DIM) + "\n"


def _line(failure: Failure) -> str:
    name = f" (id {inert(cut(failure.sample_id, 60))})" if failure.sample_id is not None else ""
    return f"{failure.place}{name}: {failure.detail}"


def _skipped(verdict: Verdict, style: Style) -> Iterator[str]:
    results = sorted(skipped(verdict), key=lambda result: (result.skipped or "", result.rule))
    if not results:
        return
    yield f"\nNot judged ({count(len(results), 'rule')})\n"
    for reason, group in groupby(results, key=lambda result: result.skipped or ""):
        names = ", ".join(result.rule for result in group)
        yield _wrapped(f"{inert(cut(reason))}: {names}", style, GAP)


def _left_out(verdict: Verdict) -> Iterator[str]:
    files = verdict.left_out
    if not files:
        return
    yield f"\nLeft out ({count(len(files), 'file')})\n"
    for file in islice(files, LEFT_OUT):
        yield f"{GAP}{inert(file.name)}: {inert(file.why)}\n"
    if len(files) > LEFT_OUT:
        yield f"{GAP}… and {len(files) - LEFT_OUT:,} more\n"


def _wrapped(text: str, style: Style, indent: str) -> str:
    lines = textwrap.wrap(
        text,
        style.width,
        initial_indent=indent,
        subsequent_indent=indent + GAP,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) + "\n"
