"""Distribution rules judged: the profile's figures, what Great Expectations says of them, and words for both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.contract.expectations import Expectation, compile_expectations, frame_of, not_judged
from dflash_guard.contract.model import Contract, RuleSetting
from dflash_guard.facts.samples import Sample
from dflash_guard.profile.model import Distribution

__all__ = ["Outcome", "judge_distribution", "say_response"]

Ask = Callable[[Sequence[Expectation], Mapping[str, float | None]], list[bool]]
SHOWN_IDS = 32
SHOWN_CHARS = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one distribution rule came out.

    Attributes:
        failed: Whether its bound is broken.
        observed: The figure; for source-drift the shares that are out of bounds.
        message: What was seen, in words.
        skipped: Why it could not be judged.
    """

    failed: bool = False
    observed: Any = None
    message: str = ""
    skipped: str | None = None


def judge_distribution(contract: Contract, distribution: Distribution, ask: Ask) -> dict[str, Outcome]:
    """Judge every distribution rule of a contract that is not ignored.

    Args:
        contract: The effective contract.
        distribution: The profile's figures.
        ask: Judges expectations on a frame; not called where nothing can be judged.
    """
    names = [n for n, s in contract.rules.items() if CATALOG[n].table == "distribution" and not s.ignored]
    frame = frame_of(distribution, contract)
    skipped = {name: why for name in names if (why := not_judged(name, contract, frame)) is not None}
    judged = [each for each in compile_expectations(contract) if each.rule not in skipped]
    held = ask(judged, frame) if judged else []
    outcomes = {name: Outcome(skipped=why) for name, why in skipped.items()}
    for name in names:
        if name not in skipped:
            broken = [each for each, holds in zip(judged, held, strict=True) if each.rule == name and not holds]
            outcomes[name] = _outcome(contract.rules[name], distribution, frame, broken)
    return {name: outcomes[name] for name in names}


def _outcome(
    setting: RuleSetting,
    figures: Distribution,
    frame: Mapping[str, float | None],
    broken: Sequence[Expectation],
) -> Outcome:
    if setting.rule == "source-drift":
        shares = {each.column.partition(":")[2]: frame[each.column] or 0.0 for each in broken}
        return Outcome(bool(broken), shares or None, _drift(broken, frame))
    words, observed = _FIGURES[setting.rule]
    return Outcome(bool(broken), observed(figures), words(figures, setting.bound) if broken else "")


def _drift(broken: Sequence[Expectation], frame: Mapping[str, float | None]) -> str:
    said = [
        f"{each.column.partition(':')[2]!r} is {_percent(frame[each.column])} of the rows, "
        f"{_percent(each.least)} to {_percent(each.most)} is asked for"
        for each in broken
    ]
    return "; ".join(said)


def say_response(sample: Sample, shown: int = SHOWN_CHARS) -> str:
    """A response in words, cut: its text, or its supervised ids where there is no text."""
    if sample.answer is not None:
        cut = sample.answer[:shown]
        return f"'{cut}{'…' if len(sample.answer) > shown else ''}'"
    ids = sample.response
    more = f", … ({len(ids):,} ids)" if len(ids) > SHOWN_IDS else ""
    return f"ids {', '.join(map(str, ids[:SHOWN_IDS]))}{more}"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):.4g} %"


def _common(figures: Distribution, bound: Mapping[str, Any]) -> str:
    share = _percent(figures.top_response_share)
    return (
        f"one response stands on {figures.top_response_rows:,} rows, {share} of those that have any; "
        f"{_percent(bound['max'])} are allowed"
    )


def _loss(figures: Distribution, bound: Mapping[str, Any]) -> str:
    share = _percent(figures.top_loss_tokens_share)
    return (
        f"{figures.top_loss_tokens_rows:,} rows, {share}, supervise exactly {figures.top_loss_tokens:,} tokens; "
        f"{_percent(bound['max'])} may share a count"
    )


Words = Callable[[Distribution, Mapping[str, Any]], str]
_FIGURES: Mapping[str, tuple[Words, Callable[[Distribution], float | None]]] = {
    "response-collapse": (_common, lambda d: d.top_response_share),
    "loss-collapse": (_loss, lambda d: d.top_loss_tokens_share),
    "low-median-loss": (
        lambda d, b: (
            f"the median row supervises {d.median_loss_tokens:,.6g} tokens; at least {b['min']:,.6g} are asked for"
        ),
        lambda d: d.median_loss_tokens,
    ),
    "low-loss-fraction": (
        lambda d, b: (
            f"on the mean {_percent(d.mean_loss_fraction)} of a row is supervised; "
            f"at least {_percent(b['min'])} are asked for"
        ),
        lambda d: d.mean_loss_fraction,
    ),
    "thinking-share": (
        lambda d, b: (
            f"{_percent(d.thinking_share)} of the rows that were to think have thinking that is not blank; "
            f"at least {_percent(b['min'])} are asked for"
        ),
        lambda d: d.thinking_share,
    ),
    "mixed-thinking": (
        lambda d, b: (
            f"rows with thinking and rows without are mixed: the rarer kind is {_percent(d.rarer_thinking_share)}; "
            f"{_percent(b['max'])} are allowed"
        ),
        lambda d: d.rarer_thinking_share,
    ),
    "truncated-share": (
        lambda d, b: f"{_percent(d.truncated_share)} of the responses hit the token limit; {_percent(b['max'])} may",
        lambda d: d.truncated_share,
    ),
    "duplicate-share": (
        lambda d, b: (
            f"{_percent(d.duplicate_share)} of the rows repeat the prompt of an earlier one; {_percent(b['max'])} may"
        ),
        lambda d: d.duplicate_share,
    ),
}
