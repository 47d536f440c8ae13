"""JUnit XML: the data set is a test suite, each rule a test case."""

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from dflash_guard.report._cells import inert
from dflash_guard.report._failures import Shown
from dflash_guard.report._lines import broken, duration, last_line, outcome, said, skipped
from dflash_guard.report._style import Style
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["pieces"]


def pieces(verdict: Verdict, style: Style) -> Iterator[str]:
    """A rule that fails the data set is a failed case; a warning is a passed one with output; skipped is skipped."""
    shown = Shown(verdict, style)
    errors = int(verdict.result == "error")
    sizes = (
        f'tests="{len(verdict.rules) + errors}" failures="{len(broken(verdict))}" errors="{errors}" '
        f'skipped="{len(skipped(verdict))}" time="{max(duration(verdict), 0):.3f}"'
    )
    suite = f"dflash-guard {verdict.contract.stage}"
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="dflash-guard" {sizes}>\n'
    stamp = verdict.started.strftime("%Y-%m-%dT%H:%M:%S")
    yield f'  <testsuite name={_attribute(suite)} {sizes} timestamp="{stamp}">\n'
    yield "    <properties>\n"
    for name, value in (
        ("contract", verdict.contract.name),
        ("contract_digest", verdict.contract.digest),
        ("data", " ".join(verdict.data)),
    ):
        yield f"      <property name={_attribute(name)} value={_attribute(value)}/>\n"
    yield "    </properties>\n"
    for result in verdict.rules:
        yield from _case(result, verdict, shown)
    if errors:
        yield f'    <testcase classname={_attribute(suite)} name="judgement" time="0">\n'
        yield f"      <error message={_attribute(last_line(verdict))}/>\n    </testcase>\n"
    yield f"    <system-out>{_text(last_line(verdict))}</system-out>\n"
    yield "  </testsuite>\n</testsuites>\n"


def _case(result: RuleResult, verdict: Verdict, shown: Shown) -> Iterator[str]:
    case = (
        f"    <testcase classname={_attribute(f'dflash-guard.{verdict.contract.stage}')} name={_attribute(result.rule)}"
    )
    kind = outcome(result)
    if kind == "passed":
        yield f'{case} time="0"/>\n'
        return
    yield f'{case} time="0">\n'
    if kind == "skipped":
        yield f"      <skipped message={_attribute(result.skipped or '')}/>\n"
    else:
        text = said(result)
        opening, closing = (
            (f"<failure message={_attribute(text)} type={_attribute(result.level)}>", "</failure>")
            if kind == "failed"
            else (f"<system-out>{_text(f'{kind}: {text}')}\n", "</system-out>")
        )
        yield f"      {opening}"
        for failure in shown.of(result.rule):
            yield _text(f"{failure.place}: {failure.detail}") + "\n"
        yield f"{closing}\n"
    yield "    </testcase>\n"


def _text(text: str) -> str:
    return escape(_legal(text))


def _attribute(text: str) -> str:
    return quoteattr(_legal(text))


def _legal(text: str) -> str:
    """Text of characters that XML 1.0 allows (https://www.w3.org/TR/xml/#charsets)."""
    return re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", inert(text))
