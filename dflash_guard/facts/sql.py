"""The SQL files of this package, by name."""

from functools import cache
from importlib.resources import files

__all__ = ["sql"]


@cache
def sql(name: str, package: str = "dflash_guard.facts") -> str:
    """The text of one of the package's SQL files."""
    return (files(package) / name).read_text(encoding="utf-8")
