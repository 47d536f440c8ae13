"""Token facts of rows made by hand: for each rule of the catalog, rows that keep it and rows that break it."""

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

from dflash_guard.contract.model import Family
from dflash_guard.facts.tokens import TOKEN_COLUMNS, column_problem, scan_tokens

ROOT = Path(__file__).parents[2]
SHARED = Path("/work/shared")


def load_family(name):
    """The family file as it stands, its id ranges spelled out."""
    data = yaml.safe_load((ROOT / f"contracts/families/{name}.yaml").read_text())
    spans = [range(entry[0], entry[1] + 1) if isinstance(entry, list) else [entry] for entry in data["blank"]]
    data["blank"] = tuple(chain.from_iterable(spans))
    return Family(**{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()})


QWEN3, QWEN3_5 = load_family("qwen3"), load_family("qwen3_5")

# Qwen3's ids. Text is 1, 2, 3 …; 1406 is "\n\n\n".
B, E, PAD, OPEN, CLOSE, N, NN, NNN = 151644, 151645, 151643, 151667, 151668, 198, 271, 1406
SYSTEM, USER, ASSISTANT = 8948, 872, 77091
ASK = [B, USER, N, 1, 2, 3, E, N]
HEAD = [B, ASSISTANT, N]
THOUGHT = [OPEN, N, 4, 5, CLOSE, NN]
GOOD = (ASK + HEAD, [*THOUGHT, 6, 7, E], [N])  # prompt, supervised, rest

EMPTY = [OPEN, NN, CLOSE, NN]

# What a row is like → its parts (supervised, where it is every second one), and what its facts say.
NOTHING = {
    "bad_mask_at": -1, "empty_thinking_at": -1, "unclosed_thinking_at": -1, "clipped": False,
    "unsupervised_end_at": -1, "prompt_supervised_at": -1, "boundary_thinking_at": -1, "boundary_off_at": -1,
    "padding_supervised_at": -1, "duplicate_end_at": -1, "duplicate_begin": False, "bad_id_at": -1,
    "mask_token_at": -1,
}  # fmt: skip
ROWS = {
    "a sound row": (
        GOOD,
        {"loss_tokens": 9, "spans": 1, "turns": 2, "last_turn_at": 8, "response_at": 11, "response_tokens": 9,
         "answer_tokens": 2, "thinking_tokens": 2, "thinking_open": True, "thinking_closed": True,
         "thinking_turns": 1, "think_token_at": 11},
    ),
    "the newline behind the end is neutral, but counts as a loss token": (
        (ASK + HEAD, [*THOUGHT, 6, E, N]),
        {"loss_tokens": 9, "spans": 1, "response_tokens": 8},
    ),
    "a newline behind the user's end, supervised": (
        ([B, USER, N, 1, E], [N], HEAD, [OPEN, N, 4, CLOSE, NN, 6, E], [N]),
        {"loss_tokens": 8, "spans": 1},
    ),
    "a newline behind an end is all": (
        ([*ASK, *HEAD, 6, E], [N]),
        {"loss_tokens": 1, "spans": 0, "answer_tokens": 0, "response_tokens": 0, "response_digest": None},
    ),
    "nothing supervised": (
        ([*ASK, *HEAD, *THOUGHT, 6, E, N],),
        {"loss_tokens": 0, "answer_tokens": 0, "thinking_open": False, "response_at": -1, "response_digest": None},
    ),
    "a prompt that was cut": (
        ([B, USER, N, 1, 2],),
        {"loss_tokens": 0, "answer_tokens": 0, "last_turn_at": -1, "turns": 1},
    ),
    "history without thinking, supervised": (
        (ASK + HEAD, [6, 7, E], [N, *ASK, *HEAD], [*THOUGHT, 6, E], [N]),
        {"spans": 2, "thinking_turns": 1, "think_token_at": 26, "answer_tokens": 1},
    ),
    "history with thinking, supervised": (
        (ASK + HEAD, [*THOUGHT, 6, E], [N, *ASK, *HEAD], [*THOUGHT, 6, E], [N]),
        {"spans": 2, "thinking_turns": 2},
    ),
    "history that is not supervised": (
        (ASK + HEAD + THOUGHT + [6, E, N] + ASK + HEAD, [*THOUGHT, 6, E], [N]),
        {"spans": 1, "thinking_turns": 1},
    ),
    "an answer of blanks": ((ASK + HEAD, [*THOUGHT, N, NN, E]), {"answer_tokens": 0, "thinking_tokens": 2}),
    "an answer of an end only": ((ASK + HEAD, [E]), {"answer_tokens": 0, "response_tokens": 1}),
    "an answer without thinking": ((ASK + HEAD, [6, E]), {"answer_tokens": 1, "thinking_open": False}),
    "the stub, its end not supervised": (
        (ASK + HEAD, [*EMPTY, 3925, 13], [E, N]),
        {"loss_tokens": 6, "answer_tokens": 2, "thinking_tokens": 0, "empty_thinking_at": 11,
         "unsupervised_end_at": 17},
    ),
    "empty thinking in the history": (
        (ASK + HEAD, [*EMPTY, 6, E], [N, *ASK, *HEAD], [*THOUGHT, 6, E]),
        {"empty_thinking_at": 11, "thinking_tokens": 2, "thinking_turns": 1},
    ),
    "thinking that is not closed": (
        (ASK + HEAD, [OPEN, N, 4, 5, 6, E]),
        {"unclosed_thinking_at": 11, "answer_tokens": -1, "thinking_tokens": 3, "thinking_closed": False},
    ),
    "an empty block, then one that is not closed": (
        (ASK + HEAD, [*EMPTY, OPEN, 4, E]),
        {"empty_thinking_at": 11, "unclosed_thinking_at": 15, "answer_tokens": -1},
    ),
    "a think-close alone": (
        (ASK + HEAD, [4, CLOSE, 6, E]),
        {"thinking_open": False, "thinking_closed": True, "thinking_tokens": 1, "answer_tokens": 1},
    ),
    "a think-open that is not supervised": (
        (ASK + HEAD + [OPEN, N], [4, CLOSE, 6, E]),
        {"thinking_open": True, "think_token_at": 11, "thinking_tokens": 1, "boundary_thinking_at": 13,
         "boundary_off_at": 13},
    ),
    "without thinking the empty block is prompt": (
        (ASK + HEAD + EMPTY, [6, E], [N]),
        {"boundary_thinking_at": 15, "think_token_at": -1, "answer_tokens": 1},
    ),
    "the same, its last newline merged": ((ASK + HEAD + [OPEN, NN, CLOSE, NNN], [6, E]), {"boundary_thinking_at": 15}),
    "half of the empty block is no prompt": (
        (ASK + HEAD + [OPEN, NN, CLOSE], [NN, 6, E]),
        {"boundary_thinking_at": 14, "boundary_off_at": 14},
    ),
    "a merged newline in the header": (([*ASK, B, ASSISTANT, NN], [6, E]), {"answer_tokens": 1}),
    "a header without a newline": (
        ([*ASK, B, ASSISTANT], [6, E]),
        {"boundary_thinking_at": 10, "boundary_off_at": 10},
    ),
    "one token too early": (
        ([*ASK, B, ASSISTANT], [N, *THOUGHT, 6], [E, N]),
        {"prompt_supervised_at": 10, "boundary_thinking_at": 10, "boundary_off_at": 10, "unsupervised_end_at": 18},
    ),
    "one token too late": (
        (ASK + HEAD + [OPEN], [N, 4, CLOSE, NN, 6, E]),
        {"boundary_thinking_at": 12, "boundary_off_at": 12, "thinking_open": True},
    ),
    "the user's end, too": (
        ([B, USER, N, 1], [E], [N, *HEAD], [6, E]),
        {"prompt_supervised_at": 4, "boundary_thinking_at": 4, "boundary_off_at": 4, "spans": 2},
    ),
    "everything": (
        ([], ASK + HEAD + THOUGHT + [6, E, N]),
        {"prompt_supervised_at": 0, "boundary_thinking_at": 0, "boundary_off_at": 0, "spans": 1},
    ),
    "a turn of a role that is not known": (
        ([B], [14172, N, 1, E], [N]),
        {"prompt_supervised_at": 1, "boundary_thinking_at": 1, "boundary_off_at": 1},
    ),
    "clipped at the row's end": ((ASK + HEAD, [*THOUGHT, 6]), {"clipped": True, "answer_tokens": 1}),
    "clipped before padding": ((ASK + HEAD, [*THOUGHT, 6], [PAD] * 3), {"clipped": True}),
    "clipped before padding of another kind": ((ASK + HEAD, [*THOUGHT, 6], [0] * 3), {"clipped": True}),
    "not clipped, its end just not supervised": ((ASK + HEAD, [*THOUGHT, 6], [E]), {"unsupervised_end_at": 18}),
    "padding behind the end": ((*GOOD, [PAD] * 3), {"padding_supervised_at": 21, "duplicate_end_at": 21, "spans": 2}),
    "padding right behind the end": (
        (ASK + HEAD, [6, E, PAD]),
        {"padding_supervised_at": 13, "duplicate_end_at": 13},
    ),
    "padding that is not supervised": ((*GOOD[:2], [N, PAD, PAD]), {}),
    "two ends": ((ASK + HEAD, [6, E, E], [N]), {"duplicate_end_at": 13, "padding_supervised_at": 13}),
    "two ends around a newline": (
        (ASK + HEAD, [6, E], [N], [E]),
        {"duplicate_end_at": 14, "padding_supervised_at": 14},
    ),
    "two ends, one supervised": ((ASK + HEAD, [6, E], [E, N]), {}),
    "a begin token": (([PAD, *GOOD[0]], *GOOD[1:]), {"last_turn_at": 9}),
    "two begin tokens": (([PAD, PAD, *GOOD[0]], *GOOD[1:]), {"duplicate_begin": True}),
    "an id below 0": (([*ASK, -5, *HEAD], [6, E]), {"bad_id_at": 8, "bad_id": -5}),
    "an id that is too large": (([151936, *ASK, *HEAD], [6, E]), {"bad_id_at": 0, "bad_id": 151936}),
    "the last id there is": (([B, USER, N, 151935, E, N, *HEAD], [6, E]), {}),
    "no id": (([B, USER, None, 1, E, N, *HEAD], [6, E]), {"bad_id_at": 2, "bad_id": None}),
    "the mask token": (([B, USER, N, 151669, E, N, *HEAD], [6, E]), {"mask_token_at": 3}),
    "a tail without a header": (
        ([4, CLOSE], [6, 7, E], [N]),
        {"boundary_thinking_at": 2, "boundary_off_at": 2, "turns": 0, "last_turn_at": 0, "answer_tokens": 2},
    ),
    "no tokens": (([],), {"tokens": 0, "lengths_agree": True, "loss_tokens": 0, "answer_tokens": 0}),
}  # fmt: skip


def row(parts):
    ids = list(chain.from_iterable(parts))
    mask = list(chain.from_iterable([place % 2] * len(part) for place, part in enumerate(parts)))
    return ids, mask


def scan(ids, mask=None, *, labels=None, seq_len=None, family=QWEN3):
    batch = {"input_ids": pa.array([ids], pa.list_(pa.int32()))}
    if mask is not None:
        batch["loss_mask"] = pa.array([mask], pa.list_(pa.int8()))
    if labels is not None:
        batch["labels"] = pa.array([labels], pa.list_(pa.int64()))
    if seq_len is not None:
        batch["seq_len"] = pa.array([seq_len])
    (facts,) = scan_tokens(pa.RecordBatch.from_pydict(batch), family).to_pylist()
    return facts


@pytest.mark.parametrize("name", ROWS)
def test_row(name):
    parts, expected = ROWS[name]
    facts = scan(*row(parts))
    expected = {**NOTHING, **expected}
    assert {key: facts[key] for key in expected} == expected


def test_all_rows_at_once_say_the_same():
    ids, masks = zip(*(row(parts) for parts, _ in ROWS.values()), strict=True)
    batch = pa.RecordBatch.from_pydict({"input_ids": pa.array(ids), "loss_mask": pa.array(masks)})
    assert scan_tokens(batch, QWEN3).to_pylist() == [scan(*one) for one in zip(ids, masks, strict=True)]


# ---- Lengths, mask values, labels --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "seq_len", "agree"),
    [
        ([0, 1], None, True),
        ([0, 1], 2, True),
        ([0, 1], 3, False),
        ([0], 2, False),
        ([0, 1, 1], None, False),
        (None, 2, False),
    ],
)
def test_lengths(mask, seq_len, agree):
    batch = pa.RecordBatch.from_pydict(
        {
            "input_ids": pa.array([[1, 2]]),
            "loss_mask": pa.array([mask], pa.list_(pa.uint8())),
            "seq_len": pa.array([seq_len], pa.uint16()),
        }
    )
    (facts,) = scan_tokens(batch, QWEN3).to_pylist()
    assert facts["lengths_agree"] is agree
    assert (facts["tokens"], facts["mask_tokens"], facts["declared_len"]) == (2, len(mask or []), seq_len)
    assert facts["loss_tokens"] == sum(mask or [])


def test_positions_are_not_judged_where_lengths_differ():
    facts = scan([*ASK, *HEAD, *EMPTY, E, E, 151669, -1], [1] * 12)
    assert (facts["loss_tokens"], facts["mask_token_at"], facts["bad_id_at"]) == (12, 17, 18)
    judged = ["spans", "response_at", "response_tokens", "answer_tokens", "thinking_tokens", "thinking_turns"]
    judged += [key for key in NOTHING if key.endswith("_at") and key not in ("mask_token_at", "bad_id_at")]
    assert {facts[key] for key in judged} == {-1}
    assert (facts["thinking_open"], facts["clipped"], facts["response_digest"]) == (False, False, None)


@pytest.mark.parametrize(
    ("mask", "at", "kind", "value", "loss"),
    [
        ([0, 1], -1, "", None, 1),
        ([1, 2], 1, "value", 2, 2),
        ([-1, 0], 0, "value", -1, 1),
        ([1, None], 1, "null", None, 1),
        ([None, 2], 0, "null", None, 1),
    ],
)
def test_mask_values(mask, at, kind, value, loss):
    facts = scan([6, 7], mask)
    assert (facts["bad_mask_at"], facts["bad_mask_kind"], facts["bad_mask_value"]) == (at, kind, value)
    assert facts["loss_tokens"] == loss


@pytest.mark.parametrize(
    ("labels", "at", "kind", "loss"),
    [
        ([-100, 7], -1, "", 1),
        ([-100, -100], -1, "", 0),
        ([6, 7], -1, "", 2),
        ([6, 8], 1, "label", 2),
        ([1, 1], 0, "label", 2),
        ([-100, 6], 1, "label", 1),
        ([-100, None], 1, "null", 0),
        ([-100, 6, 7], -1, "", 2),
    ],
)
def test_labels(labels, at, kind, loss):
    facts = scan([6, 7], labels=labels)
    assert (facts["bad_mask_at"], facts["bad_mask_kind"], facts["loss_tokens"]) == (at, kind, loss)


def test_a_loss_mask_goes_before_labels():
    assert scan([6, 7], [0, 1], labels=[6, 7])["loss_tokens"] == 1


# ---- Families ----------------------------------------------------------------------------------------------


def test_thinking_that_the_prompt_opens():
    begin, end, think, close = QWEN3_5.begin_turn, QWEN3_5.end_turn, QWEN3_5.think_open, QWEN3_5.think_close
    head = [begin, 74455, N, think]
    for newline, thought, empty_at in ((N, [4, 5], -1), (NN, [], 3)):
        ids, mask = row(([*head, newline], [*thought, close, NN, 6, end], [N]))
        facts = scan(ids, mask, family=QWEN3_5)
        assert (facts["boundary_thinking_at"], facts["boundary_off_at"]) == (-1, 5)
        assert (facts["thinking_open"], facts["think_token_at"], facts["empty_thinking_at"]) == (True, 3, empty_at)
        assert (facts["thinking_tokens"], facts["answer_tokens"]) == (len(thought), 1)
    facts = scan(*row((head[:3], [think, N, 4, close, NN, 6, end])), family=QWEN3_5)
    assert (facts["boundary_thinking_at"], facts["boundary_off_at"]) == (-1, -1)


def test_families_are_whole():
    for family, blanks in ((QWEN3, 441), (QWEN3_5, 440)):
        assert len(family.blank) == blanks
        assert list(family.blank) == sorted(set(family.blank))
        assert {family.newline, 271} <= set(family.blank)
        assert max(family.blank) < family.end_text < family.begin_turn < family.mask_token < family.vocab_size
        assert set(family.sampling) >= {"thinking", "off"}


@pytest.mark.skipif(not SHARED.exists(), reason="the tokenizer is not here")
def test_qwen3_is_as_its_tokenizer_has_it():
    data = json.loads((SHARED / "tokenizers/qwen3/tokenizer.json").read_text())
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in printable)
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
    texts = {
        i: bytes(byte_of[char] for char in text).decode(errors="replace") for text, i in data["model"]["vocab"].items()
    }
    assert [i for i in sorted(texts) if texts[i].isspace()] == list(QWEN3.blank)
    assert {role: "".join(texts[i] for i in ids) for role, ids in QWEN3.roles.items()} == {
        role: role for role in QWEN3.roles
    }
    added = {token["id"]: token["content"] for token in data["added_tokens"]}
    assert {*QWEN3.turn_texts, *QWEN3.control_texts} == set(added.values())
    assert (added[QWEN3.think_open], added[QWEN3.think_close]) == QWEN3.thinking_tags
    assert (added[QWEN3.begin_turn], added[QWEN3.end_turn]) == QWEN3.turn_texts
    assert QWEN3.mask_token not in {*texts, *added}


# ---- Digests -----------------------------------------------------------------------------------------------


def test_digest_is_of_the_response_alone():
    plain = scan(*row(GOOD))["response_digest"]
    assert scan(*row(([B, USER, N, 9, E, N, *HEAD], *GOOD[1:])))["response_digest"] == plain
    assert scan(*row((*GOOD[:2], [], [N])))["response_digest"] == plain  # the newline is neutral
    for other in ([7, 6, E], [6, 7, 7, E], [6, 7], [N, 6, 7, E]):
        assert scan(*row((GOOD[0], THOUGHT + other)))["response_digest"] != plain


def test_digest_stays_the_same_for_good():
    """Facts are kept in files that other versions read."""
    assert scan(*row((ASK + HEAD, [*EMPTY, 3925, 13], [E, N])))["response_digest"] == 7334647480893864923


def test_digests_of_many_responses_differ():
    rng = np.random.default_rng(0)
    ids = {tuple(int(i) for i in rng.integers(0, 4, rng.integers(1, 9))) for _ in range(20_000)}
    rows = [[*HEAD, *one] for one in ids]
    masks = [[0, 0, 0, *[1] * (len(one) - 3)] for one in rows]
    found = scan_tokens(pa.RecordBatch.from_pydict({"input_ids": rows, "loss_mask": masks}), QWEN3)
    assert len(set(found["response_digest"].to_pylist())) == len(ids)


# ---- Columns -----------------------------------------------------------------------------------------------

LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda kind: pa.list_(kind, 4)]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("element", [*INTEGERS, pa.bool_()], ids=str)
@pytest.mark.parametrize("make", LISTS)
def test_every_kind_of_column_is_read(make, element):
    masks = pa.array([[0, 1, 1, 0], None, [1, 1, 1, 1]], pa.list_(pa.int8())).cast(pa.list_(element))
    mask = pa.array(masks.to_pylist(), make(element))
    ids_element = pa.int32() if pa.types.is_boolean(element) else element
    ids = pa.array([[1, 2, 3, 4], [5, 6, 7, 8], None], make(ids_element))
    batch = pa.RecordBatch.from_arrays([ids, mask], names=["input_ids", "loss_mask"])
    for first in range(3):
        found = scan_tokens(batch.slice(first), QWEN3)
        assert found["tokens"].to_pylist() == [4, 4, 0][first:]
        assert found["loss_tokens"].to_pylist() == [2, 0, 4][first:]
        assert found["lengths_agree"].to_pylist() == [True, False, False][first:]
        assert found["bad_mask_at"].to_pylist() == [-1, -1, -1][first:]


def test_huge_unsigned_ids():
    batch = pa.RecordBatch.from_pydict(
        {
            "input_ids": pa.array([[2**64 - 1], [2**63]], pa.list_(pa.uint64())),
            "loss_mask": pa.array([[1], [255]], pa.list_(pa.uint8())),
        }
    )
    found = scan_tokens(batch, QWEN3)
    assert found["bad_id"].to_pylist() == [2**63 - 1] * 2  # as near as 64 bits come
    assert found["bad_mask_value"].to_pylist() == [None, 255]


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("input_ids", pa.list_(pa.int64()), None),
        ("input_ids", pa.list_(pa.float64()), "input_ids is list<item: double>, not lists of integers"),
        ("input_ids", pa.list_(pa.bool_()), "input_ids is list<item: bool>, not lists of integers"),
        ("input_ids", pa.int64(), "input_ids is int64, not lists of integers"),
        ("input_ids", pa.null(), "input_ids is null, not lists of integers"),
        ("input_ids", pa.list_(pa.null()), None),
        ("loss_mask", pa.large_list(pa.bool_()), None),
        ("loss_mask", pa.list_(pa.string()), "loss_mask is list<item: string>, not lists of integers or booleans"),
        ("labels", pa.list_(pa.bool_()), "labels is list<item: bool>, not lists of integers"),
        ("seq_len", pa.uint16(), None),
        ("seq_len", pa.float64(), "seq_len is double, not integers"),
    ],
)
def test_column_problem(name, kind, problem):
    assert column_problem(pa.field(name, kind)) == problem


def test_lists_of_nulls():
    field = pa.field("input_ids", pa.list_(pa.null()))
    empty, filled = pa.array([[], []], field.type), pa.array([[], [None]], field.type)
    assert column_problem(field, empty) is None
    assert column_problem(field, filled) == "input_ids is list<item: null>, and its lists hold nothing but nulls"
    found = scan_tokens(pa.RecordBatch.from_arrays([empty, empty], names=["input_ids", "loss_mask"]), QWEN3)
    assert found["tokens"].to_pylist() == [0, 0]


def test_columns_that_cannot_be_read():
    floats = pa.array([[0.5]])
    with pytest.raises(ValueError, match="loss_mask is list<item: double>"):
        scan_tokens(pa.RecordBatch.from_pydict({"input_ids": pa.array([[1]]), "loss_mask": floats}), QWEN3)
    with pytest.raises(ValueError, match="no column loss_mask or labels"):
        scan_tokens(pa.RecordBatch.from_pydict({"input_ids": pa.array([[1]])}), QWEN3)
    with pytest.raises(ValueError, match="no column input_ids"):
        scan_tokens(pa.RecordBatch.from_pydict({"loss_mask": pa.array([[1]])}), QWEN3)


def test_no_rows():
    empty = pa.array([], pa.list_(pa.int32()))
    found = scan_tokens(pa.RecordBatch.from_arrays([empty, empty], names=["input_ids", "loss_mask"]), QWEN3)
    assert found.schema == TOKEN_COLUMNS
    assert found.num_rows == 0
