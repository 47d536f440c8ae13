"""`dflash-guard contract`: contracts in force, in other tools' forms, and compared."""

import json
from typing import Annotated, Any, Literal

import typer

from dflash_guard.cli._options import Family, Ignore, Mode, Sets, rules_in
from dflash_guard.errors import ExitCode

__all__ = ["DIFF", "EXPORT", "SHOW", "diff", "export", "show"]

SHOW = """\b
Example:
  dflash-guard contract show --stage tokenized --set few-loss-tokens.min=16"""
EXPORT = """\b
Examples:
  dflash-guard contract export --stage tokenized --format gx
  dflash-guard contract export contracts/mine.yaml --format odcs -o mine.odcs.yaml"""
DIFF = """\b
Example:
  dflash-guard contract diff tokenized contracts/mine.yaml"""

_Stage = Literal["prompts", "completions", "tokenized"]
Name = Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="A contract.  [default: the stage's]")]
Stage = Annotated[
    _Stage | None,
    typer.Option(
        "--stage", "-s", metavar="STAGE", help="prompts, completions or tokenized.  [default: the contract's]"
    ),
]


def show(
    contract: Name = None,
    stage: Stage = None,
    mode: Mode = None,
    family: Family = None,
    ignore: Ignore = None,
    sets: Sets = None,
) -> int:
    """Print the contract in force: everything merged, every rule with its level, tolerance and bounds."""
    from dflash_guard.cli._console import out
    from dflash_guard.contract.export import as_mapping

    found = _load(contract, stage, mode, family, ignore, sets)
    out((f"# {found.digest}\n# from {found.path}\n", _yaml(as_mapping(found))))
    return ExitCode.PASSED


def export(
    contract: Name = None,
    stage: Stage = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["odcs", "gx"],
        typer.Option(metavar="FORMAT", help="odcs (Open Data Contract Standard 3.1) or gx (an expectation suite)."),
    ] = "odcs",
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="PATH", help="Write it to a file.")] = None,
    mode: Mode = None,
    family: Family = None,
    ignore: Ignore = None,
    sets: Sets = None,
) -> int:
    """Write the contract in force in another tool's form."""
    from pathlib import Path

    from dflash_guard.cli._console import out
    from dflash_guard.contract.export import as_gx, as_odcs
    from dflash_guard.shards.writer import write_whole

    found = _load(contract, stage, mode, family, ignore, sets)
    text = _yaml(as_odcs(found)) if format == "odcs" else json.dumps(as_gx(found), indent=2) + "\n"
    if output is None:
        out((text,))
    else:
        write_whole(Path(output), text.encode())
    return ExitCode.PASSED


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A contract: name or file.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    stage: Stage = None,
) -> int:
    """Compare two contracts in force: what each asks that the other does not. Exit 1 where they differ."""
    from dflash_guard.cli._console import out
    from dflash_guard.contract.export import as_mapping
    from dflash_guard.report._cells import inert
    from dflash_guard.report._table import aligned

    one, other = (_flat(as_mapping(_load(name, stage, None, None, None, None))) for name in (first, second))
    changed = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key) and key != "name"]
    if not changed:
        out(("They ask the same.\n",))
        return ExitCode.PASSED
    lines = [["", first, second], *([key, one.get(key, "–"), other.get(key, "–")] for key in changed)]
    out(f"{line.rstrip()}\n" for line in aligned([[inert(cell) for cell in line] for line in lines]))
    return ExitCode.VIOLATED


def _load(
    name: str | None,
    stage: _Stage | None,
    mode: str | None,
    family: str | None,
    ignore: list[str] | None,
    sets: list[str] | None,
) -> Any:
    from dflash_guard.contract.load import load_contract, stage_of

    return load_contract(
        name,
        stage=stage_of(name, stage),
        mode=mode,
        family=family,
        ignore=rules_in(ignore),
        sets=tuple(sets or ()),
    )


def _yaml(content: Any) -> str:
    import yaml

    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110))


def _flat(content: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(content, dict) and content:
        return {
            k: v
            for key, each in content.items()
            for k, v in _flat(each, f"{prefix}.{key}" if prefix else str(key)).items()
        }
    return {prefix: str(content)}
