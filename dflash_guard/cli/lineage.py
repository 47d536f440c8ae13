"""`dflash-guard lineage`: the chain of data sets, verdicts and contracts behind a data set."""

from typing import Annotated, Literal

import typer

from dflash_guard.cli._options import Data, Out
from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "lineage"]

EPILOG = """\b
Examples:
  dflash-guard lineage tokenized/
  dflash-guard lineage tokenized/ --format mermaid -o html:lineage.html
  dflash-guard lineage tokenized/ --openlineage http://127.0.0.1:5000

--openlineage takes a file, one event a line, or the URL of a receiver; OPENLINEAGE_API_KEY is its key."""


def lineage(
    data: Data,
    stage: Annotated[
        Literal["prompts", "completions", "tokenized", "hidden_states"] | None,
        typer.Option("--stage", "-s", metavar="STAGE", help="Whose verdict is meant.  [default: found out]"),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["tree", "json", "mermaid", "html"],
        typer.Option(metavar="FORMAT", help="tree, json, mermaid or html."),
    ] = "tree",
    output: Annotated[
        list[str] | None,
        typer.Option("--output", "-o", metavar="FORMAT:PATH", help="Write it to a file as well; repeatable."),
    ] = None,
    openlineage: Annotated[
        str | None, typer.Option(metavar="FILE|URL", help="Write OpenLineage events, or send them.")
    ] = None,
    out: Out = None,
) -> int:
    """Show what a data set was made from, by manifests and verdicts, and what became of each.

    Nothing is judged; `gate` verifies.
    """
    from dflash_guard.cli._console import note
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._outputs import asked_for, write
    from dflash_guard.report.lineage import FORMATS, pieces
    from dflash_guard.verdict.lineage import trace

    files = asked_for(output or [], FORMATS)
    node = trace(data, stage=stage, out=out)
    print_out(pieces(node, format))
    write(files, lambda wanted: pieces(node, wanted))
    if openlineage is not None:
        from dflash_guard.verdict.openlineage import send

        note(f"{send(node, openlineage):,} OpenLineage events → {openlineage}")
    return ExitCode.PASSED
