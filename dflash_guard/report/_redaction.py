"""A verdict without anything that came out of a sample."""

from dataclasses import replace

import pyarrow as pa

from dflash_guard.verdict.model import RuleResult, Verdict

__all__ = ["WITHHELD", "withheld"]

WITHHELD = "(redacted)"


def withheld(verdict: Verdict) -> Verdict:
    """The verdict with every detail, message and observed text taken out; numbers, names, ids and places stay."""
    table = verdict.failures
    place = table.schema.get_field_index("detail")
    details = pa.repeat(pa.scalar(WITHHELD, table.schema.field(place).type), table.num_rows)
    failures = table.set_column(place, table.schema.field(place), details)
    return replace(verdict, failures=failures, rules=tuple(_result(result) for result in verdict.rules))


def _result(result: RuleResult) -> RuleResult:
    known = result.observed is None or isinstance(result.observed, bool | int | float)
    return replace(result, message="", observed=result.observed if known else WITHHELD)
