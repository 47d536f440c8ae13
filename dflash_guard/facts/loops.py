"""Does a text run in a loop? One short phrase, again and again, over most of it.

SQL has already passed over the texts that cannot (their middle does not repeat); what comes here is few.
"""

import re

import numpy as np
import numpy.typing as npt

__all__ = ["LoopBound", "loop_share"]

_CHARS_A_WORD = 5  # text without spaces is judged by characters; this makes one bound of phrase length serve both
_SPARSE = 20  # more characters a word than this, on average: the text is not written with spaces


class LoopBound:
    """What counts as a loop: a phrase of at most `max_words`, at least `min_repeats` times on end."""

    __slots__ = ("max_words", "min_repeats")

    def __init__(self, max_words: int, min_repeats: int) -> None:
        self.max_words = max_words
        self.min_repeats = min_repeats


def loop_share(text: str, bound: LoopBound) -> float:
    """Largest share of a text's characters that one phrase covers by repeating on end.

    Args:
        text: The text.
        bound: Longest phrase and fewest repeats that count.

    Returns:
        Between 0 and 1.
    """
    words = re.findall(r"\S+", text)
    share = _share(words, bound.max_words, bound.min_repeats) if words else 0.0
    if len(text) > _SPARSE * len(words):
        share = max(share, _share(list(text), bound.max_words * _CHARS_A_WORD, bound.min_repeats))
    return share


def _share(units: list[str], longest: int, repeats: int) -> float:
    codes = np.unique(np.array(units, dtype=object), return_inverse=True)[1]
    sizes = np.array([len(unit) + 1 for unit in units], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    best = 0
    for lag in range(1, min(longest, len(codes) // repeats) + 1):
        best = max(best, _covered(codes[lag:] == codes[:-lag], lag, repeats, ends))
    return best / int(ends[-1])


def _covered(same: npt.NDArray[np.bool_], lag: int, repeats: int, ends: npt.NDArray[np.int64]) -> int:
    """Characters under the longest run of units that equal the unit one phrase before."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    long = stops - starts >= lag * (repeats - 1)
    if not long.any():
        return 0
    return int((ends[stops[long] + lag] - ends[starts[long]]).max())
