"""What is seen while a verb works: bytes read, and how fast, on stderr and on a terminal only."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from dflash_guard.stages.generate import Progress

__all__ = ["Advance", "counting", "generating", "progress"]

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


@contextmanager
def generating(stream: TextIO | None) -> Iterator[Callable[["Progress"], None] | None]:
    """Yields what `generate` tells how far it is; None where nobody is looking."""
    if stream is None or not stream.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    began = time.monotonic()
    with Bar(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(file=stream)
    ) as bar:
        task = bar.add_task("", total=None)

        def advance(now: "Progress") -> None:
            seconds = max(1e-6, time.monotonic() - began)
            said = max(1, now.done)
            bar.update(
                task,
                description=f"{now.done:,} done · {now.failed:,} failed · {now.set_aside:,} set aside · "
                f"{now.retried:,} retried · "
                f"{now.done / seconds:,.1f}/s · {now.tokens / seconds:,.0f} tokens/s · "
                f"{now.truncated / said:.1%} truncated · {now.unthought / said:.1%} without thinking",
            )

        yield advance
