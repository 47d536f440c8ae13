"""The examples of the catalog: each passing one passes its rule, each failing one fails it, judged as files."""

import shlex

import pytest

import dflash_guard as dg
from dflash_guard.contract.catalog import RULES

JUDGED = [rule for rule in RULES if rule.scope == "row" and rule.example_stage != "hidden_states"]
ALONE = {"duplicate-id", "duplicate-prompt"}  # beside other examples, which share ids and prompts, they would fire
GROUPS = sorted(
    {(rule.example_stage, rule.example_options, rule.name if rule.name in ALONE else "") for rule in JUDGED}
)


def options(words):
    said = shlex.split(words)
    found = {"sets": []}
    for flag, value in zip(said[::2], said[1::2], strict=True):
        if flag == "--set":
            found["sets"].append(value)
        else:
            found[flag.removeprefix("--")] = value
    return found


def text_of(rule, kind):
    text = getattr(rule, kind)
    return text if rule.name == "torn-last-line" and kind == "failing" else f"{text}\n"


@pytest.mark.parametrize(("stage", "words", "alone"), GROUPS)
@pytest.mark.parametrize("kind", ["passing", "failing"])
def test_examples_hold(tmp_path, stage, words, alone, kind):
    rules = [
        rule
        for rule in JUDGED
        if (rule.example_stage, rule.example_options) == (stage, words)
        and (rule.name == alone if alone else rule.name not in ALONE)
    ]
    data, contract = tmp_path / "data", tmp_path / "mine.yaml"
    data.mkdir()
    contract.write_text(f"extends: {stage}\n" + ("target: Qwen/Qwen3-8B\n" if stage == "completions" else ""))
    for rule in rules:
        (data / f"{rule.name}.jsonl").write_text(text_of(rule, kind), encoding="utf-8")
    verdict = dg.check(data, stage=stage, contract=str(contract), **options(words))
    judged = {result.rule for result in verdict.rules if result.skipped is None}
    assert judged >= {rule.name for rule in rules}
    fired = {(each["rule"], each["shard"]) for each in verdict.failures.to_pylist()}
    wrong = [rule.name for rule in rules if ((rule.name, f"{rule.name}.jsonl") in fired) != (kind == "failing")]
    assert wrong == []
