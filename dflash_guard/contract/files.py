"""Contract and family files: where they are found, and YAML read so that every error names file, line and key.

A file is plain YAML: no anchors, aliases or tags, no key twice, at most 1 MiB. Looked for are the user's
`./contracts/NAME.yaml`, then the files that ship with the package.
"""

import difflib
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from dflash_guard.errors import ContractError

__all__ = [
    "LARGEST",
    "Place",
    "Value",
    "find",
    "is_file_name",
    "known_names",
    "nearest",
    "number",
    "read",
    "shipped_folder",
]

LARGEST: Final = 1 << 20
"""Bytes that a contract or family file may have."""

_DEEPEST: Final = 16
_SUFFIXES: Final = (".yaml", ".yml")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0|[1-9][0-9_]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?|[+-]?\.[0-9]+(?:[eE][+-]?[0-9]{1,3})?"
)
_NO_NUMBER: Final = re.compile(r"[+-]?\.?(?:nan|inf|infinity)", re.IGNORECASE)
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was said: a file, line and key, or an option of the command line.

    Attributes:
        file: The file's path, or the option's name, such as `--set`.
        line: 1-based; 0 where there are no lines.
        key: The key, dotted from the top, such as `rules.few-loss-tokens.min`.
    """

    file: str
    line: int = 0
    key: str = ""

    def wrong(self, problem: str, hint: str = "") -> ContractError:
        """The error that this place has a problem: one sentence, and what to do."""
        line = f", line {self.line}" if self.line else ""
        key = f" {self.key}" if self.file.startswith("--") else f", {self.key}"
        return ContractError(f"{self.file}{line}{key if self.key else ''}: {problem}.", hint=hint)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a file, and the place where it stands."""

    node: yaml.Node
    place: Place

    @property
    def is_null(self) -> bool:
        """Whether it is null, or nothing stands there."""
        return bool(self.node.tag == "tag:yaml.org,2002:null")

    def mapping(self, allowed: Collection[str] | None = None, what: str = "key") -> dict[str, "Value"]:
        """Its values by key.

        Args:
            allowed: The only keys that it may have; None where any will do.
            what: What a key is, in words, for the error.
        """
        if not isinstance(self.node, yaml.MappingNode):
            names = f" of {', '.join(allowed)}" if allowed is not None and len(allowed) <= 16 else ""
            raise self.place.wrong(f"must be a mapping{names}, not {self._said()}", "write `key: value` lines.")
        found: dict[str, Value] = {}
        for key, value in self.node.value:
            line = key.start_mark.line + 1
            here = Place(self.place.file, line, self.place.key)
            if not isinstance(key, yaml.ScalarNode):
                raise here.wrong("a key must be text", "write `key: value` lines.")
            place = Place(self.place.file, line, f"{self.place.key}.{key.value}" if self.place.key else key.value)
            if key.value in found:
                first = found[key.value].place.line
                raise place.wrong(f"the key is there twice, first on line {first}", "keep one of the two.")
            if allowed is not None and key.value not in allowed:
                raise place.wrong(f"unknown {what} {key.value!r}", nearest(key.value, allowed))
            if key.tag != "tag:yaml.org,2002:str":
                raise place.wrong(f"{key.value} is not text to YAML", f'write it in quotes: "{key.value}".')
            found[key.value] = Value(value, place)
        return found

    def items(self) -> list["Value"]:
        """Its elements, where it is a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.place.wrong(f"must be a list, not {self._said()}", "write [a, b], or one `- a` a line.")
        places = ((node, Place(self.place.file, node.start_mark.line + 1, self.place.key)) for node in self.node.value)
        return [Value(node, place) for node, place in places]

    def text(self) -> str:
        """Text that is not blank."""
        if not isinstance(self.node, yaml.ScalarNode) or self.is_null:
            raise self.place.wrong(f"must be text, not {self._said()}", "write a name behind the colon.")
        if self.node.tag != "tag:yaml.org,2002:str":
            raise self.place.wrong(
                f"must be text, and {self.node.value} is not to YAML", f'write it in quotes: "{self.node.value}".'
            )
        if not self.node.value.strip():
            raise self.place.wrong("must be text, not blank", "write a name, or take the key away.")
        return str(self.node.value)

    def word(self, allowed: Collection[str]) -> str:
        """One of a few words, as it is written: `off` is no truth value here."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.value not in allowed:
            written = self.node.value if isinstance(self.node, yaml.ScalarNode) else ""
            raise self.place.wrong(
                f"must be one of {', '.join(allowed)}, not {self._said()}", nearest(written, allowed)
            )
        return str(self.node.value)

    def flag(self) -> bool:
        """A truth value."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.style or self.node.value not in ("true", "false"):
            raise self.place.wrong(f"must be true or false, not {self._said()}", "write true or false, without quotes.")
        return bool(self.node.value == "true")

    def number(self) -> int | float:
        """A finite number."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.place.wrong(f"must be a number, not {self._said()}", "write one number.")
        if self.node.style:  # quotes; plain text has none, or an empty one
            raise self.place.wrong(f"must be a number, not the text {self.node.value!r}", "write it without quotes.")
        return number(self.node.value, self.place)

    def whole(self, below: int | None = None) -> int:
        """A whole number from 0, such as a token id."""
        value = self.number()
        if not isinstance(value, int) or value < 0 or (below is not None and value >= below):
            limit = f" and below {below}" if below is not None else ""
            raise self.place.wrong(f"must be a whole number from 0{limit}, not {self._said()}", "write one number.")
        return value

    def plain(self) -> Any:
        """Whatever stands there, as Python has it: mappings, lists, numbers, truth values and text."""
        if isinstance(self.node, yaml.MappingNode):
            return {key: value.plain() for key, value in self.mapping().items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [value.plain() for value in self.items()]
        if self.node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
            return self.number()
        return self.flag() if self.node.tag == "tag:yaml.org,2002:bool" else self.text()

    def _said(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        if self.is_null:
            return "nothing"
        return _cut(self.node.value) if not getattr(self.node, "style", None) else _cut(repr(self.node.value))


def number(text: str, place: Place) -> int | float:
    """A finite decimal number as it is written; `1e5` is one, octal and base-60 numbers are not.

    >>> number("100_000", Place("--set")), number("1e-2", Place("--set"))
    (100000, 0.01)
    """
    if _NUMBER.fullmatch(text):
        plain = text.replace("_", "")
        value = int(plain) if plain.lstrip("+-").isdigit() and len(plain) < 20 else float(plain)
        if math.isfinite(value):
            return value
    if _NUMBER.fullmatch(text) or _NO_NUMBER.fullmatch(text):
        raise place.wrong(f"must be a finite number, not {_cut(text)}", "write a number such as 32 or 0.05.")
    raise place.wrong(f"must be a number, not {_cut(text) or 'nothing'}", "write a number such as 32 or 0.05.")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint: the nearest known word, or all of them where none is near."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(names)}." if len(names) <= 16 else "`dflash-guard rules` lists all."


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def is_file_name(name: str) -> bool:
    """Whether a name is that of a file: it has a slash or ends on .yaml or .yml."""
    return "/" in name or name.endswith(_SUFFIXES)


@cache
def shipped_folder() -> Path:
    """The contracts that ship with the package: in the wheel, or in the checkout of an editable install."""
    package = files("dflash_guard")
    packaged = Path(str(package / "data" / "contracts"))
    return packaged if packaged.is_dir() else Path(str(package)).parent / "contracts"


def find(name: str, folder: str = "", *, taken: Collection[Path] = ()) -> Path | None:
    """The file of a name: the user's own, else the one that ships; None where there is neither.

    Args:
        name: The name, without suffix.
        folder: The folder below `contracts/`: "" for contracts, `families`.
        taken: Resolved paths that are passed over.
    """
    for place in (Path("contracts") / folder, shipped_folder() / folder):
        for suffix in _SUFFIXES:
            path = place / f"{name}{suffix}"
            if os.path.isfile(path) and path.resolve() not in taken:  # noqa: PTH113 - Path's raises on a long name
                return path
    return None


def known_names(folder: str = "") -> tuple[str, ...]:
    """The names that can be found, those that ship first."""
    names: dict[str, None] = {}
    for place in (shipped_folder() / folder, Path("contracts") / folder):
        names |= dict.fromkeys(sorted(path.stem for path in place.glob("*.y*ml") if path.suffix in _SUFFIXES))
    return tuple(names)


def read(path: Path) -> Value:
    """Read a file to the mapping at its top.

    Raises:
        ContractError: It can't be read, or is not plain YAML with a mapping at the top.
    """
    label = str(path)
    text = _text(path, Place(label))
    try:
        _refuse_magic(text, label)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        what = " ".join(str(each) for each in (error.context, error.problem) if each)
        raise Place(label, line).wrong(f"is not YAML: {what}", "check indentation, colons and quotes there.") from error
    except yaml.YAMLError as error:
        what = str(error).splitlines()[0]
        raise Place(label).wrong(f"is not YAML: {what}", "remove control characters from the file.") from error
    if node is None:
        raise Place(label).wrong("the file is empty", "write at least `stage:` and what you want to change.")
    value = Value(node, Place(label, node.start_mark.line + 1))
    value.mapping()
    return Value(node, Place(label))


def _text(path: Path, place: Place) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise place.wrong(
            "there is no such file", "check the path; a name without slash and suffix is looked up."
        ) from error
    except OSError as error:
        raise place.wrong(f"can't be read: {error.strerror or error}", "name a file that you may read.") from error
    except ValueError as error:  # a NUL in the name
        raise place.wrong("is no file name", "check the path.") from error
    if len(content) > LARGEST:
        raise place.wrong("is larger than 1 MiB", "name a contract file, not data.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Place(place.file, line).wrong(f"is not UTF-8 at byte {error.start}", "save the file as UTF-8.") from error


def _refuse_magic(text: str, label: str) -> None:
    """Refuse what plain YAML does without: anchors, aliases, tags, several documents, deep nesting."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_LOADER):
        place = Place(label, event.start_mark.line + 1 if event.start_mark is not None else 0)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise place.wrong(
                "anchors and aliases (& and *) are not allowed", "write the value out; quote text that begins so."
            )
        if (tag := getattr(event, "tag", None)) is not None:
            raise place.wrong(f"the tag {tag} is not allowed", "take it away; quote text that begins with !.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > _DEEPEST:
            raise place.wrong(f"is nested deeper than {_DEEPEST}", "a contract has four levels at most.")
        if documents > 1:
            raise place.wrong("a second document begins", "keep one document a file.")


def at_top(values: Mapping[str, Value], key: str) -> Value | None:
    """A value that is there and not null."""
    value = values.get(key)
    return None if value is None or value.is_null else value
