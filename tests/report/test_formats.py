"""Each format, read back by whoever reads it: a JSON parser, an XML parser, a runner of workflow commands."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from dflash_guard.report import FORMATS, WITH_LAST_LINE, Style, last_line, render

LAST = "1,000 rows · 2 shards · 6 rules · 3 failed · 1 warned · 3 quarantined · FAIL in 2.3 s"


def test_the_last_line_counts_what_was_judged(verdict):
    assert last_line(verdict) == LAST


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_ends_with_one_newline(verdict, format):
    text = render(verdict, format)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("format", sorted(WITH_LAST_LINE))
def test_formats_for_people_end_with_the_last_line(verdict, format):
    assert render(verdict, format).splitlines()[-1] == LAST


def test_a_pass_and_an_error_are_named(make):
    assert last_line(make.verdict()).endswith("PASS in 2.3 s")
    assert last_line(make.verdict(result="error")).endswith("ERROR in 2.3 s")


# --- full


def test_full_names_what_failed_where_and_what_to_do(verdict):
    text = render(verdict, "full")
    assert text.index("Failures") < text.index("Warnings") < text.index("Not judged") < text.index("Left out")
    assert re.search(r"unknown-role +error +2 +0\.20 % +a\.jsonl:4\n", text)
    assert "b.parquet:row 7 (id a): turn 0: role 'x'" in text
    assert "a.jsonl: the gzip stream ends early" in text
    assert "To do: " in text
    assert "no upstream was given: unknown-prompt" in text
    assert "README.md: a side file" in text
    assert "contracts/prompts.yaml" in text
    assert verdict.contract.digest in text
    assert "family qwen3 · mode thinking" in text
    assert "changed by --set: prompt-too-long" in text
    assert "ignored: missing-id" in text
    assert "87.0 % of rows answer OK." in text


def test_full_lists_a_failure_before_a_tolerated_one(verdict):
    text = render(verdict, "full")
    failures, warnings = text.split("Failures")[1].split("Warnings")
    assert "prompt-too-long" not in failures
    assert "prompt-too-long" in warnings
    assert "1 row (0.10 %), tolerance 1.0 %" in text


def test_full_is_plain_unless_colour_is_asked_for(verdict):
    assert "\x1b" not in render(verdict, "full")
    assert "\x1b[31;1mFAIL\x1b[0m" in render(verdict, "full", Style(color=True))


def test_full_keeps_to_80_columns_but_for_single_words(make):
    verdict = make.verdict([make.result("unknown-role", failing=1)], [make.failure("unknown-role", "turn 1")])
    long = [line for line in render(verdict, "full", Style(width=80)).splitlines() if len(line) > 80]
    assert [line for line in long if "sha256:" not in line and "·" not in line] == []


def test_full_says_how_many_it_does_not_show(make):
    failures = [make.failure("unknown-role", "x", row=row, line=row + 1) for row in range(30)]
    verdict = make.verdict([make.result("unknown-role", failing=30)], failures)
    text = render(verdict, "full")
    assert text.count("(id a): x") == 20
    assert "… and 10 more" in text
    assert render(verdict, "full", Style(max_failures=0)).count("(id a): x") == 30


# --- concise


def test_concise_is_one_line_a_failure_in_the_order_of_the_data(verdict):
    assert render(verdict, "concise").splitlines()[:-1] == [
        "a.jsonl: truncated-shard: the gzip stream ends early",
        "a.jsonl:4: unknown-role: turn 1: role 'hummany'",
        "a.jsonl:5: warning: stub-response: 3 characters",
        "b.parquet:row 7: unknown-role: turn 0: role 'x'",
        "b.parquet:row 9: prompt-too-long: 212,884 characters",
        "(data set): response-collapse: 87.0 %",
    ]


# --- json, jsonl


def test_json_is_the_published_schema(verdict):
    report = json.loads(render(verdict, "json"))
    assert list(report) == ["schema", "result", "exit_code", "stage", "contract", "counts", "rules", "failures"]
    assert report["schema"] == "dflash-guard/report/1"
    assert (report["result"], report["exit_code"], report["stage"]) == ("fail", 1, "prompts")
    assert report["contract"] == {"name": "prompts", "digest": verdict.contract.digest}
    assert report["counts"] == {
        "shards": 2,
        "rows": 1000,
        "failed_rows": 3,
        "warned_rows": 1,
        "quarantined_rows": 3,
    }
    assert report["rules"][0] == {
        "rule": "unknown-role",
        "level": "error",
        "failing_rows": 2,
        "share": 0.002,
        "tolerance": 0.0,
        "bound": {},
        "observed": None,
        "failed": True,
    }
    assert report["rules"][-1]["skipped"] == "no upstream was given"
    assert "skipped" not in report["rules"][-2]
    assert report["failures"][1] == {
        "rule": "unknown-role",
        "level": "error",
        "shard": "a.jsonl",
        "row": 2,
        "line": 4,
        "sample_id": "c",
        "detail": "turn 1: role 'hummany'",
    }
    assert [failure["shard"] for failure in report["failures"]][-1] is None


def test_json_without_rules_or_failures(make):
    report = json.loads(render(make.verdict(), "json"))
    assert (report["rules"], report["failures"], report["result"]) == ([], [], "pass")


def test_json_holds_no_number_that_json_lacks(make):
    verdict = make.verdict([make.result("low-median-loss", observed=float("nan"), share=float("inf"))])
    rule = json.loads(render(verdict, "json"), parse_constant=pytest.fail)["rules"][0]
    assert (rule["observed"], rule["share"]) == (None, None)


@pytest.mark.parametrize(("most", "shown"), [(1, 2), (5, 10), (0, 80_000)])
def test_failures_are_capped_per_rule_across_chunks(make, most, shown):
    failures = [make.failure(f"unknown-{('role', 'shape')[row % 2]}", "x", row=row, line=None) for row in range(80_000)]
    rules = [make.result("unknown-role", failing=40_000), make.result("unknown-shape", failing=40_000)]
    report = json.loads(render(make.verdict(rules, failures), "json", Style(max_failures=most)))
    assert [failure["row"] for failure in report["failures"]] == list(range(shown))


def test_jsonl_is_the_failures_and_then_the_rest_of_the_json_report(verdict):
    *failures, summary = [json.loads(line) for line in render(verdict, "jsonl").splitlines()]
    report = json.loads(render(verdict, "json"))
    assert failures == report.pop("failures")
    assert summary == report


# --- github


def commands(text):
    """What a runner takes from the output: command, properties, message."""
    found = []
    for line in text.splitlines():
        command, properties, message = re.fullmatch(r"::(\w+) (.*?)::(.*)", line).groups()
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        found.append((command, pairs, message))
    return found


def test_github_annotates_file_and_line(verdict, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", "/data")
    found = commands(render(verdict, "github"))
    command, properties, message = next(each for each in found if each[1]["title"].endswith("unknown-role"))
    assert command == "error"
    assert properties == {"title": "dflash-guard%3A unknown-role", "file": "set/a.jsonl", "line": "4"}
    assert message.startswith("a.jsonl:4: turn 1: role 'hummany' — 2 rows (0.20 %25)")
    assert found[-1] == ("notice", {"title": "dflash-guard"}, LAST)


def test_github_keeps_to_ten_of_a_level_and_shows_every_rule_first(make):
    names = ["unknown-role", "unknown-shape", "no-user-turn"]
    rules = [make.result(name, failing=20) for name in names]
    failures = [make.failure(name, "x", row=row) for name in names for row in range(20)]
    found = commands(render(make.verdict(rules, failures), "github"))
    errors = [properties["title"].split()[-1] for command, properties, _ in found if command == "error"]
    assert len(errors) == 10
    assert set(errors[:3]) == set(names)


# --- junit


def test_junit_counts_its_cases(verdict):
    root = ET.fromstring(render(verdict, "junit").encode())
    suite = root.find("testsuite")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    for element in (root, suite):
        assert int(element.get("tests")) == len(cases) == 7
        assert int(element.get("failures")) == len(list(suite.iter("failure"))) == 3
        assert int(element.get("skipped")) == len(list(suite.iter("skipped"))) == 1
        assert int(element.get("errors")) == 0
    assert "a.jsonl:4: turn 1: role 'hummany'" in cases["unknown-role"].find("failure").text
    assert cases["stub-response"].find("failure") is None
    assert "3 characters" in cases["stub-response"].find("system-out").text
    assert cases["unknown-prompt"].find("skipped").get("message") == "no upstream was given"
    assert list(cases["empty-conversation"]) == []


def test_junit_of_a_data_set_that_could_not_be_judged_is_an_error(make):
    root = ET.fromstring(render(make.verdict(result="error"), "junit").encode())
    assert root.get("errors") == "1"
    assert len(list(root.iter("error"))) == 1


# --- sarif


def test_sarif_is_a_log_of_one_run(verdict, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", "/data")
    log = json.loads(render(verdict, "sarif"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "dflash-guard"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids) == 7
    assert all(rule["defaultConfiguration"]["level"] in {"error", "warning"} for rule in driver["rules"])
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"error", "warning"}
        assert result["message"]["text"]
        for location in result.get("locations", []):
            physical = location["physicalLocation"]
            assert physical["artifactLocation"]["uri"] in {"set/a.jsonl", "set/b.parquet"}
            assert physical.get("region", {"startLine": 1})["startLine"] >= 1
    assert run["results"][1]["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}
    assert run["invocations"][0]["exitCode"] == 1
    assert run["invocations"][0]["executionSuccessful"] is True


def test_sarif_has_a_result_for_a_rule_without_rows(make):
    rule = make.result("low-median-loss", observed=6, bound={"min": 64}, failed=True)
    (result,) = json.loads(render(make.verdict([rule]), "sarif"))["runs"][0]["results"]
    assert result["message"]["text"] == "observed 6, bound min 64"


# --- markdown


def test_markdown_is_a_table_of_as_many_cells_as_its_heading(verdict):
    lines = [line for line in render(verdict, "markdown").splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 5
    assert {line.count("|") for line in lines} == {7}


# --- redaction


@pytest.mark.parametrize("format", FORMATS)
def test_redacted_reports_hold_no_sample_text(make, format):
    rules = [
        make.result("unknown-role", failing=1),
        make.result("response-collapse", failed=True, observed="SECRET", message="most rows answer SECRET"),
    ]
    verdict = make.verdict(rules, [make.failure("unknown-role", "turn 1: role 'SECRET'")])
    assert "SECRET" in render(verdict, format)
    assert "SECRET" not in render(verdict, format, Style(redact=True))
