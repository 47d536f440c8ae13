"""`dflash-guard plan`: what regenerating a data set costs."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dflash_guard.cli._options import Data, Family, Jobs, MemoryLimit, Out
from dflash_guard.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from dflash_guard.stages.plan import Plan

__all__ = ["EPILOG", "plan"]

EPILOG = """\b
Examples:
  dflash-guard plan prompts/ --output-tokens 1500 --throughput 1000-2000
  dflash-guard plan prompts/ --throughput 12000 --gpus 8 --context 32768 --format json

Throughput is in output tokens a second, over all servers. Nothing is judged, and nothing is generated."""


def plan(
    data: Data,
    output_tokens: Annotated[
        float, typer.Option(min=1, metavar="N", help="Output tokens of a completion, on the mean.")
    ] = 1500.0,
    throughput: Annotated[
        str, typer.Option(metavar="LOW[-HIGH]", help="Output tokens a second, over all servers.")
    ] = "1000-2000",
    gpus: Annotated[int, typer.Option(min=1, metavar="N", help="GPUs that give that throughput.")] = 1,
    context: Annotated[int, typer.Option(min=0, metavar="N", help="The context window, in tokens.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Room that an answer is given.")] = 16_384,
    layers: Annotated[int, typer.Option(min=1, metavar="N", help="Target layers whose states would be kept.")] = 5,
    hidden: Annotated[int, typer.Option(min=1, metavar="N", help="The target's hidden size.")] = 5120,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["text", "json"], typer.Option(metavar="FORMAT", help="text or json.")
    ] = "text",
    family: Family = None,
    out: Out = None,
    jobs: Jobs = None,
    memory_limit: MemoryLimit = None,
) -> int:
    """Estimate GPU hours, output size and disk for regenerating prompts, and what hidden states would take."""
    from dflash_guard.cli._console import out as print_out
    from dflash_guard.cli._reading import reading
    from dflash_guard.stages.plan import Assumptions, measure_prompts
    from dflash_guard.stages.plan import plan as make

    assumed = Assumptions(
        output_tokens=output_tokens,
        throughput=_throughput(throughput),
        gpus=gpus,
        layers=layers,
        hidden=hidden,
        context=context,
        max_new_tokens=max_new_tokens,
    )
    if context and context <= max_new_tokens:
        raise UsageError(
            f"--context {context:,} leaves no room for --max-new-tokens {max_new_tokens:,}.",
            hint="ask for fewer tokens.",
        )
    with reading(stage="prompts", family=family, out=out, jobs=jobs, memory_limit=memory_limit) as how:
        made = make(measure_prompts(data, how, assumed), assumed)
    print_out(
        [json.dumps({"schema": "dflash-guard/plan/1", **asdict(made)}) + "\n"] if format == "json" else _text(made)
    )
    return ExitCode.PASSED


def _throughput(text: str) -> tuple[float, float]:
    low, dash, high = text.partition("-")
    try:
        found = float(low), float(high) if dash else float(low)
    except ValueError:
        found = 0.0, 0.0
    if not 0 < found[0] <= found[1]:
        raise UsageError(f"--throughput: {text} is not LOW-HIGH.", hint="write it like 1000-2000, or one number.")
    return found


def _text(made: "Plan") -> list[str]:
    from dflash_guard.report._cells import count

    prompts, assumed = made.prompts, made.assumptions
    low, high = assumed.throughput
    speed = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    told = f"about {made.prompt_tokens / 1e6:,.1f} M tokens (4 characters each)"
    output = f"{made.output_tokens / 1e9:,.3f} B tokens ({assumed.output_tokens:,.0f} each)"
    kept = f"{assumed.layers} layers of {assumed.hidden:,}, bf16"
    lines = [
        f"prompts       {count(prompts.rows, 'row')}, {told}; the longest has {prompts.longest:,} characters",
        f"output        {output}",
        f"time          {made.days[0]:,.1f} to {made.days[1]:,.1f} days at {speed} tokens/s",
        f"GPU hours     {made.gpu_hours[0]:,.0f} to {made.gpu_hours[1]:,.0f} ({count(assumed.gpus, 'GPU')})",
        f"completions   {_bytes(made.output_bytes)} of JSONL; {_bytes(made.free_bytes)} are free here",
        f"hidden states {_bytes(made.state_bytes)}, were they stored ({kept})",
    ]
    if assumed.context:
        room = f"an answer of {assumed.max_new_tokens:,} tokens in {assumed.context:,}"
        lines.append(f"over context  {count(prompts.over, 'prompt')} leave no room for {room}")
    if made.output_bytes > made.free_bytes:
        lines.append("warning: the completions do not fit on this disk")
    return [f"{line}\n" for line in lines]


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} PB"
