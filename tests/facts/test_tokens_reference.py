"""The vectorised token scan agrees, in every column, with a slow reading of the rules, whatever the rows hold."""

import dataclasses
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_guard.contract.model import Family
from dflash_guard.facts import tokens
from dflash_guard.facts.tokens import TOKEN_COLUMNS, scan_tokens

QWEN = Family(
    name="qwen", vocab_size=151936, begin_turn=151644, end_turn=151645, end_text=151643, think_open=151667,
    think_close=151668, newline=198, begin_ids=(151643,), mask_token=151669,
    roles={"system": (8948,), "user": (872,), "assistant": (77091,)}, prompt_thinking=(),
    prompt_off=(151667, 271, 151668, 271), blank=(198, 220, 271), turn_texts=(), control_texts=(),
    thinking_tags=("<think>", "</think>"), system_first=False, sampling={},
)  # fmt: skip
OPENING = dataclasses.replace(QWEN, prompt_thinking=(151667, 198))
TOY = Family(  # ids that fit into int8, the special ones lowest, a role of two tokens, a begin token of its own
    name="toy", vocab_size=18, begin_turn=1, end_turn=2, end_text=0, think_open=3, think_close=4, newline=5,
    begin_ids=(17, 0), mask_token=7, roles={"system": (10,), "user": (10, 11), "assistant": (12,)},
    prompt_thinking=(3, 5), prompt_off=(3, 6, 4, 6), blank=(5, 6, 13), turn_texts=(), control_texts=(),
    thinking_tags=("<think>", "</think>"), system_first=False, sampling={},
)  # fmt: skip

# ---- The rules, read slowly --------------------------------------------------------------------------------


def digest(ids):
    full = (1 << 64) - 1
    total = len(ids)
    for place, token in enumerate(ids):
        x = ((place << 32) + token) * 0x9E3779B97F4A7C15 & full
        x = (x ^ x >> 32) * 0xBF58476D1CE4E5B9 & full
        total += x ^ x >> 29
    total = total * 0x94D049BB133111EB & full
    total ^= total >> 32
    return total - (1 << 64) if total >> 63 else total


def judge(ids, mask, seq_len, labels, family):
    ids, mask = ids or [], mask or []
    size = len(ids)
    agree = len(mask) == size and seq_len in (None, size)
    on = [value is not None and value != (-100 if labels else 0) for value in mask]
    facts = dict.fromkeys(TOKEN_COLUMNS.names, -1)
    facts |= dict.fromkeys(("thinking_open", "thinking_closed", "clipped", "duplicate_begin"), False)
    facts |= dict.fromkeys(("declared_len", "bad_mask_value", "response_digest", "bad_id"))
    facts |= {
        "tokens": size,
        "mask_tokens": len(mask),
        "declared_len": seq_len,
        "lengths_agree": agree,
        "loss_tokens": sum(on),
        "bad_mask_kind": "",
        "turns": ids.count(family.begin_turn),
        "duplicate_begin": size > 1 and ids[0] in family.begin_ids and ids[1] in family.begin_ids,
    }
    for at, value in enumerate(mask):
        if value is None:
            kind = "null"
        elif labels and agree and value != -100 and value != ids[at]:
            kind = "label"
        elif not labels and value not in (0, 1):
            kind = "value"
        else:
            continue
        facts |= {"bad_mask_at": at, "bad_mask_kind": kind, "bad_mask_value": None if value is None else int(value)}
        break
    for at, token in enumerate(ids):
        if token is None or not 0 <= token < family.vocab_size:
            facts |= {"bad_id_at": at, "bad_id": token}
            break
    if family.mask_token in ids:
        facts["mask_token_at"] = ids.index(family.mask_token)
    turns = read_turns(ids, family)
    answers = [turn for turn in turns if turn["assistant"]]
    if answers:
        facts["last_turn_at"] = answers[-1]["start"]
    if agree:
        ids = [-1 if token is None else token for token in ids]
        facts |= judge_positions(ids, on, turns, answers, family)
    return facts


def read_turns(ids, family):
    starts = [at for at, token in enumerate(ids) if token == family.begin_turn]
    if ids and 0 not in starts:
        starts.insert(0, 0)
    turns = []
    for start, end in pairwise([*starts, len(ids)]):
        turn = {"start": start, "end": end, "body": start, "assistant": True, "headed": False, "closed": -1}
        if ids[start] == family.begin_turn:
            names = [
                role
                for role, name in family.roles.items()
                if tuple(ids[start + 1 : start + 1 + len(name)]) == name and start + len(name) < end
            ]
            role = max(names, key=lambda role: len(family.roles[role]), default=None)
            turn["body"] = start + 1 + (len(family.roles[role]) if role else 0)
            turn["assistant"] = role == "assistant"
            if role and turn["body"] < end and ids[turn["body"]] in family.blank:
                turn["body"] += 1
                turn["headed"] = True
        if family.end_turn in ids[start:end]:
            turn["closed"] = ids.index(family.end_turn, start, end)
        turn["stop"] = turn["closed"] + 1 if turn["closed"] >= 0 else end
        turns.append(turn)
    return turns


def judge_positions(ids, on, turns, answers, family):
    size = len(ids)
    places = range(size)
    neutral = [on[at] and at > 0 and ids[at] == family.newline and ids[at - 1] == family.end_turn for at in places]
    on = [on[at] and not neutral[at] for at in places]
    ends = (family.end_turn, family.end_text)
    void = {*family.blank, *ends, family.think_open, family.think_close}
    out = {}

    def turn_of(at):
        return next(turn for turn in reversed(turns) if turn["start"] <= at)

    spans = [
        at for at in places if on[at] and not (at and on[at - 1]) and not (at > 1 and neutral[at - 1] and on[at - 2])
    ]
    out["spans"] = len(spans)

    trailing = size
    while trailing and ids[trailing - 1] == family.end_text:
        trailing -= 1
    padding = size
    if turns:
        padding = trailing if turns[-1]["closed"] < 0 else turns[-1]["closed"] + 1

    def begins_right(at, prompt):
        turn = turn_of(at)
        if not (turn["assistant"] and turn["headed"]):
            return False
        written = ids[turn["body"] : at]
        return at == turn["body"] or (
            at - turn["body"] == len(prompt)
            and all(a == b or (a in family.blank and b in family.blank) for a, b in zip(written, prompt, strict=True))
        )

    def first(places):
        return next(iter(places), -1)

    judged = [at for at in spans if at < padding]
    out["boundary_thinking_at"] = first(at for at in judged if not begins_right(at, family.prompt_thinking))
    out["boundary_off_at"] = first(at for at in judged if not begins_right(at, family.prompt_off))
    out["padding_supervised_at"] = first(at for at in range(padding, size) if on[at])
    out["prompt_supervised_at"] = first(
        at for at in places if on[at] and at < turn_of(at)["body" if turn_of(at)["assistant"] else "stop"]
    )
    out["unsupervised_end_at"] = first(
        turn["closed"]
        for turn in answers
        if turn["closed"] >= 0 and any(on[turn["start"] : turn["closed"]]) and not on[turn["closed"]]
    )
    out["duplicate_end_at"] = first(
        at
        for at in places
        if on[at]
        and ids[at] in ends
        and (
            (at > 0 and on[at - 1] and ids[at - 1] in ends)
            or (at > 1 and on[at - 2] and ids[at - 2] == family.end_turn and ids[at - 1] == family.newline)
        )
    )
    out["clipped"] = False
    if any(on):
        last = max(at for at in places if on[at])
        rest = ids[last + 1 :]
        runs_out = last + 1 >= trailing or (len(rest) > 1 and len(set(rest)) == 1)
        out["clipped"] = turns[-1]["closed"] < 0 and turns[-1]["start"] <= last and runs_out

    think = {at for at in places if on[at] and ids[at] in (family.think_open, family.think_close)}
    for at in spans:
        before = at - 1
        if before > 0 and ids[before] in family.blank:
            before -= 1
        if before >= 0 and ids[before] == family.think_open:
            think.add(before)
    out["think_token_at"] = min(think, default=-1)

    empty, unclosed, by_turn = [], [], {}
    for turn in turns:
        inside, thinking, opened, closed, last_close, last_open = False, 0, False, False, -1, -1
        body = range(turn["body"], turn["stop"])
        tags = [at for at in body if at in think]
        if tags and ids[tags[0]] == family.think_close:
            inside = True
        for at in body:
            if at in think:
                inside = ids[at] == family.think_open
                if inside:
                    opened, last_open = True, at
                    later = [tag for tag in tags if tag > at]
                    if not any(ids[tag] == family.think_close for tag in later):
                        unclosed.append(at)
                    elif ids[later[0]] == family.think_close and not any(
                        on[k] and ids[k] not in void for k in range(at, later[0])
                    ):
                        empty.append(at)
                else:
                    closed, last_close = True, at
            elif inside and on[at] and ids[at] not in void:
                thinking += 1
        answer = sum(on[at] and ids[at] not in void for at in body if at > last_close)
        by_turn[turn["start"]] = (thinking, opened, closed, -1 if last_open > last_close else answer)
    out["empty_thinking_at"], out["unclosed_thinking_at"] = min(empty, default=-1), min(unclosed, default=-1)
    out["thinking_turns"] = sum(by_turn[turn["start"]][0] > 0 for turn in answers)
    out |= {"thinking_tokens": 0, "thinking_open": False, "thinking_closed": False, "answer_tokens": 0}
    out |= {"response_at": -1, "response_tokens": 0}
    if answers:
        facts = by_turn[answers[-1]["start"]]
        out |= dict(zip(("thinking_tokens", "thinking_open", "thinking_closed", "answer_tokens"), facts, strict=True))
        response = [at for at in range(answers[-1]["body"], answers[-1]["stop"]) if on[at]]
        if response:
            out |= {"response_at": response[0], "response_tokens": len(response)}
            out["response_digest"] = digest([ids[at] for at in response])
    return out


# ---- Rows of all kinds -------------------------------------------------------------------------------------

WORD, BLANK, GAP, BAD, NULL = "word", "blank", "gap", "bad", None
PIECES = [
    ["begin_turn", "user", "newline"], ["begin_turn", "assistant", "newline"], ["begin_turn", "assistant", GAP],
    ["begin_turn", "assistant"], ["begin_turn", "system", "newline"], ["begin_turn"], ["end_turn"],
    ["end_turn", "newline"], ["end_turn", "newline", "end_turn"], ["end_text"], ["end_text", "end_text"], [WORD],
    [WORD, WORD], [WORD, WORD, "end_turn", "newline"], ["newline"], [GAP], [BLANK], ["think_open"], ["think_close"],
    ["think_open", "newline"], ["think_open", "newline", WORD, "think_close", GAP],
    ["think_open", GAP, "think_close", GAP], ["mask_token"], [BAD], [NULL],
    ["begin_turn", "user", "newline", WORD, "end_turn", "newline", "begin_turn", "assistant", "newline"],
]  # fmt: skip


def spell(piece, family):
    toy = family.name == "toy"
    odd = {
        WORD: [8 if toy else 3925],
        BLANK: [13 if toy else 220],
        GAP: [6 if toy else 271],
        BAD: [family.vocab_size],
        NULL: [None],
        **{role: list(ids) for role, ids in family.roles.items()},
    }
    return [token for name in piece for token in odd.get(name) or [getattr(family, name)]]


@st.composite
def rows(draw, family, *, labels):
    """Ids, mask or labels, and length of one row; now and then a null, or of lengths that differ."""
    ids, on = [], []
    for piece in draw(st.lists(st.sampled_from(PIECES), max_size=9)):
        spelled = spell(piece, family)
        how = draw(st.sampled_from([0, 1, 1, "mixed"]))
        ids += spelled
        on += [how if how != "mixed" else draw(st.integers(0, 1)) for _ in spelled]
    values = [(token if keep else -100) for token, keep in zip(ids, on, strict=True)] if labels else on
    values = [draw(st.sampled_from([2, -1, None])) if draw(st.integers(0, 40)) == 0 else value for value in values]
    odd = draw(st.sampled_from(["", "", "", "", "", "", "cut", "long", "no ids", "no mask", "length"]))
    values = values[:-1] if odd == "cut" else [*values, 1] if odd == "long" else values
    length = draw(st.sampled_from([None, len(ids), len(ids) + (odd == "length")]))
    return None if odd == "no ids" else ids, None if odd == "no mask" else values, length


def expected(data, labels, family):
    return [judge(ids, mask, length, labels, family) for ids, mask, length in data]


def batch_of(data, name, ids_type, mask_type):
    columns = [
        pa.array(column, kind)
        for column, kind in zip(zip(*data, strict=True), (ids_type, mask_type, pa.int32()), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=["input_ids", name, "seq_len"])


def assert_same(batch, data, labels, family):
    found = scan_tokens(batch, family)
    assert found.schema == TOKEN_COLUMNS
    found.validate(full=True)
    for row, (one, other) in enumerate(zip(found.to_pylist(), expected(data, labels, family), strict=True)):
        assert one == other, f"row {row}: {data[row]}"


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_every_column_is_as_the_rules_say(data):
    family = data.draw(st.sampled_from([QWEN, OPENING, TOY]))
    labels = data.draw(st.booleans())
    some = data.draw(st.lists(rows(family, labels=labels), min_size=1, max_size=8))
    small = [pa.int8(), pa.int16()] if family is TOY else []
    ids_type = data.draw(st.sampled_from([pa.int32(), pa.int64(), *small]))
    mask_type = data.draw(st.sampled_from([pa.int32(), pa.int64()] if labels else [pa.int8(), pa.int16(), pa.int64()]))
    kinds = st.sampled_from([pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
    batch = batch_of(some, "labels" if labels else "loss_mask", data.draw(kinds)(ids_type), data.draw(kinds)(mask_type))
    first = data.draw(st.integers(0, len(some) - 1))
    last = data.draw(st.integers(first, len(some)))
    assert_same(batch.slice(first, last - first), some[first:last], labels, family)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_fixed_size_lists(data):
    size = data.draw(st.integers(0, 12))

    def cut(row):
        ids, mask, length = row
        fill = [QWEN.end_text] * size
        return ids and [*ids, *fill][:size], mask and [*mask, *([0] * size)][:size], length

    some = [cut(row) for row in data.draw(st.lists(rows(QWEN, labels=False), min_size=1, max_size=6))]
    some = [(ids if ids is None or len(ids) == size else None, mask if mask is None or len(mask) == size else None, n)
            for ids, mask, n in some]  # fmt: skip
    batch = batch_of(some, "loss_mask", pa.list_(pa.int32(), size), pa.list_(pa.int8(), size))
    first = data.draw(st.integers(0, len(some) - 1))
    assert_same(batch.slice(first), some[first:], labels=False, family=QWEN)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows(QWEN, labels=False), min_size=2, max_size=8), st.sets(st.integers(0, 7)))
def test_what_a_null_row_hides_is_not_read(some, hidden):
    some = [(ids or [], mask or [], None) for ids, mask, _ in some]
    shown = [(None, None, None) if row in hidden else data for row, data in enumerate(some)]
    columns = []
    for place, kind in ((0, pa.int32()), (1, pa.int8())):
        whole = pa.array([row[place] for row in some], pa.list_(kind))
        mask = pa.array([row in hidden for row in range(len(some))])
        columns.append(pa.ListArray.from_arrays(whole.offsets, whole.values, mask=mask))
    batch = pa.RecordBatch.from_arrays(columns, names=["input_ids", "loss_mask"])
    assert_same(batch, shown, labels=False, family=QWEN)


@pytest.mark.parametrize("chunk", [1, 7, 40])
@settings(max_examples=30, deadline=None)
@given(some=st.lists(rows(TOY, labels=False), min_size=1, max_size=12))
def test_cutting_a_batch_changes_nothing(chunk, some):
    batch = batch_of(some, "loss_mask", pa.list_(pa.int32()), pa.list_(pa.int8()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_CHUNK", chunk)
        assert_same(batch, some, labels=False, family=TOY)
