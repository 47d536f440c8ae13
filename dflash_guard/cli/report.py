"""`dflash-guard report`: one HTML page about a data set."""

from pathlib import Path
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

__all__ = ["EPILOG", "report"]

EPILOG = """\b
Examples:
  dflash-guard report shards/ --tokenizer Qwen3-8B/ -o report.html
  dflash-guard report out/ --redact --data-docs docs/"""


def report(
    data: Data,
    stage: StageFound = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The page.")] = "report.html",
    data_docs: Annotated[
        str | None,
        typer.Option("--data-docs", metavar="DIR", help="Great Expectations' own pages as well; they need a network."),
    ] = None,
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
    """Write one HTML page: verdict, rules, plots, common responses, failing rows with the mask, and their cost.

    It opens offline and asks nothing of a network. The exit code is 0 whatever the page says.
    """
    from dflash_guard.cli._console import note, write_whole
    from dflash_guard.cli._reading import reading
    from dflash_guard.errors import JudgeError
    from dflash_guard.report import Style, html
    from dflash_guard.verbs.report import data_docs as make_docs
    from dflash_guard.verbs.report import report as gather

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
        gather(data, how, tokenizer=tokenizer, specimens=rows) as found,
    ):
        known = found.examined
        style = Style(max_failures=rows, redact=redact)
        page = html.report_page(known.verdict, known.profile, known.autopsy, found.cost, style, lineage=found.lineage)
        try:
            Path(output).parent.mkdir(parents=True, exist_ok=True)
            write_whole(Path(output), page)
        except OSError as error:
            raise JudgeError(
                f"The report could not be written to {output}: {error.strerror}.", hint="Name another path with -o."
            ) from error
        if data_docs is not None:
            make_docs(known, data_docs)
    note(f"wrote {output}" + (f" and {data_docs}/index.html" if data_docs is not None else ""))
    return ExitCode.PASSED
