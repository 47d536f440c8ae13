"""`dflash-guard profile`: what a data set looks like as a whole."""

import sys
from typing import Annotated, Literal

import typer

from dflash_guard.cli._options import (
    Contract,
    Data,
    Family,
    Jobs,
    MemoryLimit,
    Mode,
    Out,
    Redact,
    StageFound,
    Tokenizer,
)
from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "profile"]

EPILOG = """\b
Examples:
  dflash-guard profile raw.jsonl --stage prompts
  dflash-guard profile shards/ --tokenizer Qwen3-8B/ --format json -o html:profile.html"""


def profile(
    data: Data,
    stage: StageFound = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["table", "json", "csv", "markdown", "html"],
        typer.Option(metavar="FORMAT", help="table, json, csv, markdown or html."),
    ] = "table",
    output: Annotated[
        list[str] | None,
        typer.Option("--output", "-o", metavar="FORMAT:PATH", help="Write it to a file as well; repeatable."),
    ] = None,
    tokenizer: Tokenizer = None,
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    redact: Redact = False,
    out: Out = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Profile a data set: lengths, roles, sources, thinking, and the most common responses.

    Nothing is judged. Quantiles interpolate between neighbours; a source that is absent or blank is called unknown.
    """
    from dflash_guard.cli._console import colourful
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._outputs import asked_for, write
    from dflash_guard.cli._reading import reading
    from dflash_guard.report import Style
    from dflash_guard.report.profile import FORMATS, pieces
    from dflash_guard.verbs.profile import profile as measure

    files = asked_for(output or [], FORMATS)
    with reading(
        stage=stage,
        contract=contract,
        mode=mode,
        family=family,
        out=out,
        jobs=jobs,
        memory_limit=memory_limit,
    ) as how:
        found = measure(data, how, tokenizer=tokenizer)
    style = Style.of(sys.stdout, max_failures=0, redact=redact, color=colourful(sys.stdout))
    title = " ".join(data)
    print_out(pieces(found, format, style, title))
    write(files, lambda wanted: pieces(found, wanted, style.plain(), title))
    return ExitCode.PASSED
