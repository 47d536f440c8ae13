"""`generate` against a real SGLang server on the CPU, with a tiny random model: `make test-sglang`.

The model says noise, so the rules about what is said are left out; everything else is as with any server.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import chat_samples
import pytest

import dflash_guard as dg
import samples
from dflash_guard.chat.template import load_template
from dflash_guard.chat.tokenizer import load_tokenizer
from dflash_guard.stages.generate import generate

PYTHON = os.environ.get("DFLASH_GUARD_SGLANG", "")
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="left out: the real SGLang server (make test-sglang)"),
    pytest.mark.timeout(900),
]
IGNORED = (
    "response-collapse", "thinking-share", "mixed-thinking", "truncated-share", "no-response", "short-response",
    "truncated-response", "repetition-loop", "missing-thinking", "empty-thinking", "unclosed-thinking", "stray-bytes",
    "invalid-text", "forged-turn", "unopened-thinking", "repeated-thinking",
)  # fmt: skip


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A Qwen3 of 0.1 M random parameters whose every id is in its tokenizer's vocabulary."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder = chat_samples.make_tokenizer(tmp_path_factory.mktemp("model"))
    tokenizer = load_tokenizer(folder)
    size = max(i for i in range(2000) if "⟨" not in tokenizer.decode([i])) + 1
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
        )
    )
    config = Qwen3Config(
        vocab_size=size, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, max_position_embeddings=2048, eos_token_id=2, bos_token_id=None,
        tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


class Server:
    """One SGLang server; a fresh port each, and gone with its whole process group."""

    def __init__(self, model, log):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "SGLANG_USE_CPU_ENGINE": "1",
            "HF_HUB_OFFLINE": "1",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [
                PYTHON, "-m", "sglang.launch_server", "--model-path", str(model), "--served-model-name", "tiny",
                "--device", "cpu", "--attention-backend", "torch_native", "--host", "127.0.0.1", "--port", str(self.port),
                "--mem-fraction-static", "0.1", "--max-total-tokens", "16384", "--max-running-requests", "8",
                "--reasoning-parser", "qwen3", "--disable-overlap-schedule",
            ],
            stdout=self._log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip
        self._wait(log)

    def _wait(self, log):
        end = time.monotonic() + 300
        while time.monotonic() < end:
            assert self._process.poll() is None, log.read_text()[-3000:]
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=20) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.5)
        pytest.fail("the server is not healthy")

    def kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)
        self._log.close()


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    started = Server(model, tmp_path_factory.mktemp("server") / "log")
    yield started
    started.kill()


@pytest.fixture
def here(tmp_path, model, monkeypatch):
    (tmp_path / "contracts/families").mkdir(parents=True)
    (tmp_path / "contracts/families/tiny.yaml").write_text((model / "tiny.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prompts(folder, count):
    (folder / "prompts").mkdir()
    samples.write(folder / "prompts", [samples.prompt(i, response=None) for i in range(count)], "prompts")
    assert dg.check(folder / "prompts", stage="prompts", family="tiny", ignore=IGNORED).passed


def make(folder, server, out="out", **options):
    options = {"max_new_tokens": 40, "ignore": IGNORED, **options}
    return generate(folder / "prompts", out=folder / out, base_urls=[server.url], model="tiny", **options)


def rows_of(folder, out="out"):
    return [
        json.loads(line) for path in sorted((folder / out).glob("*.jsonl")) for line in path.read_text().splitlines()
    ]


def test_every_prompt_is_answered_and_the_server_is_on_record(here, server, model):
    prompts(here, 30)
    made = make(here, server)
    assert (made.passed, made.failed, made.verdict.passed) == (30, 0, True)
    assert Counter(row["id"] for row in rows_of(here)) == Counter(str(i) for i in range(30))
    generator = rows_of(here)[0]["generator"]
    assert (generator["engine"], generator["engine_version"], generator["model_path"]) == (
        "sglang",
        "0.5.23",
        str(model),
    )
    assert generator["chat_template_sha256"] == load_template(model).sha256


def test_ids_are_those_of_the_rendered_prompt_whichever_way_it_is_asked(here, server, model):
    prompts(here, 6)
    greedy = {"sampling": {"temperature": 0.0}}
    make(here, server, "chat", token_ids=True, **greedy)
    make(here, server, "exact", exact=True, **greedy)
    tokenizer, template = load_tokenizer(model), load_template(model)
    chat = {row["id"]: row for row in rows_of(here, "chat")}
    exact = {row["id"]: row for row in rows_of(here, "exact")}
    assert sorted(chat) == sorted(exact) == [str(i) for i in range(6)]
    for sample_id, row in chat.items():
        prompt = template.render(row["messages"][:-1], prompt=True, enable_thinking=True)
        assert row["prompt_ids"] == exact[sample_id]["prompt_ids"] == tokenizer.encode(prompt)
        assert row["output_ids"] == exact[sample_id]["output_ids"]


def test_a_server_that_dies_and_another_that_goes_on(here, model, tmp_path):
    prompts(here, 1200)
    first = Server(model, tmp_path / "first.log")
    args = [
        "generate", "prompts", "--out", "out", "--model", "tiny", "--max-new-tokens", "8", "--concurrency", "16",
        "--patience", "5", "--ignore", ",".join(IGNORED),
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "dflash_guard", *args, "--base-url", first.url], stderr=subprocess.PIPE, text=True
    ) as child:
        threading.Timer(9, first.kill).start()
        _, err = child.communicate(timeout=600)
    assert child.returncode == 3, err
    assert "no engine has answered for 5 s" in err
    assert len(rows_of(here)) < 1200
    assert "Traceback" not in err
    second = Server(model, tmp_path / "second.log")
    try:
        made = make(here, second, max_new_tokens=8, concurrency=16)
    finally:
        second.kill()
    assert (made.passed, made.failed) == (1200, 0)
    assert Counter(row["id"] for row in rows_of(here)) == Counter(str(i) for i in range(1200))
