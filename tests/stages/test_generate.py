"""`generate` against a server that answers as it is told: nothing lost, nothing twice, nothing kept that fails."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from commands import DISTRIBUTION, IGNORED
from scripted_engine import MODEL, ScriptedEngine, body, cut_off, fails_first, hangs, says, wait_until

import dflash_guard as dg
import samples
from dflash_guard.errors import GateError, JudgeError, UsageError
from dflash_guard.stages import engine as engine_module
from dflash_guard.stages.generate import CanaryError, generate


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Waits are short."""
    monkeypatch.setattr(engine_module, "_PATIENCE", (0.01, 0.05))
    monkeypatch.setattr(engine_module, "_DOWN_S", 0.1)


def prompts(folder, count=20, rows=None):
    (folder / "prompts").mkdir(exist_ok=True)
    samples.write(folder / "prompts", rows or [samples.prompt(i) for i in range(count)], "prompts")
    assert dg.check(folder / "prompts", stage="prompts", family="tiny", ignore=IGNORED).passed
    return folder / "prompts"


def make(folder, *servers, **options):
    options = {"ignore": IGNORED, "max_new_tokens": 512, "concurrency": 8, **options}
    return generate(folder / "prompts", out=folder / "out", base_urls=[s.url for s in servers], model=MODEL, **options)


def rows_of(folder):
    return [
        json.loads(line) for path in sorted((folder / "out").glob("*.jsonl")) for line in path.read_text().splitlines()
    ]


def failures_of(folder):
    files = sorted((folder / "out/__guard__/failures").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_every_prompt_has_one_completion_that_passes(here, tiny):
    prompts(here)
    with ScriptedEngine(tiny) as server:
        made = make(here, server)
    assert made.verdict.passed
    assert (made.passed, made.failed, dict(made.set_aside), made.input) == (20, 0, {}, 20)
    rows = {row["id"]: row for row in rows_of(here)}
    assert sorted(rows, key=int) == [str(i) for i in range(20)]
    row = rows["7"]
    assert row["messages"] == [
        {"role": "user", "content": "What is number 7?"},
        {
            "role": "assistant",
            "content": "It is this one: What is number 7?",
            "reasoning_content": "I count up to it, slowly.",
        },
    ]
    assert (row["source"], row["finish_reason"], row["usage"]["completion_tokens"]) == ("sums", "stop", 12)
    generator = row["generator"]
    assert (generator["model"], generator["engine"], generator["engine_version"]) == (MODEL, "sglang", "0.5.23")
    assert len(generator["chat_template_sha256"]) == len(generator["tokenizer_sha256"]) == 64
    assert generator["sampling"]["max_new_tokens"] == 512
    asked = server.asked[0]
    assert asked["chat_template_kwargs"] == {"enable_thinking": True}
    assert asked["separate_reasoning"] is True
    passage = dg.gate(here / "out", ignore=IGNORED)
    assert [link.record.stage for link in passage.chain] == ["prompts"]


def test_all_turns_are_said_again_each_on_the_models_own(here, tiny):
    row = {
        "id": "a",
        "source": "sums",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": "An old answer that is long enough."},
            {"role": "user", "content": "Two?"},
            {"role": "assistant", "content": "Another old answer, long enough too."},
        ],
    }
    prompts(here, rows=[row])
    with ScriptedEngine(tiny) as server:
        make(here, server)
    (made,) = rows_of(here)
    assert [m["role"] for m in made["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert "old" not in json.dumps(made["messages"])
    second = server.asked[1]["messages"]
    assert second[2] == {
        "role": "assistant",
        "content": "It is this one: One?",
        "reasoning_content": "I count up to it, slowly.",
    }


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]


def tool_row(i, arguments='{"a": 1, "b": 2}'):
    call = {**CALL, "function": {"name": "add", "arguments": arguments}}
    return {
        "id": str(i),
        "source": "sums",
        "tools": TOOLS,
        "messages": [
            {"role": "user", "content": f"Hello {i}"},
            {"role": "assistant", "content": "A greeting of old, long enough."},
            {"role": "user", "content": f"Add {i}"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "3", "tool_call_id": "c1"},
            {"role": "assistant", "content": "It is three, as it was before."},
        ],
    }


def calls_then_answers():
    async def act(asked, nth, request):
        from aiohttp import web

        if asked["messages"][-1]["role"] == "tool":
            return web.json_response(body("It is three, I say, by the tool."))
        return web.json_response(body("", tool_calls=[{**CALL, "id": "new"}], finish="tool_calls"))

    return act


def test_recorded_tool_results_answer_the_same_call(here, tiny):
    prompts(here, rows=[tool_row(1), tool_row(2, '{"a": 5, "b": 2}')])
    with ScriptedEngine(tiny, {"^Add": calls_then_answers()}) as server:
        make(here, server)
    rows = {row["id"]: row for row in rows_of(here)}
    assert [m["role"] for m in rows["1"]["messages"]] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert rows["1"]["messages"][4]["tool_call_id"] == "new"
    assert "ended_early" not in rows["1"]
    assert [m["role"] for m in rows["2"]["messages"]] == ["user", "assistant"]
    assert rows["2"]["ended_early"] is True


FAULTS = {
    "a 429 storm": fails_first(4, 429),
    "a 503": fails_first(2, 503),
    "a 500 with HTML": fails_first(2, 500, text="<html>oops</html>"),
    "a 408": fails_first(1, 408),
    "a cut body": cut_off(2),
    "no JSON": fails_first(2, 200, text="not json"),
    "an error in HTTP 200": fails_first(2, 200, text='{"object": "error", "message": "scheduler died"}'),
    "no choice": fails_first(1, 200, text='{"choices": []}'),
    "an abort": fails_first(1, 200, text=json.dumps(body("x", finish="abort"))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_asked_again(here, tiny, fault):
    prompts(here, 6)
    with ScriptedEngine(tiny, {"number 3": FAULTS[fault]}) as server:
        made = make(here, server)
    assert (made.passed, made.failed) == (6, 0)
    assert server.seen["What is number 3?"] > 1
    assert Counter(row["id"] for row in rows_of(here)) == Counter(str(i) for i in range(6))


BAD = {
    "a 400": (says({"error": {"message": "prompt is too long"}}, 400), "request failed", "prompt is too long"),
    "a 500 for ever": (fails_first(99, 500), "request failed", "busy"),
    "null content": (says(body(None)), "no-response", ""),
    "thinking without end": (says(body("", "and so on", "length")), "truncated-response", ""),
    "no thinking": (says(body("It is this, without a thought about it.", None)), "missing-thinking", ""),
    "an error as text": (says(body('{"error": "overloaded"}')), "failed-response", ""),
    "a stub": (says(body("OK.", "x")), "short-response", ""),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_fails_is_kept_apart_with_its_reason(here, tiny, bad):
    act, reason, detail = BAD[bad]
    prompts(here, 6)
    with ScriptedEngine(tiny, {"number 3": act}) as server:
        made = make(here, server)
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    assert (made.passed, made.failed) == (5, 1)
    (failure,) = failures_of(here)
    assert failure["id"] == "3"
    assert reason in failure["reason"]
    assert detail in failure["detail"]
    if bad == "a 400":
        assert (failure["attempts"], server.seen["What is number 3?"]) == (1, 1)


def test_failed_rows_are_asked_again_when_told(here, tiny):
    prompts(here, 6)
    with ScriptedEngine(tiny, {"number 3": says(body("OK.", "x"))}) as server:
        make(here, server)
    with ScriptedEngine(tiny) as server:
        assert make(here, server).failed == 1
        assert not server.asked
        made = make(here, server, retry_failed=True)
    assert (made.passed, made.failed, len(server.asked)) == (6, 0, 1)
    assert Counter(row["id"] for row in rows_of(here)) == Counter(str(i) for i in range(6))
    assert made.verdict.passed


def test_a_hung_request_times_out(here, tiny):
    prompts(here, 3)
    with ScriptedEngine(tiny, {"number 1": hangs(30)}) as server:
        made = make(here, server, timeout=1, attempts=2)
    assert (made.passed, made.failed) == (2, 1)
    assert failures_of(here)[0]["detail"] == "the request timed out"


def test_the_canary_stops_the_run(here, tiny):
    prompts(here, 300)
    with ScriptedEngine(tiny, {"number": says(body("It is this, without a thought about it.", None))}) as server:
        with pytest.raises(CanaryError, match="64 of 64 completions fail: 64 × missing-thinking") as stopped:
            make(here, server)
        assert len(server.asked) == 64
    assert stopped.value.exit_code == 1
    assert len(failures_of(here)) == 64


def test_prompts_over_the_window_are_set_aside(here, tiny):
    rows = [samples.prompt(i, "Count this: " + "word " * (2000 if i == 2 else 3) + str(i)) for i in range(5)]
    prompts(here, rows=rows)
    with ScriptedEngine(tiny, max_length=2048) as server:
        made = make(here, server)
    assert dict(made.set_aside) == {"over the context window": 1}
    assert made.verdict.passed
    accounted = next(each for each in made.verdict.rules if each.rule == "unaccounted-rows")
    assert (accounted.failed, accounted.observed) == (False, 5)


def test_a_limit(here, tiny):
    prompts(here, 30)
    with ScriptedEngine(tiny) as server:
        made = make(here, server, limit=7)
    assert (made.passed, made.input, made.verdict.passed) == (7, 7, True)


def test_two_servers_share_and_a_dead_one_is_left_out(here, tiny):
    prompts(here, 60)
    with ScriptedEngine(tiny, delay=0.01) as one, ScriptedEngine(tiny, delay=0.01) as two:
        make(here, one, two)
        assert min(len(one.asked), len(two.asked)) > 10
    shutil.rmtree(here / "out")
    with ScriptedEngine(tiny) as live:
        dead = SimpleNamespace(url="http://127.0.0.1:9")
        made = make(here, live, dead)
    assert made.passed == 60


def test_a_server_that_is_away_for_a_while_costs_no_row(here, tiny):
    prompts(here, 40)
    with ScriptedEngine(tiny, delay=0.05) as server:
        threading.Timer(0.3, server.pause, [1.0]).start()
        made = make(here, server, attempts=2, concurrency=4)
    assert (made.passed, made.failed) == (40, 0)


def test_servers_that_never_come_back_end_the_run_and_lose_nothing(here, tiny):
    prompts(here, 200)
    server = ScriptedEngine(tiny, delay=0.02).__enter__()
    threading.Timer(1.0, server.__exit__).start()
    with pytest.raises(JudgeError, match="no engine has answered for 1 s"):
        make(here, server, patience=1, concurrency=4)
    done = len(rows_of(here))
    with ScriptedEngine(tiny) as other:
        made = make(here, other)
        assert len(other.asked) == 200 - done
    assert made.passed == 200


def test_concurrency_is_bounded(here, tiny):
    prompts(here, 40)
    with ScriptedEngine(tiny, delay=0.02) as server:
        make(here, server, concurrency=5)
    assert 3 <= server.most_in_flight <= 5


def test_a_killed_run_goes_on(here, tiny):
    prompts(here, 2600)
    ledger = here / "out/__guard__/generate.json"
    args = [
        "generate", here / "prompts", "--out", here / "out", "--model", MODEL, "--ignore", DISTRIBUTION,
        "--max-new-tokens", "512", "--concurrency", "32",
    ]  # fmt: skip
    with ScriptedEngine(tiny, delay=0.002) as server:
        command = [sys.executable, "-m", "dflash_guard", *map(str, args), "--base-url", server.url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            wait_until(lambda: ledger.exists() and "part-00000" in ledger.read_text(), 60)
            child.send_signal(signal.SIGKILL)
        assert not (here / "out/__guard__/manifest.json").exists()
        before = len(server.asked)
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=240, env={**os.environ, "NO_COLOR": "1"}
        )
        assert ran.returncode == 0, ran.stderr
        assert len(server.asked) - before <= 1600
    assert Counter(row["id"] for row in rows_of(here)) == Counter(str(i) for i in range(2600))
    assert "2,600 passed + 0 failed + 0 set aside = 2,600 prompts" in ran.stderr


def test_an_interrupt_keeps_what_was_judged(here, tiny):
    prompts(here, 1500)
    args = [
        "generate",
        here / "prompts",
        "--out",
        here / "out",
        "--model",
        MODEL,
        "--ignore",
        DISTRIBUTION,
        "--max-new-tokens",
        "512",
    ]
    with ScriptedEngine(tiny, delay=0.02) as server:
        command = [sys.executable, "-m", "dflash_guard", *map(str, args), "--base-url", server.url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
            wait_until(lambda: len(server.asked) > 300, 60)
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert len(rows_of(here)) >= 64


def test_off_and_by_row(here, tiny):
    rows = [{**samples.prompt(i), "enable_thinking": i % 2 == 0} for i in range(6)]
    prompts(here, rows=rows)

    async def act(asked, nth, request):
        from aiohttp import web

        thinks = asked["chat_template_kwargs"]["enable_thinking"]
        return web.json_response(body("It is this one, I would say.", "I count." if thinks else None))

    with ScriptedEngine(tiny, {"number": act}) as server:
        assert dg.check(here / "prompts", stage="prompts", family="tiny", mode="row", ignore=IGNORED).passed
        made = make(here, server, mode="row")
        assert made.verdict.passed, made.verdict.failures.to_pylist()
        assert Counter(asked["chat_template_kwargs"]["enable_thinking"] for asked in server.asked) == {
            True: 3,
            False: 3,
        }


def test_transformers_generates_in_this_process(here, tiny, tmp_path):
    """A random model: the rules about what is said are left out."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    model = here / "model"
    shutil.copytree(tiny, model)
    config = Qwen3Config(
        vocab_size=600, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=512, eos_token_id=2, bos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(model)
    prompts(here, 4)
    ignore = (
        "no-response", "short-response", "truncated-response", "repetition-loop", "missing-thinking", "empty-thinking",
        "unclosed-thinking", "stray-bytes", "invalid-text", "forged-turn", "unopened-thinking", "repeated-thinking",
    )  # fmt: skip
    made = generate(
        here / "prompts",
        out=here / "out",
        model=str(model),
        engine="transformers",
        max_new_tokens=16,
        ignore=[*IGNORED, *ignore],
    )
    assert (made.passed, made.failed) == (4, 0)
    row = rows_of(here)[0]
    assert row["generator"]["engine"] == "transformers"
    assert row["output_ids"]
    assert row["usage"]["completion_tokens"] == len(row["output_ids"])


def test_a_dry_run_shows_what_will_be_sent(here, tiny):
    prompts(here, 9)
    args = ["generate", "prompts", "--model", MODEL, "--tokenizer", tiny, "--dry-run", "--ignore", DISTRIBUTION]
    ran = subprocess.run(
        [sys.executable, "-m", "dflash_guard", *map(str, args)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert [line for line in ran.stdout.splitlines() if line.startswith("id ")] == [
        f"id {i} · {n} prompt tokens" for i, n in zip(range(3), re.findall(r"· (\d+) prompt", ran.stdout), strict=True)
    ]
    assert '"chat_template_kwargs": {"enable_thinking": true}' in ran.stdout
    assert "  <|im_start|>user" in ran.stdout
    assert not (here / "completions").exists()


def test_the_gate_is_first(here, tiny):
    path = prompts(here)
    with ScriptedEngine(tiny) as server:
        shutil.rmtree(path / "__guard__")
        with pytest.raises(GateError):
            make(here, server)
        assert not server.asked


def test_wrong_options(here, tiny):
    prompts(here, 3)
    with ScriptedEngine(tiny) as server:
        options = {"out": here / "out", "base_urls": [server.url], "ignore": IGNORED}
        with pytest.raises(UsageError, match=f"serves {MODEL}, not nope"):
            generate(here / "prompts", model="nope", **options)
        with pytest.raises(UsageError, match="leaves no room"):
            generate(here / "prompts", model=MODEL, max_new_tokens=4000, **options)
        make(here, server)
        with pytest.raises(UsageError, match="begun with other prompts"):
            make(here, server, max_new_tokens=100)
    with pytest.raises(JudgeError, match="no engine answers"):
        generate(here / "prompts", out=here / "else", base_urls=["http://127.0.0.1:9"], model=MODEL, ignore=IGNORED)


def test_rows_without_an_id_are_refused(here, tiny):
    rows = [samples.prompt(i) for i in range(3)]
    del rows[1]["id"]
    prompts(here, rows=rows)
    with ScriptedEngine(tiny) as server, pytest.raises(UsageError, match="has no id"):
        make(here, server)


def test_what_is_generated_can_be_tokenized(here, tiny):
    from dflash_guard.stages.tokenize import tokenize

    prompts(here)
    with ScriptedEngine(tiny) as server:
        make(here, server)
    made = tokenize(
        here / "out", out=here / "tokens", tokenizer=tiny, family="tiny", ignore=[*IGNORED, "few-loss-tokens"], jobs=1
    )
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    passage = dg.gate(here / "tokens", ignore=[*IGNORED, "few-loss-tokens"])
    assert [link.record.stage for link in passage.chain] == ["completions", "prompts"]
    assert passage.reaches_prompts
