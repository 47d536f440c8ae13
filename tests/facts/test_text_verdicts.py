"""Rows of text and the rules that they break, exactly: each row with its verdict, and its negative twin."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dflash_guard as dg
from dflash_guard.contract.catalog import rules_for

ANSWER = "A long enough answer to the question."
# Not what these rows are about.
QUIET = {"unknown-source", "missing-id", "duplicate-id", "duplicate-prompt", "missing-generator", "unknown-finish"}


def user(text="A question?"):
    return {"role": "user", "content": text}


def bot(text=ANSWER, **more):
    return {"role": "assistant", "content": text, **more}


def chat(*turns, **more):
    return {"messages": list(turns), **more}


def gpt(*turns, **more):
    return {"conversations": [{"from": who, "value": said} for who, said in turns], **more}


def call(arguments, id="1", name="f"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(text="result", id="1"):
    return {"role": "tool", "tool_call_id": id, "content": text}


def calls(*each):
    return {"role": "assistant", "content": "", "tool_calls": list(each)}


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
TEXT = {"type": "text", "text": "words"}

PROMPTS = {
    # shapes
    "openai": (chat(user(), bot()), set()),
    "prompt only": (chat(user()), set()),
    "sharegpt": (gpt(("human", "Hi?"), ("gpt", ANSWER)), set()),
    "sharegpt with openai roles": (gpt(("user", "Hi?"), ("assistant", ANSWER)), set()),
    "conversations of openai turns": ({"conversations": [user(), bot()]}, set()),
    "alpaca": ({"instruction": "Say hi.", "input": "", "output": ANSWER}, set()),
    "alpaca with input": ({"instruction": "Add.", "input": "1, 2", "output": ANSWER}, set()),
    "alpaca without output": ({"instruction": "Say hi."}, set()),
    "alpaca blank": ({"instruction": " ", "input": "", "output": ANSWER}, {"empty-turn"}),
    "alpaca with history": ({"instruction": "a", "output": ANSWER, "history": [["q", "a"]]}, {"unknown-shape"}),
    "json string": ({"messages": json.dumps([user(), bot()])}, set()),
    "json string, twice encoded": ({"messages": json.dumps(json.dumps([user()]))}, {"unknown-shape"}),
    "json string, broken": ({"messages": "[{"}, {"unknown-shape"}),
    "json string, empty list": ({"messages": "[]"}, {"empty-conversation"}),
    "no turns": ({"messages": []}, {"empty-conversation"}),
    "null": ({"messages": None}, {"unknown-shape"}),
    "an object": ({"messages": user()}, {"unknown-shape"}),
    "bare strings": ({"messages": ["Hi?", "Hello"]}, {"unknown-shape"}),
    "pairs": ({"conversations": [["Hi?", "Hello"]]}, {"unknown-shape"}),
    "prerendered": ({"text": "<|im_start|>user\nHi<|im_end|>"}, {"unknown-shape"}),
    "other keys": ({"prompt": "Hi?", "completion": "Hello"}, {"unknown-shape"}),
    "turn without role": (chat({"content": "Hi?"}, bot()), {"unknown-shape"}),
    "both lists": ({**chat(user()), **gpt(("human", "Hi?"))}, {"mixed-schema"}),
    "both, one null": ({**chat(user()), "conversations": None}, set()),
    "both, one a string": ({**chat(user()), "conversations": "see messages"}, {"mixed-schema"}),
    "mixed keys": ({"messages": [user(), {"from": "gpt", "value": ANSWER}]}, {"mixed-schema"}),
    "mixed in a turn": ({"messages": [{"role": "user", "value": "Hi?"}]}, {"mixed-schema"}),
    # roles
    "developer": (chat({"role": "developer", "content": "x"}, user(), bot()), set()),
    "unknown role": (gpt(("hummany", "Hi?"), ("gpt", ANSWER)), {"unknown-role"}),
    "role in capitals": (chat({"role": "User", "content": "Hi?"}, bot()), {"unknown-role"}),
    "role with a space": (chat({"role": "user ", "content": "Hi?"}, bot()), {"unknown-role"}),
    "role is a number": (chat({"role": 1, "content": "Hi?"}, bot()), {"unknown-role"}),
    "no user": (chat({"role": "system", "content": "x"}), {"no-user-turn"}),
    "wrapped tool result only": (
        chat(user(" <tool_response>\nx\n</tool_response> "), bot()),
        {"no-user-turn", "orphan-tool-result", "control-token-in-text"},
    ),
    "empty user": (chat(user(""), bot()), {"empty-turn"}),
    "white space of unicode": (chat(user("\u00a0\u3000"), bot()), {"empty-turn"}),
    "null content": (chat(user(None), bot()), {"empty-turn"}),
    "empty system": (chat({"role": "system", "content": " "}, user(), bot()), {"empty-turn"}),
    "empty earlier answer": (chat(user(), bot(""), user(), bot()), {"empty-turn"}),
    "empty last answer": (chat(user(), bot("")), {"stub-response"}),
    "tool calls need no text": (chat(user(), calls(call({})), tool(), bot()), set()),
    "two users": (chat(user("a?"), user("b?"), bot()), {"role-order"}),
    "two assistants": (chat(user(), bot(), bot()), {"role-order"}),
    "assistant first": (chat(bot(), user(), bot()), {"role-order"}),
    "assistant after system": (chat({"role": "system", "content": "x"}, bot(), user()), {"role-order"}),
    "late system": (chat(user(), bot(), {"role": "system", "content": "x"}, user()), {"late-system"}),
    "second system": (chat(*[{"role": "system", "content": "x"}] * 2, user()), {"late-system"}),
    "system field": ({"system": "Be brief.", **gpt(("human", "Hi?"), ("gpt", ANSWER))}, set()),
    "system field and turn": (
        {"system": "a", **chat({"role": "system", "content": "b"}, user())},
        {"late-system"},
    ),
    # content
    "parts": (chat(user([TEXT, TEXT]), bot()), set()),
    "no parts": (chat(user([]), bot()), {"empty-turn"}),
    "image": (chat(user([IMAGE, TEXT]), bot()), {"unsupported-content"}),
    "bare string in a list": (chat(user(["Hi?"]), bot()), {"unsupported-content"}),
    "part without text": (chat(user([{"type": "text", "value": "x"}]), bot()), {"unsupported-content"}),
    "text part of a number": (chat(user([{"type": "text", "text": 1}]), bot()), {"unsupported-content"}),
    "an object as content": (chat(user({"a": 1}), bot()), {"unsupported-content"}),
    "a number as content": (chat(user(7), bot()), {"unsupported-content"}),
    "a truth value as content": (chat(user(True), bot()), {"unsupported-content"}),
    "text that reads like a list": (chat(user("[1, 2]"), bot()), set()),
    "text that reads like a number": (chat(user("42"), bot()), set()),
    "text that reads like null": (chat(user("null"), bot()), set()),
    "text that reads like an object": (chat(user('{"a": 1}'), bot()), set()),
    "text that reads like parts": (chat(user('[{"type": "image"}]'), bot()), set()),
    # control tokens
    "end of turn": (chat(user("x<|im_end|>y"), bot()), {"forged-turn"}),
    "start and role": (chat(user("<|im_start|>assistant\nx"), bot()), {"forged-turn"}),
    "start without role": (chat(user("<|im_start|> x"), bot()), {"control-token-in-text"}),
    "split over parts": (
        chat(user([{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|>"}]), bot()),
        {"forged-turn"},
    ),
    "in the answer": (chat(user(), bot(ANSWER + "<|im_end|>")), {"forged-turn"}),
    "in reasoning": (chat(user(), bot(reasoning_content="x<|im_end|>")), {"forged-turn"}),
    "in a tool result": (chat(user(), calls(call({})), tool("<|im_end|>"), bot()), {"forged-turn"}),
    "spaced": (chat(user("<| im_end |>"), bot()), set()),
    "think tag by a user": (chat(user("What is <think>?"), bot()), {"control-token-in-text"}),
    "think tag by the assistant": (chat(user(), bot("<think>\nx\n</think>\n\n" + ANSWER)), set()),
    "less than": (chat(user("1 < 2 and a<b>c"), bot()), set()),
    # tools
    "arguments as text": (chat(user(), calls(call('{"a": 1}')), tool(), bot()), set()),
    "arguments broken": (chat(user(), calls(call('{"a": ')), tool(), bot()), {"invalid-tool-arguments"}),
    "arguments null": (chat(user(), calls(call(None)), tool(), bot()), {"invalid-tool-arguments"}),
    "arguments twice encoded": (chat(user(), calls(call('"{}"')), tool(), bot()), {"invalid-tool-arguments"}),
    "arguments a list": (chat(user(), calls(call([1])), tool(), bot()), {"invalid-tool-arguments"}),
    "legacy call": (
        chat(
            user(), bot("", function_call={"name": "f", "arguments": "{}"}), {"role": "function", "content": "x"}, bot()
        ),
        set(),
    ),
    "sharegpt call": (
        gpt(
            ("human", "Hi?"),
            ("function_call", '{"name": "f", "arguments": {"a": 1}}'),
            ("observation", "x"),
            ("gpt", ANSWER),
        ),
        set(),
    ),
    "sharegpt call broken": (
        gpt(("human", "Hi?"), ("function_call", "f(1)"), ("observation", "x"), ("gpt", ANSWER)),
        {"invalid-tool-arguments"},
    ),
    "inline call": (
        chat(user(), bot('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'), tool(), bot()),
        set(),
    ),
    "inline call broken": (
        chat(user(), bot('<tool_call>\n{"name": "f", "arguments": {}\n</tool_call>'), tool(), bot()),
        {"invalid-tool-arguments"},
    ),
    "inline call of qwen3_coder": (
        chat(
            user(),
            bot("<tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n</tool_call>"),
            tool(),
            bot(),
        ),
        set(),
    ),
    "result without call": (chat(user(), bot(), tool(), bot()), {"orphan-tool-result"}),
    "result with another id": (chat(user(), calls(call({})), tool(id="2"), bot()), {"orphan-tool-result"}),
    "calls without ids": (
        chat(
            user(),
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
            tool(),
            bot(),
        ),
        set(),
    ),
    "several calls": (chat(user(), calls(call({}), call({}, "2")), tool(id="2"), tool(), bot()), set()),
    "empty tool_calls": (chat(user(), bot(tool_calls=[]), user(), bot(tool_calls=None)), set()),
    "tool_calls as text": (chat(user(), bot("", tool_calls=json.dumps([call({})])), tool(), bot()), set()),
    # lengths
    "prompt at the bound": (chat(user("x" * 100_000), bot()), set()),
    "prompt above it": (chat(user("x" * 100_001), bot()), {"prompt-too-long"}),
    "stub": (chat(user(), bot("OK.")), {"stub-response"}),
    "stub at the bound": (chat(user(), bot("x" * 20)), set()),
    "emoji are one character each": (chat(user(), bot("😀" * 19)), {"stub-response"}),
}

BEST = "I think about the question for a while."
COMPLETIONS = {
    "good": (chat(user(), bot("<think>\nI think.\n</think>\n\n" + ANSWER)), set()),
    "good field": (chat(user(), bot(reasoning_content=BEST)), set()),
    "reasoning": (chat(user(), bot(reasoning=BEST)), set()),
    "thinking": (chat(user(), bot(thinking=BEST)), set()),
    "no thinking": (chat(user(), bot()), {"missing-thinking"}),
    "null field": (chat(user(), bot(reasoning_content=None)), {"missing-thinking"}),
    "blank field": (chat(user(), bot(reasoning_content=" ")), {"empty-thinking"}),
    "blank block": (chat(user(), bot("<think>\n\n</think>\n\n" + ANSWER)), {"empty-thinking"}),
    "blank field beside a block": (chat(user(), bot("<think>x</think>" + ANSWER, reasoning_content="")), set()),
    "blank block beside a field": (chat(user(), bot("<think></think>" + ANSWER, reasoning_content=BEST)), set()),
    "two blocks": (chat(user(), bot("<think>a</think><think>b</think>" + ANSWER)), {"repeated-thinking"}),
    "block and field": (chat(user(), bot("<think>a</think>" + ANSWER, reasoning_content=BEST)), {"repeated-thinking"}),
    "one text in two fields": (chat(user(), bot(reasoning_content=BEST, reasoning=BEST)), set()),
    "unopened": (chat(user(), bot(BEST + "</think>\n\n" + ANSWER)), {"unopened-thinking"}),
    "unclosed": (chat(user(), bot("<think>\n" + BEST)), {"unclosed-thinking", "no-response"}),
    "no answer": (chat(user(), bot("<think>\n" + BEST + "\n</think>\n\n ")), {"no-response"}),
    "null answer": (chat(user(), bot(None, reasoning_content=BEST)), {"no-response"}),
    "tool call alone": (chat(user(), bot("", reasoning_content=BEST, tool_calls=[call({})])), set()),
    "ends on a user": (chat(user(), bot(reasoning_content=BEST), user()), {"no-response"}),
    "short": (chat(user(), bot("Yes.", reasoning_content="It is.")), {"short-response"}),
    "short at the bound": (chat(user(), bot("x" * 10, reasoning_content="y" * 10)), set()),
    "unanswered call": (
        chat(user(), calls(call({})), user("Well?"), bot(reasoning_content=BEST)),
        {"unanswered-tool-call"},
    ),
    "one of two calls unanswered": (
        chat(user(), calls(call({}), call({}, "2")), tool(), bot(reasoning_content=BEST)),
        {"unanswered-tool-call"},
    ),
    "length": (chat(user(), bot(reasoning_content=BEST), finish_reason="length"), {"truncated-response"}),
    "length as an object": (
        chat(user(), bot(reasoning_content=BEST), finish_reason={"type": "length", "length": 9}),
        {"truncated-response"},
    ),
    "length on the turn": (chat(user(), bot(reasoning_content=BEST, finish_reason="length")), {"truncated-response"}),
    "abort": (chat(user(), bot(reasoning_content=BEST), finish_reason={"type": "abort"}), {"failed-response"}),
    "content_filter": (chat(user(), bot(reasoning_content=BEST), finish_reason="content_filter"), {"failed-response"}),
    "error field": (chat(user(), bot(reasoning_content=BEST), error="timeout"), {"failed-response"}),
    "error object": (chat(user(), bot(reasoning_content=BEST), error={"code": 500}), {"failed-response"}),
    "no error": (chat(user(), bot(reasoning_content=BEST), error=False), set()),
    "error null": (chat(user(), bot(reasoning_content=BEST), error=None), set()),
    "error blank": (chat(user(), bot(reasoning_content=BEST), error=""), set()),
    "status": (chat(user(), bot(reasoning_content=BEST), status_code=503), {"failed-response"}),
    "status as text": (chat(user(), bot(reasoning_content=BEST), status="503"), {"failed-response"}),
    "status fine": (chat(user(), bot(reasoning_content=BEST), status="success", status_code=200), set()),
    "error body": (
        chat(user(), bot('{"error": {"message": "no", "code": 429}}', reasoning_content=BEST)),
        {"failed-response"},
    ),
    "json answer": (chat(user(), bot('{"answer": "four", "why": "two and two"}', reasoning_content=BEST)), set()),
    "html body": (chat(user(), bot("<!DOCTYPE html><html>502</html>", reasoning_content=BEST)), {"failed-response"}),
    "loop": (chat(user(), bot("I am sorry. " * 80, reasoning_content=BEST)), {"repetition-loop"}),
    "loop over lines": (
        chat(user(), bot("I am\nso sorry. I am so\nsorry. " * 40, reasoning_content=BEST)),
        {"repetition-loop"},
    ),
    "loop in thinking": (chat(user(), bot(reasoning_content="Wait, let me check again. " * 40)), {"repetition-loop"}),
    "loop in Chinese": (chat(user(), bot("对不起，我不知道。" * 100, reasoning_content=BEST)), {"repetition-loop"}),
    "a loop behind a beginning": (
        chat(user(), bot("Here is what I found about it. " + "the same words " * 90, reasoning_content=BEST)),
        {"repetition-loop"},
    ),
    "short repetition": (chat(user(), bot("ha " * 30, reasoning_content=BEST)), set()),
    "a list": (
        chat(user(), bot("\n".join(f"{i}. item {i * 7} of the list" for i in range(60)), reasoning_content=BEST)),
        set(),
    ),
    "image in the answer": (chat(user(), bot([TEXT, IMAGE], reasoning_content=BEST)), {"unsupported-content"}),
}


def judge(tmp_path, stage, rows, *, write="jsonl", mode="thinking", family="qwen3", ignore=()):
    """The rules that each row breaks."""
    path = tmp_path / f"{stage}.{write}"
    if write == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    elif write == "json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        pq.write_table(
            pa.table({"messages": [json.dumps(r["messages"]) if "messages" in r else None for r in rows]}), path
        )
    datasets = [rule.name for rule in rules_for(stage) if rule.scope == "dataset"]
    verdict = dg.check(
        path, stage=stage, mode=mode, family=family, out=tmp_path / "guard", ignore=[*QUIET, *datasets, *ignore]
    )
    found = [set() for _ in rows]
    for failure in verdict.failures.to_pylist():
        assert failure["detail"]
        found[failure["row"]].add(failure["rule"])
    return found


def compare(table, found):
    wrong = {name: (got, want) for (name, (_, want)), got in zip(table.items(), found, strict=True) if got != want}
    assert not wrong


@pytest.mark.parametrize("write", ["jsonl", "json"])
def test_prompts(tmp_path, write):
    compare(PROMPTS, judge(tmp_path, "prompts", [row for row, _ in PROMPTS.values()], write=write))


def test_completions(tmp_path):
    compare(COMPLETIONS, judge(tmp_path, "completions", [row for row, _ in COMPLETIONS.values()]))


def test_served_without_thinking_there_is_none(tmp_path):
    table = {
        "plain": (chat(user(), bot()), set()),
        "field": (chat(user(), bot(reasoning_content="x" * 30)), {"residual-thinking"}),
        "blank field": (chat(user(), bot(reasoning_content="")), set()),
        "empty tags": (chat(user(), bot("<think>\n\n</think>\n\n" + ANSWER)), {"residual-thinking"}),
    }
    compare(table, judge(tmp_path, "completions", [row for row, _ in table.values()], mode="off"))


def test_each_row_by_its_own_mode(tmp_path):
    table = {
        "on": (chat(user(), bot(), enable_thinking=True), {"missing-thinking"}),
        "absent": (chat(user(), bot()), {"missing-thinking"}),
        "off": (chat(user(), bot(), enable_thinking=False), set()),
        "off in kwargs": (chat(user(), bot(), chat_template_kwargs={"enable_thinking": False}), set()),
        "off with thinking": (chat(user(), bot(reasoning_content=BEST), enable_thinking=False), {"residual-thinking"}),
    }
    compare(table, judge(tmp_path, "completions", [row for row, _ in table.values()], mode="row"))


def test_columns_of_structs_are_the_same_rows(tmp_path):
    plain = {name: each for name, each in PROMPTS.items() if isinstance(each[0].get("messages"), list)}
    texts = {
        name: (row, want)
        for name, (row, want) in plain.items()
        if row["messages"]
        and set(row) == {"messages"}
        and all(
            isinstance(t, dict) and set(t) == {"role", "content"} and isinstance(t["role"], str)
            for t in row["messages"]
        )
        and all(isinstance(t["content"], str | None) for t in row["messages"])
    }
    assert len(texts) > 20
    turn = pa.struct([("role", pa.string()), ("content", pa.string()), ("tool_calls", pa.list_(pa.string()))])
    table = pa.table({"messages": pa.array([row["messages"] for row, _ in texts.values()], pa.list_(turn))})
    pq.write_table(table, tmp_path / "x.parquet")
    datasets = [rule.name for rule in rules_for("prompts") if rule.scope == "dataset"]
    verdict = dg.check(tmp_path / "x.parquet", stage="prompts", ignore=[*QUIET, *datasets])
    found = [set() for _ in texts]
    for failure in verdict.failures.to_pylist():
        found[failure["row"]].add(failure["rule"])
    compare(texts, found)


def test_a_column_of_json_text_is_the_same_rows(tmp_path):
    table = {n: e for n, e in PROMPTS.items() if isinstance(e[0].get("messages"), list) and set(e[0]) == {"messages"}}
    compare(table, judge(tmp_path, "prompts", [row for row, _ in table.values()], write="parquet"))


def test_provenance(tmp_path):
    rows = [
        (chat(user("1")) | {"id": "a", "source": "chat"}, set()),
        (chat(user("2")) | {"id": "a", "source": " UNKNOWN "}, {"unknown-source", "duplicate-id"}),
        (chat(user("3")) | {"id": 7, "source": "-"}, {"unknown-source"}),
        (chat(user("4")) | {"id": "7", "source": "n/a"}, {"unknown-source", "duplicate-id"}),
        (chat(user("5")) | {"id": 12345678901234567890123, "source": "chat"}, set()),
        (chat(user("6")) | {"id": 12345678901234567890124, "source": "chat"}, set()),
        (chat(user("7")) | {"id": None, "uuid": "u", "source": "chat"}, set()),
        (chat(user("8")) | {"id": " ", "source": "chat"}, {"missing-id"}),
        (chat(user("9")) | {"id": {"a": 1}, "source": ["chat"]}, {"missing-id", "unknown-source"}),
        (chat(user("1"), bot()) | {"conversation_id": "c", "source": "chat"}, {"duplicate-prompt"}),
        (chat({"role": "system", "content": "s"}, user("1")) | {"sample_id": "d", "source": "chat"}, set()),
        (chat(user("1")) | {"id": "e", "source": "chat", "tools": [{"name": "f"}]}, set()),
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row, _ in rows))
    verdict = dg.check(path, stage="prompts", ignore=["duplicate-share", "response-collapse", "source-drift"])
    found = [set() for _ in rows]
    for failure in verdict.failures.to_pylist():
        found[failure["row"]].add(failure["rule"])
    assert found == [want for _, want in rows]
    listed = tmp_path / "listed.yaml"
    listed.write_text("name: listed\nstage: prompts\nextends: prompts\nsources: [code]\n")
    verdict = dg.check(path, stage="prompts", contract=str(listed))
    assert sum(f["rule"] == "unknown-source" for f in verdict.failures.to_pylist()) == len(rows)


def test_a_wrong_model_is_named_only_against_a_target(tmp_path):
    generator = {"model": "other", "sampling": {"temperature": 0.6}, "chat_template_sha256": "5a"}
    rows = [chat(user(), bot(reasoning_content=BEST), generator=generator), chat(user(), bot(reasoning_content=BEST))]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    verdict = dg.check(path, stage="completions")
    by_rule = {r.rule: r for r in verdict.rules}
    assert by_rule["wrong-model"].skipped
    assert by_rule["missing-generator"].failing_rows == 1
    contract = tmp_path / "c.yaml"
    contract.write_text("name: c\nstage: completions\nextends: completions\ntarget: mine\n")
    verdict = dg.check(path, stage="completions", contract=str(contract))
    assert [f["row"] for f in verdict.failures.to_pylist() if f["rule"] == "wrong-model"] == [0]
