"""The digest of a file's bytes."""

import hashlib
from pathlib import Path

__all__ = ["sha256_of"]


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hex.

    Raises:
        OSError: It can't be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
