"""Canonical JSON: the one way that a record is written, so that its digest means something."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["canonical", "canonical_digest"]


def canonical(said: Mapping[str, Any]) -> bytes:
    """A record as bytes: sorted keys, no white space, UTF-8, one newline at the end.

    Raises:
        ValueError: It holds NaN or an infinity, which JSON has no form for.
    """
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def canonical_digest(said: Mapping[str, Any]) -> str:
    """The sha256 of a record's canonical bytes, in hex."""
    return hashlib.sha256(canonical(said)).hexdigest()
