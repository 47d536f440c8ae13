"""`dflash-guard rules`: the catalog as a table."""

import json
import shutil
from typing import Annotated, Literal

import typer

from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "rules"]

EPILOG = """\b
Examples:
  dflash-guard rules --stage tokenized
  dflash-guard rules --format json"""


def rules(
    stage: Annotated[
        Literal["prompts", "completions", "tokenized"] | None,
        typer.Option("--stage", "-s", metavar="STAGE", help="Only rules of prompts, completions or tokenized."),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["table", "json"], typer.Option(metavar="FORMAT", help="table or json.")
    ] = "table",
) -> int:
    """List the rules: name, level, stages, and what each asks for."""
    from dflash_guard.cli._catalog import as_json, as_table
    from dflash_guard.cli._console import out
    from dflash_guard.contract.catalog import CATALOG

    chosen = [rule for rule in CATALOG.values() if stage is None or stage in rule.stages]
    if format == "json":
        out((json.dumps([as_json(rule) for rule in chosen], indent=2, ensure_ascii=False), "\n"))
    else:
        out(as_table(chosen, stage, shutil.get_terminal_size((100, 24)).columns))
    return ExitCode.PASSED
