"""A target's tokenizer: ids of text, and text of ids."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from dflash_guard.errors import DataNotFoundError, UsageError

__all__ = ["Decoder", "TextTokenizer", "load_tokenizer"]


class Decoder(Protocol):
    """Makes text of ids."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included; an id that is in no vocabulary as ⟨id⟩."""


def load_tokenizer(path: str | Path) -> "TextTokenizer":
    """Load a tokenizer from a folder (as models ship it) or a `tokenizer.json`.

    Raises:
        DataNotFoundError: There is nothing at the path.
        UsageError: It is no tokenizer, or the library to read it is not installed.
    """
    path = Path(path)
    if not path.exists():
        raise DataNotFoundError(
            f"--tokenizer {path} does not exist.", hint="name a model's folder or its tokenizer.json."
        )
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"--tokenizer {path} holds no tokenizer.json.",
            hint="save it with transformers: tokenizer.save_pretrained(DIR).",
        )
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UsageError(
            "ids can't be decoded: the package tokenizers is not installed.",
            hint="pip install 'dflash-guard[tokenize]'.",
        ) from error
    try:
        data = file.read_bytes()
        return TextTokenizer(Tokenizer.from_buffer(data), hashlib.sha256(data).hexdigest())
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"--tokenizer {file} is no tokenizer: {said}.", hint="name a model's own tokenizer.json."
        ) from error


class TextTokenizer:
    """A fast tokenizer, as its `tokenizer.json` says.

    Attributes:
        sha256: Digest of that file, in hex.
    """

    def __init__(self, tokenizer: Any, sha256: str) -> None:
        self._tokenizer = tokenizer
        self._size = int(tokenizer.get_vocab_size(with_added_tokens=True))
        self.sha256 = sha256

    def encode(self, text: str) -> list[int]:
        """The ids of one text; nothing is added, special tokens in it are their own ids."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, on all cores that tokenizers may use."""
        return [each.ids for each in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The characters of each id of a text, as [begin, end)."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def token_id(self, text: str) -> int | None:
        """The id of a token, None where there is none of that text."""
        found = self._tokenizer.token_to_id(text)
        return None if found is None else int(found)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included; an id that is in no vocabulary as ⟨id⟩."""
        parts: list[str] = []
        known: list[int] = []
        for token in [*ids, None]:
            if token is not None and 0 <= token < self._size:
                known.append(token)
                continue
            if known:
                parts.append(self._tokenizer.decode(known, skip_special_tokens=False))
                known = []
            if token is not None:
                parts.append(f"⟨{token}⟩")
        return "".join(parts)
