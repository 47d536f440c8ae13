"""A command line whose verb is a stand-in, run in this process or in one of its own."""

import os
import subprocess
import sys
import types

import pytest

from dflash_guard.cli import run


@pytest.fixture
def judged(monkeypatch, verdict):
    """Replaces the verb `check`: it returns or raises `judged.outcome`, and keeps its arguments in `judged.calls`."""
    stand_in = types.ModuleType("dflash_guard.verbs.check")
    stand_in.outcome = verdict
    stand_in.calls = []

    def check(*args, **kwargs):
        stand_in.calls.append((args, kwargs))
        if isinstance(stand_in.outcome, BaseException):
            raise stand_in.outcome
        return stand_in.outcome

    stand_in.check = check
    monkeypatch.setitem(sys.modules, "dflash_guard.verbs.check", stand_in)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return stand_in


@pytest.fixture
def call(capsys):
    """Runs a command line in this process; returns its exit code, stdout and stderr."""

    def call(*arguments):
        code = run([str(each) for each in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def process():
    """Runs a Python program, or `-m dflash_guard`, in a process of its own."""

    def process(*arguments, **fields):
        environment = {**os.environ, "NO_COLOR": "1", **fields.pop("env", {})}
        environment.pop("COLUMNS", None)
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
            **fields,
        )

    return process
