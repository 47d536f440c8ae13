"""Everything that can go wrong, and the exit code that each kind gives.

    GuardError
    ├── UsageError (2)             a wrong option, a wrong value
    │   ├── ContractError          a contract or family file is wrong
    │   └── DataNotFoundError      a path that does not exist
    ├── JudgeError (3)             could not judge: I/O, an engine error, a check that raised
    │   ├── ShardAccessError       a shard that cannot be read for reasons outside itself
    │   └── ShardChangedError      a shard that changed while it was read
    ├── NothingToJudgeError (4)    no shard, or no row in any shard
    └── GateError (5)              a verdict is missing, failed, stale or for other bytes

A message says what is wrong and where; the hint says what to do.
"""

from enum import IntEnum
from typing import ClassVar

__all__ = [
    "ContractError",
    "DataNotFoundError",
    "ExitCode",
    "GateError",
    "GuardError",
    "JudgeError",
    "NothingToJudgeError",
    "ShardAccessError",
    "ShardChangedError",
    "UsageError",
]


class ExitCode(IntEnum):
    """What a command's exit status means. Whatever is not a judgement is never 0."""

    PASSED = 0
    VIOLATED = 1
    USAGE = 2
    NOT_JUDGED = 3
    NOTHING = 4
    GATE_SHUT = 5
    INTERRUPTED = 130


class GuardError(Exception):
    """Base of all errors that this package raises on purpose.

    Args:
        what: One sentence: what is wrong, and where.
        hint: What to do about it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.NOT_JUDGED

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} Hint: {self.hint}" if self.hint else self.what


class UsageError(GuardError):
    """The command, its options or a configuration file is wrong."""

    exit_code = ExitCode.USAGE


class ContractError(UsageError):
    """A contract or family file is wrong; the message names file, line and key."""


class DataNotFoundError(UsageError):
    """A path that was given does not exist."""


class JudgeError(GuardError):
    """The data could not be judged, for reasons outside the data."""

    exit_code = ExitCode.NOT_JUDGED


class ShardAccessError(JudgeError):
    """A shard cannot be read for reasons outside itself: permission, network, disk."""


class ShardChangedError(JudgeError):
    """A shard changed while it was being read."""


class NothingToJudgeError(GuardError):
    """There is no shard, or no row in any shard."""

    exit_code = ExitCode.NOTHING


class GateError(GuardError):
    """A required verdict is missing, failed, stale, or for other bytes."""

    exit_code = ExitCode.GATE_SHUT
