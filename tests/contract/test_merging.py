"""How files, what they extend and options are merged; where files are looked for; what the digest covers."""

import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_guard.contract import files
from dflash_guard.contract.catalog import ALIASES, RULES, rules_for
from dflash_guard.contract.family import DEFAULT_FAMILY, detect_family, family_names, load_family
from dflash_guard.contract.files import shipped_folder
from dflash_guard.contract.load import load_contract, read_contract
from dflash_guard.contract.model import Declaration, RuleSetting
from dflash_guard.contract.settings import at_least_as_strict
from dflash_guard.errors import ContractError, UsageError

QWEN3, QWEN3_5 = load_family("qwen3"), load_family("qwen3_5")


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A folder of a user's own, with `contracts/`; writes files into that."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "contracts" / "families").mkdir(parents=True)

    def write(name, text):
        (tmp_path / "contracts" / name).write_text(text)

    return write


def test_a_name_is_the_users_then_what_ships(user):
    assert load_contract(stage="prompts").path == str(shipped_folder() / "prompts.yaml")
    user("prompts.yml", "sources: [a]\n")
    assert load_contract(stage="prompts").path == "contracts/prompts.yml"
    user("prompts.yaml", "sources: [b]\n")
    contract = load_contract(stage="prompts")
    assert (contract.name, contract.path, contract.sources) == ("prompts", "contracts/prompts.yaml", ("b",))
    user("strict.yaml", "name: our own\nstage: prompts\n")
    assert load_contract("strict", stage="prompts").name == "our own"


def test_a_wheel_has_them_in_the_package(tmp_path, monkeypatch):
    packaged = tmp_path / "dflash_guard" / "data" / "contracts"
    packaged.mkdir(parents=True)
    monkeypatch.setattr(files, "files", lambda _: tmp_path / "dflash_guard")
    files.shipped_folder.cache_clear()
    try:
        assert files.shipped_folder() == packaged
        packaged.rmdir()
        files.shipped_folder.cache_clear()
        assert files.shipped_folder() == tmp_path / "contracts"
    finally:
        files.shipped_folder.cache_clear()


def test_a_chain_of_files_is_merged_field_by_field(user):
    user(
        "house.yaml",
        "extends: completions\ntarget: Q\nsources: [a, b]\nmix: {a: [0, 1]}\nignore: [missing-id]\nmode: off\n"
        "roles: {bot: assistant}\nid: {column: key}\nrules: {short-response: {min: 10, level: warn}}\n",
    )
    user(
        "completions.yaml",
        "extends: house\nsources: [a]\nignore: [unknown-finish]\nroles: {bot: null, gpt: null, me: user}\nmix: null\n"
        "id: null\nmode: row\nrules: {short-response: {min: 30}}\n",
    )
    contract = load_contract(stage="completions")
    setting = contract.rules["short-response"]
    assert (setting.bound, setting.level) == ({"min": 30}, "warn")
    assert setting.set_by == "contracts/house.yaml:9, contracts/completions.yaml:8"
    assert [name for name, each in contract.rules.items() if each.ignored] == ["unknown-finish"]
    assert (contract.target, contract.sources, contract.mix, contract.id) == ("Q", ("a",), None, None)
    assert (contract.mode, contract.mode_from) == ("row", "contract")
    assert contract.aliases == {**{k: v for k, v in ALIASES.items() if k != "gpt"}, "me": "user"}


def test_two_names_that_mean_each_other_are_a_circle(user):
    user("a.yaml", "extends: b\n")
    user("b.yaml", "extends: a\n")
    with pytest.raises(ContractError, match=r"b\.yaml, line 1, extends: .*circle \(a\.yaml → b\.yaml → a\)"):
        load_contract("a", stage="prompts")


def test_a_path_that_is_extended_is_relative_to_its_file(user, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "base.yaml").write_text("target: Q\n")
    (tmp_path / "deep" / "mine.yaml").write_text("extends: base.yaml\n")
    assert load_contract("deep/mine.yaml", stage="completions").target == "Q"


def test_options_go_last(user):
    user("tokenized.yaml", "mode: off\nfamily: qwen3\nrules: {few-loss-tokens: {min: 16}}\nignore: [missing-id]\n")
    contract = load_contract(
        stage="tokenized",
        mode="thinking",
        family="qwen3_5",
        sets=["few-loss-tokens.min=8", " few-loss-tokens.min = 9 "],
        ignore=["short-response,,late-system", "duplicate-id"],
    )
    assert (contract.mode_from, contract.family_from, contract.family.name) == ("option", "option", "qwen3_5")
    assert contract.rules["few-loss-tokens"].bound == {"min": 9}
    assert contract.rules["few-loss-tokens"].set_by == "--set"
    assert {name for name, each in contract.rules.items() if each.ignored} == {"missing-id", "duplicate-id"}


def test_one_word_in_place_of_a_list_is_one_option():
    contract = load_contract(stage="prompts", sets="stub-response.min=3", ignore="missing-id")
    assert contract.rules["stub-response"].bound == {"min": 3}
    assert contract.rules["missing-id"].ignored


@pytest.mark.parametrize("stage", ["prompts", "completions", "tokenized", "hidden_states"])
@pytest.mark.parametrize("mode", ["thinking", "off", "row"])
def test_no_rule_of_stage_and_mode_is_ever_missing(tmp_path, stage, mode):
    (tmp_path / "bare.yaml").write_text(f"stage: {stage}\n")
    wanted = {rule.name: rule.shipped(stage, QWEN3) for rule in rules_for(stage) if mode in rule.modes}
    for name in (None, str(tmp_path / "bare.yaml")):
        assert load_contract(name, stage=stage, mode=mode).rules == wanted


@pytest.mark.parametrize("level", ["family", "error", "warn"])
def test_late_system_by_family_or_by_hand(level):
    for family, shipped in (("qwen3", "warn"), ("qwen3_5", "error")):
        setting = load_contract(stage="prompts", family=family, sets=[f"late-system.level={level}"]).rules[
            "late-system"
        ]
        assert setting.level == (shipped if level == "family" else level)
        assert bool(setting.set_by) == (setting.level != shipped)


def test_declared_provenance(tmp_path):
    path = tmp_path / "mine.yaml"
    for said, source, id_ in (
        ("source: {constant: chat}\nid: content", Declaration("constant", "chat"), Declaration("content", "")),
        ("source: {column: set}\nid: {content: true}", Declaration("column", "set"), Declaration("content", "")),
        (
            "source: {path_pattern: '^(?:a\\+)?(?P<source>[+*?]+|[^/]+)/'}\nid: {column: k}",
            None,
            Declaration("column", "k"),
        ),
    ):
        path.write_text(said)
        contract = load_contract(str(path), stage="prompts")
        assert source is None or contract.source == source
        assert contract.id == id_
    assert contract.source.kind == "path_pattern"


@pytest.mark.parametrize("stage", ["tokenized", "hidden_states"])
def test_rows_without_a_prompt_have_no_digest_for_an_id(tmp_path, stage):
    (tmp_path / "mine.yaml").write_text("name: x\nid: content\n")
    with pytest.raises(ContractError, match=r"mine\.yaml, line 2, id: rows of stage .* hold no prompt") as caught:
        load_contract(str(tmp_path / "mine.yaml"), stage=stage)
    assert "{column: NAME}" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "where", "hint"),
    [
        (
            {"sets": ["few-loss-tokens.min"]},
            "--set few-loss-tokens.min: is not RULE.FIELD=VALUE",
            "few-loss-tokens.min=16",
        ),
        ({"sets": ["min=3"]}, "--set min=3: is not RULE.FIELD=VALUE", "few-loss-tokens.min=16"),
        ({"sets": ["few-loss-tokens.min="]}, "--set few-loss-tokens.min=: must be a number, not nothing", "32"),
        ({"sets": ["few-loss-tokens.level=eror"]}, "must be one of error, warn, not eror", "did you mean error?"),
        ({"sets": ["few-loss-tokens.tolerance=nan"]}, "must be a finite number, not nan", "0.05"),
        (
            {"sets": ["truncated-shard.level=warn"]},
            "--set truncated-shard.level=warn: rule truncated-shard can't be",
            "leave",
        ),
        (
            {"sets": ["late-system.level=warn"]},
            "late-system is not judged at stage tokenized",
            "rules --stage tokenized",
        ),
        ({"ignore": ["unfetched-shard"]}, "--ignore unfetched-shard: rule unfetched-shard can't be ignored", "repair"),
        ({"ignore": ["few-loss"]}, "--ignore few-loss: there is no rule 'few-loss'", "did you mean few-loss-tokens?"),
        ({"family": "qwen4"}, "--family: there is no family 'qwen4'", "did you mean qwen3"),
        ({"mode": "thinkin"}, "--mode: there is no mode 'thinkin'", "did you mean thinking?"),
        ({"name": "tokenised"}, "--contract: there is no contract 'tokenised'", "did you mean tokenized?"),
    ],
)
def test_a_wrong_option_is_named_with_a_way_out(options, where, hint):
    with pytest.raises(UsageError) as caught:
        load_contract(options.pop("name", None), stage="tokenized", **options)
    assert where in caught.value.what
    assert hint in caught.value.hint


# What the digest covers


def shuffled(value, rng):
    if not isinstance(value, dict):
        return value
    keys = list(value)
    rng.shuffle(keys)
    return {key: shuffled(value[key], rng) for key in keys}


SHARES = st.integers(0, 100).map(lambda n: n / 100)
TOLERANT = [rule.name for rule in rules_for("completions") if rule.tolerant]
CHANGES = st.dictionaries(
    st.sampled_from(TOLERANT),
    st.fixed_dictionaries({}, optional={"tolerance": SHARES, "level": st.sampled_from(["error", "warn"])}),
    max_size=4,
)


@settings(deadline=None, max_examples=50)
@given(changes=CHANGES, sources=st.none() | st.lists(st.sampled_from("abc"), min_size=1), seed=st.integers(0, 99))
def test_one_meaning_one_digest_however_it_is_written(tmp_path_factory, changes, sources, seed):
    folder, rng = tmp_path_factory.mktemp("contracts"), random.Random(seed)
    whole = yaml.safe_load((shipped_folder() / "completions.yaml").read_text())
    for name, fields in changes.items():
        whole["rules"][name] = whole["rules"][name] | fields
    short = {"extends": "completions", "rules": changes}
    named = {"sources": sources} if sources else {}
    (folder / "whole.yaml").write_text(yaml.safe_dump(shuffled(whole | named, rng), sort_keys=False))
    (folder / "short.yaml").write_text(
        "# why\n" + yaml.safe_dump(shuffled(short | named, rng), default_flow_style=True)
    )
    (folder / "named.yaml").write_text(
        yaml.safe_dump({"name": "other", **{key: rng.sample(v, len(v)) for key, v in named.items()}})
    )
    sets = [f"{name}.{field}={value}" for name, fields in changes.items() for field, value in fields.items()]
    rng.shuffle(sets)
    digests = {
        load_contract(str(folder / "whole.yaml"), stage="completions").digest,
        load_contract(str(folder / "short.yaml"), stage="completions").digest,
        load_contract(str(folder / "named.yaml"), stage="completions", sets=sets).digest,
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "said",
    [
        "target: Q", "mode: off", "mode: row", "family: qwen3_5", "sources: [a]", "sources: [a, b]", "mix: {a: [0, 1]}",
        "mix: {a: [0, 0.5]}", "source: {constant: a}", "source: {column: a}", "id: content", "roles: {bot: user}",
        "roles: {gpt: null}", "ignore: [missing-id]", "rules: {missing-id: {level: warn}}",
        "rules: {missing-id: {tolerance: 0.1}}", "rules: {short-response: {min: 21}}",
    ],
)  # fmt: skip
def test_each_meaning_has_a_digest_of_its_own(tmp_path, said):
    (tmp_path / "mine.yaml").write_text(said)
    (tmp_path / "other.yaml").write_text("target: R")
    digest = load_contract(str(tmp_path / "mine.yaml"), stage="completions").digest
    assert digest != load_contract(stage="completions").digest
    assert digest != load_contract(str(tmp_path / "other.yaml"), stage="completions").digest
    assert len(digest) == len("sha256:") + 64


def test_a_familys_content_is_in_the_digest(user):
    before = load_contract(stage="tokenized", family="qwen3").digest
    text = (shipped_folder() / "families" / "qwen3.yaml").read_text()
    user("families/qwen3.yaml", f"# the same\n{text}")
    assert load_contract(stage="tokenized", family="qwen3").digest == before
    user("families/qwen3.yaml", text.replace("mask_token: 151669", "mask_token: 151670"))
    assert load_contract(stage="tokenized", family="qwen3").digest != before


def test_what_makes_no_difference_is_not_in_the_digest():
    shipped = load_contract(stage="tokenized").digest
    assert load_contract(stage="tokenized", ignore=["short-response"]).digest == shipped
    assert load_contract(stage="tokenized", sets=["residual-thinking.level=warn"]).digest == shipped
    ignored = load_contract(stage="tokenized", ignore=["missing-id"]).digest
    assert load_contract(stage="tokenized", ignore=["missing-id"], sets=["missing-id.level=warn"]).digest == ignored


# Families


def test_the_family_of_mixed_ids_is_the_more_frequent_one():
    begin, other = QWEN3.begin_turn, QWEN3_5.begin_turn
    assert detect_family([other, 5, begin, other]).name == "qwen3_5"
    assert detect_family([begin, other, begin]).name == "qwen3"
    assert detect_family([begin, other]).name == "qwen3_5"  # no id of Qwen3 is as high
    assert detect_family([]) is None


def test_a_users_family_can_be_named_and_found(user):
    text = (shipped_folder() / "families" / "qwen3.yaml").read_text()
    user("families/ours.yaml", text.replace("name: qwen3", "name: ours").replace("begin_turn: 151644", "begin_turn: 7"))
    assert family_names() == ("qwen2_5", "qwen3", "qwen3_5", "ours")
    assert detect_family([7]).name == "ours"
    assert load_contract(stage="prompts", family="ours").family.begin_turn == 7
    user("mine.yaml", "family: ./families/ours.yaml\n")
    assert load_contract("mine", stage="prompts").family.name == "ours"


def test_ranges_of_blank_ids_are_filled():
    assert QWEN3.blank[:6] == (197, 198, 199, 200, 201, 216)
    assert (len(QWEN3.blank), len(QWEN3_5.blank)) == (441, 440)
    assert load_contract(stage="prompts").family.name == DEFAULT_FAMILY


def test_the_named_family_goes_before_the_data():
    draft = read_contract(stage="tokenized", family="qwen3")
    assert draft.resolve(QWEN3_5).family.name == "qwen3"


# Strictness

BOUNDS = [(rule, bound) for rule in RULES for bound in rule.bounds]


@pytest.mark.parametrize(("rule", "bound"), BOUNDS, ids=lambda each: each.name)
def test_each_bound_is_compared_in_its_direction(rule, bound):
    asked = RuleSetting(rule.name, "error", 0.0, rule.bound)
    up = bound.default + (1 if bound.unit == "count" else 0.01)
    down = bound.default - (1 if bound.unit == "count" else 0.01)
    strict, lax = (up, down) if bound.stricter == "higher" else (down, up)
    judged = RuleSetting(rule.name, "error", 0.0, {**rule.bound, bound.name: strict})
    assert at_least_as_strict(judged, asked) is None
    why = at_least_as_strict(RuleSetting(rule.name, "error", 0.0, {**rule.bound, bound.name: lax}), asked)
    assert why.startswith(f"{rule.name} was judged with {bound.name} ")


def test_level_and_ignoring_are_compared():
    def setting(level="error", *, ignored=False):
        return RuleSetting("missing-id", level, 0.0, {}, ignored)

    assert at_least_as_strict(setting("error"), setting("warn")) is None
    assert "level warn" in at_least_as_strict(setting("warn"), setting("error"))
    assert "ignored" in at_least_as_strict(setting(ignored=True), setting("warn"))
    assert at_least_as_strict(setting("warn"), setting(ignored=True)) is None
    with pytest.raises(ValueError, match="duplicate-id"):
        at_least_as_strict(setting(), RuleSetting("duplicate-id", "error", 0.0, {}))
