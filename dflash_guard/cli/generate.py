"""`dflash-guard generate`: regenerate completions with the target model."""

import os
import sys
from typing import Annotated

import typer

from dflash_guard.cli._options import Contract, Data, Family, Ignore, MemoryLimit, Mode, Sets, rules_in
from dflash_guard.errors import ExitCode, UsageError

__all__ = ["EPILOG", "generate"]

EPILOG = """\b
Examples:
  dflash-guard generate prompts/ --out completions/ --base-url http://127.0.0.1:30000 --model Qwen3-8B
  dflash-guard generate prompts/ --out completions/ --base-url http://a:30000 --base-url http://b:30000 --model Qwen3-8B

Old assistant turns are replaced. Each completion is judged before it is kept; a run that was interrupted goes on where
it was. DFLASH_GUARD_API_KEY is sent as a bearer token."""

KEY = "DFLASH_GUARD_API_KEY"


def generate(
    data: Data,
    out: Annotated[str, typer.Option(metavar="DIR", help="The folder for the completions.")],
    base_url: Annotated[list[str], typer.Option(metavar="URL", help="Of an OpenAI-compatible server; repeatable.")],
    model: Annotated[str, typer.Option(metavar="NAME", help="The name that the servers serve.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The target's tokenizer.  [default: the server's, where it lies here]"),
    ] = None,
    template: Annotated[
        str | None, typer.Option(metavar="FILE", help="A chat template.  [default: the tokenizer's own]")
    ] = None,
    sampling: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Over the family's, such as temperature=0.6; repeatable."),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Most tokens of an answer.")] = 16_384,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="Most requests in flight.")] = 64,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="That an answer may take.")] = 1800.0,
    attempts: Annotated[int, typer.Option(min=1, metavar="N", help="How often a request is asked.")] = 6,
    token_ids: Annotated[bool, typer.Option("--token-ids", help="Keep the ids of prompt and answer.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Ask with ids (SGLang's /generate), and keep them.")] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Only the first N prompts; 0 for all.")] = 0,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask rows again that failed before.")] = False,
    contract: Contract = None,
    mode: Mode = None,
    family: Family = None,
    ignore: Ignore = None,
    sets: Sets = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Regenerate every completion with the target model, thinking included.

    The prompts' gate must be open. Each completion is judged before it is kept; the run stops (exit 1) where more than
    10 % of the first 64, or of any 1,000, fail.
    """
    from dflash_guard import report
    from dflash_guard.cli._console import note
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._progress import generating
    from dflash_guard.stages.generate import generate as make

    with generating(sys.stderr) as advance:
        made = make(
            data,
            out=out,
            base_urls=base_url,
            model=model,
            tokenizer=tokenizer,
            template=template,
            sampling=_sampling(sampling or []),
            max_new_tokens=max_new_tokens,
            concurrency=concurrency,
            timeout=timeout,
            attempts=attempts,
            token_ids=token_ids,
            exact=exact,
            limit=limit,
            retry_failed=retry_failed,
            api_key=os.environ.get(KEY, ""),
            contract=contract,
            mode=mode,
            family=family,
            ignore=rules_in(ignore),
            sets=tuple(sets or ()),
            memory_limit=memory_limit,
            progress=advance,
        )
    aside = sum(made.set_aside.values())
    note(f"{made.passed:,} passed + {made.failed:,} failed + {aside:,} set aside = {made.input:,} prompts")
    for reason, count in sorted(made.set_aside.items()):
        note(f"set aside: {count:,} rows: {reason}")
    if made.failed:
        note(f"note: {made.failures} holds the failed rows; --retry-failed asks them again")
    style = report.Style.of(sys.stdout, max_failures=5, redact=False, color=False)
    print_out(report.pieces(made.verdict, "concise", style))
    return ExitCode(made.verdict.exit_code)


def _sampling(given: list[str]) -> dict[str, float | int]:
    found: dict[str, float | int] = {}
    for each in given:
        key, equals, value = each.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals or not key.strip():
            raise UsageError(f"--sampling: {each} is not KEY=NUMBER.", hint="write it like temperature=0.6.")
        found[key.strip()] = int(number) if number == int(number) and "." not in value else number
    return found
