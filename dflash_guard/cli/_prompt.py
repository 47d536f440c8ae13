"""The SQL prompt: history, completion, and queries that end with a semicolon."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_guard.cli._console import note, out
from dflash_guard.errors import GuardError
from dflash_guard.report.rows import pieces

if TYPE_CHECKING:
    from dflash_guard.verbs.views import Views

__all__ = ["converse"]

WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "ANTI JOIN", "USING", "count(*)", "avg",
    "median", "quantile_cont", "DESCRIBE", "SUMMARIZE", "HAVING", "DISTINCT", "DESC", "FILTER",
)  # fmt: skip


def converse(views: "Views") -> None:
    """Read queries and print results until the end of input. Where nobody types, each statement of stdin is run."""
    if not sys.stdin.isatty():
        _answer(views, sys.stdin.read())
        return
    import platformdirs
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    history = Path(platformdirs.user_state_dir("dflash-guard")) / "sql_history"
    history.parent.mkdir(parents=True, exist_ok=True)
    completer = WordCompleter([*WORDS, *_columns(views)], ignore_case=True)
    session: PromptSession[str] = PromptSession(history=FileHistory(str(history)), completer=completer)
    note("Views: samples, facts, failures, profile. A query ends with a semicolon; Ctrl-D ends the session.")
    waiting = ""
    while True:
        try:
            line = session.prompt("sql> " if not waiting else "  …> ")
        except KeyboardInterrupt:
            waiting = ""
            continue
        except EOFError:
            return
        waiting = f"{waiting}\n{line}" if waiting else line
        if waiting.rstrip().endswith(";"):
            _answer(views, waiting)
            waiting = ""
        elif waiting.strip().lower() in {"exit", "quit", r"\q"}:
            return


def _answer(views: "Views", query: str) -> None:
    """Print a query's results; at a prompt, an error is one line and the session goes on."""
    try:
        for rows in views.query(query):
            out(pieces(rows, "table"))
    except GuardError as error:
        if not sys.stdin.isatty():
            raise
        note(f"error: {error}")
    except KeyboardInterrupt:
        views.connection.interrupt()
        note("interrupted")


def _columns(views: "Views") -> list[str]:
    views.prepare("facts")
    names = views.connection.sql("SELECT * FROM facts LIMIT 0").columns
    return [*names, "samples", "facts", "failures", "profile", *(f"{alias}." for alias in views.aliases)]
