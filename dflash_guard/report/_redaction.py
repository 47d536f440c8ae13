"""A verdict without anything that came out of a sample."""

from dataclasses import replace

from dflash_guard.verdict.failures import REDACTED, Failures
from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["withheld"]


def withheld(verdict: Verdict) -> Verdict:
    """The verdict with every detail, message and observed text taken out; numbers, names, ids and places stay."""
    found = Failures(verdict.found.source, redacted=True)
    return replace(verdict, found=found, rules=tuple(_result(result) for result in verdict.rules))


def _result(result: RuleResult) -> RuleResult:
    known = result.observed is None or isinstance(result.observed, bool | int | float)
    return replace(result, message="", observed=result.observed if known else REDACTED)
