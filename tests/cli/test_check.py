"""`check`: every option reaches the verb, and what it answers becomes output and exit code."""

import json
import os
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from dflash_guard.report import FORMATS, last_line

CHECK = ("check", "data", "--stage", "prompts")


def test_every_option_reaches_the_verb(judged, call):
    call(
        *("check", "a", "b", "--stage", "tokenized", "--contract", "own", "--mode", "off", "--family", "qwen3_5"),
        *("--upstream", "up", "--ignore", "missing-id, stub-response", "--ignore", "late-system"),
        *("--set", "few-loss-tokens.min=16", "--set", "missing-id.level=error", "--out", "guard", "--jobs", "3"),
        *("--memory-limit", "1GiB", "--fail-on", "warn", "--redact", "--sign", "guard.key"),
    )
    ((args, kwargs),) = judged.calls
    assert args == (["a", "b"],)
    assert kwargs == {
        "stage": "tokenized",
        "contract": "own",
        "mode": "off",
        "family": "qwen3_5",
        "upstream": "up",
        "ignore": ("missing-id", "stub-response", "late-system"),
        "sets": ("few-loss-tokens.min=16", "missing-id.level=error"),
        "out": "guard",
        "jobs": 3,
        "memory_limit": "1GiB",
        "fail_on": "warn",
        "redact": True,
        "sign": "guard.key",
        "progress": None,
    }


def test_what_is_not_said_is_left_to_the_verb(judged, call):
    call(*CHECK)
    ((_, kwargs),) = judged.calls
    said = {name: value for name, value in kwargs.items() if value is not None}
    assert said == {"stage": "prompts", "ignore": (), "sets": (), "fail_on": "error", "redact": False}


@pytest.mark.parametrize(("result", "code"), [("pass", 0), ("fail", 1), ("error", 4)])
def test_the_exit_code_is_the_verdicts(judged, call, make, result, code):
    judged.outcome = make.verdict(result=result)
    assert call(*CHECK)[0] == code


@pytest.mark.parametrize(("result", "code"), [("pass", 0), ("fail", 0), ("error", 4)])
def test_exit_zero_turns_1_alone_into_0(judged, call, make, result, code):
    judged.outcome = make.verdict(result=result)
    assert call(*CHECK, "--exit-zero")[0] == code


@pytest.mark.parametrize("format", FORMATS)
def test_the_last_line_is_on_stdout_for_people_and_else_on_stderr(judged, call, verdict, format):
    _, out, err = call(*CHECK, "--format", format)
    people = format in {"full", "concise"}
    assert (out if people else err).splitlines()[-1] == last_line(verdict)
    assert err == "" or not people


def test_max_failures_reaches_the_report(judged, call, make):
    failures = [make.failure("unknown-role", "x", row=row) for row in range(50)]
    judged.outcome = make.verdict([make.result("unknown-role", failing=50)], failures)
    for words, shown in (((), 20), (("--max-failures", "3"), 3), (("--max-failures", "0"), 50)):
        assert len(json.loads(call(*CHECK, "--format", "json", *words)[1])["failures"]) == shown


def test_reports_go_to_files_as_well(judged, call, tmp_path):
    xml, log = tmp_path / "new" / "report.xml", tmp_path / "log.json"
    log.write_text("old")
    code, out, _ = call(*CHECK, "-o", f"junit:{xml}", "-o", f"sarif:{log}")
    assert code == 1
    assert "unknown-role" in out
    assert ET.parse(xml).getroot().tag == "testsuites"
    assert json.loads(log.read_text())["version"] == "2.1.0"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log.json", "new"]


def test_a_report_that_cannot_be_written_is_no_judgement(judged, call, tmp_path, monkeypatch, make):
    judged.outcome = make.verdict()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, out, err = call(*CHECK, "-o", f"json:{tmp_path / 'x.json'}")
    assert code == 3
    assert "PASS" in out
    assert "could not be written" in err
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_written_through(judged, call, tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    call(*CHECK, "-o", f"json:{link}")
    assert link.is_symlink()
    assert json.loads(target.read_text())["schema"]


def test_github_actions_gets_annotations_and_a_summary(judged, call, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    _, out, err = call(*CHECK, "--format", "json")
    assert json.loads(out)["result"] == "fail"
    assert "::error title=dflash-guard" in err
    assert summary.read_text().startswith("before\n### dflash-guard: FAIL")
    _, out, err = call(*CHECK, "--format", "github")
    assert "::error" in out
    assert "::error" not in err


def test_no_color_is_honoured_on_a_terminal(judged, call, monkeypatch):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31" in call(*CHECK)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in call(*CHECK)[1]


def test_names_that_are_no_text_are_printed_escaped(judged, call, verdict):
    judged.outcome = replace(verdict, data=("caf\udce9",))
    code, out, _ = call(*CHECK)
    assert code == 1
    assert "caf\\udce9" in out
