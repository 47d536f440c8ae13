"""A cell of data cannot break out of what looks at data: profile, diff, autopsy, report and sql, in every format."""

import csv
import io
import json
from html.parser import HTMLParser

import pytest

import samples
from dflash_guard.cli import run

NASTY = {
    "html": "</td></pre></details><script>alert(1)</script><img src=x onerror=alert(1)>",
    "terminal": "\x1b[2J\x1b]0;title\x07 \u202egnp.exe \x9b31m",
    "runner": "::error file=x::pwned\n::set-output name=a::b\n##[add-mask]pwned",
    "formula": '=cmd|"/C calc"!A0',
    "plus": "+1+cmd",
    "at": "@SUM(A1)",
    "markdown": "| a | b |\n|---|---|\n`code` [a](javascript:alert(1)) <b>",
    "long": "x" * 200_000,
}
FORMULAS = ("=", "+", "@", "-", "\t", "\r")


@pytest.fixture(params=NASTY)
def nasty(request, tmp_path):
    """A data set of completions whose sources, ids and most common response are one nasty text."""
    text = NASTY[request.param]
    rows = [samples.completion(i, text, thinking=None, source=text[:300], id=f"{text[:300]} {i}") for i in range(8)]
    folder = tmp_path / "data"
    folder.mkdir()
    return samples.write(folder, rows, "completions")


@pytest.fixture
def said(capsys):
    def said(*arguments):
        capsys.readouterr()
        run([str(each) for each in arguments])
        return capsys.readouterr().out

    return said


def harmless(text):
    """Nothing that a terminal or a CI runner would obey, and no cell of 200,000 characters."""
    assert not {c for c in text if ord(c) < 32 and c not in "\n\t"} | {c for c in text if c in "\x7f\x9b\u202e"}
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert "##[" not in text
    assert len(text) < 150_000


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def harmless_page(text):
    page = _Page()
    page.feed(text)
    assert not page.tags & {"script", "img", "iframe", "object"}
    assert not {name for name in page.attributes if name.startswith("on")}
    assert "\x1b" not in text


def harmless_csv(text):
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1
    assert not [
        cell
        for row in rows
        for cell in row
        if cell.startswith(FORMULAS) and not cell.lstrip("-").replace(".", "").isdigit()
    ]


def harmless_markdown(text):
    harmless(text)
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) <= 1
    assert "<script" not in text
    assert "](javascript" not in text


def test_profile(nasty, said):
    harmless(said("profile", nasty))
    found = json.loads(said("profile", nasty, "--format", "json"))
    assert found["rows"] == 8
    harmless_csv(said("profile", nasty, "--format", "csv"))
    harmless_markdown(said("profile", nasty, "--format", "markdown"))
    harmless_page(said("profile", nasty, "--format", "html"))


def test_autopsy_and_report(nasty, said, tmp_path):
    harmless(said("autopsy", nasty))
    said("report", nasty, "-o", tmp_path / "page.html")
    harmless_page((tmp_path / "page.html").read_text())


def test_diff(nasty, said, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    path = samples.write(other, [samples.completion(i) for i in range(8)], "completions")
    harmless(said("diff", nasty, path))


def test_sql(nasty, said):
    query = "SELECT source, id, 1 AS n FROM facts"
    harmless(said("sql", nasty, query))
    harmless_csv(said("sql", nasty, query, "--format", "csv"))
    lines = said("sql", nasty, query, "--format", "json").splitlines()
    assert [json.loads(line)["n"] for line in lines] == [1] * 8
    assert not [line for line in lines if "\x1b" in line or "##[" in line]


def test_check_in_every_format(nasty, said):
    for format in ("full", "concise", "markdown", "github"):
        text = said("check", nasty, "--stage", "completions", "--format", format)
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if line.startswith("::set-output")]


# --- text that is whole in every cell, and names of shards

OUTPUTS = [
    *(("profile", "--format", name) for name in ("table", "json", "csv", "markdown", "html")),
    *(("diff", "--format", name) for name in ("table", "json", "markdown")),
    ("autopsy",),
    ("sql", "--format", "table"),
]
EXPORTS = [("sql", "--format", name) for name in ("csv", "json")]
NAMES = ("<script>x", "\x1b[2J\x1b]0;t\x07", "=cmd|1+1", "@SUM(A1)", "+1", "|a|`b`[c](javascript:d)<b>", "a\n=1")
QUERY = "SELECT messages ->> '$[1].content' AS c, * EXCLUDE messages FROM samples"


def written(tmp_path, text, names=("shard",)):
    """Rows that hold the text wherever a row of completions has one: nothing of it is cut here."""
    folder = tmp_path / "whole"
    folder.mkdir()
    for n, name in enumerate(names):
        rows = [
            samples.completion(i, text, thinking=text, source=text, id=f"{text} {n} {i}", finish=text) for i in range(8)
        ]
        samples.write(folder, rows, "completions", name)
    return folder


@pytest.fixture
def looked(said, tmp_path):
    """What a command prints of a folder."""

    def looked(folder, command, *options, query=QUERY):
        more = [query] if command == "sql" else []
        if command == "diff":
            (tmp_path / "other").mkdir()
            more = [samples.write(tmp_path / "other", [samples.completion(i) for i in range(8)], "completions")]
        out = said(command, folder, *more, "--stage", "completions", *options)
        assert out
        return out

    return looked


@pytest.mark.parametrize("words", [*OUTPUTS, *EXPORTS], ids=" ".join)
def test_no_line_is_a_command_to_a_runner(words, looked, tmp_path):
    out = looked(written(tmp_path, NASTY["runner"], ["::error::name"]), *words)
    assert not [line for line in out.splitlines() if line.lstrip().startswith("::")]
    assert "##[" not in out


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_200_000_characters_are_cut(words, looked, tmp_path):
    out = looked(written(tmp_path, NASTY["long"]), *words)
    assert "x" * 5_000 not in out
    assert len(out) < 60_000


def test_200_000_characters_are_cut_on_the_page(said, tmp_path):
    said("report", written(tmp_path, NASTY["long"]), "--stage", "completions", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "x" * 5_000 not in page
    assert len(page) < 150_000


@pytest.mark.parametrize("words", [*OUTPUTS, *EXPORTS], ids=" ".join)
def test_the_name_of_a_shard_breaks_out_of_nothing(words, looked, tmp_path):
    folder = written(tmp_path, "The same for all.", NAMES)
    out = looked(folder, *words, query="SELECT shard, count(*) AS n FROM samples GROUP BY shard ORDER BY shard")
    harmless(out)
    if "csv" in words:
        harmless_csv(out)
    if "markdown" in words:
        harmless_markdown(out)
    if "html" in words:
        harmless_page(out)
    if words == ("profile", "--format", "json"):
        assert {each["shard"] for each in json.loads(out)["by_shard"]} == {f"{name}.jsonl" for name in NAMES}
    if words == ("sql", "--format", "json"):
        assert {json.loads(line)["shard"] for line in out.splitlines()} == {f"{name}.jsonl" for name in NAMES}


def test_the_name_of_a_shard_breaks_no_page(said, tmp_path):
    folder = written(tmp_path, "The same for all.", NAMES)
    said("report", folder, "--stage", "completions", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    harmless_page(page)
    assert "&lt;script&gt;x.jsonl" in page


@pytest.mark.parametrize("name", NASTY)
def test_a_response_in_csv_is_one_cell_of_its_row(name, looked, tmp_path):
    before = csv.field_size_limit(10_000_000)
    try:
        out = looked(written(tmp_path, NASTY[name]), *EXPORTS[0])
        assert len(list(csv.reader(io.StringIO(out)))) == 9
        harmless_csv(out)
    finally:
        csv.field_size_limit(before)
