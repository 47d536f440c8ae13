"""`plan`: what regenerating a data set costs, and what storing its hidden states would."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash_guard.verbs.opening import Reading, open_data

__all__ = ["Assumptions", "Plan", "Prompts", "measure_prompts", "plan"]

_CHARS_A_TOKEN = 4.0  # of English text in a vocabulary of 150,000: for sizes, where nothing was tokenised
_BYTES_AN_OUTPUT_TOKEN = 5.0  # of JSON text


@dataclass(frozen=True, slots=True)
class Prompts:
    """What is known of the prompts.

    Attributes:
        rows: Prompts.
        chars: Characters of all of them.
        longest: Characters of the longest.
        over: Prompts that do not fit the context window with their answer, as far as characters tell.
    """

    rows: int
    chars: int
    longest: int
    over: int


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a plan assumes.

    Attributes:
        output_tokens: Of one completion, on the mean.
        throughput: Output tokens a second, over all servers: (low, high).
        gpus: That give it.
        layers, hidden: Target layers whose states are kept, and their width.
        context: The context window in tokens; 0 where nobody says.
        max_new_tokens: Room that an answer is given.
    """

    output_tokens: float = 1500.0
    throughput: tuple[float, float] = (1000.0, 2000.0)
    gpus: int = 1
    layers: int = 5
    hidden: int = 5120
    context: int = 0
    max_new_tokens: int = 16_384


@dataclass(frozen=True, slots=True)
class Plan:
    """What it comes to; pairs are (least, most).

    Attributes:
        prompts, assumptions: What it was made of.
        prompt_tokens, output_tokens: Of all rows.
        days, gpu_hours: To generate.
        output_bytes: Of the completions as JSONL.
        state_bytes: Of hidden states kept on disk: tokens × layers × hidden × 2.
        free_bytes: On the disk of the output.
    """

    prompts: Prompts
    assumptions: Assumptions
    prompt_tokens: float
    output_tokens: float
    days: tuple[float, float]
    gpu_hours: tuple[float, float]
    output_bytes: float
    state_bytes: float
    free_bytes: int


def measure_prompts(data: Sequence[str | Path], reading: Reading, assumptions: Assumptions) -> Prompts:
    """Read what a plan needs of a data set.

    Raises:
        GuardError: It can't be read.
    """
    room = (assumptions.context - assumptions.max_new_tokens) * _CHARS_A_TOKEN if assumptions.context else float("inf")
    with open_data(data, reading) as opened:
        if not opened.has_rows:
            return Prompts(0, 0, 0, 0)
        found = opened.connection.execute(
            "SELECT count(*), coalesce(sum(prompt_chars), 0), coalesce(max(prompt_chars), 0), "
            "count(*) FILTER (prompt_chars > ?) FROM raw_facts",
            [room],
        ).fetchall()[0]
    return Prompts(*(int(each) for each in found))


def plan(
    prompts: Prompts, assumptions: Assumptions, *, out: str | Path = ".", prompt_tokens: float | None = None
) -> Plan:
    """What regenerating prompts comes to.

    Args:
        prompts: What is known of them.
        assumptions: The rest.
        out: Where completions would go.
        prompt_tokens: Of all prompts; by default four characters are taken for one.
    """
    told = prompts.chars / _CHARS_A_TOKEN if prompt_tokens is None else prompt_tokens
    output = prompts.rows * assumptions.output_tokens
    low, high = assumptions.throughput
    seconds = (output / high, output / low)
    there = next(each for each in (Path(out).absolute(), *Path(out).absolute().parents) if each.exists())
    return Plan(
        prompts=prompts,
        assumptions=assumptions,
        prompt_tokens=told,
        output_tokens=output,
        days=(seconds[0] / 86_400, seconds[1] / 86_400),
        gpu_hours=(seconds[0] / 3600 * assumptions.gpus, seconds[1] / 3600 * assumptions.gpus),
        output_bytes=output * _BYTES_AN_OUTPUT_TOKEN + prompts.chars,
        state_bytes=(told + output) * assumptions.layers * assumptions.hidden * 2,
        free_bytes=shutil.disk_usage(there).free,
    )
