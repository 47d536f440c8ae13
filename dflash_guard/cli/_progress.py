"""What is seen while a verb works: bytes read, and how fast, on stderr and on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Advance", "progress"]

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
