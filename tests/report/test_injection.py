"""A sample's text, an id or a file's name cannot break out of a report, whatever it holds."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dflash_guard.report import FORMATS, Style, render

NASTY = [
    "::error file=x::pwned",
    "x\n::error::pwned",
    "\r\n::set-output name=a::b",
    "##[add-mask]pwned",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe \u2028 \x85 \x00 \ufffe",
    "</failure></testcase>]]>&<script>alert(1)</script>",
    "| a | b |\n|---|---|\n</details><img src=x onerror=alert(1)> `code` @someone https://evil.example [a](b)",
    '=cmd|"/C calc"!A0',
    "{0} [link](1) %0A::error::pwned",
    '", "exit_code": 0, "',
    "\ud800 lone",
    "x" * 200_000,
]
LINES = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def nasty(test):
    for text in NASTY:
        test = example(text)(test)
    return settings(max_examples=40, deadline=None)(given(st.text())(test))


def stored(text):
    """As a failures table can hold it: Arrow text has no lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def reported(make, text, format, **style):
    text = stored(text)
    rules = [
        make.result("unknown-role", failing=2),
        make.result("response-collapse", failed=True, observed=text, message=text),
        make.result("unknown-prompt", share=None, skipped=text),
    ]
    failures = [
        make.failure("unknown-role", text, sample_id=text),
        make.failure("unknown-role", "harmless", shard=text or "x", line=2),
    ]
    return render(make.verdict(rules, failures, data=(text,)), format, Style(**style))


@nasty
def test_text_formats_keep_each_failure_on_its_line(make, text):
    for format in ("full", "concise"):
        report = reported(make, text, format)
        assert report.count("\n") == reported(make, "harmless", format).count("\n") or format == "full"
        assert not LINES.search(report.replace("\n", ""))
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", report)
        assert not any(line.lstrip().startswith("::") or "##[" in line for line in report.splitlines())


@nasty
def test_json_reads_back(make, text):
    report = reported(make, text, "json")
    assert report.isascii()
    assert "##[" not in report
    read = json.loads(report)
    assert (read["result"], read["exit_code"], len(read["failures"])) == ("fail", 1, 2)
    assert read["failures"][0]["sample_id"] == stored(text)
    assert read["failures"][1]["shard"] == (stored(text) or "x")
    assert [json.loads(line) for line in reported(make, text, "jsonl").splitlines()][:2] == read["failures"]


@nasty
def test_sarif_reads_back(make, text):
    (run,) = json.loads(reported(make, text, "sarif"))["runs"]
    assert len(run["results"]) == 3
    for result in run["results"]:
        message = result["message"]["text"]
        assert not re.search(r"(?<!\{)\{(?:\{\{)*(?!\{)", message)
        assert not re.search(r"(?<!\\)(?:\\\\)*\[", message)


@nasty
def test_xml_reads_back(make, text):
    root = ET.fromstring(reported(make, text, "junit").encode())
    assert len(list(root.iter("testcase"))) == 3
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "skipped", "system-out",
    }  # fmt: skip


@nasty
def test_a_runner_finds_only_our_commands(make, text):
    lines = reported(make, text, "github").splitlines()
    assert [re.match(r"::(\w+) ", line)[1] for line in lines] == ["error", "error", "error", "notice"]
    for line in lines:
        assert "##[" not in line
        properties = line.split(" ", 1)[1].split("::")[0]
        assert all(pair.split("=")[0] in {"title", "file", "line"} for pair in properties.split(","))


@nasty
def test_markdown_keeps_its_shape(make, text):
    report = reported(make, text, "markdown")
    assert len(report.splitlines()) == len(reported(make, "harmless", "markdown").splitlines())
    bare = re.sub(r"</?(?:code|details|summary)>", "", report)
    assert "<" not in bare
    assert not any(mark in bare for mark in ("`", "[", "@", "https:"))
    assert {line.count("|") for line in report.splitlines() if line.startswith("|")} == {7}


@pytest.mark.parametrize("format", [each for each in FORMATS if each not in {"json", "jsonl"}])
def test_long_text_is_cut_and_its_length_said(make, format):
    report = render(
        make.verdict([make.result("unknown-role", failing=1)], [make.failure("unknown-role", "y" * 200_000)]), format
    )
    assert "y" * 201 not in report
    assert "200,000 characters" in report.replace("&#40;", "(")
    assert len(report) < 5_000
