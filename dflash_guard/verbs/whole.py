"""Rules about a whole data set and what is behind it: rows accounted for, and the digests of what made them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dflash_guard.contract.model import Contract
from dflash_guard.verbs.upstream import Upstream
from dflash_guard.verdict.distribution import Outcome
from dflash_guard.verdict.manifest import Manifest

if TYPE_CHECKING:
    from dflash_guard.verdict.judgement import Judgement

__all__ = ["judge_whole"]

_DIGESTS = {
    "tokenizer-mismatch": ("tokenizer_sha256", "generator_tokenizer", "tokenizer"),
    "template-mismatch": ("chat_template_sha256", "generator_template", "chat template"),
}


def judge_whole(
    contract: Contract, judgement: "Judgement", manifest: Manifest | None, upstream: Upstream
) -> Mapping[str, Outcome]:
    """Judge `unaccounted-rows`, `tokenizer-mismatch` and `template-mismatch`, as far as they are in force.

    Args:
        contract: The effective contract.
        judgement: The data set's facts, and those of upstream.
        manifest: What the data set's maker says of it.
        upstream: The data set behind it.
    """
    found: dict[str, Outcome] = {}
    if "unaccounted-rows" in contract.rules:
        found["unaccounted-rows"] = _account(judgement, manifest, upstream)
    for rule, names in _DIGESTS.items():
        if rule in contract.rules:
            found[rule] = _compare_digests(*names, judgement, manifest, upstream)
    return {name: outcome for name, outcome in found.items() if not contract.rules[name].ignored}


def _account(judgement: "Judgement", manifest: Manifest | None, upstream: Upstream) -> Outcome:
    """Whether every row that passed upstream is here, or was set aside with a reason."""
    if upstream.scan is None:
        return Outcome(skipped=upstream.why_not)
    if upstream.passed is None:
        return Outcome(skipped="the upstream data set has no verdict of these bytes")
    aside = sum(manifest.set_aside.values()) if manifest is not None else 0
    here = judgement.ids + aside
    if here == upstream.passed:
        return Outcome(observed=here)
    also = f" and {aside:,} set aside" if aside else ""
    return Outcome(
        failed=True,
        observed=here,
        message=f"{judgement.ids:,} ids here{also}, {upstream.passed:,} rows passed upstream",
    )


def _compare_digests(
    key: str, column: str, what: str, judgement: "Judgement", manifest: Manifest | None, upstream: Upstream
) -> Outcome:
    """Whether what made the tokens is what made the completions."""
    here = (manifest.tokenizer or {}).get(key) if manifest is not None else None
    if not here:
        return Outcome(skipped="no manifest records the digests")
    there = set(judgement.upstream_values(column)) if upstream.scan is not None else set()
    said = (upstream.generator or {}).get(key)
    there |= {said} if said else set()
    if not there:
        return Outcome(skipped=upstream.why_not or f"upstream does not record its {what}")
    others = sorted(there - {here})
    if not others:
        return Outcome(observed=here)
    message = (
        f"the {what} here has sha256 {here[:12]}…, the generator's {', '.join(each[:12] + '…' for each in others[:3])}"
    )
    return Outcome(failed=True, observed=here, message=message)
