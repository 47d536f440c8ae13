"""Two sides of a comparison as text, JSON or Markdown."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from dflash_guard.report._cells import cut, inert, percent
from dflash_guard.report._table import aligned
from dflash_guard.report.json import dumps
from dflash_guard.report.markdown import escaped

__all__ = ["DiffFormat", "pieces"]

DiffFormat = Literal["table", "json", "markdown"]
Row = tuple[str, Any, Any]


def pieces(rows: Sequence[Row], first: str, second: str, format: DiffFormat) -> Iterator[str]:  # noqa: A002
    """Rows of name, first and second value, with what changed.

    Args:
        rows: What differs.
        first: What the first side is called.
        second: And the second.
        format: How to write it.
    """
    if format == "json":
        changes = [{"name": cut(name, 1000), "first": a, "second": b, "change": _change(a, b)} for name, a, b in rows]
        yield dumps({"schema": "dflash-guard/diff/1", "first": first, "second": second, "changes": changes}) + "\n"
        return
    if not rows:
        yield "Nothing differs.\n"
        return
    lines = [["", first, second, "change"], *([name, _shown(a), _shown(b), _words(a, b)] for name, a, b in rows)]
    cells = [[cut(inert(cell), 60) for cell in line] for line in lines]
    if format == "table":
        yield from (f"{line.rstrip()}\n" for line in aligned(cells, {1, 2}))
        return
    yield f"| {' | '.join(escaped(cell) for cell in cells[0])} |\n| --- | ---: | ---: | --- |\n"
    yield from (f"| {' | '.join(escaped(cell) for cell in line)} |\n" for line in cells[1:])


def _change(a: Any, b: Any) -> float | None:
    return b - a if isinstance(a, int | float) and isinstance(b, int | float) else None


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _words(a: Any, b: Any) -> str:
    change = _change(a, b)
    if change is None:
        return "new" if a is None else "gone" if b is None else "changed"
    sign = "+" if change > 0 else "−"
    relative = f" ({sign}{percent(abs(change / a))})" if a else ""
    return f"{sign}{abs(change):,.6g}{relative}"
