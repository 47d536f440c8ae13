"""`tokenize` from outside: completions behind their gate to rows that the tokenized contract lets through."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import tokenizers
from chat_samples import QWEN3, SHARED, TEMPLATES
from commands import DISTRIBUTION, IGNORED, command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dflash_guard as dg
import samples
from dflash_guard.chat.conversation import read_conversation
from dflash_guard.chat.masks import Marks, MaskError, Planner
from dflash_guard.chat.template import ChatTemplate
from dflash_guard.chat.tokenizer import load_tokenizer
from dflash_guard.contract.catalog import ALIASES
from dflash_guard.errors import GateError, NothingToJudgeError, UsageError
from dflash_guard.stages.tokenize import tokenize
from dflash_guard.verbs.split import split

needs_qwen = pytest.mark.skipif(not QWEN3.exists(), reason="the real tokenizer is not here")


def thought(i):
    return f"It is asked for number {i}, so I count to it and say what I found, slowly and with care."


def talk(i, *answers, **more):
    """A row of several exchanges; each answer was thought about."""
    messages = []
    for k, answer in enumerate(answers):
        messages.append({"role": "user", "content": f"What is number {i}, part {k}?"})
        messages.append({"role": "assistant", "content": answer, "reasoning_content": thought(i)})
    row = {
        "id": f"row-{i}",
        "source": "sums",
        "messages": messages,
        "finish_reason": "stop",
        "generator": samples.GENERATOR,
    }
    return {**row, **more}


def completions(folder, rows, name="part-0", **options):
    (folder / "completions").mkdir(exist_ok=True)
    samples.write(folder / "completions", rows, "completions", name)
    options.setdefault("ignore", IGNORED)
    verdict = dg.check(folder / "completions", stage="completions", family=options.pop("family", "tiny"), **options)
    assert verdict.passed, verdict.failures.to_pylist()
    return folder / "completions"


def generator(template_sha256, **more):
    return {**samples.GENERATOR, "chat_template_sha256": template_sha256, **more}


def make(folder, tiny, **options):
    options = {"family": "tiny", "ignore": IGNORED, "jobs": 1, **options}
    return tokenize(folder / "completions", out=folder / "tokens", tokenizer=tiny, **options)


def rows_of(folder):
    return [row for path in sorted((folder / "tokens").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def aside_of(folder):
    return pq.read_table(folder / "tokens/__guard__/set_aside.parquet").to_pylist()


def supervised(tokenizer, row):
    return tokenizer.decode([token for token, counts in zip(row["input_ids"], row["loss_mask"], strict=True) if counts])


@pytest.fixture
def mine(tiny):
    """Rows say that they were served with the tests' template."""
    sha = ChatTemplate((tiny / "chat_template.jinja").read_text()).sha256
    return {"generator": generator(sha)}


def test_each_assistant_turn_is_a_row_as_it_was_served(here, tiny, mine):
    completions(
        here, [talk(i, f"It is {i}, I think, or near.", f"And again {i}, as before.", **mine) for i in range(5)]
    )
    made = make(here, tiny)
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    tokenizer = load_tokenizer(tiny)
    rows = rows_of(here)
    assert [(row["sample_id"], row["turn"]) for row in rows] == [
        (f"row-{i}", turn) for i in range(5) for turn in (1, 3)
    ]
    assert tokenizer.decode(rows[1]["input_ids"]) == (
        "<|im_start|>user\nWhat is number 0, part 0?<|im_end|>\n"
        "<|im_start|>assistant\nIt is 0, I think, or near.<|im_end|>\n"
        "<|im_start|>user\nWhat is number 0, part 1?<|im_end|>\n"
        f"<|im_start|>assistant\n<think>\n{thought(0)}\n</think>\n\nAnd again 0, as before.<|im_end|>\n"
    )
    assert supervised(tokenizer, rows[1]) == f"<think>\n{thought(0)}\n</think>\n\nAnd again 0, as before.<|im_end|>"
    assert all(row["seq_len"] == len(row["input_ids"]) == len(row["loss_mask"]) for row in rows)


def test_the_last_turn_alone(here, tiny, mine):
    completions(here, [talk(i, "The first answer is this.", f"The last answer is {i}.", **mine) for i in range(3)])
    make(here, tiny, turns="last")
    assert [row["turn"] for row in rows_of(here)] == [3, 3, 3]


def test_the_output_is_accounted_for_and_opens_its_gate(here, tiny, mine):
    completions(here, [talk(i, f"It is {i}, I think, or near.", **mine) for i in range(8)])
    made = make(here, tiny)
    rules = {each.rule: each for each in made.verdict.rules}
    for rule in (
        "unknown-prompt",
        "changed-prompt",
        "lost-turns",
        "unaccounted-rows",
        "lost-thinking",
        "changed-response",
        "template-mismatch",
    ):
        assert rules[rule].skipped is None, rule
        assert not rules[rule].failed
    passage = dg.gate(here / "tokens", ignore=IGNORED)
    assert [link.record.stage for link in passage.chain] == ["completions"]


def test_id_and_source_that_the_contract_declares(here, tiny, mine):
    rows = [talk(i, f"It is {i}, I think, or near.", **mine) for i in range(4)]
    for row in rows:
        del row["id"], row["source"]
    (here / "contracts/declared.yaml").write_text("extends: completions\nsource: {constant: sums}\nid: content\n")
    completions(here, rows, contract="declared")
    made = make(here, tiny, contract="declared")
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    assert {row["source"] for row in rows_of(here)} == {"sums"}
    assert len({row["sample_id"] for row in rows_of(here)}) == 4


def test_without_thinking_the_empty_block_is_prompt(here, tiny, mine):
    rows = [talk(i, f"It is {i}, I think, or near enough to it.", **mine) for i in range(4)]
    for row in rows:
        del row["messages"][1]["reasoning_content"]
    completions(here, rows, mode="off")
    made = make(here, tiny, mode="off")
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    assert supervised(load_tokenizer(tiny), rows_of(here)[0]) == "It is 0, I think, or near enough to it.<|im_end|>"


def test_each_row_in_its_own_mode(here, tiny, mine):
    rows = [
        talk(i, f"It is {i}, I think, or near enough to it all the same.", enable_thinking=i % 2 == 0, **mine)
        for i in range(6)
    ]
    for row in rows[1::2]:
        del row["messages"][1]["reasoning_content"]
    completions(here, rows, mode="row")
    made = make(here, tiny, mode="row")
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    assert [row["enable_thinking"] for row in rows_of(here)] == [True, False] * 3


def test_the_engines_ids_are_the_mask(here, tiny, mine):
    tokenizer = load_tokenizer(tiny)
    rows = []
    for i in range(4):
        row = talk(i, f"It is {i}, I think, or near.", **mine)
        prompt = f"<|im_start|>user\nWhat is number {i}, part 0?<|im_end|>\n<|im_start|>assistant\n"
        # An engine samples tokens; they need not be those that encoding its text gives.
        said = (
            [
                token
                for c in f"<think>\n{thought(i)}\n</think>\n\nIt is {i}, I think, or near."
                for token in tokenizer.encode(c)
            ]
            if i
            else tokenizer.encode(f"<think>\n{thought(i)}\n</think>\n\nIt is {i}, I think, or near.")
        )
        row |= {"prompt_ids": tokenizer.encode(prompt), "output_ids": [*said, tokenizer.token_id("<|im_end|>")]}
        rows.append(row)
    rows[2]["output_ids"].pop()  # an engine may leave the end token out
    rows[3]["output_ids"] = tokenizer.encode("Something else was said.")
    completions(here, rows)
    make(here, tiny, ignore=[*IGNORED, "missing-thinking", "empty-thinking", "unclosed-thinking", "mask-boundary"])
    made = rows_of(here)
    assert [row["builder"] for row in made] == ["engine"] * 3
    for row, was in zip(made, rows, strict=False):
        assert row["input_ids"][: len(was["prompt_ids"])] == was["prompt_ids"]
        assert sum(row["loss_mask"]) == len(row["input_ids"]) - len(was["prompt_ids"])
        assert row["input_ids"][-1] == tokenizer.token_id("<|im_end|>")
    assert [(each["sample_id"], each["reason"]) for each in aside_of(here)] == [("row-3", "engine ids of another text")]


def test_rows_too_long_are_set_aside_and_counted(here, tiny, mine):
    rows = [talk(i, f"It is {i}, I think, or near." + " and so on" * (200 if i == 2 else 0), **mine) for i in range(5)]
    completions(here, rows, ignore=[*IGNORED, "repetition-loop"])
    made = make(here, tiny, max_length=400, ignore=[*IGNORED, "repetition-loop"])
    assert made.set_aside == {"over max length": 1}
    assert aside_of(here)[0]["sample_id"] == "row-2"
    accounted = next(each for each in made.verdict.rules if each.rule == "unaccounted-rows")
    assert (accounted.failed, accounted.observed) == (False, 5)


def test_a_clipped_row_never_looks_whole(here, tiny, mine):
    rows = [talk(i, f"It is {i}, I think, or near." + " and so on" * (200 if i == 2 else 0), **mine) for i in range(5)]
    completions(here, rows, ignore=[*IGNORED, "repetition-loop"])
    made = make(here, tiny, max_length=400, overlong="clip", ignore=[*IGNORED, "repetition-loop"])
    assert {each.rule for each in made.verdict.rules if each.failed} == {"clipped-response"}
    assert max(row["seq_len"] for row in rows_of(here)) == 400


def test_the_gate_is_first(here, tiny, mine):
    path = completions(here, [talk(1, "It is one, I think, or near.", **mine)])
    shutil.rmtree(path / "__guard__")
    with pytest.raises(GateError, match="has no verdict"):
        make(here, tiny)
    assert not (here / "tokens").exists()


def test_a_tokenizer_of_another_family(here, tiny, mine):
    completions(here, [talk(1, "It is one, I think, or near.", **mine)], family="qwen3")
    with pytest.raises(UsageError, match=r"not of family qwen3: <\|im_start\|> is id 1 in it, not 151644"):
        make(here, tiny, family=None)


def test_a_template_that_was_not_served(here, tiny):
    completions(here, [talk(1, "It is one, I think, or near.", generator=generator("f" * 64))])
    with pytest.raises(NothingToJudgeError, match="1 another template"):
        make(here, tiny)


BAD_TEMPLATES = {
    "template loses thinking": "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
    "two think blocks": "{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' + message.content + '<|im_end|>\\n' }}",
    "template refused it": "{{- raise_exception('no answers, please') }}",
    "prompt is no prefix": "{{- '<|im_start|>model\\n' + message.reasoning_content + message.content + '<|im_end|>\\n' }}",
    "turn token in answer": "{{- '<|im_start|>assistant\\n<think>' + message.reasoning_content + '</think>' + message.content + '<|im_end|>\\n<|im_end|>\\n' }}",
}


@pytest.mark.parametrize("reason", BAD_TEMPLATES)
def test_a_template_that_changes_what_was_said(here, tiny, reason):
    text = (
        "{%- for message in messages %}{%- if message.role == 'assistant' %}" + BAD_TEMPLATES[reason] + "{%- else %}"
        "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    )
    (here / "bad.jinja").write_text(text)
    sha = ChatTemplate(text).sha256
    completions(here, [talk(1, "It is one, I think, or near.", generator=generator(sha))])
    with pytest.raises(NothingToJudgeError, match=f"1 {reason}"):
        make(here, tiny, template=here / "bad.jinja")
    shutil.rmtree(here / "tokens")


def test_a_system_turn_that_nobody_served(here, tiny):
    text = "{{- '<|im_start|>system\\nBe nice.<|im_end|>\\n' }}" + (tiny / "chat_template.jinja").read_text()
    (here / "system.jinja").write_text(text)
    row = talk(1, "It is one, I think, or near.")
    del row["generator"]
    completions(here, [row], ignore=[*IGNORED, "missing-generator"])
    with pytest.raises(NothingToJudgeError, match="1 added system turn"):
        make(here, tiny, template=here / "system.jinja", ignore=[*IGNORED, "missing-generator"])


def test_tags_agree_with_the_boundary(here, tiny):
    text = (
        "{%- for message in messages %}{%- if message.role == 'assistant' %}{{- '<|im_start|>assistant\\n' }}{% generation %}"
        "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' + message.content + '<|im_end|>' }}{% endgeneration %}{{- '\\n' }}"
        "{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    )
    (here / "tags.jinja").write_text(text)
    completions(
        here,
        [talk(i, f"It is {i}, I think, or near.", generator=generator(ChatTemplate(text).sha256)) for i in range(3)],
    )
    made = make(here, tiny, template=here / "tags.jinja", builder="tags")
    assert made.verdict.passed, made.verdict.failures.to_pylist()
    assert {row["builder"] for row in rows_of(here)} == {"tags"}
    with pytest.raises(UsageError, match="no generation tags"):
        tokenize(
            here / "completions", out=here / "other", tokenizer=tiny, builder="tags", family="tiny", ignore=IGNORED
        )


def test_workers_make_the_same_rows(here, tiny, mine):
    completions(here, [talk(i, f"It is {i}, I think, or near.", **mine) for i in range(700)])
    make(here, tiny, jobs=1)
    one = rows_of(here)
    shutil.rmtree(here / "tokens")
    make(here, tiny, jobs=2)
    assert rows_of(here) == one


def test_a_killed_run_goes_on_and_makes_the_same(here, tiny, mine):
    for part in range(6):
        completions(
            here,
            [talk(i, f"It is {i}, I think, or near.", **mine) for i in range(part * 300, part * 300 + 300)],
            f"part-{part}",
        )
    args = [
        "tokenize",
        here / "completions",
        "--tokenizer",
        tiny,
        "--out",
        here / "tokens",
        "--family",
        "tiny",
        "--ignore",
        DISTRIBUTION,
        "--jobs",
        "1",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "dflash_guard", *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        deadline = time.monotonic() + 60
        while not list((here / "tokens/__guard__/parts").glob("0000[1-4].json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    assert not list((here / "tokens").glob("*.parquet"))
    ran = command(*args)
    assert ran.returncode == 0, ran.stderr
    assert "input shards were done by an earlier run" in ran.stderr
    assert [row["sample_id"] for row in rows_of(here)] == [f"row-{i}" for i in range(1800)]
    assert not (here / "tokens/__guard__/parts").exists()


def test_a_folder_begun_with_other_options_is_left_alone(here, tiny, mine):
    completions(here, [talk(1, "It is one, I think, or near.", **mine)])
    make(here, tiny)
    with pytest.raises(UsageError, match="begun with other data or options"):
        make(here, tiny, turns="last")
    (here / "full").mkdir()
    (here / "full/mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        tokenize(here / "completions", out=here / "full", tokenizer=tiny, family="tiny", ignore=IGNORED)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--tokenizer", "nowhere"], "does not exist"),
        (["--tokenizer", "."], "holds no tokenizer.json"),
        (["--tokenizer", "TINY", "--template", "nowhere.jinja"], "is no file"),
        (["--tokenizer", "TINY", "--builder", "magic"], "magic"),
    ],
)
def test_wrong_options(here, tiny, mine, args, said):
    completions(here, [talk(1, "It is one, I think, or near.", **mine)])
    args = [str(tiny) if each == "TINY" else each for each in args]
    ran = command("tokenize", "completions", "--out", "tokens", "--family", "tiny", "--ignore", DISTRIBUTION, *args)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 2


# Random conversations: what is supervised is what the server would have written, and nothing that a user wrote.

TEXT = st.text(
    st.one_of(st.sampled_from("ab \n\t.é中🙂"), st.characters(codec="utf-8", exclude_categories=["Cs"])), max_size=30
)
PIECES = st.lists(
    st.one_of(
        TEXT,
        st.sampled_from(
            ["\n\n\n\n", " ", "<think>", "</think>", "<|im_end|>", "<|im_start|>assistant\n", "<tool_call>", "  \n"]
        ),
    ),
    max_size=5,
).map("".join)


def planner_of(tokenizer, template, family_ids, **options):
    begin, end = family_ids
    marks = Marks(begin, end, "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|im_start|>system")
    return Planner(template, tokenizer, marks, served_template=template.sha256, **options)


def check_masks(tokenizer, template, marks, messages, *, thinks):
    """Every row that is made supervises what is written behind the prompt, and the prompt's ids are the prompt's."""
    planner = planner_of(tokenizer, template, marks, enable_thinking=thinks)
    conversation = read_conversation({"messages": messages}, ALIASES)
    made = 0
    for index in planner.turns_of(conversation):
        try:
            job = planner.plan(conversation, index)
            masked = planner.mask(job, np.array(tokenizer.encode(job.text), np.int32))
        except MaskError:
            continue
        made += 1
        kwargs = {"enable_thinking": thinks}
        prompt = template.render(conversation.messages[:index], prompt=True, **kwargs)
        start = int(masked.mask.argmax())
        assert masked.ids[:start].tolist() == tokenizer.encode(prompt)
        written = tokenizer.decode(masked.ids[masked.mask == 1].tolist())
        whole = template.render(conversation.messages[: index + 1], **kwargs)
        nfc = tokenizer.decode(tokenizer.encode(whole[len(prompt) :]))
        assert written == nfc.removesuffix("\n")
        assert written.endswith("<|im_end|>")
    return made


def conversation_of(parts):
    messages = []
    for user, thinking, answer in parts:
        messages.append({"role": "user", "content": user})
        messages.append({"role": "assistant", "content": answer, "reasoning_content": thinking})
    return messages


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(parts=st.lists(st.tuples(PIECES, PIECES, PIECES), min_size=1, max_size=3), thinks=st.booleans())
def test_nothing_but_what_the_model_wrote_is_supervised(tiny, parts, thinks):
    tokenizer = load_tokenizer(tiny)
    template = ChatTemplate((tiny / "chat_template.jinja").read_text())
    check_masks(tokenizer, template, (1, 2), conversation_of(parts), thinks=thinks)


@needs_qwen
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    parts=st.lists(st.tuples(PIECES, PIECES, PIECES), min_size=1, max_size=3),
    thinks=st.booleans(),
    name=st.sampled_from(["qwen3", "qwen3_instruct_2507", "qwen3_training", "qwen2_5", "qwen3_5_think", "qwen3_6"]),
)
def test_the_same_with_the_real_tokenizer_and_templates(parts, thinks, name):
    tokenizer = load_tokenizer(QWEN3)
    template = ChatTemplate((TEMPLATES / f"{name}.jinja").read_text())
    check_masks(tokenizer, template, (151_644, 151_645), conversation_of(parts), thinks=thinks)


PUBLIC = {
    "model-optimizer/synthetic_conversations_1k.jsonl": (1000, 1100),
    "fastchat/dummy_conversation.json": (217, 549),
    "torchspec/sample_conversations.jsonl": (656, 1127),
    "llama-factory/glaive_toolcall_en_demo.json": (263, 843),
    "llama-factory/alpaca_zh_demo.json": (926, 926),
}
# What a row of tokens may rightly fail on here: these sets have short answers, and some of them many alike.
THEIR_OWN = {"few-loss-tokens", "loss-collapse", "low-median-loss", "response-collapse"}


@needs_qwen
@pytest.mark.parametrize("name", PUBLIC)
def test_public_data_end_to_end(tmp_path, name):
    """Rows that pass as completions become rows of which none is masked wrongly, and all are accounted for."""
    contract = tmp_path / "public.yaml"
    contract.write_text(
        "extends: completions\nsource: {constant: public}\nid: content\nignore: [missing-generator, unknown-finish]\n"
    )
    options = {"contract": str(contract), "mode": "off", "ignore": IGNORED}
    rows, made_rows = PUBLIC[name]
    done = split(
        SHARED / "data" / name, passed=tmp_path / "completions", stage="completions", out=tmp_path / "guard", **options
    )
    assert done.passed_rows == rows
    assert dg.check(tmp_path / "completions", stage="completions", **options).passed
    made = tokenize(
        tmp_path / "completions",
        out=tmp_path / "tokens",
        tokenizer=QWEN3,
        template=TEMPLATES / "qwen3.jinja",
        jobs=1,
        **options,
    )
    assert (made.rows, dict(made.set_aside)) == (made_rows, {})
    assert {each.rule for each in made.verdict.rules if each.failed} <= THEIR_OWN
    accounted = next(each for each in made.verdict.rules if each.rule == "unaccounted-rows")
    assert (accounted.skipped, accounted.failed) == (None, False)


@needs_qwen
def test_it_is_what_transformers_makes_of_it():
    """The ids of a plain row are those of the library's own apply_chat_template."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(QWEN3, local_files_only=True)
    template = ChatTemplate((TEMPLATES / "qwen3.jinja").read_text())
    ours = load_tokenizer(QWEN3)
    messages = talk(3, "It is three.", "And three again, 中文 too.")["messages"]
    whole = template.render(messages)
    assert ours.encode(whole) == list(
        theirs.apply_chat_template(messages, chat_template=template.text, tokenize=True)["input_ids"]
    )


@needs_qwen
def test_the_real_tokenizer_end_to_end(tmp_path):
    sha = ChatTemplate((TEMPLATES / "qwen3.jinja").read_text()).sha256
    rows = [
        talk(i, f"It is {i}, I think, or near.", f"And {i} again, with some more words.", generator=generator(sha))
        for i in range(40)
    ]
    completions(tmp_path, rows, family="qwen3")
    ran = command(
        "tokenize",
        tmp_path / "completions",
        "--tokenizer",
        QWEN3,
        "--template",
        TEMPLATES / "qwen3.jinja",
        "--out",
        tmp_path / "tokens",
        "--ignore",
        DISTRIBUTION,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert ran.stdout.startswith("80 rows · 1 shard")
    tokenizer = tokenizers.Tokenizer.from_file(str(QWEN3 / "tokenizer.json"))
    for row in rows_of(tmp_path):
        text = tokenizer.decode(row["input_ids"], skip_special_tokens=False)
        assert tokenizer.encode(text, add_special_tokens=False).ids == row["input_ids"]


REFERENCES = {
    "qwen3-instruct_standard_ref.json": ("qwen3", False),
    "qwen3-instruct_tool-use_ref.json": ("qwen3", False),
    "qwen3-thinking_standard_ref.json": ("qwen3", True),
    "qwen3-thinking_reasoning-multi-turn_ref.json": ("qwen3", True),
    "qwen_standard_ref.json": ("qwen2_5", False),
}


def messages_in(text):
    """The turns of a rendered conversation."""
    messages = []
    for role, content in re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", text, flags=re.DOTALL):
        results = re.findall(r"<tool_response>\n(.*?)\n</tool_response>", content, flags=re.DOTALL)
        if results:
            messages += [{"role": "tool", "content": result} for result in results]
            continue
        calls = [json.loads(call) for call in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", content, flags=re.DOTALL)]
        message = {"role": role, "content": content.partition("\n<tool_call>")[0]}
        messages.append(message | ({"tool_calls": [{"function": call} for call in calls]} if calls else {}))
    return messages


@needs_qwen
@pytest.mark.parametrize("name", REFERENCES)
def test_public_references_are_masked_alike(name):
    """SpecForge's tokenised references: decoded, built again from their turns, and their masks compared.

    Two conventions differ, and nothing else does: they supervise the newline behind an end token, and the assistant
    turns of the history, which are rows of their own here.
    """
    form, thinks = REFERENCES[name]
    tokenizer = load_tokenizer(QWEN3)
    template = ChatTemplate((TEMPLATES / f"{form}.jinja").read_text())
    planner = planner_of(tokenizer, template, (151_644, 151_645), enable_thinking=thinks)
    said = json.loads((SHARED / "data/specforge" / name).read_text())
    ids, theirs = (np.array(said[key]).reshape(-1) for key in ("input_ids", "loss_mask"))
    conversation = read_conversation({"messages": messages_in(tokenizer.decode(ids.tolist()))}, ALIASES)
    job = planner.plan(conversation, planner.turns_of(conversation)[-1])
    row = planner.mask(job, np.array(tokenizer.encode(job.text), np.int32))
    assert row.ids.tolist() == ids.tolist()
    differs = np.flatnonzero(row.mask != theirs)
    newlines = [i for i in differs if ids[i] == 198 and ids[i - 1] == 151_645 and theirs[i]]
    history = [i for i in differs if i < np.flatnonzero(ids == 151_644)[-1] and theirs[i]]
    assert sorted({*newlines, *history}) == differs.tolist()
    assert len(newlines) >= 1


# Faults that were found by trying to break it.


ODD_ROWS = {
    "a reserved kwarg": {"chat_template_kwargs": {"messages": []}},
    "ids that are no list": {"prompt_ids": 5, "output_ids": 6},
    "ids that are no numbers": {"prompt_ids": ["a"], "output_ids": [5.0]},
    "a template digest that is a number": {"generator": {**samples.GENERATOR, "chat_template_sha256": 5}},
}


@pytest.mark.parametrize("odd", ODD_ROWS)
def test_an_odd_row_costs_itself_and_not_the_run(here, tiny, mine, odd):
    rows = [talk(i, f"It is {i}, I think, or near.", **mine) for i in range(4)]
    rows[2] |= ODD_ROWS[odd]
    completions(here, rows)
    made = make(here, tiny)
    assert made.rows + sum(made.set_aside.values()) == 4
    assert made.rows >= 3


def test_engine_ids_of_other_white_space_are_another_text(here, tiny, mine):
    tokenizer = load_tokenizer(tiny)
    rows = [talk(i, "if x:\n  return y, which is the answer", **mine) for i in range(2)]
    prompt = "<|im_start|>user\nWhat is number 1, part 0?<|im_end|>\n<|im_start|>assistant\n"
    said = f"<think>\n{thought(1)}\n</think>\n\nif x:\n        return  y, which is the answer<|im_end|>"
    rows[1] |= {"prompt_ids": tokenizer.encode(prompt), "output_ids": tokenizer.encode(said)}
    completions(here, rows)
    make(here, tiny)
    assert [(each["sample_id"], each["reason"]) for each in aside_of(here)] == [("row-1", "engine ids of another text")]


def test_an_output_in_the_data_is_refused(here, tiny, mine):
    completions(here, [talk(1, "It is one, I think, or near.", **mine)])
    with pytest.raises(UsageError, match="lie in one another"):
        tokenize(here / "completions", out=here / "completions/tokens", tokenizer=tiny, family="tiny", ignore=IGNORED)


@pytest.mark.parametrize("text", [b"\xff\xfe{{", b"\x80"])
def test_a_template_that_is_no_text(here, tiny, mine, text):
    completions(here, [talk(1, "It is one, I think, or near.", **mine)])
    (here / "bad.jinja").write_bytes(text)
    with pytest.raises(UsageError, match="can't be read"):
        make(here, tiny, template=here / "bad.jinja")


def test_evidence_that_the_manifest_names_must_be_there(here, tiny, mine):
    completions(here, [talk(i, f"It is {i}, I think, or near.", **mine) for i in range(4)])
    make(here, tiny)
    evidence = here / "tokens/__guard__/prompts.parquet"
    evidence.unlink()
    with pytest.raises(GateError, match="evidence of prompts, is missing"):
        dg.gate(here / "tokens", ignore=IGNORED)
    (here / "tokens/__guard__/tokenized.verdict.json").unlink()
    with pytest.raises(UsageError, match="is missing or was changed"):
        dg.check(here / "tokens", stage="tokenized", ignore=IGNORED)
