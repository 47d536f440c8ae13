"""The catalog is whole, and the contracts that ship are the catalog written out."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dflash_guard.contract.catalog import CATALOG, RULES, rules_for
from dflash_guard.contract.family import detect_family, family_names, load_family
from dflash_guard.contract.files import shipped_folder
from dflash_guard.contract.model import RuleSetting
from dflash_guard.contract.settings import at_least_as_strict

STAGES = ("prompts", "completions", "tokenized", "hidden_states")
NAMES = [
    "unreadable-shard",
    "truncated-shard",
    "unfetched-shard",
    "empty-shard",
    "missing-column",
    "column-type",
    "schema-drift",
    "malformed-row",
    "torn-last-line",
    "invalid-text",
    "duplicate-key",
    "stray-bytes",
    "unknown-source",
    "missing-id",
    "duplicate-id",
    "duplicate-prompt",
    "missing-generator",
    "wrong-model",
    "unknown-prompt",
    "changed-prompt",
    "lost-turns",
    "unaccounted-rows",
    "unknown-shape",
    "mixed-schema",
    "empty-conversation",
    "unknown-role",
    "no-user-turn",
    "empty-turn",
    "role-order",
    "late-system",
    "unsupported-content",
    "forged-turn",
    "control-token-in-text",
    "orphan-tool-result",
    "invalid-tool-arguments",
    "unanswered-tool-call",
    "prompt-too-long",
    "stub-response",
    "no-response",
    "short-response",
    "missing-thinking",
    "empty-thinking",
    "unopened-thinking",
    "unclosed-thinking",
    "repeated-thinking",
    "residual-thinking",
    "truncated-response",
    "unknown-finish",
    "failed-response",
    "repetition-loop",
    "length-disagreement",
    "mask-not-binary",
    "no-loss-tokens",
    "few-loss-tokens",
    "no-answer-tokens",
    "clipped-response",
    "mask-skips-end",
    "mask-covers-prompt",
    "mask-boundary",
    "token-out-of-vocabulary",
    "mask-token-in-input",
    "duplicate-bos",
    "duplicate-end",
    "supervised-padding",
    "lost-thinking",
    "changed-response",
    "lossy-thinking",
    "tokenizer-mismatch",
    "template-mismatch",
    "shape-disagreement",
    "non-finite",
    "token-mismatch",
    "response-collapse",
    "loss-collapse",
    "low-median-loss",
    "low-loss-fraction",
    "thinking-share",
    "mixed-thinking",
    "truncated-share",
    "duplicate-share",
    "source-drift",
]


def test_the_catalog_is_complete_and_says_something_of_every_rule():
    assert sorted(CATALOG) == sorted(NAMES)
    assert len(RULES) == len(CATALOG)
    for rule in RULES:
        assert all((rule.says, rule.why, rule.fix, rule.passing, rule.failing, rule.stages)), rule.name


@pytest.mark.parametrize("stage", STAGES)
def test_what_ships_is_the_catalog_written_out(stage):
    said = yaml.safe_load((shipped_folder() / f"{stage}.yaml").read_text())["rules"]
    assert list(said) == [rule.name for rule in rules_for(stage)]
    for rule in rules_for(stage):
        wanted = {"level": rule.shipped_level(stage), **rule.bound}
        if rule.tolerant:
            wanted["tolerance"] = rule.tolerance
        assert said[rule.name] == wanted, rule.name


@pytest.mark.parametrize("name", family_names())
def test_families_that_ship_can_be_told_by_their_ids(name):
    family = load_family(name)
    assert detect_family([1, family.begin_turn, 2]).begin_turn == family.begin_turn
    assert detect_family([1, 2, 3]) is None
    assert max(family.blank) < family.vocab_size


@given(st.integers(0, 64), st.integers(0, 64), st.floats(0, 1), st.floats(0, 1))
def test_a_judgement_answers_only_for_what_is_no_stricter(was, wanted, had, asked):
    judged = RuleSetting("few-loss-tokens", "error", had, {"min": was})
    now = RuleSetting("few-loss-tokens", "error", asked, {"min": wanted})
    assert (at_least_as_strict(judged, now) is None) == (was >= wanted and had <= asked)
    assert at_least_as_strict(judged, judged) is None
