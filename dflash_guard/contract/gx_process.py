"""The process that judges distribution rules: started before the scan, asked after it."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from dflash_guard.contract.expectations import Expectation
from dflash_guard.contract.gx import request_of
from dflash_guard.errors import JudgeError

__all__ = ["GxProcess", "gx_process", "make_docs", "make_suite"]

_idle: list["GxProcess"] = []
_lock = threading.Lock()


class GxProcess:
    """A running process that has, or is about to have, Great Expectations imported."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        # -P: nothing in the working folder can stand in for a library.
        command = [sys.executable, "-P", "-c", "from dflash_guard.contract.gx import serve; serve()"]
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=_environment()
        )

    @property
    def alive(self) -> bool:
        """Whether it still waits for requests."""
        return self._process.poll() is None

    def ask(self, expectations: Sequence[Expectation], frame: Mapping[str, float | None]) -> list[bool]:
        """Judge expectations on a frame.

        Returns:
            Whether each holds, in order.

        Raises:
            JudgeError: It died, or the library did not judge.
        """
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise AssertionError
        try:
            pipe_in.write(request_of(expectations, frame).encode())
            pipe_in.flush()
            line = pipe_out.readline()
        except OSError:
            line = b""
        if not line:
            raise _failed(f"its process ended: {self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise _failed(answer["error"])
        return [bool(held) for held in answer["results"]]

    def _last_words(self) -> str:
        self._process.wait(10)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"status {self._process.returncode}"

    def close(self) -> None:
        """End it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                with suppress(OSError):
                    pipe.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()


def make_docs(expectations: Sequence[Expectation], frame: Mapping[str, float | None], folder: str) -> None:
    """Build Data Docs of expectations on a frame, in a process of its own.

    Raises:
        JudgeError: The library did not.
    """
    _run("build_docs_of", request_of(expectations, frame), folder)


def make_suite(expectations: Sequence[Expectation], name: str) -> dict[str, Any]:
    """A suite as JSON, made in a process of its own.

    Raises:
        JudgeError: The library did not.
    """
    suite: dict[str, Any] = json.loads(_run("print_suite_of", request_of(expectations, {}), name))
    return suite


def _run(function: str, request: str, argument: str) -> bytes:
    program = f"import sys; from dflash_guard.contract.gx import {function} as f; f(sys.stdin.readline(), sys.argv[1])"
    command = [sys.executable, "-P", "-c", program, argument]
    done = subprocess.run(command, input=request.encode(), capture_output=True, env=_environment(), check=False)  # noqa: S603 - our own interpreter
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _failed(f"{said[-1] if said else f'status {done.returncode}'}")
    return done.stdout


@contextmanager
def gx_process() -> Iterator[GxProcess]:
    """A process for one data set: one that is idle, or a new one. It is kept for a while for the next data set."""
    with _lock:
        while _idle and not _idle[-1].alive:
            _idle.pop().close()
        process = _idle.pop() if _idle else None
    process = process or GxProcess()
    try:
        yield process
    except BaseException:
        process.close()
        raise
    with _lock:
        _idle.append(process)


@atexit.register
def _close_all() -> None:
    while _idle:
        _idle.pop().close()


def _environment() -> dict[str, str]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # it works on one row
    return {**os.environ, **one_thread, "GX_ANALYTICS_ENABLED": "false", "PYTHONUTF8": "1"}


def _failed(what: str) -> JudgeError:
    return JudgeError(
        f"Great Expectations could not judge the distribution: {what}.",
        hint="see whether `python -c 'import great_expectations'` works in this environment.",
    )
