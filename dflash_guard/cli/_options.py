"""Options that several commands take, with the words that explain them."""

from typing import Annotated, Literal

import typer

__all__ = [
    "Contract",
    "Data",
    "Family",
    "Ignore",
    "Jobs",
    "MemoryLimit",
    "Mode",
    "Out",
    "Redact",
    "Sets",
    "StageFound",
    "Tokenizer",
    "Upstream",
    "rules_in",
]

Data = Annotated[list[str], typer.Argument(metavar="DATA", help="Files, folders or globs.")]
StageFound = Annotated[
    Literal["prompts", "completions", "tokenized"] | None,
    typer.Option("--stage", "-s", metavar="STAGE", help="prompts, completions or tokenized.  [default: found out]"),
]
Contract = Annotated[
    str | None, typer.Option("--contract", metavar="NAME|FILE", help="The contract in force.  [default: the stage's]")
]
Mode = Annotated[
    Literal["thinking", "off", "row"] | None,
    typer.Option("--mode", metavar="MODE", help="thinking, off, or row (by each row's own enable_thinking)."),
]
Family = Annotated[
    str | None, typer.Option("--family", metavar="NAME", help="Family of the target model: qwen3, qwen3_5, …")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", metavar="PATH", help="The target's tokenizer, to show ids as text: folder or tokenizer.json."
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="RULE[,RULE]", help="Rules to leave out; repeatable.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="RULE.FIELD=VALUE", help="Change a bound, level or tolerance; repeatable."),
]
Upstream = Annotated[
    str | None,
    typer.Option("--upstream", metavar="DATA", help="The data set that this one was made from (cross-stage rules)."),
]
Redact = Annotated[bool, typer.Option("--redact", help="Keep sample text out of everything written.")]
Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Guard folder.  [default: __guard__ beside the data]")
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, metavar="N", help="Threads.  [default: all cores]")]
MemoryLimit = Annotated[
    str | None, typer.Option("--memory-limit", metavar="SIZE", help="Memory to stay within, such as 1GiB.")
]


def rules_in(ignore: list[str] | None) -> tuple[str, ...]:
    """The names in the values of `--ignore`.

    >>> rules_in(["missing-id, stray-bytes", "empty-turn"])
    ('missing-id', 'stray-bytes', 'empty-turn')
    """
    return tuple(name.strip() for each in ignore or () for name in each.split(",") if name.strip())
