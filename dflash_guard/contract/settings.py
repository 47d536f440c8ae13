"""What a contract says about single rules: fields checked and set, and two settings compared for strictness."""

from dataclasses import dataclass, field
from typing import Final

from dflash_guard.contract.catalog import CATALOG, RULES, rules_for
from dflash_guard.contract.files import Place, Value, nearest, number
from dflash_guard.contract.model import Family, RuleSetting, Stage
from dflash_guard.contract.rule import Rule

__all__ = ["Changes", "at_least_as_strict", "known_rule", "refuse_ignored"]

_LARGEST: Final = 2**31 - 1  # counts are judged as 32-bit numbers


@dataclass(slots=True)
class Changes:
    """What was asked of one rule, before the family is known.

    Attributes:
        rule: The rule.
        level: `error`, `warn` or `family`; "" where nobody said.
        tolerance: None where nobody said.
        bound: The bounds that were said.
        said_by: Who said each field last: a file and line, or `--set`.
    """

    rule: Rule
    level: str = ""
    tolerance: float | None = None
    bound: dict[str, float] = field(default_factory=dict)
    said_by: dict[str, str] = field(default_factory=dict)

    def change(self, name: str, said: Value | str, place: Place) -> None:
        """Change one field.

        Args:
            name: `level`, `tolerance` or a bound's name.
            said: The value: of a file, or the text behind `--set RULE.FIELD=`.
            place: Where it was said.

        Raises:
            ContractError: The rule has no such field, or not with such a value.
        """
        if name not in self.rule.fields:
            hint = f"{self.rule.name} has {', '.join(self.rule.fields)}."
            if name == "tolerance":
                raise place.wrong(f"rule {self.rule.name} has no tolerance, as it is not judged row by row", hint)
            raise place.wrong(f"rule {self.rule.name} has no field {name!r}", hint)
        if name == "level":
            self._change_level(said, place)
        elif name == "tolerance":
            self.tolerance = _share(_number(said, place), place)
        else:
            self._change_bound(name, _number(said, place), place)
        self.said_by[name] = str(place)

    def _change_level(self, said: Value | str, place: Place) -> None:
        levels = self.rule.levels
        if isinstance(said, Value):
            level = said.word(levels)
        elif said in levels:
            level = said
        else:
            raise place.wrong(f"must be one of {', '.join(levels)}, not {said or 'nothing'}", nearest(said, levels))
        if self.rule.locked and level != self.rule.level:
            raise place.wrong(
                f"rule {self.rule.name} can't be loosened, as bytes that were not read can't be judged",
                f"leave it at {self.rule.level}; take the broken shard out of the data instead.",
            )
        self.level = level

    def _change_bound(self, name: str, value: float, place: Place) -> None:
        unit = next(bound.unit for bound in self.rule.bounds if bound.name == name)
        if unit == "share":
            self.bound[name] = _share(value, place)
            return
        if not 0 <= value <= _LARGEST or value != int(value):
            problem = f"must be a whole number from 0 to {_LARGEST:,}, not {value}"
            raise place.wrong(problem, "write a count such as 32.")
        self.bound[name] = int(value)

    def setting(self, stage: Stage, family: Family, *, ignored: bool) -> RuleSetting:
        """The rule's setting at a stage for a family."""
        shipped = self.rule.shipped(stage, family)
        level = self.rule.level_for(stage, family)
        if self.level in ("error", "warn"):
            level = "error" if self.level == "error" else "warn"
        tolerance = shipped.tolerance if self.tolerance is None else self.tolerance
        bound = dict(shipped.bound) | self.bound
        before = {"level": shipped.level, "tolerance": shipped.tolerance, **shipped.bound}
        now = {"level": level, "tolerance": tolerance, **bound}
        set_by = dict.fromkeys(by for name, by in self.said_by.items() if now[name] != before[name])
        return RuleSetting(self.rule.name, level, tolerance, bound, ignored, ", ".join(set_by))


def known_rule(name: str, place: Place, stage: Stage | None = None) -> Rule:
    """The rule of a name, which must be judged at a stage where one is given.

    Raises:
        ContractError: There is no such rule, or not at this stage.
    """
    rule = CATALOG.get(name)
    if rule is None:
        known = rules_for(stage) if stage is not None else RULES
        hint = nearest(name, (each.name for each in known))
        raise place.wrong(
            f"there is no rule {name!r}", f"{hint} See `dflash-guard rules`." if "did you" in hint else hint
        )
    if stage is not None and stage not in rule.stages:
        raise place.wrong(
            f"rule {name} is not judged at stage {stage}, but at {', '.join(rule.stages)}",
            f"take it away; `dflash-guard rules --stage {stage}` lists what is.",
        )
    return rule


def refuse_ignored(rule: Rule, place: Place) -> None:
    """Refuse to leave out a rule that is locked."""
    if rule.locked:
        raise place.wrong(
            f"rule {rule.name} can't be ignored, as bytes that were not read can't be judged",
            "repair the shard, or take it out of the data.",
        )


def at_least_as_strict(judged: RuleSetting, asked: RuleSetting) -> str | None:
    """Say why a judgement by one setting does not answer for another; None where it does.

    Args:
        judged: The setting that the data was judged by.
        asked: The setting that is asked for now, of the same rule.

    >>> strict, lax = (RuleSetting("few-loss-tokens", "error", 0.0, {"min": least}) for least in (32, 16))
    >>> at_least_as_strict(strict, lax)
    >>> at_least_as_strict(lax, strict)
    'few-loss-tokens was judged with min 16, and 32 is asked for'
    """
    if judged.rule != asked.rule:
        raise ValueError(judged.rule, asked.rule)
    if asked.ignored or judged.ignored:
        return None if asked.ignored else f"{asked.rule} was ignored"
    if (judged.level, asked.level) == ("warn", "error"):
        return f"{asked.rule} was judged at level warn, and error is asked for"
    if not judged.tolerance <= asked.tolerance:
        return f"{asked.rule} was judged with tolerance {judged.tolerance:g}, and {asked.tolerance:g} is asked for"
    for bound in CATALOG[asked.rule].bounds:
        was, wanted = judged.bound.get(bound.name), asked.bound.get(bound.name, bound.default)
        if was is None:
            return f"{asked.rule} was judged without {bound.name}, and {wanted:g} is asked for"
        if not (was >= wanted if bound.stricter == "higher" else was <= wanted):
            return f"{asked.rule} was judged with {bound.name} {was:g}, and {wanted:g} is asked for"
    return None


def _number(said: Value | str, place: Place) -> int | float:
    return said.number() if isinstance(said, Value) else number(said, place)


def _share(value: float, place: Place) -> float:
    if not 0 <= value <= 1:
        raise place.wrong(f"must be a share from 0 to 1, not {value}", "write 0.01 for one per cent.")
    return float(value) + 0.0  # no minus zero
