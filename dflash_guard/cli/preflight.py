"""`dflash-guard preflight`: what this machine, and a running engine, can run."""

from typing import Annotated, Literal

import typer

from dflash_guard.errors import ExitCode

__all__ = ["EPILOG", "preflight"]

EPILOG = """\b
Examples:
  dflash-guard preflight prompts/ --out completions/
  dflash-guard preflight completions/ --url http://127.0.0.1:30000 --family qwen3

Exit 1 where anything is missing. What only some stages need (a GPU, torch, an engine here) is named as absent."""


def preflight(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]…", help="Inputs that have to be there.")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where output would go.")] = ".",
    url: Annotated[str, typer.Option(metavar="URL", help="Of a running engine, which is asked one question.")] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="The name that it serves.  [default: the only one]")] = "",
    target: Annotated[str, typer.Option(metavar="NAME", help="The model that the contract asks for.")] = "",
    family: Annotated[str, typer.Option(metavar="NAME", help="Family of the target, for its token ids.")] = "",
    mode: Annotated[Literal["thinking", "off"], typer.Option(metavar="MODE", help="thinking or off.")] = "thinking",
    format: Annotated[  # noqa: A002 - the option's name
        Literal["text", "json"], typer.Option(metavar="FORMAT", help="text or json.")
    ] = "text",
) -> int:
    """Look at Python, torch, GPUs, engines, disk and paths, and at what a running engine serves."""
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.stages.preflight import as_json
    from dflash_guard.stages.preflight import preflight as look

    found = look(paths or [], out=out, url=url, model=model, target=target, family=family, mode=mode)
    if format == "json":
        print_out([as_json(found) + "\n"])
    else:
        width = max(len(each.name) for each in found)
        for each in found:
            hint = f"  → {each.hint}" if each.hint else ""
            print_out([f"{each.state:<8} {each.name:<{width}}  {each.detail}{hint}\n"])
    return ExitCode.VIOLATED if any(each.state == "missing" for each in found) else ExitCode.PASSED
