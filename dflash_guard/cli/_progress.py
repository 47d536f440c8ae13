"""What is seen while a verb works: bytes read, and how fast, on stderr and on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Advance", "counting", "progress"]

Advance = Callable[[int], None]
"""Called with the number of bytes that were read since the last call."""


@contextmanager
def progress(stream: TextIO | None) -> Iterator[Advance | None]:
    """Yields what a verb calls as it goes on; None where nobody is looking."""
    if stream is None or not stream.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        FileSizeColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    columns = (SpinnerColumn(), TextColumn("judged"), FileSizeColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(read: int) -> None:
            bar.advance(task, read)

        yield advance


@contextmanager
def counting(stream: TextIO | None, *names: str) -> Iterator[Callable[..., None] | None]:
    """Yields what a verb calls with what was added to each of some counts; None where nobody is looking."""
    if stream is None or not stream.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    counts = [0] * len(names)
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(*added: int) -> None:
            counts[:] = [count + more for count, more in zip(counts, added, strict=True)]
            said = " · ".join(f"{count:,} {name}" for count, name in zip(counts, names, strict=True))
            bar.update(task, description=said, completed=counts[0])

        yield advance
