"""`dflash-guard autopsy`: why a data set is bad."""

import sys
from typing import Annotated

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

__all__ = ["EPILOG", "autopsy"]

EPILOG = """\b
Examples:
  dflash-guard autopsy shards/ --tokenizer Qwen3-8B/
  dflash-guard autopsy out/ --stage completions --rows 5"""


def autopsy(
    data: Data,
    stage: StageFound = None,
    tokenizer: Tokenizer = None,
    rows: Annotated[int, typer.Option(min=0, metavar="N", help="Rows shown of each rule.")] = 2,
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    redact: Redact = False,
    out: Out = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Show why data is bad: what fails most, where it comes from, and rows with the loss mask painted over them.

    It looks, and does not judge: the exit code is 0 whatever it finds, and no verdict is written.
    """
    from dflash_guard.cli._console import colourful
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._reading import reading
    from dflash_guard.report import Style
    from dflash_guard.report.autopsy import pieces
    from dflash_guard.verbs.autopsy import autopsy as examine

    with (
        reading(
            stage=stage,
            contract=contract,
            mode=mode,
            family=family,
            out=out,
            jobs=jobs,
            memory_limit=memory_limit,
        ) as how,
        examine(data, how, tokenizer=tokenizer, specimens=rows) as found,
    ):
        verdict, result = found.verdict, found.autopsy
        style = Style.of(sys.stdout, max_failures=rows, redact=redact, color=colourful(sys.stdout))
        print_out(pieces(verdict, result, style))
    return ExitCode.PASSED
