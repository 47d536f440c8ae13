"""Queries that are ready to run on the views of `dflash-guard sql`."""

from importlib.resources import files
from types import MappingProxyType

__all__ = ["GALLERY"]

GALLERY = MappingProxyType(
    {
        each.name.removesuffix(".sql"): each.read_text(encoding="utf-8")
        for each in sorted(files(__name__).iterdir(), key=lambda each: each.name)
        if each.name.endswith(".sql")
    }
)
"""SQL by name; the first line is a comment that says what it answers."""
