"""What all tests share: a contract and a verdict made by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

from dflash_guard.contract.model import Contract, Family, RuleSetting
from dflash_guard.errors import ExitCode
from dflash_guard.shards.model import LeftOut, Seal, Shard
from dflash_guard.verdict.failures import FAILURES, Failures
from dflash_guard.verdict.model import Counts, RuleResult, Verdict

# Machines differ, and the first example pays for imports.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

FAMILY = Family(
    name="qwen3",
    vocab_size=151_936,
    begin_turn=151_644,
    end_turn=151_645,
    end_text=151_643,
    think_open=151_667,
    think_close=151_668,
    newline=198,
    begin_ids=(151_643,),
    mask_token=151_669,
    roles={"user": (872,), "assistant": (77_091,)},
    prompt_thinking=(),
    prompt_off=(151_667, 271, 151_668, 271),
    blank=(198, 271),
    turn_texts=("<|im_start|>", "<|im_end|>"),
    control_texts=("<|endoftext|>",),
    thinking_tags=("<think>", "</think>"),
    system_first=False,
    sampling={},
)

CONTRACT = Contract(
    name="prompts",
    path="contracts/prompts.yaml",
    digest="sha256:" + "c" * 64,
    stage="prompts",
    mode="thinking",
    family=FAMILY,
    rules={
        "prompt-too-long": RuleSetting("prompt-too-long", "error", 0.01, {"max": 200_000}, set_by="--set"),
        "missing-id": RuleSetting("missing-id", "warn", 0.0, {}, ignored=True),
    },
)

ROWS = 1000


def rule_result(rule, level="error", failing=0, **fields):
    defaults = {"share": failing / ROWS, "tolerance": 0.0, "bound": {}, "failed": failing > 0 and level == "error"}
    return RuleResult(rule=rule, level=level, failing_rows=failing, **{**defaults, **fields})


def failing_row(rule, detail, *, level="error", shard="a.jsonl", row=0, line=1, sample_id="a"):
    return {
        "rule": rule,
        "level": level,
        "shard": shard,
        "row": row,
        "line": line,
        "sample_id": sample_id,
        "detail": detail,
    }


def hand_made(rules=(), failures=(), *, result=None, **fields):
    """A verdict of 1,000 rows in a JSONL and a Parquet shard."""
    failed = any(each.failed and each.level == "error" for each in rules)
    result = result or ("fail" if failed else "pass")
    codes = {"pass": ExitCode.PASSED, "fail": ExitCode.VIOLATED, "error": ExitCode.NOTHING}
    seals = [
        Seal(Shard(name, f"/data/set/{name}", 10), "0" * 64, 10, ROWS // 2, format)
        for name, format in (("a.jsonl", "jsonl"), ("b.parquet", "parquet"))
    ]
    verdict = Verdict(
        result=result,
        exit_code=codes[result],
        contract=CONTRACT,
        counts=Counts(shards=2, rows=ROWS, failed_rows=3, warned_rows=1, quarantined_rows=3),
        rules=tuple(rules),
        found=Failures(pa.Table.from_pylist(list(failures), schema=FAILURES)),
        seals=tuple(seals),
        left_out=(LeftOut("README.md", "a side file"),),
        data=("/data/set",),
        folder="/data/set/__guard__",
        facts=("", ""),
        started=STARTED,
        ended=STARTED + timedelta(seconds=2.34),
    )
    return replace(verdict, **fields)


@pytest.fixture(scope="session")
def make():
    """The makers of verdicts, rule results and failures, for tests of what is done with them."""

    class Make:
        verdict = staticmethod(hand_made)
        result = staticmethod(rule_result)
        failure = staticmethod(failing_row)

    return Make


@pytest.fixture(scope="session")
def verdict():
    """A verdict with one of each: failed, warned, tolerated, passed, skipped, of a row, a shard and the data set."""
    rules = (
        rule_result("unknown-role", failing=2),
        rule_result("truncated-shard", failing=1),
        rule_result("stub-response", "warn", failing=1),
        rule_result("prompt-too-long", failing=1, tolerance=0.01, bound={"max": 200_000}, failed=False),
        rule_result("empty-conversation"),
        rule_result(
            "response-collapse", bound={"max": 0.05}, observed=0.87, failed=True, message="87.0 % of rows answer OK."
        ),
        rule_result("unknown-prompt", share=None, skipped="no upstream was given"),
    )
    failures = (
        failing_row("truncated-shard", "the gzip stream ends early", row=None, line=None, sample_id=None),
        failing_row("unknown-role", "turn 1: role 'hummany'", row=2, line=4, sample_id="c"),
        failing_row("stub-response", "3 characters", level="warn", row=3, line=5, sample_id=None),
        failing_row("unknown-role", "turn 0: role 'x'", shard="b.parquet", row=7, line=None),
        failing_row("prompt-too-long", "212,884 characters", shard="b.parquet", row=9, line=None),
        failing_row("response-collapse", "87.0 %", shard=None, row=None, line=None, sample_id=None),
    )
    return hand_made(rules, failures)
