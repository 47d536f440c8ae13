"""Contract files: what ships, what users write, and every way to get one wrong."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dflash_guard.contract.catalog import CATALOG, RULES, rules_for
from dflash_guard.contract.family import detect_family, family_names, load_family
from dflash_guard.contract.files import shipped_folder
from dflash_guard.contract.load import at_least_as_strict, load_contract, read_contract
from dflash_guard.contract.model import RuleSetting
from dflash_guard.errors import ContractError, ExitCode, UsageError

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


def write(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_text(text)
    return str(path)


HEAD = "name: mine\nstage: tokenized\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["mine.yaml"]),
        ("- a\n- b\n", ["mine.yaml", "mapping"]),
        (HEAD + "rulez: {}\n", ["line 3", "rulez", "did you mean rules"]),
        (HEAD + "rules:\n  few-los-tokens: {min: 3}\n", ["line 4", "few-los-tokens", "few-loss-tokens"]),
        (HEAD + "rules:\n  few-loss-tokens: {mim: 3}\n", ["line 4", "mim", "min"]),
        (HEAD + "rules:\n  few-loss-tokens: {min: many}\n", ["line 4", "few-loss-tokens.min", "number"]),
        (HEAD + "rules:\n  few-loss-tokens: {min: .nan}\n", ["line 4", "finite"]),
        (HEAD + "rules:\n  few-loss-tokens: {min: -1}\n", ["line 4", "few-loss-tokens.min"]),
        (HEAD + "rules:\n  few-loss-tokens: {tolerance: 2}\n", ["line 4", "tolerance"]),
        (HEAD + "rules:\n  few-loss-tokens: {level: fatal}\n", ["line 4", "level", "error"]),
        (HEAD + "rules:\n  stub-response: {level: warn}\n", ["line 4", "stub-response"]),
        (HEAD + "rules:\n  truncated-shard: {level: warn}\n", ["line 4", "truncated-shard"]),
        (HEAD + "ignore: [unreadable-shard]\n", ["line 3", "unreadable-shard"]),
        (HEAD + "ignore: [no-such-rule]\n", ["line 3", "no-such-rule"]),
        (HEAD + "mode: loud\n", ["line 3", "mode", "thinking"]),
        (HEAD + "family: qwen9\n", ["line 3", "qwen9"]),
        (HEAD + "name: again\n", ["line 3", "twice"]),
        (HEAD + "source: {path_pattern: '(?P<sourc>x)'}\n", ["line 3", "source"]),
        (HEAD + "source: {path_pattern: '(?P<source>x'}\n", ["line 3", "source"]),
        (HEAD + "source: {path_pattern: '(?P<source>x)(?=y)'}\n", ["line 3", "look-around"]),
        (HEAD + "source: {column: a, constant: b}\n", ["line 3", "source"]),
        (HEAD + "sources: chat\n", ["line 3", "list"]),
        (HEAD + "mix: {chat: 0.5}\n", ["line 3", "mix"]),
        (HEAD + "rules: &a {few-loss-tokens: {min: 3}}\n", ["line 3", "anchors"]),
        (HEAD + "target: !!python/object:os.system x\n", ["line 3", "tag"]),
        (HEAD + "rules: [\n", ["mine.yaml", "line"]),
        (HEAD + "extends: nothing-there\n", ["line 3", "nothing-there"]),
        ("name: mine\nstage: prompts\n", ["line 2", "prompts", "tokenized"]),
    ],
)
def test_a_wrong_file_is_exit_2_and_names_line_and_key(tmp_path, text, words):
    with pytest.raises(ContractError) as caught:
        load_contract(write(tmp_path, text), stage="tokenized")
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("sets", "ignore", "word"),
    [
        (["few-loss-tokens"], [], "RULE.FIELD=VALUE"),
        (["few-loss-tokens.min=x"], [], "number"),
        (["few-loss-tokens.max=3"], [], "max"),
        (["few-los-tokens.min=3"], [], "few-loss-tokens"),
        (["short-response.min=3"], [], "short-response"),
        (["truncated-shard.level=warn"], [], "truncated-shard"),
        ([], ["truncated-shard"], "truncated-shard"),
        ([], ["nothing"], "nothing"),
    ],
)
def test_wrong_options_are_exit_2(sets, ignore, word):
    with pytest.raises(UsageError, match=word):
        load_contract(stage="tokenized", sets=sets, ignore=ignore)


def test_ignore_takes_rules_of_any_stage():
    assert (
        load_contract(stage="tokenized", ignore=["short-response", "few-loss-tokens"]).rules["few-loss-tokens"].ignored
    )


def test_a_missing_file_and_a_folder(tmp_path):
    for name in (str(tmp_path / "none.yaml"), str(tmp_path) + "/"):
        with pytest.raises(ContractError):
            load_contract(name, stage="prompts")
    (tmp_path / "big.yaml").write_text("# " + "x" * (1 << 20) + "\nstage: prompts\n")
    with pytest.raises(ContractError, match=r"big\.yaml"):
        load_contract(str(tmp_path / "big.yaml"), stage="prompts")


def test_a_user_s_own_contract_wins_by_name_and_extends_what_ships(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "contracts").mkdir()
    write(tmp_path / "contracts", "extends: tokenized\nrules: {few-loss-tokens: {min: 16}}\n", "tokenized.yaml")
    contract = load_contract(stage="tokenized")
    assert contract.rules["few-loss-tokens"].bound == {"min": 16}
    assert contract.path.endswith("contracts/tokenized.yaml")
    assert set(contract.rules) >= {"mask-boundary", "unreadable-shard"}


def test_circles_are_refused(tmp_path):
    write(tmp_path, "stage: prompts\nextends: ./b.yaml\n", "a.yaml")
    write(tmp_path, "stage: prompts\nextends: ./a.yaml\n", "b.yaml")
    with pytest.raises(ContractError, match="circle"):
        load_contract(str(tmp_path / "a.yaml"), stage="prompts")


def test_one_meaning_has_one_digest(tmp_path):
    by_option = load_contract(stage="tokenized", sets=["few-loss-tokens.min=16"])
    by_file = load_contract(
        write(tmp_path, "# a comment\nrules: {few-loss-tokens: {min: 16.0}}\nextends: tokenized\n"), stage="tokenized"
    )
    assert by_option.digest == by_file.digest
    shipped = load_contract(stage="tokenized")
    assert shipped.digest != by_option.digest
    assert load_contract(stage="tokenized", mode="off").digest != shipped.digest
    assert load_contract(stage="tokenized", family="qwen3_5").digest != shipped.digest
    assert load_contract(stage="tokenized", ignore=["missing-id"]).digest != shipped.digest
    assert load_contract(stage="tokenized", sets=["few-loss-tokens.min=32"]).digest == shipped.digest


def test_the_family_comes_from_option_contract_data_or_default(tmp_path):
    named = write(tmp_path, "stage: tokenized\nfamily: qwen3_5\n")
    assert load_contract(named, stage="tokenized").family_from == "contract"
    assert load_contract(named, stage="tokenized", family="qwen3").family.name == "qwen3"
    draft = read_contract(stage="tokenized")
    assert draft.family is None
    assert draft.resolve(load_family("qwen3_5")).family_from == "data"
    assert draft.resolve().family_from == "default"


def test_late_system_is_as_hard_as_the_family_makes_it():
    assert load_contract(stage="prompts", family="qwen3").rules["late-system"].level == "warn"
    assert load_contract(stage="prompts", family="qwen3_5").rules["late-system"].level == "error"


@given(st.integers(0, 64), st.integers(0, 64), st.floats(0, 1), st.floats(0, 1))
def test_a_judgement_answers_only_for_what_is_no_stricter(was, wanted, had, asked):
    judged = RuleSetting("few-loss-tokens", "error", had, {"min": was})
    now = RuleSetting("few-loss-tokens", "error", asked, {"min": wanted})
    assert (at_least_as_strict(judged, now) is None) == (was >= wanted and had <= asked)
    assert at_least_as_strict(judged, judged) is None
