"""The rule catalog: the one place that `rules`, `explain`, the docs and every report are made from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dflash_guard.contract.model import Stage
from dflash_guard.contract.rule import MODES, STAGES, Bound, Rule
from dflash_guard.contract.rules_conversation import CONVERSATION_RULES
from dflash_guard.contract.rules_distribution import COLLAPSE_MIN_ROWS, DISTRIBUTION_RULES
from dflash_guard.contract.rules_provenance import PROVENANCE_RULES
from dflash_guard.contract.rules_response import RESPONSE_RULES
from dflash_guard.contract.rules_shard import SHARD_RULES, TEXT_RULES
from dflash_guard.contract.rules_tokens import HIDDEN_STATE_RULES, TOKEN_RULES

__all__ = [
    "ALIASES",
    "CATALOG",
    "CATALOG_VERSION",
    "COLLAPSE_MIN_ROWS",
    "MODES",
    "PLACEHOLDER_SOURCES",
    "ROLES",
    "RULES",
    "STAGES",
    "Bound",
    "Rule",
    "rules_for",
]

CATALOG_VERSION: Final = 1
"""Raised whenever a rule comes, goes, or judges differently; part of every contract's digest."""

RULES: Final[tuple[Rule, ...]] = (
    *SHARD_RULES,
    *TEXT_RULES,
    *PROVENANCE_RULES,
    *CONVERSATION_RULES,
    *RESPONSE_RULES,
    *TOKEN_RULES,
    *HIDDEN_STATE_RULES,
    *DISTRIBUTION_RULES,
)
"""All rules, in the catalog's order."""

CATALOG: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in RULES})
"""All rules by name."""

ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function_call")
"""The roles that a turn may have. `developer` is judged like `system`; `function_call` is an assistant's call."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"human": "user", "gpt": "assistant", "function": "tool", "observation": "tool"}
)
"""Other names of roles that every contract knows, unless it takes one back with `roles: {human: null}`."""

PLACEHOLDER_SOURCES: Final = ("", "unknown", "none", "null", "n/a", "na", "other", "-")
"""Source names, in lower case, that name no source."""


def rules_for(stage: Stage) -> tuple[Rule, ...]:
    """The rules that are judged at a stage, in the catalog's order.

    >>> [rule.name for rule in rules_for("hidden_states")][-4:]
    ['shape-disagreement', 'non-finite', 'token-mismatch', 'source-drift']
    """
    return tuple(rule for rule in RULES if stage in rule.stages)
