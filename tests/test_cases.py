"""The cases that came from public bug reports, where they lie beside the checkout; elsewhere this is skipped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
# What is not judged yet: rules of the whole distribution.
NOT_YET = set()
RUNS = [
    pytest.param(path.parent, run, id=f"{path.parent.name}-{number}")
    for path in sorted(CASES.glob("*/case.json"))
    for number, run in enumerate(json.loads(path.read_text(encoding="utf-8"))["runs"])
    if path.parent.name not in NOT_YET
]


@pytest.mark.skipif(not RUNS, reason="the cases are not here")
@pytest.mark.parametrize(("folder", "run"), RUNS or [pytest.param(None, None, id="none")])
def test_a_case_gets_the_verdict_that_is_right(folder, run, tmp_path):
    words = ["check", *(str(folder / name) for name in run["data"]), "--stage", run["stage"], "--format", "json"]
    words += ["--max-failures", "0", "--out", str(tmp_path)]
    words += [word for key in ("mode", "family") if key in run for word in (f"--{key}", run[key])]
    words += ["--upstream", str(folder / run["upstream"])] if "upstream" in run else []
    done = subprocess.run(
        [sys.executable, "-m", "dflash_guard", *words, *run.get("args", [])],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1", "GITHUB_ACTIONS": ""},
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == run["exit"], done.stderr
    report = json.loads(done.stdout)
    if "rows" in run:
        assert report["counts"]["rows"] == run["rows"]
    for want in run.get("must", []):
        found = [f for f in at(report["failures"], want) if f["rule"] in want["any"]]
        assert found, want
        assert "line" not in want or want["line"] in {f["line"] for f in found}
    for place in run.get("clean", []):
        assert not [f["rule"] for f in at(report["failures"], place) if f["level"] == "error"], place


def at(failures, place):
    def same(shard):
        return shard == place["file"] or (shard and place["file"] and Path(shard).name == place["file"])

    return [f for f in failures if same(f["shard"]) and f["row"] == place["row"]]
