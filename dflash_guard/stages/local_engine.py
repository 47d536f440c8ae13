"""Engines on this machine: transformers in this process, or an SGLang server that is started and stopped."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dflash_guard.errors import JudgeError, UsageError
from dflash_guard.stages.engine import Answer, EngineError, Request, ServerFacts

__all__ = ["TransformersEngine", "serve"]

_START_S: Final = 1800  # a large model takes its time to load


class TransformersEngine:
    """Generates in this process, one answer after the other: for small sets, demos, and machines without a server.

    Args:
        path: The model's folder.
        sampling: temperature, top_p, top_k, min_p, repetition_penalty; what else there is, is left out.
        max_tokens: Most tokens of an answer.

    Raises:
        UsageError: transformers or torch is not installed, or it is no model.
    """

    _TAKEN: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

    def __init__(self, path: str, *, sampling: Mapping[str, Any], max_tokens: int) -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM
        except ImportError as error:
            raise UsageError(
                "--engine transformers needs torch and transformers, which are not installed.",
                hint="pip install 'dflash-guard[train]'.",
            ) from error
        try:
            self._model: Any = AutoModelForCausalLM.from_pretrained(path, dtype="auto", local_files_only=True)
        except (OSError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise UsageError(
                f"{path} is no model: {said}", hint="name a folder with config.json and weights."
            ) from error
        self._model = self._model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._path, self._max_tokens = path, max_tokens
        self._sampling = {key: sampling[key] for key in self._TAKEN if key in sampling}
        self._lock = asyncio.Lock()
        self.retried = 0

    async def facts(self) -> ServerFacts:
        """What is loaded."""
        import transformers

        window = getattr(self._model.config, "max_position_embeddings", 0)
        return ServerFacts(
            engine="transformers",
            version=transformers.__version__,
            model=Path(self._path).name,
            model_path=self._path,
            tokenizer_path=self._path,
            max_length=int(window or 0),
        )

    async def answer(self, request: Request) -> Answer:
        """One answer, in ids."""
        async with self._lock:
            return await asyncio.to_thread(self._generate, request)

    def _generate(self, request: Request) -> Answer:
        import torch

        prompt = list(request.prompt_ids or ())
        greedy = not self._sampling.get("temperature", 1.0)
        options = {"do_sample": False} if greedy else {"do_sample": True, **self._sampling}
        ids = torch.tensor([prompt], device=self._model.device)
        try:
            with torch.inference_mode():
                made = self._model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=self._max_tokens, **options
                )
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"{type(error).__name__}: {error}", fatal=True) from error
        output = made[0, len(prompt) :].tolist()
        ends = self._model.generation_config.eos_token_id
        stopped = bool(output) and output[-1] in ([ends] if isinstance(ends, int) else ends or [])
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(output)}
        return Answer(None, None, None, "stop" if stopped else "length", usage, prompt, output)

    async def close(self) -> None:
        """Nothing is held."""


@contextlib.contextmanager
def serve(model: str, *, name: str, python: str = "", arguments: Sequence[str] = ()) -> Iterator[str]:
    """Start an SGLang server on this machine, and stop it afterwards with all that it started.

    Args:
        model: The model's folder or name.
        name: The name that it serves.
        python: The Python that has SGLang; this one by default.
        arguments: Passed on, such as `--tp 8`.

    Yields:
        Its base URL.

    Raises:
        JudgeError: It did not start; the hint names its log.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    log = Path(tempfile.mkstemp(prefix="dflash-guard-sglang-", suffix=".log")[1])
    command = [
        python or sys.executable, "-m", "sglang.launch_server", "--model-path", model, "--served-model-name", name,
        "--host", "127.0.0.1", "--port", str(port), "--reasoning-parser", "qwen3", *arguments,
    ]  # fmt: skip
    with log.open("wb") as output:
        try:
            server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)  # noqa: S603
        except OSError as error:
            raise UsageError(
                f"{command[0]} can't be run: {error.strerror or error}.", hint="check --serve-python."
            ) from error
        try:
            _wait(server, url, log)
            yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # what it started and left


def _wait(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if server.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            said = next(
                (line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "nothing was said"
            )
            raise JudgeError(f"the SGLang server did not start: {said[:300]}.", hint=f"its log is {log}.")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:  # noqa: S310 - our own server
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(1)
    raise JudgeError(f"the SGLang server is not healthy after {_START_S} s.", hint=f"its log is {log}.")
