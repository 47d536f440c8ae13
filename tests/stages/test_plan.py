"""`plan` and `preflight`: the incident's own figures, and every missing thing by its name."""

import json
import os
import subprocess
import sys

import pytest
from scripted_engine import MODEL, ScriptedEngine, body, says

import samples
from dflash_guard.cli import run
from dflash_guard.stages.plan import Assumptions, Prompts, plan


def test_the_incidents_days():
    """914 thousand prompts of 1,500 output tokens each, at 1,000 to 2,000 tokens a second."""
    made = plan(Prompts(914_000, 0, 0, 0), Assumptions(output_tokens=1500, throughput=(1000, 2000)))
    assert made.days == (pytest.approx(7.93, abs=0.01), pytest.approx(15.87, abs=0.01))
    assert made.gpu_hours == (pytest.approx(190.4, abs=0.1), pytest.approx(380.8, abs=0.1))


def test_the_incidents_hidden_states():
    """(1.64 B output + 0.12 B prompt tokens) × 5 layers × 5,120 × 2 bytes."""
    assumed = Assumptions(output_tokens=1.64e9 / 902_087, layers=5, hidden=5120)
    made = plan(Prompts(902_087, 0, 0, 0), assumed, prompt_tokens=0.12e9)
    assert made.state_bytes / 1e12 == pytest.approx(90.1, abs=0.05)


@pytest.fixture
def said(capsys):
    def said(*arguments):
        capsys.readouterr()
        code = run([str(each) for each in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return said


def test_a_plan_of_a_data_set(tmp_path, said):
    path = samples.write(tmp_path, [samples.prompt(i, "x" * (100 if i else 40_000)) for i in range(10)], "prompts")
    code, out, _ = said("plan", path, "--context", 20_000, "--max-new-tokens", 16_000, "--gpus", 8, "--format", "json")
    made = json.loads(out)
    assert (code, made["schema"]) == (0, "dflash-guard/plan/1")
    assert made["prompts"] == {"rows": 10, "chars": 40_900, "longest": 40_000, "over": 1}
    assert made["gpu_hours"][1] == pytest.approx(10 * 1500 / 1000 / 3600 * 8)
    _, out, _ = said("plan", path)
    assert "10 rows" in out
    assert "to 0.0 days at 1,000 to 2,000 tokens/s" in out


@pytest.mark.parametrize("args", [["--throughput", "fast"], ["--throughput", "9-3"], ["--context", "100"]])
def test_a_plan_with_wrong_options(tmp_path, said, args):
    path = samples.write(tmp_path, [samples.prompt(1)], "prompts")
    code, _, err = said("plan", path, *args)
    assert code == 2
    assert args[0] in err


def findings(out):
    report = json.loads(out)
    assert report["schema"] == "dflash-guard/preflight/1"
    return {each["name"]: each for each in report["findings"]}, report["ready"]


def test_what_is_missing_is_named(tmp_path, said):
    code, out, _ = said("preflight", tmp_path, tmp_path / "gone", "--out", tmp_path, "--format", "json")
    found, ready = findings(out)
    assert (code, ready) == (1, False)
    assert found[f"path {tmp_path}"]["state"] == "ok"
    assert found[f"path {tmp_path / 'gone'}"]["state"] == "missing"
    assert {"python", "installer", "torch", "gpu", "sglang", "vllm", "disk /", "disk /dev/shm"} <= set(found)


def test_an_environment_without_an_installer(tmp_path):
    """A virtual environment made without pip, and no uv on the path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    script = (
        "import sys, importlib.util, shutil; sys.path[:0] = []; "
        "from dflash_guard.stages import preflight as p; "
        "p.importlib.util.find_spec = lambda name: None if name == 'pip' else importlib.util.find_spec.__wrapped__(name) "
        "if hasattr(importlib.util.find_spec, '__wrapped__') else None; "
        "print(p._installer().state, p._installer().hint)"
    )
    environment = {**os.environ, "PATH": str(tmp_path / "bare/bin")}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "missing run: python -m ensurepip"


ENGINES = {
    "one that thinks": (None, "ok", ""),
    "no parser": (says(body("<think>\nhm\n</think>\n\nFour.", None)), "missing", "no reasoning parser"),
    "one that does not think": (says(body("Four.", None)), "missing", "no reasoning came back"),
}


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_is_asked_once(tiny, said, kind):
    act, state, detail = ENGINES[kind]
    with ScriptedEngine(tiny, {"2 \\+ 2": act} if act else {}) as server:
        code, out, _ = said("preflight", "--url", server.url, "--format", "json")
        assert len(server.asked) == 1
    found, _ = findings(out)
    assert found["engine"]["detail"].startswith(f"sglang 0.5.23 serves {MODEL}")
    assert found["thinking"]["state"] == state
    assert detail in found["thinking"]["detail"]
    assert (found["chat template"]["state"], found["context"]["detail"]) == ("ok", "2,048 tokens")
    if state == "missing":
        assert code == 1


def test_another_model_than_the_target(tiny, said):
    with ScriptedEngine(tiny) as server:
        code, out, _ = said("preflight", "--url", server.url, "--target", "Qwen3-8B", "--format", "json")
    found, _ = findings(out)
    assert (code, found["model"]["state"]) == (1, "missing")


def test_no_engine(said):
    code, out, _ = said("preflight", "--url", "http://127.0.0.1:9", "--model", "x", "--format", "json")
    found, _ = findings(out)
    assert (code, found["engine"]["state"]) == (1, "missing")
