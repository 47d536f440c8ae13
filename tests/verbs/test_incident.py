"""The incident, end to end: what it looked like, what is said of it, and what passes instead."""

import json
import re
from html.parser import HTMLParser

import pytest
from chat_samples import QWEN3

import samples
from dflash_guard.cli import run

STUB = [151_667, 271, 151_668, 271, 3925, 13]  # an empty think block and `OK.`
ROWS, STUBS = 300, 261  # 87 %


def stub(i):
    row = samples.tokens(i)
    start = row["loss_mask"].index(1)
    ids = [*row["input_ids"][:start], *STUB, samples.END, samples.NEWLINE]
    return {**row, "input_ids": ids, "loss_mask": [0] * start + [1] * len(STUB) + [0, 0]}


@pytest.fixture(scope="module")
def incident(tmp_path_factory):
    folder = tmp_path_factory.mktemp("incident")
    rows = [stub(i) if i < STUBS else samples.tokens(i, 80 + i % 17) for i in range(ROWS)]
    samples.write(folder, rows, "tokenized")
    return folder


@pytest.fixture
def said(capsys):
    def said(*arguments):
        capsys.readouterr()
        code = run([str(each) for each in arguments])
        return code, capsys.readouterr().out

    return said


def test_it_fails_for_the_right_reasons(incident, said):
    code, out = said("check", incident, "--stage", "tokenized", "--format", "json")
    report = json.loads(out)
    failed = {rule["rule"] for rule in report["rules"] if rule["failed"]}
    assert code == 1
    assert {
        "response-collapse",
        "loss-collapse",
        "low-median-loss",
        "thinking-share",
        "few-loss-tokens",
        "empty-thinking",
    } <= failed
    shares = {rule["rule"]: rule["observed"] for rule in report["rules"]}
    assert shares["response-collapse"] == pytest.approx(0.87)
    assert shares["low-median-loss"] == 6


@pytest.mark.skipif(not QWEN3.exists(), reason="the real tokenizer is not here")
def test_autopsy_shows_the_stub_decoded(incident, said):
    _, out = said("autopsy", incident, "--tokenizer", QWEN3)
    first = out.splitlines()[:4]
    assert "87.0 % of the rows share one response of 6 supervised tokens" in "\n".join(first)
    assert re.search(r"<think>.*</think>.*OK\.", out, flags=re.DOTALL)


def test_a_regenerated_one_passes(tmp_path, said):
    samples.write(tmp_path, [samples.tokens(i, 70 + i % 41) for i in range(ROWS)], "tokenized")
    code, out = said("check", tmp_path, "--stage", "tokenized", "--format", "json")
    assert (code, json.loads(out)["result"]) == (0, "pass")


class _Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.pieces = []

    def handle_data(self, data):
        if data.strip():
            self.pieces.append(data.strip())


def sql(said, data, query):
    return [json.loads(line) for line in said("sql", data, query, "--format", "json")[1].splitlines()]


@pytest.fixture
def pieces(incident, said, tmp_path):
    """The texts of the page, in order."""
    said("check", incident, "--stage", "tokenized")
    said("report", incident, "-o", tmp_path / "page.html")
    page = _Text()
    page.feed((tmp_path / "page.html").read_text())
    return page.pieces


def figures(value):
    """How a page may write a figure."""
    return {f"{value:,.{digits}f}" for digits in range(5)} | {str(value)}


@pytest.mark.parametrize("fact", ["loss_tokens", "loss_fraction", "response_tokens", "tokens", "turns"])
def test_the_pages_figures_are_those_of_sql(incident, said, pieces, fact):
    column = {"loss_fraction": "loss_tokens / tokens", "turns": None}.get(fact, fact)
    if column is None:
        column = next(c for c in ("turns", "turn_count") if c in sql(said, incident, "SELECT * FROM facts LIMIT 1")[0])
    quantiles = ", ".join(f"quantile_cont({column}, {q})" for q in (0.5, 0.9, 0.99))
    (found,) = sql(
        said,
        incident,
        f"SELECT count({column}) AS n, min({column}) AS a, avg({column}) AS b, [{quantiles}]::DOUBLE[] AS q, max({column}) AS z FROM facts",
    )
    wanted = [found["n"], found["a"], found["b"], *found["q"], found["z"]]
    shown = next(
        pieces[i + 1 : i + 8] for i, text in enumerate(pieces) if text == fact and pieces[i + 1] == f"{found['n']:,}"
    )
    for value, said_value in zip(wanted, shown, strict=True):
        assert said_value in figures(value), (fact, wanted, shown)


def test_the_pages_counts_are_those_of_sql(incident, said, pieces):
    for each in sql(said, incident, "SELECT rule, count(*) AS n FROM failures WHERE row IS NOT NULL GROUP BY rule"):
        shown = [
            pieces[i + 3]
            for i, text in enumerate(pieces)
            if text == each["rule"] and pieces[i + 2] in {"failed", "warned"}
        ]
        assert shown == [f"{each['n']:,}"], each


def test_autopsy_names_the_stub_without_a_tokenizer(incident, said):
    code, out = said("autopsy", incident, "--rows", 1)
    lines = [line.strip() for line in out.splitlines() if line]
    ids = ", ".join(map(str, STUB))
    assert code == 0
    assert lines[1] == "87.0 % of the rows share one response of 6 supervised tokens"
    assert lines[2].startswith(f"ids {ids} ")
    assert any(f"⟦{ids}⟧" in line for line in lines)
    assert f"empty-thinking (error): {STUBS} rows (87.0 %)" in lines


def test_the_pages_head_is_that_of_sql(incident, said, pieces):
    """The figures at the head: rows, shards, sources, rows with thinking, failed rows."""
    (found,) = sql(
        said,
        incident,
        "SELECT count(*) AS rows, count(DISTINCT shard) AS shards, count(DISTINCT source) AS sources FROM samples",
    )
    (failed,) = sql(
        said,
        incident,
        "SELECT count(DISTINCT (shard, row)) AS n FROM failures WHERE row IS NOT NULL AND level = 'error'",
    )
    head = pieces[pieces.index("rows") :]
    for name, value in {**found, "failed": failed["n"]}.items():
        assert head[head.index(name) + 1] == f"{value:,}", name
    assert (found["rows"], found["shards"], failed["n"]) == (ROWS, 1, STUBS)
    (thinks,) = sql(said, incident, "SELECT count(*) AS n FROM facts WHERE thinking_tokens > 0")
    assert head[head.index("with thinking") + 1] == f"{thinks['n']} ({thinks['n'] / ROWS:.1%})".replace("%", " %")
