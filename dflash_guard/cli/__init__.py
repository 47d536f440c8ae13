"""The command line: one module per command. Each parses, calls a verb and prints.

Nothing heavy is imported until a command runs, so that `--help` is quick.
"""

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main", "run"]


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line in this process.

    Args:
        arguments: The words behind the command's name; those of the process where None.

    Returns:
        The exit code. Every error is printed to stderr, none is raised.
    """
    try:
        from dflash_guard.cli._app import invoke

        return invoke(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt as error:  # while the first imports were running
        from dflash_guard.cli._errors import tell

        return tell(error)


def main() -> NoReturn:
    """The entry point of `dflash-guard`: runs the command line of this process and ends the process with its code."""
    _leave(run())


def _leave(code: int) -> NoReturn:
    """Ends the process with this code, whatever native libraries do in their static destructors.

    Programs that used pyarrow now and then abort while the interpreter shuts down, and the signal would replace
    the exit code of a judgement. Exit functions and buffers are honoured, the rest of the shutdown is not.
    """
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name for it
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a closed pipe, or no stream at all
            stream.flush()
    os._exit(code)
