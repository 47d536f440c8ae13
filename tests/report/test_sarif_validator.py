"""SARIF reports, held against the format's schema by Microsoft's own validator.

It comes from npm and is no dependency: SARIF_MULTITOOL names its program (see .ci/run).
"""

import json
import os
import subprocess

import pytest

import samples
from dflash_guard.cli import run

TOOL = os.environ.get("SARIF_MULTITOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="SARIF_MULTITOOL names no validator")
NASTY = '</a>\x1b[31m "quoted" \\ ::error::x | `b` é中🙂 ' + "x" * 5000


def complaints(path):
    """What the validator says: rule, level and place of each finding."""
    out = path.with_suffix(".out")
    ran = subprocess.run(
        [TOOL, "validate", str(path), "--output", str(out), "--log", "ForceOverwrite"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
    )
    assert out.exists(), ran.stdout + ran.stderr
    found = json.loads(out.read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    return [(each["ruleId"], each.get("level", "warning"), each.get("locations")) for each in found]


def test_the_validator_finds_what_is_wrong(tmp_path):
    path = tmp_path / "bad.sarif"
    path.write_text('{"version": "2.1.0", "runs": [{"tool": {}, "results": [{"level": "loud"}]}]}')
    assert [rule for rule, level, _ in complaints(path) if level == "error"]


@pytest.mark.parametrize("kind", ["fails", "passes", "nasty"])
def test_reports_are_valid(tmp_path, kind):
    rows = [samples.completion(i, NASTY if kind == "nasty" else None) for i in range(8)]
    if kind == "fails":
        rows = [samples.completion(i, "OK.", thinking=None, finish="length") for i in range(8)]
    path = samples.write(tmp_path, rows, "completions")
    report = tmp_path / "report.sarif"
    assert run(["check", str(path), "--stage", "completions", "-o", f"sarif:{report}"]) in {0, 1}
    assert [each for each in complaints(report) if each[1] == "error"] == []
