"""Every command has a help with a real example; the catalog's commands know every rule."""

import json
import re
import shlex
from importlib.metadata import PackageNotFoundError, version

import pytest
import tokenizers

import samples
from dflash_guard.cli._app import COMMANDS
from dflash_guard.contract.catalog import CATALOG, RULES

NAMES = [command.__name__ for command, _ in COMMANDS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_an_example(call, name, flag):
    code, out, err = call(name, flag)
    assert (code, err) == (0, "")
    assert re.search(rf"Examples?:\n +dflash-guard {name}", out)


@pytest.fixture
def data_of_examples(tmp_path, monkeypatch):
    """A working folder that holds what the examples name."""
    monkeypatch.chdir(tmp_path)
    for folder in ("shards", "out", "old", "new", "Qwen3-8B"):
        (tmp_path / folder).mkdir()
    samples.write(tmp_path / "shards", [samples.tokens(i, 70 + i) for i in range(6)], "tokenized")
    (tmp_path / "tokenized").mkdir()
    (tmp_path / "prompts").mkdir()
    samples.write(tmp_path / "prompts", [samples.prompt(i) for i in range(6)], "prompts")
    samples.write(tmp_path / "tokenized", [samples.tokens(i, 70 + i) for i in range(6)], "tokenized")
    for folder in ("out", "old", "new", "completions"):
        (tmp_path / folder).mkdir(exist_ok=True)
        samples.write(tmp_path / folder, [samples.completion(i) for i in range(6)], "completions")
    for name in ("raw", "prompts"):
        samples.write(tmp_path, [samples.prompt(i) for i in range(6)], "prompts", name)
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a")).save("Qwen3-8B/tokenizer.json")
    for name in ("monday", "today"):
        facts = {"prompt_chars": dict.fromkeys(("mean", "median", "p90", "max"), 1)}
        profile = {"schema": "dflash-guard/profile/1", "rows": 1, "facts": facts, "sources": []}
        (tmp_path / f"profile-{name}.json").write_text(json.dumps(profile))


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_valid_command_lines(judged, call, name, data_of_examples):
    examples = re.findall(r"^ +dflash-guard (.*)$", call(name, "--help")[1], flags=re.MULTILINE)
    assert examples
    for example in examples:
        words = [word.replace("junit:report.xml", "junit:/dev/null") for word in shlex.split(example)]
        code, _, err = call(*words[: words.index("--")] if "--" in words else words)
        # The examples' data has no verdict, which is for a gate to find, and not what an example is wrong about.
        shut = code == 5 and name in {"gate", "split", "lineage", "tokenize", "generate"}
        assert code in {0, 1} or shut or (code == 3 and "--serve" in words), err  # no SGLang here


def test_the_root_help_names_every_command(call):
    code, out, _ = call("--help")
    assert code == 0
    assert set(re.findall(r"^  (\w+) {2,}[A-Z]", out.split("Commands:")[1], flags=re.MULTILINE)) == {*NAMES, "contract"}


def test_version(call):
    try:
        installed = version("dflash-guard")
    except PackageNotFoundError:
        pytest.skip("the package is not installed")
    assert call("--version") == (0, f"dflash-guard {installed}\n", "")


def test_rules_lists_them_all(call):
    out = call("rules")[1]
    assert [line.split()[0] for line in out.splitlines() if line[:1].islower() and line.split()[0] in CATALOG] == [
        rule.name for rule in RULES
    ]


def test_rules_of_a_stage_with_their_level_there(call):
    out = call("rules", "--stage", "prompts")[1]
    assert re.search(r"^missing-id +warn ", out, flags=re.MULTILINE)
    assert "few-loss-tokens" not in out
    assert re.search(r"^missing-id +error ", call("rules", "--stage", "tokenized")[1], flags=re.MULTILINE)


def test_rules_as_json(call):
    listed = json.loads(call("rules", "--format", "json")[1])
    assert [each["rule"] for each in listed] == [rule.name for rule in RULES]
    assert all(each["fix"] and each["levels"] for each in listed)


@pytest.mark.parametrize("name", list(CATALOG))
def test_explain_says_everything(call, name):
    code, out, _ = call("explain", name)
    flat = re.sub(r"\s+", "", out)
    assert code == 0
    for text in (CATALOG[name].says, CATALOG[name].why, CATALOG[name].fix, CATALOG[name].passing):
        assert re.sub(r"\s+", "", text) in flat
