"""What a rule of the catalog is: its name, where and how hard it is judged, and the words that explain it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from dflash_guard.contract.model import Family, Level, Mode, RuleSetting, Stage

__all__ = ["MODES", "STAGES", "Bound", "Rule", "Scope", "Table"]

Scope = Literal["shard", "row", "cross", "dataset"]
Table = Literal["shard", "text", "provenance", "conversation", "response", "tokens", "hidden-states", "distribution"]

STAGES: Final[tuple[Stage, ...]] = ("prompts", "completions", "tokenized", "hidden_states")
MODES: Final[tuple[Mode, ...]] = ("thinking", "off", "row")


@dataclass(frozen=True, slots=True)
class Bound:
    """One number of a rule that a contract may change.

    Attributes:
        name: The field as `--set RULE.FIELD=VALUE` and contract files name it.
        default: The shipped value.
        unit: `count` (whole numbers from 0) or `share` (0 to 1).
        stricter: Whether a `higher` or a `lower` value lets less data through.
        of: What the number counts, in words.
    """

    name: str
    default: float
    unit: Literal["count", "share"]
    stricter: Literal["higher", "lower"]
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the catalog.

    Attributes:
        name: Kebab-case, never reused for anything else.
        table: The part of the catalog it stands in.
        scope: What one failure is about: a `shard`, a `row`, a row against upstream (`cross`), the `dataset`.
        stages: The stages it is judged at, in order.
        modes: The serving modes it is judged in; in mode `row` it is judged by the row's own mode.
        level: The shipped level, unless `stage_levels` or `by_family` say otherwise.
        stage_levels: Stages with a level of their own.
        by_family: The shipped level is `family`: `error` where the family's templates refuse what the rule
            finds (`Family.system_first`), `warn` elsewhere.
        tolerance: The shipped tolerance, a share of rows.
        bounds: The numbers that a contract may change.
        locked: Whether it can't be ignored or loosened, as bytes that were not read can't be judged.
        needs: The evidence without which it is skipped, in words; "" where the data itself is enough.
        fact: The fact column, or columns, that it reads.
        says: What it asks for, in one line.
        why: What goes wrong in drafter training without it.
        fix: What to do about a failure.
        passing: An example that does not fire it.
        failing: An example that fires it.
        example_stage: The stage that the examples are rows of. For the scopes `row` and `cross` both
            examples are JSON lines (for `cross`, each `upstream:` or `here:` and a row); else, and for
            hidden states, they are prose.
        example_options: Options of `check` under which the examples hold, "" for none.
    """

    name: str
    table: Table
    scope: Scope
    stages: tuple[Stage, ...]
    says: str
    why: str
    fix: str
    passing: str
    failing: str
    fact: str
    modes: tuple[Mode, ...] = MODES
    level: Level = "error"
    stage_levels: Mapping[Stage, Level] = field(default_factory=dict)
    by_family: bool = False
    tolerance: float = 0.0
    bounds: tuple[Bound, ...] = ()
    locked: bool = False
    needs: str = ""
    example_stage: Stage = "prompts"
    example_options: str = ""

    @property
    def bound(self) -> dict[str, Any]:
        """The shipped bounds by field name, such as {"min": 32}."""
        return {bound.name: bound.default for bound in self.bounds}

    @property
    def tolerant(self) -> bool:
        """Whether it has a tolerance: only what is judged row by row has one."""
        return self.scope in ("row", "cross")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that a contract or `--set` may change."""
        tolerance = ("tolerance",) if self.tolerant else ()
        return ("level", *tolerance, *(bound.name for bound in self.bounds))

    @property
    def levels(self) -> tuple[str, ...]:
        """The values that its level may take."""
        return ("error", "warn", "family") if self.by_family else ("error", "warn")

    def shipped_level(self, stage: Stage) -> str:
        """The level as contract files write it: `error`, `warn`, or `family`."""
        return "family" if self.by_family else self.stage_levels.get(stage, self.level)

    def level_for(self, stage: Stage, family: Family) -> Level:
        """The shipped level at a stage for a family: `error` or `warn`."""
        if self.by_family:
            return "error" if family.system_first else "warn"
        return self.stage_levels.get(stage, self.level)

    def shipped(self, stage: Stage, family: Family) -> RuleSetting:
        """The setting that holds at a stage for a family where nothing was changed."""
        return RuleSetting(self.name, self.level_for(stage, family), self.tolerance, self.bound)
