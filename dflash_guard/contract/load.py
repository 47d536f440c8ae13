"""Contracts in force: a file, what it extends, and the options of the call, merged and checked.

In two steps, as the family may have to be found in the data: `read_contract` gives a draft, `Draft.resolve` the
contract. What a file does not say is as shipped, so a contract never loses a rule by leaving it out.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import yaml

from dflash_guard.contract.catalog import ALIASES, MODES, PLACEHOLDER_SOURCES, ROLES, STAGES, rules_for
from dflash_guard.contract.family import DEFAULT_FAMILY, load_family
from dflash_guard.contract.files import Place, Value, at_top, find, is_file_name, known_names, nearest, read
from dflash_guard.contract.model import Contract, Declaration, Family, Mode, RuleSetting, Stage
from dflash_guard.contract.settings import Changes, known_rule, refuse_ignored
from dflash_guard.contract.terms import digest_of
from dflash_guard.errors import UsageError

__all__ = ["KEYS", "Draft", "load_contract", "read_contract", "stage_of"]

KEYS: Final = (
    "name",
    "stage",
    "extends",
    "mode",
    "family",
    "target",
    "upstream",
    "sources",
    "mix",
    "source",
    "id",
    "roles",
    "ignore",
    "rules",
)
"""The keys that a contract file may have."""

_TEXT_STAGES: Final = ("prompts", "completions")

_RE2_LACKS: Final = (
    (re.compile(r"\(\?(?:[=!]|<[=!])"), "look-around"),
    (re.compile(r"\\[1-9]|\(\?P="), "a back-reference"),
    (re.compile(r"\(\?\("), "a conditional group"),
    (re.compile(r"\(\?>|[*+?}]\+"), "an atomic group or possessive repeat"),
)
"""What a pattern that RE2 refuses may hold, and its name."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A contract before its family is known.

    Attributes:
        name, path, stage, mode, sources, mix, source, id, target, upstream, aliases: As in `Contract`.
        mode_from: Who said the mode: `option`, `contract` or `default`.
        family: The family that option or contract name; None where neither does.
        family_from: Who said the family: `option` or `contract`, "" where neither did.
        changes: What was asked of rules, by name.
        ignored: The rules that are left out.
    """

    name: str
    path: str
    stage: Stage
    mode: Mode
    mode_from: str
    family: Family | None
    family_from: str
    changes: Mapping[str, Changes]
    ignored: frozenset[str]
    sources: tuple[str, ...] | None
    mix: Mapping[str, tuple[float, float]] | None
    source: Declaration | None
    id: Declaration | None
    target: str
    upstream: Literal["required", "optional"]
    aliases: Mapping[str, str]

    @property
    def judges_distribution(self) -> bool:
        """Whether any rule about the whole distribution is in force."""
        return any(
            rule.table == "distribution"
            and self.mode in rule.modes
            and rule.name not in self.ignored
            and (rule.name != "source-drift" or bool(self.mix))
            for rule in rules_for(self.stage)
        )

    def resolve(self, detected: Family | None = None) -> Contract:
        """The contract in force.

        Args:
            detected: The family that was found in the data; the named one goes before it, and qwen3 is taken
                where there is neither.
        """
        family, family_from = self.family, self.family_from
        if family is None and detected is not None:
            family, family_from = detected, "data"
        if family is None:
            family, family_from = load_family(DEFAULT_FAMILY), "default"
        rules: dict[str, RuleSetting] = {}
        for rule in rules_for(self.stage):
            if self.mode in rule.modes:
                changes = self.changes.get(rule.name) or Changes(rule)
                rules[rule.name] = changes.setting(self.stage, family, ignored=rule.name in self.ignored)
        contract = Contract(
            name=self.name,
            path=self.path,
            digest="",
            stage=self.stage,
            mode=self.mode,
            family=family,
            rules=MappingProxyType(rules),
            sources=self.sources,
            mix=self.mix,
            source=self.source,
            id=self.id,
            target=self.target,
            upstream=self.upstream,
            aliases=self.aliases,
            family_from=family_from,
            mode_from=self.mode_from,
        )
        return replace(contract, digest=digest_of(contract))


def load_contract(
    name: str | None = None,
    *,
    stage: Stage,
    mode: str | None = None,
    family: str | None = None,
    sets: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Contract:
    """Read a contract and put it in force; arguments and errors are those of `read_contract`.

    The family is the option's, else the contract's, else qwen3.
    """
    return read_contract(name, stage=stage, mode=mode, family=family, sets=sets, ignore=ignore).resolve()


def read_contract(
    name: str | None = None,
    *,
    stage: Stage,
    mode: str | None = None,
    family: str | None = None,
    sets: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Draft:
    """Read a contract file and what it extends, and merge the options of the call into it.

    Args:
        name: A contract's name (the user's `./contracts/NAME.yaml`, then those that ship) or its file (with a slash
            or suffix); the stage's by default.
        stage: What is to be judged.
        mode: The serving mode; by default the contract's, else `thinking`.
        family: The target's family; by default the contract's, if it names one.
        sets: Changes as `RULE.FIELD=VALUE`; of two for one field the later counts.
        ignore: Rules to leave out, beside the contract's own.

    Raises:
        ContractError: A file or option is wrong; the message names file, line and key, or the option.
        UsageError: There is no such stage or mode.
    """
    for what, word, known in (("stage", stage, STAGES), ("mode", mode, MODES)):
        if word is not None and word not in known:
            raise UsageError(f"--{what}: there is no {what} {word!r}.", hint=nearest(str(word), known))
    layers = _layers(name or stage)
    merged = _Merged(stage)
    for path, values in layers:
        merged.take(path, values)
    for each in [sets] if isinstance(sets, str) else sets:
        merged.set_option(each)
    for each in [ignore] if isinstance(ignore, str) else ignore:
        merged.ignore_option(each)
    merged.check()
    path, values = layers[-1]
    named = load_family(family, place=Place("--family")) if family is not None else merged.family
    return Draft(
        name=said.text() if (said := at_top(values, "name")) else path.stem,
        path=str(path),
        stage=stage,
        mode=_mode(mode or merged.mode or "thinking"),
        mode_from="option" if mode else "contract" if merged.mode else "default",
        family=named,
        family_from="option" if family is not None else "contract" if named is not None else "",
        changes=MappingProxyType(merged.changes),
        ignored=frozenset(merged.ignored),
        sources=merged.sources,
        mix=merged.mix,
        source=merged.source,
        id=merged.id,
        target=merged.target,
        upstream=merged.upstream,
        aliases=MappingProxyType(merged.aliases),
    )


def stage_of(name: str | None, stage: Stage | None = None) -> Stage:
    """The stage of a contract: the one that is named, else its file's.

    Raises:
        ContractError: There is no such contract, or it names no stage.
        UsageError: Neither is given.
    """
    if stage is not None:
        return stage
    if name is None:
        raise UsageError("neither a contract nor a stage was named.", hint="add --stage tokenized, for example.")
    layers = _layers(name)
    for _, values in reversed(layers):
        if (said := at_top(values, "stage")) is not None:
            word = said.text()
            found = next((each for each in STAGES if each == word), None)
            if found is None:
                raise said.place.wrong(f"there is no stage {word!r}", nearest(word, STAGES))
            return found
    raise Place(str(layers[-1][0])).wrong("no stage is named", "add --stage, or `stage:` to the file.")


def _mode(word: str) -> Mode:
    return next(mode for mode in MODES if mode == word)


Layer = tuple[Path, dict[str, Value]]


def _layers(name: str) -> list[Layer]:
    """The contract's file and those that it extends, the farthest first."""
    path: Path | None = Path(name) if is_file_name(name) else find(name)
    if path is None:
        raise Place("--contract").wrong(f"there is no contract {name!r}", nearest(name, known_names()))
    layers: list[Layer] = []
    taken: list[Path] = []
    while path is not None:
        values = read(path).mapping(KEYS)
        layers.append((path, values))
        taken.append(path.resolve())
        extends = at_top(values, "extends")
        path = _extended(path, extends, taken) if extends is not None else None
    return layers[::-1]


def _extended(path: Path, extends: Value, taken: list[Path]) -> Path:
    """The file that one extends; its own name there means the one that ships."""
    name = extends.text()
    found = path.parent / name if is_file_name(name) else find(name, taken=taken)
    if found is not None and not found.exists():
        raise extends.place.wrong(f"there is no file {found}", "a path is relative to the file that names it.")
    if found is None and find(name) is None:
        raise extends.place.wrong(f"there is no contract {name!r}", nearest(name, known_names()))
    if found is None or found.resolve() in taken:
        chain = " → ".join([*(each.name for each in taken), name])
        raise extends.place.wrong(
            f"contracts extend each other in a circle ({chain})", "let the last one extend nothing."
        )
    return found


class _Merged:
    """What the layers say together: rules by field and roles by alias, all else replaced whole; null takes back."""

    def __init__(self, stage: Stage) -> None:
        self.stage: Stage = stage
        self.mode = ""
        self.family: Family | None = None
        self.target = ""
        self.upstream: Literal["required", "optional"] = "optional"
        self.sources: tuple[str, ...] | None = None
        self.mix: Mapping[str, tuple[float, float]] | None = None
        self.source: Declaration | None = None
        self.id: Declaration | None = None
        self.aliases = dict(ALIASES)
        self.ignored: set[str] = set()
        self.changes: dict[str, Changes] = {}
        self._mix_place: Place | None = None
        self._id_place: Place | None = None

    def take(self, path: Path, values: Mapping[str, Value]) -> None:
        """Lay one file over what was taken before."""
        self._check_head(values)
        for key, take in _TAKERS.items():
            if key in values:
                setattr(self, key, take(values[key]) if not values[key].is_null else _NOTHING[key])
        if "family" in values:
            said = at_top(values, "family")
            self.family = _named_family(path, said) if said else None
        if "mix" in values:
            self._mix_place = values["mix"].place
        if "id" in values:
            self._id_place = values["id"].place
        if said := at_top(values, "roles"):
            self._take_roles(said)
        if "ignore" in values:
            said = at_top(values, "ignore")
            self.ignored = {self._ignorable(each.text(), each.place) for each in said.items()} if said else set()
        if said := at_top(values, "rules"):
            self._take_rules(said)

    def _check_head(self, values: Mapping[str, Value]) -> None:
        if name := at_top(values, "name"):
            name.text()
        if (said := at_top(values, "stage")) and (stage := said.word(STAGES)) != self.stage:
            hint = f"judge with `--stage {stage}`, or name a contract for {self.stage}."
            raise said.place.wrong(f"the contract is for stage {stage}, and --stage is {self.stage}", hint)

    def _take_rules(self, said: Value) -> None:
        for name, fields in said.mapping().items():
            rule = known_rule(name, fields.place, self.stage)
            changes = self.changes.setdefault(name, Changes(rule))
            for field, value in fields.mapping().items():
                changes.change(field, value, value.place)

    def set_option(self, option: str) -> None:
        """Take `--set RULE.FIELD=VALUE`."""
        place = Place("--set", 0, option)
        target, equals, value = option.partition("=")
        name, dot, field = target.strip().rpartition(".")
        if not (equals and dot and name and field):
            raise place.wrong("is not RULE.FIELD=VALUE", "write it like few-loss-tokens.min=16.")
        rule = known_rule(name, place, self.stage)
        changes = self.changes.setdefault(name, Changes(rule))
        changes.change(field, value.strip(), place)

    def ignore_option(self, option: str) -> None:
        """Take `--ignore RULE[,RULE]`."""
        for name in option.split(","):
            if name.strip():
                self.ignored.add(self._ignorable(name.strip(), Place("--ignore", 0, name.strip())))

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if (place := self._id_place) and self.id and self.id.kind == "content" and self.stage not in _TEXT_STAGES:
            raise place.wrong(
                f"rows of stage {self.stage} hold no prompt to take a digest of",
                "let rows carry the id that they have upstream, or write `id: {column: NAME}`.",
            )
        place = self._mix_place
        if self.mix is None or place is None:
            return
        if self.sources is not None and (others := [name for name in self.mix if name not in self.sources]):
            raise place.wrong(f"source {others[0]!r} is not in `sources`", nearest(others[0], self.sources))
        if sum(least for least, _ in self.mix.values()) > 1 + 1e-9:
            raise place.wrong("the lower bounds add up to more than 1", "lower some of them.")

    def _ignorable(self, name: str, place: Place) -> str:
        refuse_ignored(known_rule(name, place), place)
        return name

    def _take_roles(self, said: Value) -> None:
        for alias, value in said.mapping().items():
            if alias in ROLES:
                raise value.place.wrong(
                    f"{alias} is a role itself and can't be an alias", "name what the data calls it."
                )
            if not value.is_null:
                self.aliases[alias] = value.word(ROLES)
            elif alias in self.aliases:
                del self.aliases[alias]
            else:
                raise value.place.wrong(f"there is no alias {alias!r} to take back", nearest(alias, self.aliases))


def _named_family(path: Path, said: Value) -> Family:
    name = said.text()
    return load_family(str(path.parent / name) if is_file_name(name) else name, place=said.place)


def _take_mode(said: Value) -> str:
    return said.word(MODES)


def _take_upstream(said: Value) -> str:
    return said.word(("required", "optional"))


def _take_sources(said: Value) -> tuple[str, ...]:
    names = [_source_name(each) for each in said.items()]
    if not names:
        raise said.place.wrong("must name at least one source", "take the key away where any source will do.")
    return tuple(dict.fromkeys(names))


def _source_name(said: Value) -> str:
    name = said.text()
    if name.strip().lower() in PLACEHOLDER_SOURCES:
        raise said.place.wrong(f"{name!r} names no source", "write the data set's name.")
    return name


def _take_mix(said: Value) -> Mapping[str, tuple[float, float]]:
    mix: dict[str, tuple[float, float]] = {}
    for name, value in said.mapping().items():
        bounds = [each.number() for each in value.items()]
        if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1] <= 1:
            raise value.place.wrong(
                "must be [min, max], two shares from 0 to 1", "write [0.2, 0.4] for 20 to 40 per cent."
            )
        mix[name] = (float(bounds[0]) + 0.0, float(bounds[1]) + 0.0)
    if not mix:
        raise said.place.wrong("must name at least one source", "take the key away where no mix is asked for.")
    return MappingProxyType(mix)


def _take_source(said: Value) -> Declaration:
    kind, value = _one_of(said, ("column", "path_pattern", "constant"))
    if kind == "path_pattern":
        return Declaration("path_pattern", _pattern(value))
    return Declaration("constant", _source_name(value)) if kind == "constant" else Declaration("column", value.text())


def _take_id(said: Value) -> Declaration:
    if isinstance(said.node, yaml.ScalarNode):
        said.word(("content",))
        return Declaration("content", "")
    kind, value = _one_of(said, ("column", "content"))
    if kind == "column":
        return Declaration("column", value.text())
    if not value.flag():
        raise value.place.wrong("must be true", "write `id: content`, or take the key away.")
    return Declaration("content", "")


def _one_of(said: Value, kinds: tuple[str, ...]) -> tuple[str, Value]:
    found = said.mapping(kinds)
    if len(found) != 1:
        raise said.place.wrong(f"must have one of {', '.join(kinds)}", f"write {{{kinds[0]}: NAME}}.")
    return next(iter(found.items()))


def _pattern(said: Value) -> str:
    """A pattern that Python and RE2 both read, as the shards' names are matched by RE2."""
    pattern, place = said.text(), said.place
    hint = "write it like '(?P<source>[^/]+)/'."
    try:
        with warnings.catch_warnings(action="ignore"):  # about what other versions of Python may make of it
            groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        raise place.wrong(f"is no regular expression: {error}", hint) from error
    if problem := _re2_problem(pattern):
        raise place.wrong(problem, f"match without it; {hint}")
    if "source" not in groups:
        raise place.wrong("has no group named source", hint)
    return pattern


def _re2_problem(pattern: str) -> str:
    """What RE2 has against a pattern, in words; "" where it reads it."""
    import duckdb  # heavy, and few contracts have a pattern

    with duckdb.connect() as connection:
        try:
            connection.execute("SELECT regexp_extract('', ?, 0)", [pattern]).fetchall()
        except duckdb.Error as error:
            for sign, name in _RE2_LACKS:
                if sign.search(pattern):
                    return f"has {name}, which RE2 does not know"
            return f"is no regular expression to RE2: {str(error).splitlines()[0].partition('Error: ')[2]}"
    return ""


_TAKERS: Final[Mapping[str, Any]] = {
    "mode": _take_mode,
    "target": Value.text,
    "upstream": _take_upstream,
    "sources": _take_sources,
    "mix": _take_mix,
    "source": _take_source,
    "id": _take_id,
}
_NOTHING: Final[Mapping[str, Any]] = {
    "mode": "",
    "target": "",
    "upstream": "optional",
    "sources": None,
    "mix": None,
    "source": None,
    "id": None,
}
