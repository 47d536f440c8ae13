"""Every way to get a contract or family file wrong: the message names file, line and key, and says what to do."""

import os
import re
import subprocess
import sys

import pytest

from dflash_guard.contract.family import load_family
from dflash_guard.contract.files import shipped_folder
from dflash_guard.contract.load import load_contract
from dflash_guard.errors import ContractError, ExitCode

WRONG = [  # text behind `stage: completions`, line, key, problem, hint
    ("stages: x", 2, "stages", "unknown key", "did you mean stage?"),
    ("name:\n  a: b", 2, "name", "must be text, not a mapping", "name"),
    ("name: ''", 2, "name", "not blank", "take the key away"),
    ("target: 3", 2, "target", "3 is not to YAML", 'write it in quotes: "3"'),
    ("mode: on", 2, "mode", "must be one of thinking, off, row", "known are"),
    ("mode: [off]", 2, "mode", "not a list", "known are"),
    ("family: qwen", 2, "family", "there is no family 'qwen'", "did you mean qwen3?"),
    ("family: ./none.yaml", 0, "", "there is no such file", "check the path"),
    ("extends: completion", 2, "extends", "there is no contract", "did you mean completions?"),
    ("extends: ./none.yaml", 2, "extends", "there is no file", "relative to the file"),
    ("extends: ./mine.yaml", 2, "extends", "in a circle", "extend nothing"),
    ("sources: []", 2, "sources", "at least one", "take the key away"),
    ("sources: [chat, Unknown]", 2, "sources", "names no source", "data set's name"),
    ("sources:\n  - chat\n  - yes", 4, "sources", "yes is not to YAML", 'write it in quotes: "yes"'),
    ("sources: {chat: 1}", 2, "sources", "must be a list, not a mapping", "[a, b]"),
    ("mix: {chat: [0.4, 0.2]}", 2, "mix.chat", "[min, max]", "[0.2, 0.4]"),
    ("mix: {chat: [0.4, 1.2]}", 2, "mix.chat", "[min, max]", "[0.2, 0.4]"),
    ("mix: {chat: [0.4, .inf]}", 2, "mix.chat", "finite", "0.05"),
    ("mix: {a: [0.6, 1], b: [0.5, 1]}", 2, "mix", "more than 1", "lower some"),
    ("mix: {chta: [0, 1]}\nsources: [chat]", 2, "mix", "'chta' is not in `sources`", "did you mean chat?"),
    ("mix: {2024: [0, 1]}", 2, "mix.2024", "not text to YAML", 'in quotes: "2024"'),
    ("source: name", 2, "source", "must be a mapping of column, path_pattern, constant", "key: value"),
    ("source: {}", 2, "source", "must have one of", "{column: NAME}"),
    ("source: {colum: a}", 2, "source.colum", "unknown key", "did you mean column?"),
    ("source: {constant: N/A}", 2, "source.constant", "names no source", "data set's name"),
    ("source: {path_pattern: '[a'}", 2, "source.path_pattern", "no regular expression", "(?P<source>"),
    ("source: {path_pattern: '([^/]+)/'}", 2, "source.path_pattern", "no group named source", "(?P<source>"),
    ("source: {path_pattern: '(?<!x)(?P<source>a)'}", 2, "source.path_pattern", "look-around", "match without"),
    ("source: {path_pattern: '(?P<source>a)\\1'}", 2, "source.path_pattern", "a back-reference", "match without"),
    ("source: {path_pattern: '(?P<source>a)(?P=source)'}", 2, "source.path_pattern", "a back-reference", "match"),
    ("source: {path_pattern: '(?P<source>a)(?(1)b|c)'}", 2, "source.path_pattern", "a conditional", "match without"),
    ("source: {path_pattern: '(?P<source>a++)'}", 2, "source.path_pattern", "possessive", "match without"),
    ("source: {path_pattern: '(?P<source>a)\\Z'}", 2, "source.path_pattern", "to RE2: invalid", "match without"),
    ("id: row", 2, "id", "must be one of content", "known are content"),
    ("id: {content: false}", 2, "id.content", "must be true", "id: content"),
    ("id: {content: maybe}", 2, "id.content", "true or false", "without quotes"),
    ("roles: {bot: asistant}", 2, "roles.bot", "must be one of system", "did you mean assistant?"),
    ("roles: {user: assistant}", 2, "roles.user", "is a role itself", "what the data calls it"),
    ("roles: {humna: null}", 2, "roles.humna", "no alias 'humna'", "did you mean human?"),
    ("ignore: missing-id", 2, "ignore", "must be a list", "[a, b]"),
    ("ignore: [mising-id]", 2, "ignore", "there is no rule", "did you mean missing-id?"),
    ("ignore:\n- missing-id\n- truncated-shard", 4, "ignore", "can't be ignored", "repair the shard"),
    ("rules: []", 2, "rules", "must be a mapping, not a list", "key: value"),
    ("rules: {short-response: 3}", 2, "rules.short-response", "must be a mapping", "key: value"),
    ("rules: {short-respons: {}}", 2, "rules.short-respons", "there is no rule", "did you mean short-response?"),
    ("rules: {few-loss-tokens: {}}", 2, "rules.few-loss-tokens", "not judged at stage completions", "rules --stage"),
    ("rules: {short-response: {mni: 3}}", 2, "rules.short-response.mni", "no field 'mni'", "level, tolerance, min"),
    ("rules: {truncated-share: {tolerance: 0}}", 2, "rules.truncated-share.tolerance", "no tolerance", "level, max"),
    ("rules: {short-response: {min: '3'}}", 2, "rules.short-response.min", "not the text '3'", "without quotes"),
    ("rules: {short-response: {min: [3]}}", 2, "rules.short-response.min", "not a list", "one number"),
    ("rules: {short-response: {min: }}", 2, "rules.short-response.min", "not nothing", "32"),
    ("rules: {short-response: {min: yes}}", 2, "rules.short-response.min", "must be a number, not yes", "32"),
    ("rules: {short-response: {min: 2.5}}", 2, "rules.short-response.min", "a whole number", "32"),
    ("rules: {short-response: {min: -1}}", 2, "rules.short-response.min", "a whole number from 0", "32"),
    ("rules: {short-response: {min: 1e30}}", 2, "rules.short-response.min", "2,147,483,647", "32"),
    ("rules: {short-response: {min: 010}}", 2, "rules.short-response.min", "must be a number, not 010", "32"),
    ("rules: {short-response: {min: 1:30}}", 2, "rules.short-response.min", "must be a number", "32"),
    ("rules: {short-response: {min: .NaN}}", 2, "rules.short-response.min", "finite", "32"),
    ("rules: {short-response: {min: inf}}", 2, "rules.short-response.min", "finite", "32"),
    ("rules: {short-response: {min: 1e999}}", 2, "rules.short-response.min", "finite", "32"),
    ("rules: {short-response: {tolerance: 1%}}", 2, "rules.short-response.tolerance", "must be a number", "0.05"),
    ("rules: {short-response: {tolerance: 1.01}}", 2, "rules.short-response.tolerance", "from 0 to 1", "0.01"),
    ("rules: {short-response: {tolerance: -0.01}}", 2, "rules.short-response.tolerance", "from 0 to 1", "0.01"),
    ("rules: {thinking-share: {min: 95}}", 2, "rules.thinking-share.min", "a share from 0 to 1", "0.01"),
    ("rules: {short-response: {level: warning}}", 2, "rules.short-response.level", "error, warn", "mean warn?"),
    ("rules: {short-response: {level: family}}", 2, "rules.short-response.level", "error, warn, not family", "known"),
    ("rules: {late-system: {level: none}}", 2, "rules.late-system.level", "error, warn, family", "known are"),
    ("rules:\n  unfetched-shard:\n    level: warn", 4, "rules.unfetched-shard.level", "can't be loosened", "leave it"),
    ("stage: completions", 2, "stage", "there twice, first on line 1", "keep one"),
    ("rules:\n  short-response: {min: 3,\n    min: 4}", 4, "rules.short-response.min", "there twice", "keep one"),
    ("target: &t a\nname: *t", 2, "", "anchors and aliases", "write the value out"),
    ("rules:\n  <<: {short-response: {}}", 3, "rules.<<", "<< is not text to YAML", "quotes"),
    ("name: !!python/name:os.system x", 2, "", "the tag", "is not allowed"),
    ("name: !mine x", 2, "", "the tag !mine is not allowed", "take it away"),
    ("---\nstage: prompts", 2, "", "a second document", "one document"),
    ("rules: " + "[" * 17 + "]" * 17, 2, "", "nested deeper", "four levels"),
    ("rules: " + "{a: " * 5000, 2, "", "nested deeper", "four levels"),
    ("rules: {", 3, "", "is not YAML", "check indentation"),
    ("\tname: x", 2, "", "is not YAML", "check indentation"),
    ("? [a]\n: b", 2, "", "a key must be text", "key: value"),
]


@pytest.mark.parametrize(("text", "line", "key", "problem", "hint"), WRONG)
def test_a_wrong_file_is_told_by_file_line_key_and_hint(tmp_path, monkeypatch, text, line, key, problem, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(f"stage: completions\n{text}\n")
    with pytest.raises(ContractError) as caught:
        load_contract("mine.yaml", stage="completions")
    what = caught.value.what
    assert caught.value.exit_code == ExitCode.USAGE
    if line:
        found = int(re.match(r"mine\.yaml, line (\d+)", what)[1])
        assert found == line or (found == line - 1 and "is not YAML" in what)
    if key:
        assert f", {key}: " in what
    assert problem in what
    assert hint in f"{caught.value.hint} {what}"
    assert what.endswith(".")
    assert "\n" not in what


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"# only a comment\n", "empty"),
        (b"---\n", "mapping"),
        (b"- a\n", "must be a mapping, not a list"),
        (b"text\n", "must be a mapping, not text"),
        (b"stage: completions\nname: caf\xe9\n", "line 2: is not UTF-8 at byte 28"),
        ("stage: completions\n".encode("utf-16"), "is not UTF-8"),
        (b"stage: comple\x00tions\n", "is not YAML"),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
    ],
)
def test_content_that_is_no_contract(tmp_path, content, problem):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(ContractError) as caught:
        load_contract(str(path), stage="completions")
    assert str(path) in caught.value.what
    assert problem in caught.value.what
    assert caught.value.hint


def test_what_is_extended_must_be_of_the_stage(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: prompts\n")
    with pytest.raises(
        ContractError, match=r"prompts\.yaml, line \d+, stage: the contract is for stage prompts"
    ) as caught:
        load_contract(str(tmp_path / "mine.yaml"), stage="completions")
    assert "--stage prompts" in caught.value.hint


def test_a_mark_before_utf_8_and_a_size_of_just_1_mib_are_fine(tmp_path):
    (tmp_path / "mine.yaml").write_bytes(b"\xef\xbb\xbfstage: completions\n")
    (tmp_path / "big.yaml").write_bytes(b"#" * ((1 << 20) - 20) + b"\nstage: completions\n")
    for name in ("mine.yaml", "big.yaml"):
        load_contract(str(tmp_path / name), stage="completions")


@pytest.mark.parametrize("name", ["none.yaml", "folder/", "x" * 300, "a\0b.yaml", "..", "complétions"])
def test_names_of_no_contract(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ContractError) as caught:
        load_contract(name, stage="completions")
    assert caught.value.hint


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "mine.yaml").write_text("stage: completions\n")
    (tmp_path / "mine.yaml").chmod(0)
    with pytest.raises(ContractError, match="Permission denied"):
        load_contract(str(tmp_path / "mine.yaml"), stage="completions")


FAMILY = (shipped_folder() / "families" / "qwen3.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "key", "problem"),
    [
        ("name: qwen3", "name: qwen4", "name", "is qwen4, but the file is mine.yaml"),
        ("newline: 198", "new_line: 198", "new_line", "unknown key"),
        ("mask_token: 151669", "", "mask_token", "is missing"),
        ("begin_turn: 151644", "begin_turn: 151936", "begin_turn", "below 151936"),
        ("begin_turn: 151644", "begin_turn: '151644'", "begin_turn", "not the text"),
        ("begin_ids: [151643]", "begin_ids: 151643", "begin_ids", "must be a list"),
        ("[197, 201]", "[201, 197]", "blank", "the lower first"),
        ("[197, 201]", "[0, 99999999999]", "blank", "below 151936"),
        ("  assistant: [77091]", "  asistant: [77091]", "roles", "role assistant are missing"),
        ("[<think>, </think>]", "[<think>]", "thinking_tags", "two texts"),
        ("system_first: false", "system_first: no", "system_first", "true or false"),
    ],
)
def test_a_wrong_family_file(tmp_path, old, new, key, problem):
    assert old in FAMILY
    path = tmp_path / "mine.yaml"
    path.write_text(FAMILY.replace("name: qwen3", "name: mine").replace(old.replace("name: qwen3", "name: mine"), new))
    with pytest.raises(ContractError) as caught:
        load_family(str(path))
    assert f"{path}, " in caught.value.what
    assert f", {key}: " in caught.value.what
    assert problem in caught.value.what
    assert caught.value.hint


def test_loading_imports_nothing_heavy():
    program = (
        "import sys, dflash_guard.contract.load as load\n"
        "load.load_contract(stage='tokenized'); load.load_contract(stage='completions', family='qwen3_5')\n"
        "print(*{'pandera', 'polars', 'duckdb', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_from_outside_it_is_one_sentence_and_exit_2(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}\n')
    (tmp_path / "mine.yaml").write_text("stage: prompts\nrules:\n  stub-response: {mim: 3}\n")
    words = ("check", "rows.jsonl", "--stage", "prompts", "--contract", "mine.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "dflash_guard", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: mine.yaml, line 3, rules.stub-response.mim: rule stub-response has no field 'mim'.",
        "hint: stub-response has level, tolerance, min.",
    ]
    assert not (tmp_path / "__guard__").exists()
