"""The vectorised scan of JSON texts agrees with the exact judgement of each text, whatever the bytes."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflash_guard.shards.jsonarray import ArrayScanner
from dflash_guard.shards.jsonl import LineScanner
from dflash_guard.shards.jsontext import judge_text

# Text → the rule that it breaks (None: sound).
TEXTS: dict[bytes, str | None] = {
    b'{"a": 1}': None,
    b'{"a": "x"} ': None,
    b"{}": None,
    b'{"a": 123456789012345678901234567890}': None,
    b'{"a": "\\ud83d\\ude00"}': None,
    b'{"a": "\\\\"}': None,
    b'{"a": "\\\\\\""}': None,
    b'{"a": 1e300, "b": 0.5, "c": -0, "d": [true, false, null]}': None,
    b'{"a": [{"b": 1}, {"b": 2}]}': None,
    b'{"a": NaN}': "malformed-row",
    b'{"a": nan}': "malformed-row",
    b'{"a": -Infinity}': "malformed-row",
    b'{"a": inf}': "malformed-row",
    b'{"a": 1e999}': "malformed-row",
    b'{"a": -1e400}': "malformed-row",
    b'{"a": ' + b"9" * 400 + b"}": "malformed-row",
    b'{"a": 01}': "malformed-row",
    b'{"a": -01}': "malformed-row",
    b'{"a": .5}': "malformed-row",
    b'{"a": 1,}': "malformed-row",
    b'{"a": [1,]}': "malformed-row",
    b'{"a": 1}{"b": 2}': "malformed-row",
    b'{"a": 1} {"b": 2}': "malformed-row",
    b'{"a": 1} x': "malformed-row",
    b'{"a": 1': "malformed-row",
    b'{"a": "x}': "malformed-row",
    b"{'a': 1}": "malformed-row",
    b'{"a": "\t"}': "malformed-row",
    b'{"a": "\\x"}': "malformed-row",
    b'{"a": "\\u12"}': "malformed-row",
    b'{"a" 1}': "malformed-row",
    b'{"a": TRUE}': "malformed-row",
    b'{"a": 1} // c': "malformed-row",
    b"[1]": "malformed-row",
    b'"x"': "malformed-row",
    b"17": "malformed-row",
    b"null": "malformed-row",
    b"\0\0\0\0": "malformed-row",
    b'{"a": "b"}\0': "malformed-row",
    b'{"a":' * 128 + b"1" + b"}" * 128: None,
    b'{"a":' * 129 + b"1" + b"}" * 129: "malformed-row",
    b"[" * 5000: "malformed-row",
    b'{"a": "\\ud800"}': "invalid-text",
    b'{"a": "\\ude00\\ud83d"}': "invalid-text",
    b'{"\\ud800": 1}': "invalid-text",
    b'{"a": "caf\xe9"}': "invalid-text",
    b'{"a": "\xed\xa0\x80"}': "invalid-text",
    b'{"a": 1 \xff}': "malformed-row",
    b'{"a": 1, "a": 1}': "duplicate-key",
    b'{"a": {"b": 1, "c": 2, "b": 3}}': "duplicate-key",
    b'{"a": [{"role": "x", "role": "y"}]}': "duplicate-key",
    b'{"ab": 1, "a\\u0062": 2}': "duplicate-key",
    b'{"": 1, "": 2}': "duplicate-key",
}
TORN = [b'{"a": "x', b'{"a": "x\\', b'{"a": "x\\u12', b'{"a": 1', b'{"a": 1.', b'{"a": 1e', b'{"a": -', b'{"a": tr',
        b'{"a":', b"{", b'{"a": "caf\xc3', b'{"a": [1, 2', b'{"a": 1,']  # fmt: skip


def faults(lines: list[bytes], *, end: bytes = b"\n") -> list[str | None]:
    batch = LineScanner().scan(b"\n".join(lines) + end, last=True)
    return batch["fault"].to_pylist()


@pytest.mark.parametrize(("text", "rule"), TEXTS.items())
def test_each_text_alone(text: bytes, rule: str | None) -> None:
    found = judge_text(text)
    assert (found.rule if found else None) == rule
    assert faults([text]) == [rule]


def test_all_texts_in_one_block_with_forms_already_known() -> None:
    scanner = LineScanner()
    block = b"\n".join(TEXTS) + b"\n"
    for _ in range(2):
        batch = scanner.scan(block, last=False)
        assert batch["fault"].to_pylist() == list(TEXTS.values())
    texts = batch["text"].to_pylist()
    assert [json.loads(text) for text in texts if text != "{}"]
    assert texts[0] == '{"a": 1}' or json.loads(texts[0]) == {"a": 1}


@pytest.mark.parametrize("text", TORN)
def test_torn_only_where_the_data_ends_without_a_newline(text: bytes) -> None:
    assert faults([b'{"a": 1}', text], end=b"") == [None, "torn-last-line"]
    assert faults([b'{"a": 1}', text])[0] is None
    assert faults([b'{"a": 1}', text])[1] in {"malformed-row", "invalid-text"}


def test_the_last_line_may_lack_its_newline() -> None:
    assert faults([b'{"a": 1}', b'{"a": 2}'], end=b"") == [None, None]
    assert faults([b'{"a": 1}', b'{"a": 2} x'], end=b"") == [None, "malformed-row"]


def test_blank_lines_are_no_rows_but_count() -> None:
    batch = LineScanner(line=10).scan(b'\n  \n{"a": 1}\n\t\r\n\r\n{"b": 2}\n', last=True)
    assert batch["line"].to_pylist() == [12, 15]
    assert [json.loads(t) for t in batch["text"].to_pylist()] == [{"a": 1}, {"b": 2}]


def test_stray_bytes_are_told_and_taken_off() -> None:
    batch = LineScanner().scan(
        b'\xef\xbb\xbf{"a": 1}\n{"b": 2}\r\n\xef\xbb\xbf{"c": 3}\n{"d": "\\u0000"}\n{"e": "\\\\u0000"}\n',
        last=True,
    )
    assert [json.loads(t) for t in batch["text"].to_pylist()] == [
        {"a": 1},
        {"b": 2},
        {"c": 3},
        {"d": "\0"},
        {"e": "\\u0000"},
    ]
    stray = batch["stray"].to_pylist()
    assert [s is not None for s in stray] == [True, True, True, True, False]
    assert "byte-order" in stray[0]
    assert "CR" in stray[1]


def test_numbers_that_share_a_form_are_told_apart() -> None:
    assert faults([b'{"a": 1e100}', b'{"a": 9e999}', b'{"a": 100}', b'{"a": 007}', b'{"a": 1e05}']) == [
        None, "malformed-row", None, "malformed-row", None]  # fmt: skip


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
rows = st.dictionaries(st.sampled_from(["id", "role", "content", "é", 'q"', "\\"]), values, max_size=4)
JUNK = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"0",
    b"1",
    b"e9",
    b"\\u",
    b"\\ud800",
    b" ",
    b"\t",
    b"\xff",
    b"NaN",
    b"\0",
]


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    raw = json.dumps(
        draw(rows), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1]))
    ).encode()
    raw = raw.replace(b"\n", b" ")
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(raw)))
        cut = draw(st.integers(0, 2))
        raw = raw[:at] + draw(st.sampled_from(JUNK)) + raw[at + cut :]
    return raw


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(texts(), min_size=1, max_size=12))
def test_the_scan_agrees_with_the_exact_judgement(lines: list[bytes]) -> None:
    lines = [line for line in lines if line.strip()]
    wanted = [(f.rule if f else None) for f in map(judge_text, lines)]
    assert faults(lines) == wanted


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(rows, max_size=8), st.sampled_from([None, 1, 4]), st.integers(1, 40), st.booleans())
def test_an_array_is_cut_into_its_elements(
    elements: list[dict], indent: int | None, step: int, ascii_only: bool
) -> None:
    raw = json.dumps(elements, indent=indent, ensure_ascii=ascii_only).encode() + b"\n"
    scanner, found = ArrayScanner(), []
    for at in range(0, len(raw), step):
        for batch in scanner.feed(raw[at : at + step], last=at + step >= len(raw)):
            assert batch["fault"].null_count == batch.num_rows
            found += [json.loads(text) for text in batch["text"].to_pylist()]
    assert found == elements
    assert scanner.faults == []


@pytest.mark.parametrize(
    ("raw", "rows_found", "rule"),
    [
        (b'[{"a": 1}, {"b": 2}', [None], "truncated-shard"),
        (b'[{"a": 1}, {"b": 2}] x', [None, None], "unreadable-shard"),
        (b'[{"a": 1}, 3, NaN, ["x"], "s"]', [None] + ["malformed-row"] * 4, None),
        (b'[{"a": 1},]', [None, "malformed-row"], None),
        (b'[{"a": 1},, {"b": 1}]', [None, "malformed-row", None], None),
        (b'[{"a": "], }, ["}, {"a": "\\"]"}]', [None, None], None),
        (b"[]", [], None),
        (b" [ ] ", [], None),
        (b"[", [], "truncated-shard"),
        (b'[{"a": "x\ny"}]', ["malformed-row"], None),
        (b'\xef\xbb\xbf[{"a": 1}]', [None], None),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_arrays_that_are_broken(raw: bytes, rows_found: list[str | None], rule: str | None, step: int) -> None:
    scanner, found = ArrayScanner(), []
    for at in range(0, len(raw), step):
        for batch in scanner.feed(raw[at : at + step], last=at + step >= len(raw)):
            found += batch["fault"].to_pylist()
    assert found == rows_found
    assert [fault.rule for fault in scanner.faults] == ([rule] if rule else [])
