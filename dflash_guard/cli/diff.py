"""`dflash-guard diff`: two profiles or verdicts side by side."""

from typing import Annotated, Literal

import typer

from dflash_guard.cli._options import Contract, Family, Jobs, MemoryLimit, Mode, StageFound
from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "diff"]

EPILOG = """\b
Examples:
  dflash-guard diff old/ new/ --stage completions
  dflash-guard diff profile-monday.json profile-today.json --format markdown

A and B are data, the output of `profile` or `check` with --format json, or verdict files."""


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="Data, or a JSON file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Data, or a JSON file.")],
    stage: StageFound = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["table", "json", "markdown"], typer.Option(metavar="FORMAT", help="table, json or markdown.")
    ] = "table",
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Compare two data sets: what rose, what fell, and which rules came out otherwise."""
    from dflash_guard.cli._console import out
    from dflash_guard.cli._reading import reading
    from dflash_guard.report.diff import pieces
    from dflash_guard.verbs.diff import diff as compare

    with reading(
        stage=stage,
        contract=contract,
        mode=mode,
        family=family,
        jobs=jobs,
        memory_limit=memory_limit,
    ) as how:
        changes = compare(first, second, how)
    out(pieces([(each.name, each.first, each.second) for each in changes], first, second, format))
    return ExitCode.PASSED
