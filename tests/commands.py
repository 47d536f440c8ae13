"""The command as a user runs it, in a process of its own, and the rules that most of its tests leave out."""

import os
import subprocess
import sys

DISTRIBUTION = (
    "response-collapse,loss-collapse,low-median-loss,low-loss-fraction,thinking-share,mixed-thinking,truncated-share,"
    "duplicate-share,source-drift"
)
IGNORED = tuple(DISTRIBUTION.split(","))  # judged in tests of their own; without them a check is quick


def command(*args, **options):
    """Run `dflash-guard` with arguments; `env` adds to the environment."""
    return subprocess.run(
        [sys.executable, "-m", "dflash_guard", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "NO_COLOR": "1", "GITHUB_ACTIONS": "", **options.pop("env", {})},
        **options,
    )
