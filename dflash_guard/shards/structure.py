"""Where strings begin and end in a block of JSON texts, and which texts are odd: vectorised.

A block holds many texts. Bytes outside strings are few, so everything after the first passes over the
bytes works on sparse positions: quotes, escapes, the short runs between strings. The *form* of a text is
what is left of it when string values are taken out and digits are made alike: keys, brackets, commas,
literals. Whether a text is standard JSON with no key twice depends on its form and on what stands in its
strings; a data set has few forms, so each new form is judged exactly once (`jsontext`), by one text that has it.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dflash_guard.shards.jsontext import judge_text

__all__ = ["WHITE", "Forms", "Marks", "Texts", "find_marks", "padded"]

Bytes = npt.NDArray[np.uint8]
Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

_QUOTE, _BACKSLASH, _COLON, _ZERO = 0x22, 0x5C, 0x3A, 0x30
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{3}")
_PIECE = 1 << 18  # bytes looked at in one go
_LONGEST = 64  # bytes of a run or key that is hashed; a text with a longer one is judged by itself
_MOST_FORMS = 100_000  # remembered; beyond that they are judged anew, never taken on trust
_ODD_A, _ODD_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_HEX = np.full(256, 255, dtype=np.uint8)
for _digit, _byte in enumerate(b"0123456789abcdef"):
    _HEX[_byte] = _digit
for _digit, _byte in enumerate(b"ABCDEF", start=10):
    _HEX[_byte] = _digit
_ESCAPABLE = np.zeros(256, dtype=np.bool_)
_ESCAPABLE[list(b'"\\/bfnrtu')] = True
WHITE = np.zeros(256, dtype=np.bool_)
WHITE[list(b" \t\n\r")] = True
_BEFORE_NUMBER = np.zeros(256, dtype=np.bool_)
_BEFORE_NUMBER[list(b" \t\n\r:,[-")] = True


@dataclass(frozen=True, slots=True)
class Texts:
    """A block of bytes and the texts in it: text i is block[starts[i]:ends[i]], sorted, not overlapping."""

    block: Bytes
    starts: Index
    ends: Index


def padded(*blocks: bytes | memoryview) -> Bytes:
    """Join blocks into one array with eight bytes behind it, so that eight can be read from any position."""
    size = sum(len(block) for block in blocks)
    whole = np.empty(size + 8, dtype=np.uint8)
    whole[size:] = 0
    at = 0
    for block in blocks:
        whole[at : at + len(block)] = np.frombuffer(block, dtype=np.uint8)
        at += len(block)
    return whole[:size]


@dataclass(frozen=True, slots=True)
class Marks:
    """Where the bytes stand that matter, each sorted: one pass over the block finds them all."""

    quotes: Index  # not escaped
    escapes: Index  # backslashes that begin an escape
    controls: Index  # bytes below 0x20
    zeros: Index  # the digit 0


def find_marks(block: Bytes) -> Marks:
    """Find the bytes that matter in a block of JSON texts."""
    at = _find_bytes(block)
    byte = block[at]
    escapes = _escapes(at[byte == _BACKSLASH])
    return Marks(
        quotes=_not_escaped(block, at[byte == _QUOTE], escapes),
        escapes=escapes,
        controls=at[byte < 0x20],
        zeros=at[byte == _ZERO],
    )


def _find_bytes(block: Bytes) -> Index:
    """Positions of quotes, backslashes, zeros and control characters; piece by piece, within the processor's cache."""
    found = []
    wanted, equal = np.empty(_PIECE, dtype=np.bool_), np.empty(_PIECE, dtype=np.bool_)
    for start in range(0, len(block), _PIECE):
        piece = block[start : start + _PIECE]
        here, also = wanted[: len(piece)], equal[: len(piece)]
        np.less(piece, 0x20, out=here)
        for byte in (_QUOTE, _BACKSLASH, _ZERO):
            np.equal(piece, byte, out=also)
            np.logical_or(here, also, out=here)
        found.append(np.flatnonzero(here) + start)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _escapes(slashes: Index) -> Index:
    """In a run of backslashes every second one, counted from the run's start, begins an escape."""
    if not len(slashes):
        return slashes
    first = np.empty(len(slashes), dtype=np.bool_)
    first[0] = True
    np.not_equal(slashes[1:], slashes[:-1] + 1, out=first[1:])
    run_start = slashes[first][np.cumsum(first) - 1]
    begins: Index = slashes[((slashes - run_start) & 1) == 0]
    return begins


def _not_escaped(block: Bytes, quotes: Index, escapes: Index) -> Index:
    if not len(escapes) or not len(quotes):
        return quotes
    behind = np.flatnonzero(block[np.maximum(quotes - 1, 0)] == _BACKSLASH)
    at = np.minimum(np.searchsorted(escapes, quotes[behind] - 1), len(escapes) - 1)
    keep = np.ones(len(quotes), dtype=np.bool_)
    keep[behind[escapes[at] == quotes[behind] - 1]] = False
    return quotes[keep]


@dataclass(slots=True)
class Forms:
    """The forms of text met so far, and the verdict on each.

    Attributes:
        known: Sorted hashes of the forms whose every text is one standard JSON object, as far as its form goes.
    """

    known: Words = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def odd(self, texts: Texts) -> Flags:
        """Tell which texts must be judged one by one; the others are standard JSON objects.

        Raw control characters, escapes and surrogates inside strings are judged here, exactly.
        """
        block, count = texts.block, len(texts.starts)
        odd = np.zeros(count, dtype=np.bool_)
        if not count:
            return odd
        marks = find_marks(block)
        quotes = marks.quotes
        first = np.searchsorted(quotes, texts.starts)
        last = np.searchsorted(quotes, texts.ends)
        odd |= ((last - first) & 1) == 1
        _mark_controls(odd, texts, marks, first)
        _mark(odd, texts, _bad_escapes(block, marks.escapes))
        _mark_leading_zeros(odd, texts, marks, first)
        forms = _hash_forms(texts, marks, first, last, odd)
        self._learn(forms, texts, odd)
        return odd | ~_isin(forms, self.known)

    def _learn(self, forms: Words, texts: Texts, odd: Flags) -> None:
        candidates = np.flatnonzero(~odd & ~_isin(forms, self.known))
        if not len(candidates):
            return
        new, where = np.unique(forms[candidates], return_index=True)
        if len(self.known) + len(new) > _MOST_FORMS:
            return
        sound = [_is_sound(texts, int(candidates[i])) for i in where]
        self.known = np.sort(np.concatenate([self.known, new[np.array(sound, dtype=np.bool_)]]))


def _is_sound(texts: Texts, index: int) -> bool:
    raw = texts.block[texts.starts[index] : texts.ends[index]].tobytes()
    # Digits are alike in a form, so a long exponent says nothing of the others that share it.
    return judge_text(raw) is None and not _LONG_EXPONENT.search(_STRING.sub(b"", raw))


def _isin(values: Words, known: Words) -> Flags:
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.searchsorted(known, values)
    at[at == len(known)] = 0
    found: Flags = known[at] == values
    return found


def _mark_controls(odd: Flags, texts: Texts, marks: Marks, first: Index) -> None:
    """Mark texts with a raw control character, white space between tokens apart."""
    owner, inside = _owners(texts, marks.controls)
    at, owner = marks.controls[inside], owner[inside]
    if len(at):
        odd[owner[_in_string(at, owner, marks.quotes, first) | ~WHITE[texts.block[at]]]] = True


def _mark_leading_zeros(odd: Flags, texts: Texts, marks: Marks, first: Index) -> None:
    """Mark texts with a number such as 007, whose form is that of 100."""
    block = texts.block
    at = marks.zeros
    at = at[(at > 0) & (at < len(block) - 1)]
    at = at[(block[at + 1] - np.uint8(0x30) < 10) & _BEFORE_NUMBER[block[at - 1]]]
    if len(at):
        owner, inside = _owners(texts, at)
        at, owner = at[inside], owner[inside]
        odd[owner[~_in_string(at, owner, marks.quotes, first)]] = True


def _owners(texts: Texts, positions: Index) -> tuple[Index, Flags]:
    owner = np.searchsorted(texts.starts, positions, side="right") - 1
    return owner, (owner >= 0) & (positions < texts.ends[owner])


def _in_string(positions: Index, owner: Index, quotes: Index, first: Index) -> Flags:
    inside: Flags = ((np.searchsorted(quotes, positions) - first[owner]) & 1) == 1
    return inside


def _mark(odd: Flags, texts: Texts, positions: Index) -> None:
    if len(positions):
        owner, inside = _owners(texts, positions)
        odd[owner[inside]] = True


def _bad_escapes(block: Bytes, escapes: Index) -> Index:
    r"""Positions of escapes that are no JSON, lone surrogates, or control characters written as \u00XX."""
    if not len(escapes):
        return escapes
    room = escapes < len(block) - 6
    letter = block[np.minimum(escapes + 1, len(block) - 1)]
    bad = ~_ESCAPABLE[letter]
    unicode = letter == 0x75
    bad |= unicode & ~room
    at = escapes[unicode & room]
    if not len(at):
        return escapes[bad]
    digits = [_HEX[block[at + k]] for k in range(2, 6)]
    code = np.zeros(len(at), dtype=np.int32)
    wrong = np.zeros(len(at), dtype=np.bool_)
    for digit in digits:
        wrong |= digit == 255
        code = code * 16 + digit
    high, low = (code >> 10) == 0x36, (code >> 10) == 0x37
    next_low = np.zeros(len(at), dtype=np.bool_)
    next_low[:-1] = low[1:] & (at[1:] == at[:-1] + 6)
    after_high = np.zeros(len(at), dtype=np.bool_)
    after_high[1:] = high[:-1] & (at[1:] == at[:-1] + 6)
    wrong |= (high & ~next_low) | (low & ~after_high)
    wrong |= (code < 0x20) & (code != 0x09) & (code != 0x0A) & (code != 0x0D)
    return np.concatenate([escapes[bad], at[wrong]])


def _hash_forms(texts: Texts, marks: Marks, first: Index, last: Index, odd: Flags) -> Words:
    """One 64-bit hash a text over its runs between strings and its keys; texts that are already odd get 0."""
    forms = np.zeros(len(texts.starts), dtype=np.uint64)
    keep = np.flatnonzero(~odd)
    if not len(keep):
        return forms
    first, last = first[keep], last[keep]
    strings = (last - first) >> 1
    runs = strings + 1  # before each string, and after the last
    run_first = np.concatenate([[0], np.cumsum(runs)[:-1]])
    total = int(runs.sum())
    opens, closes = _pairs(marks.quotes, first, strings)
    run_start = np.empty(total, dtype=np.int64)
    run_end = np.empty(total, dtype=np.int64)
    is_first = np.zeros(total, dtype=np.bool_)
    is_first[run_first] = True
    is_last = np.zeros(total, dtype=np.bool_)
    is_last[run_first + runs - 1] = True
    run_start[is_first] = texts.starts[keep]
    run_start[~is_first] = closes + 1
    run_end[is_last] = texts.ends[keep]
    run_end[~is_last] = opens
    long = run_end - run_start > _LONGEST
    hashes = _hash_bytes(texts.block, run_start, run_end, digits=True)
    # The run after a string says whether that string is a key.
    after = run_start[~is_first]
    is_key = _next_is_colon(texts.block, after, run_end[~is_first])
    key_hash = np.full(len(opens), _ODD_B, dtype=np.uint64)
    key_hash[is_key] = _hash_bytes(texts.block, opens[is_key] + 1, closes[is_key], digits=False)
    long_key = np.zeros(total, dtype=np.bool_)
    long_key[np.flatnonzero(~is_first)] = is_key & _too_long_or_escaped(marks.escapes, opens, closes, is_key)
    mixed = hashes * _ODD_A
    mixed[~is_first] ^= key_hash
    place = np.arange(total, dtype=np.uint64) - np.repeat(run_first.astype(np.uint64), runs)
    mixed = _mix(mixed + place * _ODD_B)
    forms[keep] = np.add.reduceat(mixed, run_first)
    strange = np.logical_or.reduceat(long | long_key, run_first)
    odd[keep[strange]] = True
    return forms


def _pairs(quotes: Index, first: Index, strings: Index) -> tuple[Index, Index]:
    total = int(strings.sum())
    offset = np.concatenate([[0], np.cumsum(strings)[:-1]])
    base = np.repeat(first - 2 * offset, strings) + 2 * np.arange(total)
    return quotes[base], quotes[base + 1]


def _next_is_colon(block: Bytes, start: Index, end: Index) -> Flags:
    at = start.copy()
    last = len(block) - 1
    moving = np.flatnonzero((at < end) & WHITE[block[np.minimum(at, last)]])
    while len(moving):
        at[moving] += 1
        moving = moving[(at[moving] < end[moving]) & WHITE[block[np.minimum(at[moving], last)]]]
    found: Flags = (at < end) & (block[np.minimum(at, last)] == _COLON)
    return found


def _too_long_or_escaped(escapes: Index, opens: Index, closes: Index, is_key: Flags) -> Flags:
    strange = closes - opens > _LONGEST
    keys = np.flatnonzero(is_key & ~strange)
    if len(keys) and len(escapes):
        # An escape in a key can spell a key that stands there already: such texts are judged one by one.
        low = np.searchsorted(escapes, opens[keys])
        high = np.searchsorted(escapes, closes[keys])
        strange[keys[high > low]] = True
    return strange


def _hash_bytes(block: Bytes, start: Index, end: Index, *, digits: bool) -> Words:
    """Hash block[start:end] of at most 64 bytes each, eight bytes at a time.

    Args:
        block: The bytes.
        start: First position of each run.
        end: Position behind each run.
        digits: Whether all digits count as one and the same.
    """
    padded = _words(block)
    length = end - start
    result = length.astype(np.uint64) if not digits else np.zeros(len(start), dtype=np.uint64)
    live = np.flatnonzero(length > 0)
    offset = 0
    while len(live) and offset < _LONGEST:
        rest = length[live] - offset
        word = padded[start[live] + offset]
        word &= _KEEP[np.minimum(rest, 8)]
        if digits:
            word = _level_digits(word)
        result[live] = _mix(result[live] ^ (word + _SALT[offset // 8]))
        offset += 8
        live = live[rest > 8]
    return result


_SALT = np.arange(1, _LONGEST // 8 + 1, dtype=np.uint64) * _ODD_A
_KEEP = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [2**64 - 1], dtype=np.uint64)


def _words(block: Bytes) -> Words:
    """A view of 8 bytes from every position, little-endian."""
    base = block.base
    if not isinstance(base, np.ndarray) or len(base) < len(block) + 8:
        base = np.concatenate([block, np.zeros(8, dtype=np.uint8)])
    view: Words = np.ndarray(shape=(len(block),), dtype="<u8", buffer=base.data, strides=(1,))
    return view


def _level_digits(word: Words) -> Words:
    """Make every ASCII digit a 0 (SWAR: eight bytes in one word)."""
    high = np.uint64(0x8080808080808080)
    flipped = word ^ np.uint64(0x3030303030303030)
    low = flipped & ~high
    is_digit = ~((low + np.uint64(0x7676767676767676)) | flipped) & high
    # 0xFF in each byte that is a digit.
    full = (is_digit >> np.uint64(7)) * np.uint64(0xFF)
    level: Words = (word & ~full) | (np.uint64(0x3030303030303030) & full)
    return level


def _mix(word: Words) -> Words:
    word = word ^ (word >> np.uint64(32))
    word = word * _ODD_A
    return word ^ (word >> np.uint64(29))
