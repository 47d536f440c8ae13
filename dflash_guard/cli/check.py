"""`dflash-guard check`: judge shards against the stage's contract."""

import sys
from typing import Annotated, Literal

import typer

from dflash_guard.cli._options import Family, Ignore, Jobs, MemoryLimit, Mode, Out, Redact, Sets, Upstream, rules_in
from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "check"]

Format = Literal["full", "concise", "json", "jsonl", "github", "junit", "sarif", "markdown"]

EPILOG = """\b
Examples:
  dflash-guard check shards/ --stage tokenized
  dflash-guard check raw.jsonl --stage prompts --ignore missing-id --set prompt-too-long.max=200000
  dflash-guard check out/*.parquet --stage completions --format concise -o junit:report.xml

DATA is a file, a folder, a glob, or the same under s3://: JSONL (plain, gzip, zstd), a JSON array, Parquet,
Arrow IPC file or stream. Formats are told by content, not by name."""


def check(
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="Files, folders or globs to judge.")],
    stage: Annotated[
        Literal["prompts", "completions", "tokenized"],
        typer.Option("--stage", "-s", metavar="STAGE", help="prompts, completions or tokenized."),
    ],
    contract: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The contract to judge by.  [default: the stage's]")
    ] = None,
    mode: Mode = None,
    family: Family = None,
    upstream: Upstream = None,
    ignore: Ignore = None,
    sets: Sets = None,
    fail_on: Annotated[
        Literal["error", "warn"], typer.Option(metavar="LEVEL", help="error, or warn: warnings count too.")
    ] = "error",
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 where the contract is violated.")] = False,
    format: Annotated[  # noqa: A002 - the option's name
        Format,
        typer.Option(metavar="FORMAT", help="full, concise, json, jsonl, github, junit, sarif or markdown."),
    ] = "full",
    output: Annotated[
        list[str] | None,
        typer.Option("--output", "-o", metavar="FORMAT:PATH", help="Write a report to a file as well; repeatable."),
    ] = None,
    max_failures: Annotated[
        int, typer.Option(min=0, metavar="N", help="Failing rows shown per rule; 0 shows all.")
    ] = 20,
    redact: Redact = False,
    sign: Annotated[
        str | None, typer.Option(metavar="KEY", help="Sign the verdict with an Ed25519 private key (PEM).")
    ] = None,
    out: Out = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Judge shards against the stage's contract and print the report.

    The data passes (exit 0) or does not (exit 1), and every failing row is named. Facts, failures and verdict are
    written to the guard folder.
    """
    from dflash_guard import report
    from dflash_guard.cli._console import colourful, note
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._outputs import asked_for, under_github, write
    from dflash_guard.cli._progress import progress
    from dflash_guard.verbs.check import check as judge

    files = asked_for(output or [])
    with progress(sys.stderr) as advance:
        verdict = judge(
            data,
            stage=stage,
            contract=contract,
            mode=mode,
            family=family,
            upstream=upstream,
            ignore=rules_in(ignore),
            sets=tuple(sets or ()),
            out=out,
            jobs=jobs,
            memory_limit=memory_limit,
            fail_on=fail_on,
            redact=redact,
            sign=sign,
            progress=advance,
        )
    style = report.Style.of(sys.stdout, max_failures=max_failures, redact=redact, color=colourful(sys.stdout))
    print_out(report.pieces(verdict, format, style))
    if format not in report.WITH_LAST_LINE:
        note(report.last_line(verdict))
    write(files, lambda wanted: report.pieces(verdict, wanted, style.plain()))
    under_github(verdict, format, style)
    violated = verdict.exit_code == ExitCode.VIOLATED
    return ExitCode.PASSED if exit_zero and violated else verdict.exit_code
