"""A target's chat template: rendered by transformers, as servers render it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dflash_guard.errors import DataNotFoundError, UsageError

__all__ = ["ChatTemplate", "TemplateError", "load_template"]

Span = tuple[int, int]


class TemplateError(ValueError):
    """A template refused a conversation; says why in the template's words."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template.

    Attributes:
        text: The Jinja source.
        special_tokens: `bos_token`, `eos_token` and the like, by name: templates may write them.
    """

    text: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The digest of its source, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def has_tags(self) -> bool:
        """Whether it marks what the model writes with generation tags."""
        return "generation %}" in self.text.replace("generation-%}", "generation %}").replace(
            "generation -%}", "generation %}"
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        prompt: bool = False,
        **kwargs: Any,
    ) -> str:
        """A conversation as text.

        Args:
            messages: Its turns.
            tools: The tools it may call.
            prompt: Whether the generation prompt stands behind it.
            **kwargs: For the template, such as `enable_thinking`.

        Raises:
            TemplateError: The template refused it.
        """
        return self._render(messages, tools, tags=False, add_generation_prompt=prompt, **kwargs)[0]

    def render_tags(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> tuple[str, list[Span]]:
        """A conversation as text, and the [begin, end) of what the generation tags enclose, in characters.

        Raises:
            TemplateError: The template refused it.
        """
        return self._render(messages, tools, tags=True, **kwargs)

    def _render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, tags: bool, **kwargs: Any
    ) -> tuple[str, list[Span]]:
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            texts, spans = render_jinja_template(
                [list(messages)],
                tools=list(tools) if tools else None,
                chat_template=self.text,
                return_assistant_tokens_mask=tags,
                **{**self.special_tokens, **kwargs},
            )
        except Exception as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TemplateError(said) from error
        return texts[0], [tuple(span) for span in spans[0]] if tags else []


def load_template(path: str | Path, override: str | Path | None = None) -> ChatTemplate:
    """The chat template of a model's folder.

    Args:
        path: The folder: `chat_template.jinja`, else the template in `tokenizer_config.json`.
        override: A template file that is taken instead.

    Raises:
        DataNotFoundError: The file that was named does not exist.
        UsageError: There is no template, or transformers is not installed.
    """
    try:
        import transformers.utils.chat_template_utils  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "chat templates can't be rendered: transformers is not installed.",
            hint="pip install 'dflash-guard[tokenize]'.",
        ) from error
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    config = _config(folder / "tokenizer_config.json")
    special = {key: said for key, value in config.items() if key.endswith("_token") and (said := _token(value))}
    if override is not None:
        if not Path(override).is_file():
            raise DataNotFoundError(f"--template {override} is no file.", hint="name a Jinja file.")
        return ChatTemplate(_read(Path(override)), special)
    file = folder / "chat_template.jinja"
    text = _read(file) if file.is_file() else config.get("chat_template")
    if isinstance(text, list):  # several, by name
        named = [each for each in text if isinstance(each, Mapping)]
        text = next((each.get("template") for each in named if each.get("name") == "default"), None)
    if not isinstance(text, str):
        raise UsageError(f"{folder} holds no chat template.", hint="name one with --template FILE.")
    return ChatTemplate(text, special)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the chat template {path} can't be read: {error}.", hint="it is Jinja text in UTF-8."
        ) from error


def _config(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be read: {error}.", hint="fetch the model's tokenizer files again.") from error
    return said if isinstance(said, dict) else {}


def _token(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""
