"""Columns of text, aligned."""

import unicodedata
from collections.abc import Collection, Iterator, Sequence

__all__ = ["aligned", "width"]

GAP = "  "


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Lines of cells as lines of text, without newlines. The last column is not padded.

    Args:
        lines: The header first; all of the same length.
        right: Columns whose text stands at the right: numbers.
    """
    widths = [max(width(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = []
        for column, (cell, wide) in enumerate(zip(line, widths, strict=True)):
            gap = " " * (wide - width(cell))
            cells.append(gap + cell if column in right else cell if column == len(line) - 1 else cell + gap)
        yield GAP.join(cells)


def width(text: str) -> int:
    """Columns that a text takes in a terminal: wide characters take two.

    >>> width("abc"), width("你好")
    (3, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)
