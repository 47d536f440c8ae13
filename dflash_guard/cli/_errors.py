"""How an error is told: one sentence, one hint, and the exit code that goes with it."""

import difflib
import os
import re
import traceback
from pathlib import Path

import typer

from dflash_guard.cli._console import note
from dflash_guard.errors import ExitCode, GuardError

__all__ = ["tell"]

DEBUG = "DFLASH_GUARD_DEBUG"


def tell(error: BaseException) -> int:
    """Prints an error to stderr, in one or two lines, and returns its exit code."""
    if os.environ.get(DEBUG) and not isinstance(error, typer.TyperException | KeyboardInterrupt):
        note("".join(traceback.format_exception(error)).rstrip())
    match error:
        case KeyboardInterrupt() | typer.Abort():
            note("interrupted: nothing was judged; a new run takes up what was done")
            return ExitCode.INTERRUPTED
        case GuardError():
            _lines(error.what, error.hint)
            return error.exit_code
        case typer.TyperException():
            _lines(*_usage(error))
            return ExitCode.USAGE
        case OSError():
            _lines(_system(error), f"check the path, its permissions and the disk; {DEBUG}=1 shows where it happened.")
        case _:
            _lines(_internal(error), f"This is a bug. Set {DEBUG}=1, run it again, and report what is printed.")
    return ExitCode.NOT_JUDGED


def _lines(what: str, hint: str) -> None:
    note(f"error: {_one_line(what)}")
    if hint:
        note(f"hint: {_one_line(hint)}")


def _one_line(text: str) -> str:
    """The text on one line, with what a terminal would obey escaped."""
    flat = re.sub(r"\s+", " ", text).strip()
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in flat)


def _usage(error: typer.TyperException) -> tuple[str, str]:
    """What typer found wrong, and the nearest right thing."""
    what = error.message or error.format_message()
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "dflash-guard"
    hint = f"See `{path} --help`."
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    if getattr(error, "possibilities", None) is not None or what.startswith("No such option"):
        what = f"`{path}` has no option {option}."
        known = [name for each in context.command.params for name in each.opts] if context is not None else []
        hint = _nearest(str(option), known) or hint
    elif parameter is not None:
        what = error.format_message().replace(": Value error, ", ": ")
        said = re.search(r"'([^']*)' is not one of (.*)", error.message)
        known = re.findall(r"'([^']*)'", said[2]) if said else []
        about = getattr(parameter, "help", "")
        name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        hint = (said and _nearest(said[1], known)) or (about and f"{name}: {about}") or hint
    if found := re.search(r" Did you mean (.+?)\?$", what):  # typer's own guess, about commands
        what, hint = what[: found.start()], f"Did you mean {found[1]}?"
    return what, hint


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else ""


def _system(error: OSError) -> str:
    """An error of the operating system, in its own words and with the file's name."""
    if error.strerror is None:
        return f"{type(error).__name__}: {error}"
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _internal(error: BaseException) -> str:
    """An error that nobody foresaw: its kind, its words, and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    words = str(error)
    cut = words if len(words) <= 300 else f"{words[:300]}…"
    return f"internal error: {type(error).__name__}: {cut}{where}"
