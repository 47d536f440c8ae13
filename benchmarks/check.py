"""`check` against what people would use instead, side by side in one run, as ratios.

    python -m benchmarks.check [--rows N] [--runs N] [--dir DIR] [--write docs/benchmarks.md]

Commands alternate, medians count, and what `check` costs on four rows is taken off and stated apart.
"""

import argparse
import os
import platform
import shlex
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.datasets import write_incident_prompts, write_incident_tokenized
from benchmarks.measure import Figures, medians, run

STAGES = ("tokenized", "prompts")
FULL = 913_786


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=FULL)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    folder = options.dir or Path(tempfile.mkdtemp(prefix="dflash-bench-"))
    try:
        page = _page(folder, options.rows, options.runs)
    finally:
        if options.dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(page)
    if options.write:
        options.write.write_text(page, encoding="utf-8")


def _page(folder: Path, rows: int, runs: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [_head(rows, runs)]
    for stage in STAGES:
        small, data, triple = (_data(folder, stage, n) for n in (4, rows, 3 * rows))
        fixed = _measured([_check(stage, small, folder)], runs)[0]
        commands = {
            "dflash-guard check": _check(stage, data, folder),
            "hand-written DuckDB query": [sys.executable, "-m", "benchmarks.handwritten", stage, str(data)],
            "plain Python loop": [sys.executable, "-m", "benchmarks.plain_loops", stage, str(data)],
            "raw read (cat)": ["cat", str(data)],
        }
        found = dict(zip(commands, _measured(list(commands.values()), runs), strict=True))
        grown = _measured([_check(stage, triple, folder)], 1)[0]
        lines.append(_section(stage, data, rows, fixed, found, grown))
        triple.unlink()
    return "\n".join(lines)


def _measured(commands: list[list[str]], runs: int) -> list[Figures]:
    """Medians of commands that were run in turn; their memory is looked at in a run of its own."""
    timed = [[run(command) for command in commands] for _ in range(runs)]
    watched = [run(command, watch=True) for command in commands]
    return [
        replace(medians(each), memory=seen.memory) for each, seen in zip(zip(*timed, strict=True), watched, strict=True)
    ]


def _data(folder: Path, stage: str, rows: int) -> Path:
    path = folder / (f"tokenized-{rows}.arrow" if stage == "tokenized" else f"prompts-{rows}.jsonl")
    if not path.exists():
        (write_incident_tokenized if stage == "tokenized" else write_incident_prompts)(path, rows)
    return path


def _check(stage: str, data: Path, folder: Path) -> list[str]:
    # A new guard folder each time: with the facts of the run before, nothing would be read.
    guard = folder / "guard" / data.name
    command = f"rm -rf {shlex.quote(str(guard))}; exec {shlex.quote(sys.executable)} -m dflash_guard check"
    options = f"--stage {stage} --format concise --max-failures 1 --out {shlex.quote(str(guard))}"
    return ["sh", "-c", f"{command} {shlex.quote(str(data))} {options}"]


def _head(rows: int, runs: int) -> str:
    tools = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "pandera", "polars", "numpy"))
    machine = f"{os.cpu_count()} cores, {_processor()}, {platform.system()} {platform.machine()}"
    return f"""# Benchmarks

Made by `make bench` on {datetime.now(UTC):%Y-%m-%d}: {rows:,} rows, medians of {runs} runs, commands in turn
on one machine ({machine}, Python {platform.python_version()}, {tools}).
Times are whole processes, files in the page cache. Ratios are without the fixed cost of `check`, which is stated apart.
"""


def _processor() -> str:
    try:
        names = [
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "unknown processor"


def _section(stage: str, data: Path, rows: int, fixed: Figures, found: dict[str, Figures], grown: Figures) -> str:
    ours = found["dflash-guard check"]
    net = ours.wall - fixed.wall
    table = "\n".join(
        f"| {name} | {each.wall:.2f} | {each.cpu:.2f} | {each.memory:,.0f} | {net / each.wall:.2f} |"
        for name, each in found.items()
    )
    return f"""## `check --stage {stage}`

{rows:,} rows, {data.stat().st_size / 1e9:.2f} GB.

| command | wall s | CPU s | peak MiB | check (net) ÷ this |
|---|---|---|---|---|
{table}

- Fixed cost (four rows): {fixed.wall:.2f} s wall, {fixed.cpu:.2f} s of CPU, {fixed.memory:,.0f} MiB.
- Net of it: {net:.2f} s; {net / found["hand-written DuckDB query"].wall:.2f} × the hand-written query,
  {found["plain Python loop"].wall / net:.1f} × faster than the plain loop.
- {3 * rows:,} rows: {grown.wall:.2f} s ({(grown.wall - fixed.wall) / net:.2f} × the time, net of the fixed cost),
  peak {grown.memory:,.0f} MiB.
"""


if __name__ == "__main__":
    main()
