"""How one value is written: text that cannot break out of its place, numbers and shares that do not lie."""

import re
from typing import Any

__all__ = ["DETAIL", "count", "cut", "flat", "inert", "number", "percent", "seconds", "unformula"]

DETAIL = 200
"""Characters of a detail that a report shows."""

_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def flat(text: str) -> str:
    r"""The text on one line: control, bidirectional and invisible characters as \xNN or \uNNNN.

    >>> flat("red \x1b[31m\nline")
    'red \\x1b[31m\\x0aline'
    """
    return _CONTROLS.sub(_escaped, text)


def inert(text: str) -> str:
    r"""As `flat`, and nothing in it is a command to a CI runner that reads the output line by line.

    >>> inert("::error::x ##[add-mask]y")
    '\\x3a:error::x ##\\x5badd-mask]y'
    """
    text = flat(text).replace("##[", r"##\x5b")
    return re.sub(r"^(\s*):(?=:)", r"\1\\x3a", text)


def cut(text: str, limit: int = DETAIL) -> str:
    """The text, or its beginning and how long it is.

    >>> cut("a" * 1000, 5)
    'aaaaa… (1,000 characters)'
    """
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def count(amount: int, noun: str) -> str:
    """A number with its noun.

    >>> count(913786, "row"), count(1, "row")
    ('913,786 rows', '1 row')
    """
    return f"{amount:,} {noun if amount == 1 else noun + 's'}"


def percent(share: float | None) -> str:
    """A share as per cent: with as many digits as it takes to be neither 0 nor 100 where it is not.

    >>> percent(0.87), percent(0.00003), percent(0.999999), percent(1), percent(0), percent(None)
    ('87.0 %', '0.003 %', '99.9999 %', '100 %', '0 %', '–')
    """
    if share is None:
        return "–"
    value = share * 100
    if value in {0, 100}:
        return f"{value:.0f} %"
    first = 1 if value >= 1 else 2 if value >= 0.1 else 3
    for digits in range(first, 9):
        text = f"{value:.{digits}f}"
        if float(text) not in {0, 100}:
            return f"{text} %"
    return "< 0.00000001 %" if value < 50 else "> 99.99999999 %"


def number(value: Any) -> str:
    """An observed value or a bound, as a person writes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(number(each) for each in value)
    return inert(cut(str(value), 60))


def seconds(span: float) -> str:
    """A duration in seconds, without its unit.

    >>> seconds(0.034), seconds(2.345), seconds(75.3)
    ('0.03', '2.3', '75')
    """
    span = max(span, 0.0)
    return f"{span:.2f}" if span < 1 else f"{span:.1f}" if span < 20 else f"{span:,.0f}"


def unformula(text: str) -> str:
    r"""A cell of a table for spreadsheets that none of them takes for a formula; control characters are escaped.

    >>> unformula("=1+1"), unformula("a\nb"), unformula("fine")
    ("'=1+1", 'a\\x0ab', 'fine')
    """
    text = inert(text)
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text
