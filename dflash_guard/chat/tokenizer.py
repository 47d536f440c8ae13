"""A target's tokenizer, for showing ids as text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dflash_guard.errors import DataNotFoundError, UsageError

__all__ = ["Decoder", "load_decoder"]


class Decoder(Protocol):
    """Makes text of ids."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included; an id that is in no vocabulary as ⟨id⟩."""


def load_decoder(path: str | Path) -> Decoder:
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
        return _Decoder(Tokenizer.from_file(str(file)))
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"--tokenizer {file} is no tokenizer: {said}.", hint="name a model's own tokenizer.json."
        ) from error


class _Decoder:
    """A fast tokenizer."""

    def __init__(self, tokenizer: "object") -> None:
        self._tokenizer = tokenizer
        self._size = int(tokenizer.get_vocab_size(with_added_tokens=True))  # type: ignore[attr-defined]

    def decode(self, ids: Sequence[int]) -> str:
        parts: list[str] = []
        known: list[int] = []
        for token in [*ids, None]:
            if token is not None and 0 <= token < self._size:
                known.append(token)
                continue
            if known:
                parts.append(self._tokenizer.decode(known, skip_special_tokens=False))  # type: ignore[attr-defined]
                known = []
            if token is not None:
                parts.append(f"⟨{token}⟩")
        return "".join(parts)
