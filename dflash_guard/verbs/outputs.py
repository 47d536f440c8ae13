"""Folders that a command writes: none of them may lie in the data, or in one another."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dflash_guard.errors import UsageError

__all__ = ["refuse_nested"]


def refuse_nested(data: Sequence[str | Path], outputs: Mapping[str, Path]) -> None:
    """Refuse outputs that are links, lie in the data or hold it, or do so among themselves.

    Args:
        data: As given.
        outputs: By the option that names them.

    Raises:
        UsageError: One of them does.
    """
    placed: list[tuple[str, Path]] = [(f"the data {each}", Path(each).resolve()) for each in data]
    for name, path in outputs.items():
        if path.is_symlink():
            raise UsageError(f"--{name} {path} is a link.", hint="name the folder itself.")
        here = Path(os.path.realpath(path))
        for other, there in placed:
            if here == there or there in here.parents or here in there.parents:
                raise UsageError(f"--{name} {path} and {other} lie in one another.", hint="name a folder beside it.")
        placed.append((f"--{name} {path}", here))
