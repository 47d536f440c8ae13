"""A guard between the stages of a drafter's training data: nothing passes that has not been judged.

>>> import dflash_guard as dg
>>> verdict = dg.check("shards/", stage="tokenized")  # doctest: +SKIP
>>> verdict.passed, verdict.counts, verdict.failures  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from dflash_guard.errors import (
    ContractError,
    DataNotFoundError,
    ExitCode,
    GateError,
    GuardError,
    JudgeError,
    NothingToJudgeError,
    ShardAccessError,
    ShardChangedError,
    UsageError,
)

if TYPE_CHECKING:
    from dflash_guard.verbs.check import check
    from dflash_guard.verbs.gate import Passage, gate
    from dflash_guard.verbs.gated import GatedData, open_gated
    from dflash_guard.verdict.model import Verdict

__all__ = [
    "ContractError",
    "DataNotFoundError",
    "ExitCode",
    "GateError",
    "GatedData",
    "GuardError",
    "JudgeError",
    "NothingToJudgeError",
    "Passage",
    "ShardAccessError",
    "ShardChangedError",
    "UsageError",
    "Verdict",
    "check",
    "gate",
    "open_gated",
]

# Imported when first asked for: `--help` and a gate must not pay for what only a judgement needs.
_LAZY = {
    "GatedData": "dflash_guard.verbs.gated",
    "Passage": "dflash_guard.verbs.gate",
    "Verdict": "dflash_guard.verdict.model",
    "check": "dflash_guard.verbs.check",
    "gate": "dflash_guard.verbs.gate",
    "open_gated": "dflash_guard.verbs.gated",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
