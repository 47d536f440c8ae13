"""How a command reads data: its options as a `Reading`, with progress where somebody looks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dflash_guard.cli._progress import progress

if TYPE_CHECKING:
    from dflash_guard.verbs.opening import Reading

__all__ = ["reading"]


@contextmanager
def reading(**options: Any) -> Iterator["Reading"]:
    """A Reading of the options that `Reading` names; progress is seen as long as the context lasts."""
    from dflash_guard.verbs.opening import Reading

    with progress(sys.stderr) as advance:
        yield Reading(**options) if advance is None else Reading(**options, progress=advance)
