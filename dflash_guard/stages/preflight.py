"""`preflight`: what this machine, and a running engine, can run; a missing thing is named, never swallowed."""

import asyncio
import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dflash_guard.contract.family import load_family
from dflash_guard.errors import GuardError
from dflash_guard.stages.engine import EngineError, HttpEngine, Request
from dflash_guard.verdict.folder import GuardFolder
from dflash_guard.verdict.manifest import read_manifest

__all__ = ["Finding", "as_json", "preflight"]

_NEED_SHM = 8 << 30
_NEED_DISK = 10 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: `ok`; `absent`: not there, and only some stages need it; `missing`: not as it has to be.
        detail: What was found.
        hint: What to do, "" where nothing is wrong.
    """

    name: str
    state: Literal["ok", "absent", "missing"]
    detail: str
    hint: str = ""


def preflight(
    paths: Sequence[str],
    *,
    out: str = ".",
    url: str = "",
    model: str = "",
    target: str = "",
    family: str = "",
    mode: str = "thinking",
) -> list[Finding]:
    """Look at this machine, at paths, and at an engine.

    Args:
        paths: Inputs that have to be there; a data set's manifest says what the engine must agree with.
        out: Where output would go.
        url: Of a running engine, "" for none.
        model: The name that it has to serve; "" takes the only one.
        target: The model that the contract asks for.
        family: The target's family, for its end-of-turn id.
        mode: Whether the engine is to think: `thinking` or `off`.
    """
    found = [_python(), _installer(), _torch(), _gpus(), _package("sglang"), _package("vllm")]
    found += [_disk("/", _NEED_DISK), _disk("/dev/shm", _NEED_SHM), _disk(out, _NEED_DISK)]  # noqa: S108 - looked at only
    found += [_path(each) for each in paths]
    if url:
        found += asyncio.run(_engine(url, model, target, family, mode, _recorded(paths)))
    return found


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", f"{version} at {sys.executable}")


def _installer() -> Finding:
    if importlib.util.find_spec("pip") is not None:
        return Finding("installer", "ok", "pip is in the environment")
    if (uv := shutil.which("uv")) is not None:
        return Finding("installer", "ok", f"uv at {uv}; the environment has no pip of its own")
    return Finding("installer", "missing", "the environment has neither pip nor uv", "run: python -m ensurepip")


def _torch() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("torch", "absent", "not installed", "for training: pip install 'dflash-guard[train]'")
    import torch

    arches = ", ".join(torch.cuda.get_arch_list()) or "CPU only"
    return Finding("torch", "ok", f"{torch.__version__}; CUDA {torch.version.cuda or 'none'}; built for {arches}")


def _gpus() -> Finding:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("gpu", "absent", "no nvidia-smi: no GPU, or no driver", "engines and training want one")
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    ran = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 - found on the PATH
    if ran.returncode or not ran.stdout.strip():
        said = (ran.stderr or ran.stdout).strip().splitlines()
        return Finding("gpu", "missing", f"nvidia-smi fails: {said[0] if said else 'nothing said'}", "mend the driver")
    return Finding("gpu", "ok", "; ".join(ran.stdout.strip().splitlines()))


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "absent", "not installed here", "needed where an engine is to run on this machine")


def _disk(path: str, wanted: int) -> Finding:
    there = next((each for each in (Path(path).absolute(), *Path(path).absolute().parents) if each.exists()), Path("/"))
    usage = shutil.disk_usage(there)
    detail = f"{usage.free / 1e9:,.1f} GB free of {usage.total / 1e9:,.1f} GB"
    if usage.free < wanted:
        return Finding(f"disk {path}", "missing", f"{detail}; {wanted / 1e9:,.1f} GB are asked for", "make room")
    return Finding(f"disk {path}", "ok", detail)


def _path(path: str) -> Finding:
    if Path(path).exists():
        return Finding(f"path {path}", "ok", "there")
    return Finding(f"path {path}", "missing", "does not exist", "check the spelling, and the mounts")


def _recorded(paths: Sequence[str]) -> dict[str, str]:
    """What the manifests of paths say of the generator that an engine must agree with."""
    said: dict[str, str] = {}
    for path in paths:
        try:
            manifest = read_manifest(GuardFolder.find([path]))
        except GuardError:
            continue
        if manifest is not None and manifest.generator:
            said |= {key: str(value) for key, value in manifest.generator.items() if isinstance(value, str) and value}
    return said


async def _engine(url: str, model: str, target: str, family: str, mode: str, recorded: dict[str, str]) -> list[Finding]:
    engine = HttpEngine(
        [url], model=model, sampling={"temperature": 0.0}, max_tokens=512, attempts=1, timeout=120, token_ids=True
    )
    try:
        if not model:
            model = await engine.only_model()
            engine.serve(model)
        facts = await engine.facts()
    except GuardError as error:
        await engine.close()
        return [Finding("engine", "missing", error.what, error.hint)]
    found = [
        Finding(
            "engine", "ok", f"{facts.engine or 'unknown'} {facts.version} serves {facts.model} ({facts.model_path})"
        ),
        Finding("context", "ok" if facts.max_length else "absent", f"{facts.max_length:,} tokens"),
    ]
    wanted = target or recorded.get("model", "")
    if wanted and wanted != facts.model:
        found.append(Finding("model", "missing", f"{facts.model} is served, {wanted} is asked for", "serve the target"))
    if recorded.get("engine_version") and recorded["engine_version"] != facts.version:
        detail = f"{facts.version}; the data was made with {recorded['engine_version']}"
        found.append(Finding("engine version", "absent", detail))
    found += _template(facts.tokenizer_path, recorded)
    try:
        found += await _behaviour(engine, family, mode)
    finally:
        await engine.close()
    return found


def _template(path: str, recorded: dict[str, str]) -> list[Finding]:
    from dflash_guard.chat.template import load_template
    from dflash_guard.chat.tokenizer import load_tokenizer

    if not path or not Path(path).exists():
        return [Finding("template", "absent", "the server's tokenizer does not lie on this machine")]
    try:
        here = {"chat_template_sha256": load_template(path).sha256, "tokenizer_sha256": load_tokenizer(path).sha256}
    except GuardError as error:
        return [Finding("template", "missing", error.what, error.hint)]
    found = []
    for key, digest in here.items():
        said = recorded.get(key)
        name = key.removesuffix("_sha256").replace("_", " ")
        if said and said != digest:
            found.append(
                Finding(
                    name, "missing", f"sha256 {digest[:12]}…; the data was made with {said[:12]}…", "serve the same"
                )
            )
        else:
            found.append(Finding(name, "ok", f"sha256 {digest[:12]}…"))
    return found


async def _behaviour(engine: HttpEngine, family: str, mode: str) -> list[Finding]:
    """Ask once, and look whether it thinks, and what its ids are."""
    thinks = mode != "off"
    question = [{"role": "user", "content": "What is 2 + 2? Answer in one word."}]
    try:
        answer = await engine.answer(Request(question, None, {"enable_thinking": thinks}))
    except EngineError as error:
        return [Finding("answer", "missing", error.what, "look at the engine's log")]
    said = answer.content or ""
    inline = "<think>" in said or "</think>" in said
    found = []
    if inline:
        hint = "start the engine with its reasoning parser (--reasoning-parser qwen3)"
        found.append(Finding("thinking", "missing", "think tags stand in the content: no reasoning parser", hint))
    elif thinks and not answer.reasoning:
        found.append(
            Finding("thinking", "missing", "it was to think, and no reasoning came back", "check template and parser")
        )
    elif not thinks and answer.reasoning:
        found.append(
            Finding("thinking", "missing", "it was not to think, and reasoning came back", "check template and parser")
        )
    else:
        found.append(Finding("thinking", "ok", f"{len(answer.reasoning or ''):,} characters of reasoning, mode {mode}"))
    if not answer.output_ids:
        found.append(Finding("token ids", "absent", "the engine returns none: masks are made from text"))
    else:
        found.append(_ids(answer.prompt_ids or (), family))
    return found


def _ids(prompt_ids: Sequence[int], family: str) -> Finding:
    if not family:
        return Finding("token ids", "ok", "returned")
    begin = load_family(family).begin_turn
    if begin in prompt_ids:
        return Finding("token ids", "ok", f"returned, with {family}'s begin-of-turn id {begin}")
    hint = "name the target's family, or serve the target"
    return Finding("token ids", "missing", f"the prompt's ids hold no begin-of-turn id {begin} of {family}", hint)


def as_json(found: Sequence[Finding]) -> str:
    """Findings as one JSON object."""
    said = [{"name": f.name, "state": f.state, "detail": f.detail, "hint": f.hint} for f in found]
    ready = all(f.state != "missing" for f in found)
    return json.dumps({"schema": "dflash-guard/preflight/1", "ready": ready, "findings": said})
