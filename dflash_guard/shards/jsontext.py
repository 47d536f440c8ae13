"""Is this text exactly one standard JSON object? The exact answer, one text at a time.

Python's parser with its liberties taken away (RFC 8259, and a depth limit): no NaN or Infinity, no number
outside the double range, no key twice, no lone surrogate, no nesting deeper than 128. The vectorised scan
(`structure`) calls it for texts of a form not seen before, and for those that it finds odd.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["MAX_DEPTH", "TextFault", "judge_text"]

MAX_DEPTH = 128
_BOM = b"\xef\xbb\xbf"
_WHITE = " \t\n\r"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)
# What a number, literal or escape that was cut in the middle looks like from where the parser stopped.
_CUT = re.compile(r"(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|-|\.|\.?[eE][+-]?)\Z")
_CUT_ESCAPE = re.compile(r"\\?u?[0-9a-fA-F]{0,3}\Z")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class TextFault:
    """A fault of one JSON text: a rule of the catalog, and what was found where."""

    rule: str
    detail: str


class _RefusedError(ValueError):
    """Standard JSON ends here, though Python's parser would go on."""


def judge_text(raw: bytes, *, unfinished: bool = False) -> TextFault | None:
    """Say what is wrong with one JSON text.

    Args:
        raw: The text, without byte-order mark.
        unfinished: Whether the data ended without a newline behind it, so that it may be torn.

    Returns:
        None for one standard JSON object in valid UTF-8; else the first fault, gravest first:
        torn-last-line, malformed-row, invalid-text, duplicate-key.
    """
    if unfinished:
        raw = _without_cut_character(raw)
    text = raw.decode("utf-8", "surrogateescape")
    repeated: list[str] = []
    try:
        _check_depth(text)
        value = _decoder(repeated).decode(text)
    except json.JSONDecodeError as error:
        if unfinished and _is_torn(error, text):
            return TextFault("torn-last-line", f"the data ends inside a value, after {len(raw):,} bytes of the line")
        return TextFault("malformed-row", _say(error, text))
    except (_RefusedError, RecursionError) as error:
        return TextFault("malformed-row", str(error))
    if not isinstance(value, dict):
        return TextFault("malformed-row", f"a row must be a JSON object, this is {_kind(value)}")
    if lone := _lone_surrogate(value):
        return TextFault("invalid-text", lone)
    said = f"key {_shorten(repeated[0])} stands twice in one object" if repeated else ""
    return TextFault("duplicate-key", said) if repeated else None


def _decoder(repeated: list[str]) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            seen: set[str] = set()
            repeated.extend(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return found

    def constant(name: str) -> NoReturn:
        raise _RefusedError(f"{name} is not JSON")

    def real(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            raise _RefusedError(f"number {_shorten(digits)} is outside the double range")
        return value

    def integer(digits: str) -> str:
        # Kept as text: no integer is too long. Beyond 309 digits it is outside the double range.
        if len(digits) > 309 or (len(digits) > 300 and math.isinf(float(digits))):
            raise _RefusedError(f"number {_shorten(digits)} is outside the double range")
        return digits

    return json.JSONDecoder(object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=integer)


def _check_depth(text: str) -> None:
    depth = 0
    for mark in re.findall(r"[\[{\]}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        if depth > MAX_DEPTH:
            raise _RefusedError(f"nesting deeper than {MAX_DEPTH}")


def _without_cut_character(raw: bytes) -> bytes:
    """Drop a UTF-8 sequence that the end of the data cut."""
    for back in range(1, min(4, len(raw) + 1)):
        lead = raw[-back]
        if lead >= 0xC0:
            wanted = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return raw[:-back] if back < wanted else raw
        if lead < 0x80:
            break
    return raw


def _is_torn(error: json.JSONDecodeError, text: str) -> bool:
    stripped = text.rstrip(_WHITE)
    if not stripped.lstrip(_WHITE):
        return False
    if error.msg.startswith("Unterminated string") or error.pos >= len(stripped):
        return True
    if error.msg.startswith("Invalid \\"):
        return any(_CUT_ESCAPE.match(text, at) for at in (error.pos, error.pos - 1))
    return _CUT.match(text, error.pos) is not None


def _say(error: json.JSONDecodeError, text: str) -> str:
    if not text.strip(_WHITE):
        return "no JSON text"
    if not text.strip("\0"):
        return f"{len(text):,} NUL bytes"
    if error.msg == "Extra data":
        return f"more text after the JSON value, at character {error.pos + 1}"
    said = error.msg.removesuffix(" at")
    near = text[error.pos : error.pos + 20]
    return f"{said[:1].lower()}{said[1:]} at character {error.pos + 1}" + (f", near {near!a}" if near else "")


def _kind(value: object) -> str:
    return "an array" if isinstance(value, list) else "a string" if isinstance(value, str) else "a bare value"


def _lone_surrogate(value: object) -> str | None:
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError as error:
                return _say_surrogate(ord(item[error.start]))
    return None


def _say_surrogate(code: int) -> str:
    # surrogateescape put the bytes 0x80-0xFF that are no UTF-8 at U+DC80-U+DCFF.
    if 0xDC80 <= code <= 0xDCFF:
        return f"byte 0x{code - 0xDC00:02X} is not UTF-8"
    return f"lone surrogate \\u{code:04x}"


def _shorten(text: str) -> str:
    shown = json.dumps(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}… ({len(text):,} characters)"
