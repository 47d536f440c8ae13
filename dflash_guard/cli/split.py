"""`dflash-guard split`: write the rows that pass, and those that do not."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dflash_guard.cli._options import (
    Contract,
    Data,
    Family,
    Ignore,
    Jobs,
    MemoryLimit,
    Mode,
    Out,
    Sets,
    StageFound,
    Upstream,
    rules_in,
)
from dflash_guard.errors import ExitCode

if TYPE_CHECKING:
    from dflash_guard.verbs.split import Side

__all__ = ["EPILOG", "split"]

EPILOG = """\b
Examples:
  dflash-guard split shards/ --stage tokenized --passed clean/ --failed rejects/
  dflash-guard split completions/ --passed kept/ --regenerate again/

Shards keep their names and their format; a JSONL line stays as it is, byte for byte. --regenerate writes the prompts
of the failing rows, as the work list for `generate`."""


def split(
    data: Data,
    passed: Annotated[str, typer.Option(metavar="DIR", help="A new folder for the rows that pass.")],
    failed: Annotated[
        str | None, typer.Option(metavar="DIR", help="A new folder for the rows that do not.  [default: left out]")
    ] = None,
    regenerate: Annotated[
        str | None, typer.Option(metavar="DIR", help="A new folder for the prompts of the rows that do not.")
    ] = None,
    stage: StageFound = None,
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    upstream: Upstream = None,
    ignore: Ignore = None,
    sets: Sets = None,
    fail_on: Annotated[
        Literal["error", "warn"],
        typer.Option(metavar="LEVEL", help="error, or warn: rows that warn are split off too."),
    ] = "error",
    out: Out = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Write the rows that fail no error rule as new shards, and those that do as others.

    The data is judged first, where no fresh verdict says which rows fail. Passed and failed rows add up, or nothing
    is written. The clean part is a data set of its own: check it.
    """
    from dflash_guard.cli._console import note
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._progress import progress
    from dflash_guard.verbs.split import split as divide

    with progress(sys.stderr) as advance:
        done = divide(
            data,
            passed=passed,
            failed=failed,
            regenerate=regenerate,
            stage=stage,
            contract=contract,
            mode=mode,
            family=family,
            upstream=upstream,
            ignore=rules_in(ignore),
            sets=tuple(sets or ()),
            fail_on=fail_on,
            out=out,
            jobs=jobs,
            memory_limit=memory_limit,
            progress=advance,
        )
    lines = [_say("passed", done.passed_rows, done.passed)]
    lines.append(_say("failed", done.failed_rows, done.failed))
    if regenerate is not None:
        lines.append(_say("to regenerate", done.regenerate.rows if done.regenerate else 0, done.regenerate))
    print_out(f"{line}\n" for line in lines)
    if done.not_regenerated:
        note(
            f"note: {done.not_regenerated:,} failing rows have no prompt that could be read; none was written for them"
        )
    if done.whole:
        note(f"note: the data set failed as a whole ({', '.join(done.whole)}): check the passed part before it is used")
    if not done.passed_rows:
        note("note: no row passed")
    return ExitCode.PASSED


def _say(what: str, rows: int, side: "Side | None") -> str:
    from dflash_guard.report._cells import count

    where = f"→ {side.path} ({count(side.shards, 'shard')})" if side is not None else "(not written)"
    return f"{what:<14} {rows:>12,} rows  {where}"
