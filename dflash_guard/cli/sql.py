"""`dflash-guard sql`: DuckDB SQL over data sets."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dflash_guard.cli._options import Contract, Family, Jobs, MemoryLimit, Mode, Out, StageFound
from dflash_guard.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EPILOG", "sql"]

EPILOG = """\b
Examples:
  dflash-guard sql shards/ "SELECT loss_tokens, count(*) FROM facts GROUP BY 1 ORDER BY 2 DESC LIMIT 5"
  dflash-guard sql raw.jsonl -f prompt-lengths
  dflash-guard sql p=prompts.jsonl c=out/ "SELECT count(*) FROM p.facts ANTI JOIN c.facts USING (id)"

Views: samples (the rows themselves), facts (one narrow row a sample), failures, profile. With NAME=DATA they are
NAME.samples and so on; those of the first data set need no name. A query can neither read nor write files."""


def sql(
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]DATA… [QUERY]", help="Data sets, and the SQL; without it a prompt opens."),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Run a file, or a query of the gallery.")
    ] = None,
    gallery: Annotated[bool, typer.Option("--gallery", help="Print the queries that are ready to run.")] = False,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["table", "csv", "json", "parquet"],
        typer.Option(metavar="FORMAT", help="table, csv, json (an object a line) or parquet."),
    ] = "table",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="Write the result to a file.")
    ] = None,
    allow_files: Annotated[bool, typer.Option("--allow-files", help="Let the query read and write files.")] = False,
    stage: StageFound = None,
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    out: Out = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Query data sets with DuckDB's SQL: their rows, their facts, what fails, and their profile."""
    if gallery:
        return _print_gallery()
    from dflash_guard.cli._reading import reading
    from dflash_guard.verbs.views import Views

    sets, query = _split(data or [])
    if file is not None:
        if query is not None:
            raise UsageError("both a query and -f were given.", hint="give one of them.")
        query = _read(file)
    if format == "parquet" and output is None and sys.stdout.isatty():
        raise UsageError("Parquet is nothing for a terminal.", hint="add -o PATH, or send it to a file.")
    with reading(
        stage=stage,
        contract=contract,
        mode=mode,
        family=family,
        out=out,
        jobs=jobs,
        memory_limit=memory_limit,
    ) as how:
        views = Views(sets, how, allow_files=allow_files)
    with views:
        if query is None:
            from dflash_guard.cli._prompt import converse

            converse(views)
            return ExitCode.PASSED
        for rows in views.query(query):
            _show(rows, format, output)
    return ExitCode.PASSED


def _print_gallery() -> int:
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.profile.gallery import GALLERY

    print_out(f"{name}: dflash-guard sql DATA -f {name}\n\n{text}\n" for name, text in GALLERY.items())
    return ExitCode.PASSED


def _split(words: Sequence[str]) -> tuple[dict[str, list[str]], str | None]:
    """The data sets by alias, and the query: the last word, where it is no path."""
    words = list(words)
    if not words:
        raise UsageError("no data set was given.", hint='dflash-guard sql DATA "SELECT count(*) FROM facts"')
    query = words.pop() if len(words) > 1 and _is_query(words[-1]) else None
    sets: dict[str, list[str]] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or Path(word).exists() or not name.isidentifier():
            name, path = "main", word
        if name != "main" and name in sets:
            raise UsageError(f"two data sets are named {name}.", hint="give each a name of its own.")
        sets.setdefault(name, []).append(path)
    if _is_query(words[-1]) and len(words) == 1 and not Path(words[0]).exists():
        raise UsageError("a query was given, and no data set.", hint='dflash-guard sql DATA "SELECT …"')
    return sets, query


def _is_query(word: str) -> bool:
    return any(c.isspace() for c in word.strip()) and not Path(word.partition("=")[2] or word).exists()


def _read(file: str) -> str:
    from dflash_guard.profile.gallery import GALLERY

    path = Path(file)
    if not path.is_file() and file in GALLERY:
        return GALLERY[file]
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(
            f"-f {file} can't be read: {reason}.", hint=f"name a file, or one of the gallery: {', '.join(GALLERY)}."
        ) from error


def _show(rows: "pa.RecordBatchReader", format: Literal["table", "csv", "json", "parquet"], output: str | None) -> None:  # noqa: A002
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._console import write_whole
    from dflash_guard.report.rows import pieces, write_parquet
    from dflash_guard.shards.writer import whole_file

    if format == "parquet":
        if output is None:
            write_parquet(rows, sys.stdout.buffer)
            return
        with whole_file(Path(output)) as sink:
            write_parquet(rows, sink)
    elif output is None:
        print_out(pieces(rows, format))
    else:
        write_whole(Path(output), pieces(rows, format))
