"""Whatever goes wrong is one sentence, one hint and the right exit code; never a traceback."""

import errno

import pytest

from dflash_guard.errors import (
    ContractError,
    DataNotFoundError,
    ExitCode,
    GateError,
    JudgeError,
    NothingToJudgeError,
    ShardAccessError,
    UsageError,
)

CHECK = ("check", "data", "--stage", "prompts")

RAISED = [
    (UsageError("W.", hint="H."), 2, "error: W.\nhint: H.\n"),
    (ContractError("W."), 2, "error: W.\n"),
    (DataNotFoundError("There is no x.", hint="H."), 2, "error: There is no x.\nhint: H.\n"),
    (ShardAccessError("W.", hint="H."), 3, "error: W.\nhint: H.\n"),
    (JudgeError("Two\nlines \x1b[31m."), 3, "error: Two lines \\x1b[31m.\n"),
    (NothingToJudgeError("W."), 4, "error: W.\n"),
    (GateError("W."), 5, "error: W.\n"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 3, "error: No space left on device: /x/y\nhint: "),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 3, "error: Broken pipe\nhint: "),
    (ValueError("odd\nthing"), 3, "error: internal error: ValueError: odd thing (conftest.py:"),
    (MemoryError(), 3, "error: internal error: MemoryError"),
]


@pytest.mark.parametrize(("error", "code", "said"), RAISED)
def test_an_error_of_the_verb(judged, call, error, code, said):
    judged.outcome = error
    result = call(*CHECK)
    assert result[0] == code
    assert result[1] == ""
    assert result[2].startswith(said)
    assert "Traceback" not in result[2]


def test_debug_adds_the_traceback(judged, call, monkeypatch):
    monkeypatch.setenv("DFLASH_GUARD_DEBUG", "1")
    judged.outcome = ValueError("odd")
    code, _, err = call(*CHECK)
    assert code == ExitCode.NOT_JUDGED
    assert "Traceback" in err
    assert "internal error" in err


WRONG = [
    (("chek",), "No such command 'chek'.", "Did you mean 'check'?"),
    (("check", "a", "--stge", "prompts"), "`dflash-guard check` has no option --stge.", "Did you mean --stage?"),
    (("check", "--stage", "prompts"), "Missing argument 'DATA'.", "DATA: "),
    (("check", "a"), "Missing option '--stage'", "--stage: prompts, completions or tokenized."),
    (("check", "a", "--stage", "tokenised"), "'tokenised' is not one of", "Did you mean tokenized?"),
    ((*CHECK, "--format", "jsn"), "'jsn' is not one of", "Did you mean json?"),
    ((*CHECK, "--mode", "on"), "'on' is not one of", "--mode: "),
    ((*CHECK, "--max-failures", "-1"), "--max-failures", "--max-failures: "),
    ((*CHECK, "--jobs", "many"), "--jobs", "--jobs: "),
    ((*CHECK, "--stage"), "--stage", "dflash-guard --help"),
    ((*CHECK, "-o", "junit"), "-o 'junit' is not FORMAT:PATH.", "-o junit:report.xml"),
    ((*CHECK, "-o", "jnit:x.xml"), "names no known format", "Did you mean junit:x.xml?"),
    ((*CHECK, "-o", "junit:."), "names a folder", "report"),
    (("explain", "few-los-tokens"), "There is no rule 'few-los-tokens'.", "Did you mean few-loss-tokens?"),
    (("explain", "zzz"), "There is no rule 'zzz'.", "dflash-guard rules"),
    (("rules", "--stage", "prompt"), "'prompt' is not one of", "Did you mean prompts?"),
    (("--versio",), "has no option --versio", "Did you mean --version?"),
]


@pytest.mark.parametrize(("arguments", "what", "hint"), WRONG)
def test_a_wrong_command_line(judged, call, arguments, what, hint):
    code, out, err = call(*arguments)
    lines = err.splitlines()
    assert (code, out, len(lines)) == (2, "", 2)
    assert lines[0].startswith("error: ")
    assert what in lines[0]
    assert lines[1].startswith("hint: ")
    assert hint in lines[1]
    assert judged.calls == []


def test_no_command_at_all_shows_the_help_and_is_no_success(call):
    code, out, err = call()
    assert (code, out) == (2, "")
    assert "Usage: dflash-guard" in err
