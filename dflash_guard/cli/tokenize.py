"""`dflash-guard tokenize`: completions to token rows with a loss mask."""

import sys
from typing import Annotated, Literal

import typer

from dflash_guard.cli._options import Contract, Data, Family, Ignore, MemoryLimit, Mode, Sets, rules_in
from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "tokenize"]

EPILOG = """\b
Examples:
  dflash-guard tokenize completions/ --tokenizer Qwen3-8B/ --out tokenized/
  dflash-guard tokenize completions/ --tokenizer Qwen3-8B/ --out tokenized/ --turns last --max-length 4096

Each assistant turn becomes one row, rendered as it was served. Rows that can't be are set aside, counted and named in
OUT/__guard__/set_aside.parquet. A run that was interrupted goes on where it was."""


def tokenize(
    data: Data,
    tokenizer: Annotated[str, typer.Option(metavar="PATH", help="The target's tokenizer: folder or tokenizer.json.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="A new folder for the token rows.")],
    template: Annotated[
        str | None, typer.Option(metavar="FILE", help="A chat template.  [default: the tokenizer's own]")
    ] = None,
    turns: Annotated[
        Literal["all", "last"], typer.Option(metavar="TURNS", help="all assistant turns, a row each, or the last.")
    ] = "all",
    builder: Annotated[
        Literal["auto", "engine", "boundary", "tags"],
        typer.Option(metavar="NAME", help="auto, engine, boundary or tags: how the loss mask is made."),
    ] = "auto",
    max_length: Annotated[
        int, typer.Option("--max-length", min=0, metavar="N", help="Most tokens of a row; 0 for no limit.")
    ] = 0,
    overlong: Annotated[
        Literal["drop", "clip"], typer.Option(metavar="HOW", help="drop or clip longer rows; clipped ones fail.")
    ] = "drop",
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    ignore: Ignore = None,
    sets: Sets = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes.  [default: all cores]")] = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Tokenize completions that have passed, supervise what the model wrote, and judge the rows.

    The completions' gate must be open (`dflash-guard gate`), tokenizer and template must be those that they were made
    with, and the rows pass the tokenized contract, or the exit code is 1.
    """
    from dflash_guard import report
    from dflash_guard.cli._console import note
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._progress import counting
    from dflash_guard.stages.tokenize import tokenize as make

    with counting(sys.stderr, "rows read", "rows made") as advance:
        made = make(
            data,
            out=out,
            tokenizer=tokenizer,
            template=template,
            turns=turns,
            builder=builder,
            max_length=max_length,
            overlong=overlong,
            contract=contract,
            mode=mode,
            family=family,
            ignore=rules_in(ignore),
            sets=tuple(sets or ()),
            jobs=jobs,
            memory_limit=memory_limit,
            progress=advance,
        )
    if made.resumed:
        note(f"note: {made.resumed:,} input shards were done by an earlier run")
    for reason, count in sorted(made.set_aside.items(), key=lambda each: -each[1]):
        note(f"set aside: {count:,} rows: {reason}")
    if made.set_aside:
        note(f"note: {made.aside} names them")
    style = report.Style.of(sys.stdout, max_failures=5, redact=False, color=False)
    print_out(report.pieces(made.verdict, "concise", style))
    return ExitCode(made.verdict.exit_code)
