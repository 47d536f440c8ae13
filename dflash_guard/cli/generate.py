"""`dflash-guard generate`: regenerate completions with the target model."""

import json
import os
import sys
from contextlib import ExitStack
from typing import Annotated, Any, Literal

import typer

from dflash_guard.cli._options import Contract, Data, Family, Ignore, MemoryLimit, Mode, Sets, rules_in
from dflash_guard.errors import ExitCode, UsageError

__all__ = ["EPILOG", "generate"]

EPILOG = """\b
Examples:
  dflash-guard generate prompts/ --out completions/ --base-url http://127.0.0.1:30000 --model Qwen3-8B
  dflash-guard generate prompts/ --out completions/ --serve Qwen3-8B/ --serve-arg=--tp=2 --model Qwen3-8B
  dflash-guard generate prompts/ --model Qwen3-8B --tokenizer Qwen3-8B/ --dry-run

Old assistant turns are replaced. Each completion is judged before it is kept; a run that was interrupted goes on where
it was. DFLASH_GUARD_API_KEY is sent as a bearer token."""

KEY = "DFLASH_GUARD_API_KEY"


def generate(
    data: Data,
    model: Annotated[str, typer.Option(metavar="NAME", help="The name that the servers serve; or a model's folder.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="The folder for the completions.")] = "completions",
    base_url: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Of an OpenAI-compatible server; repeatable.")
    ] = None,
    engine: Annotated[
        Literal["http", "transformers"],
        typer.Option(metavar="NAME", help="http, or transformers: in this process, slowly; --model is a folder."),
    ] = "http",
    serve: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Start an SGLang server here with this model, and stop it after."),
    ] = None,
    serve_arg: Annotated[
        list[str] | None, typer.Option(metavar="ARG", help="Passed on to that server, such as --tp=8; repeatable.")
    ] = None,
    serve_python: Annotated[
        str, typer.Option(metavar="PATH", help="The Python that has SGLang.  [default: this one]")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show three requests as they will be sent; ask nothing.")
    ] = False,
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
    patience: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Without any answer, after which the run is given up.")
    ] = 600.0,
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

    if dry_run:
        return _preview(
            data,
            model=model,
            tokenizer=tokenizer or (model if engine == "transformers" else serve),
            template=template,
            sampling=_sampling(sampling or []),
            max_new_tokens=max_new_tokens,
            contract=contract,
            mode=mode,
            family=family,
            ignore=rules_in(ignore),
        )
    if engine == "transformers":
        note("note: transformers answers one prompt after the other; a server is many times faster")
    with ExitStack() as stack:
        urls = list(base_url or [])
        if serve is not None:
            from dflash_guard.stages.local_engine import serve as start

            note(f"note: starting SGLang with {serve}; it is stopped afterwards")
            urls.append(stack.enter_context(start(serve, name=model, python=serve_python, arguments=serve_arg or [])))
        advance = stack.enter_context(generating(sys.stderr))
        made = make(
            data,
            out=out,
            base_urls=urls,
            engine=engine,
            model=model,
            tokenizer=tokenizer,
            template=template,
            sampling=_sampling(sampling or []),
            max_new_tokens=max_new_tokens,
            concurrency=concurrency,
            timeout=timeout,
            patience=patience,
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


def _preview(data: list[str], *, tokenizer: str | None, **options: Any) -> int:
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.report._cells import cut, flat
    from dflash_guard.stages.generate import preview

    if tokenizer is None:
        raise UsageError("--dry-run needs the target's tokenizer.", hint="name it with --tokenizer PATH.")
    for each in preview(data, tokenizer=tokenizer, **options):
        request = flat(json.dumps(each["request"], ensure_ascii=True))
        print_out([f"id {flat(each['id'])} · {each['prompt_tokens']:,} prompt tokens\n", f"  {cut(request, 4000)}\n"])
        print_out([f"  {flat(line)}\n" for line in cut(each["prompt"], 4000).splitlines()])
    print_out(["what all of them cost: dflash-guard plan\n"])
    return ExitCode.PASSED


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
