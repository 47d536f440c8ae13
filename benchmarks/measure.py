"""Time and memory of whole commands: wall and CPU seconds, and the peak of all its processes together."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

__all__ = ["Figures", "medians", "run"]

_EVERY = 0.02  # seconds between two looks at memory


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of a command.

    Attributes:
        wall, cpu: Seconds.
        memory: Peak of the proportional set sizes of the command and its children, added up, in MiB.
        code: Exit status.
    """

    wall: float
    cpu: float
    memory: float
    code: int


def run(command: Sequence[str], *, watch: bool = False) -> Figures:
    """Run a command to its end; what it prints is thrown away.

    Args:
        command: What to run.
        watch: Whether to look at its memory, which slows it down: such a run's times do not count.
    """
    start, before = time.perf_counter(), os.times()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        peak = 0.0
        while watch and child.poll() is None:
            peak = max(peak, sum(map(_memory, _tree(child.pid))))
            time.sleep(_EVERY)
        child.wait()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Figures(time.perf_counter() - start, cpu, peak / 1024, child.returncode)


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each figure; of memory, which only a watched run has, the largest."""
    return Figures(
        median(r.wall for r in runs),
        median(r.cpu for r in runs),
        max(r.memory for r in runs),
        max(r.code for r in runs),
    )


def _tree(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    except OSError:
        pass  # it ended meanwhile
    return found


def _memory(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1])
    except OSError:
        pass  # it ended meanwhile
    return 0.0
