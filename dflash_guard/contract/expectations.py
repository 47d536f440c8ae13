"""Distribution rules as expectations on a profile's one-row frame: plain data, for Great Expectations to judge.

Each figure of `Distribution` is a column; each source that the contract's `mix` names is one too.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dflash_guard.contract.catalog import CATALOG, COLLAPSE_MIN_ROWS
from dflash_guard.contract.model import Contract
from dflash_guard.profile.model import Distribution

__all__ = ["Expectation", "compile_expectations", "frame_of", "not_judged"]

_SHARE_OF = "source_share:"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One bound on one column of the frame.

    Attributes:
        rule: The rule it belongs to.
        level: The rule's level.
        column: The column.
        least, most: The bounds, inclusive; None for none.
        only_if: A column and the least value of it from which on the bound holds; None for always.
    """

    rule: str
    level: str
    column: str
    least: float | None = None
    most: float | None = None
    only_if: tuple[str, float] | None = None


# Rule → the column it reads, and where a common value counts, the column that says on how many rows it stands.
_COLUMNS: Mapping[str, tuple[str, str | None]] = {
    "response-collapse": ("top_response_share", "top_response_rows"),
    "loss-collapse": ("top_loss_tokens_share", "top_loss_tokens_rows"),
    "low-median-loss": ("median_loss_tokens", None),
    "low-loss-fraction": ("mean_loss_fraction", None),
    "thinking-share": ("thinking_share", None),
    "mixed-thinking": ("rarer_thinking_share", None),
    "truncated-share": ("truncated_share", None),
    "duplicate-share": ("duplicate_share", None),
}

_EVIDENCE: Mapping[str, str] = {
    "response-collapse": "no row has a response",
    "loss-collapse": "no row has a loss mask that could be read",
    "low-median-loss": "no row has a loss mask that could be read",
    "low-loss-fraction": "no row has tokens that could be read",
    "thinking-share": "no row has a response that was to think",
    "mixed-thinking": "no row has a response",
    "truncated-share": "no row has a finish_reason",
    "duplicate-share": "no row has a prompt",
}


def compile_expectations(contract: Contract) -> tuple[Expectation, ...]:
    """Compile the contract's distribution rules; those that are ignored are left out."""
    found: list[Expectation] = []
    for name, setting in contract.rules.items():
        if setting.ignored or CATALOG[name].table != "distribution":
            continue
        if name == "source-drift":
            found += [
                Expectation(name, setting.level, _SHARE_OF + source, least, most)
                for source, (least, most) in (contract.mix or {}).items()
            ]
            continue
        column, counted = _COLUMNS[name]
        only_if = (counted, float(COLLAPSE_MIN_ROWS)) if counted else None
        bound = setting.bound
        found.append(Expectation(name, setting.level, column, bound.get("min"), bound.get("max"), only_if))
    return tuple(found)


def frame_of(distribution: Distribution, contract: Contract) -> dict[str, float | None]:
    """The profile's one-row frame: every figure, and the share of every source that the contract's mix names."""
    figures: dict[str, Any] = asdict(distribution)
    shares = figures.pop("source_shares")
    return figures | {_SHARE_OF + source: shares.get(source, 0.0) for source in contract.mix or {}}


def not_judged(name: str, contract: Contract, frame: Mapping[str, float | None]) -> str | None:
    """Why a distribution rule can't be judged on a frame; None where it can."""
    if name == "source-drift":
        return None if contract.mix else "the contract declares no mix"
    return _EVIDENCE[name] if frame[_COLUMNS[name][0]] is None else None
