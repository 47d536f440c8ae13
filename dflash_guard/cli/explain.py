"""`dflash-guard explain`: everything about one rule."""

import difflib
import shutil
from typing import Annotated

import typer

from dflash_guard.errors import ExitCode, UsageError

__all__ = ["EPILOG", "explain"]

EPILOG = """\b
Example:
  dflash-guard explain few-loss-tokens"""


def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule's name, as `dflash-guard rules` lists it.")],
) -> int:
    """Explain one rule: what it asks, why it matters, how to fix a failure, with examples."""
    from dflash_guard.cli._catalog import as_page
    from dflash_guard.cli._console import out
    from dflash_guard.contract.catalog import CATALOG

    if rule not in CATALOG:
        near = difflib.get_close_matches(rule, CATALOG, n=1)
        hint = f"Did you mean {near[0]}?" if near else "`dflash-guard rules` lists them all."
        raise UsageError(f"There is no rule {rule!r}.", hint=hint)
    out(as_page(CATALOG[rule], shutil.get_terminal_size((100, 24)).columns))
    return ExitCode.PASSED
