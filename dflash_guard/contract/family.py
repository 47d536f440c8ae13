"""Target families: token ids, texts and tags, from `contracts/families/NAME.yaml`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from dflash_guard.contract.files import Place, Value, find, is_file_name, known_names, nearest, read
from dflash_guard.contract.model import Family

__all__ = ["DEFAULT_FAMILY", "detect_family", "family_names", "load_family"]

DEFAULT_FAMILY: Final = "qwen3"
"""The family of text data for which nothing names one."""

_IDS: Final = ("begin_turn", "end_turn", "end_text", "think_open", "think_close", "newline", "mask_token")
_ID_LISTS: Final = ("begin_ids", "prompt_thinking", "prompt_off")
_KEYS: Final = (
    "name", "vocab_size", *_IDS, *_ID_LISTS, "roles", "blank", "turn_texts", "control_texts", "thinking_tags",
    "system_first", "sampling",
)  # fmt: skip
_NEEDED_ROLES: Final = ("user", "assistant")


def family_names() -> tuple[str, ...]:
    """The families that can be named, those that ship first."""
    return known_names("families")


def load_family(name: str, *, place: Place | None = None) -> Family:
    """Read a family file.

    Args:
        name: A family's name (the user's `./contracts/families/NAME.yaml`, then those that ship), or a file.
        place: Where it was named, for the error: `--family`, or a line of a contract.

    Raises:
        ContractError: There is no such family, or its file is wrong.
    """
    if is_file_name(name):
        path = Path(name)
    else:
        found = find(name, "families")
        if found is None:
            names = family_names()
            hint = nearest(name, names) if names else "the package's contracts are missing; install it again."
            raise (place or Place("--family")).wrong(f"there is no family {name!r}", hint)
        path = found
    return _read_family(path)


def detect_family(ids: Iterable[int]) -> Family | None:
    """The family whose begin-of-turn id stands among token ids; None where none does.

    One family's begin-of-turn id may be an ordinary token of another, so the most frequent one counts, and of equally
    frequent ones the highest, which the smaller vocabularies do not have. Families that share the id can't be told
    apart: qwen3 is taken, or else the one that ships.
    """
    families: dict[int, Family] = {}
    for name in dict.fromkeys([DEFAULT_FAMILY, *family_names()]):
        family = load_family(name)
        families.setdefault(family.begin_turn, family)
    counts = Counter(each for each in ids if each in families)
    if not counts:
        return None
    return families[max(counts, key=lambda each: (counts[each], each))]


def _read_family(path: Path) -> Family:
    values = read(path).mapping(_KEYS)
    if missing := [key for key in _KEYS if key not in values]:
        raise Place(str(path), 0, missing[0]).wrong(
            "the key is missing", "a family file has every key that contracts/families/qwen3.yaml has."
        )
    name = values["name"].text()
    if name != path.stem:
        raise values["name"].place.wrong(f"is {name}, but the file is {path.name}", f"write `name: {path.stem}`.")
    vocab_size = values["vocab_size"].whole()
    texts = {
        key: tuple(value.text() for value in values[key].items())
        for key in ("turn_texts", "control_texts", "thinking_tags")
    }
    if not texts["turn_texts"]:
        raise values["turn_texts"].place.wrong("must not be empty", "list the text that begins a turn first.")
    if len(texts["thinking_tags"]) != 2:
        raise values["thinking_tags"].place.wrong("must be two texts", "write the opening and the closing tag.")
    return Family(
        name=name,
        vocab_size=vocab_size,
        roles=_roles(values["roles"], vocab_size),
        blank=_blank(values["blank"], vocab_size),
        turn_texts=texts["turn_texts"],
        control_texts=texts["control_texts"],
        thinking_tags=(texts["thinking_tags"][0], texts["thinking_tags"][1]),
        system_first=values["system_first"].flag(),
        sampling=_sampling(values["sampling"]),
        **{key: values[key].whole(vocab_size) for key in _IDS},  # type: ignore[arg-type]
        **{key: _ids(values[key], vocab_size) for key in _ID_LISTS},  # type: ignore[arg-type]
    )


def _ids(value: Value, vocab_size: int) -> tuple[int, ...]:
    return tuple(each.whole(vocab_size) for each in value.items())


def _roles(value: Value, vocab_size: int) -> Mapping[str, tuple[int, ...]]:
    roles = {role: _ids(ids, vocab_size) for role, ids in value.mapping().items()}
    for role in _NEEDED_ROLES:
        if not roles.get(role):
            raise value.place.wrong(f"the ids of role {role} are missing", f"write `{role}: [id]`.")
    return MappingProxyType(roles)


def _blank(value: Value, vocab_size: int) -> tuple[int, ...]:
    blank: set[int] = set()
    for each in value.items():
        if isinstance(each.node, yaml.SequenceNode):
            ends = _ids(each, vocab_size)
            if len(ends) != 2 or ends[0] > ends[1]:
                raise each.place.wrong(
                    "a range must be two ids, the lower first", "write [197, 201] for the ids from 197 to 201."
                )
            blank.update(range(ends[0], ends[1] + 1))
        else:
            blank.add(each.whole(vocab_size))
    return tuple(sorted(blank))


def _sampling(value: Value) -> Mapping[str, Mapping[str, Any]]:
    settings = {
        name: MappingProxyType({key: each.plain() for key, each in named.mapping().items()})
        for name, named in value.mapping().items()
    }
    return MappingProxyType(settings)
