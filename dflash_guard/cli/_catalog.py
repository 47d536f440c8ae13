"""How rules of the catalog are printed."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from dflash_guard.contract.model import Stage
from dflash_guard.contract.rule import MODES, Rule

__all__ = ["as_json", "as_page", "as_table"]

NARROWEST, WIDEST = 80, 120


def as_table(rules: Sequence[Rule], stage: Stage | None, width: int) -> Iterator[str]:
    """One line a rule: name, level, stages, what it asks for; the last column is wrapped, never cut."""
    width = min(max(width, NARROWEST), WIDEST)
    lines = [("rule", "level", "stages", "asks")]
    lines += [(rule.name, _level(rule, stage), _stages(rule), rule.says) for rule in rules]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    margin = sum(widths) + 6
    for name, level, stages, says in lines:
        first, *rest = textwrap.wrap(says, max(width - margin, 24)) or [""]
        yield f"{name.ljust(widths[0])}  {level.ljust(widths[1])}  {stages.ljust(widths[2])}  {first}\n"
        for line in rest:
            yield f"{' ' * margin}{line}\n"
    yield "\nStages: P prompts, C completions, T tokenized, H hidden_states. "
    yield f"{len(rules)} rules; `dflash-guard explain RULE` says more.\n"


def as_json(rule: Rule) -> dict[str, Any]:
    """A rule as an object."""
    return {
        "rule": rule.name,
        "scope": rule.scope,
        "stages": list(rule.stages),
        "levels": {stage: rule.shipped_level(stage) for stage in rule.stages},
        "modes": list(rule.modes),
        "tolerance": rule.tolerance,
        "bound": rule.bound,
        "locked": rule.locked,
        "needs": rule.needs,
        "says": rule.says,
        "why": rule.why,
        "fix": rule.fix,
        "passing": rule.passing,
        "failing": rule.failing,
    }


def as_page(rule: Rule, width: int) -> Iterator[str]:
    """Everything about a rule."""
    width = min(max(width, NARROWEST), WIDEST)
    levels = {rule.shipped_level(stage) for stage in rule.stages}
    level = levels.pop() if len(levels) == 1 else ", ".join(f"{rule.shipped_level(s)} at {s}" for s in rule.stages)
    if rule.by_family:
        level = "by family: error where the target's template refuses such rows, else warn"
    yield f"{rule.name}\n\n{_wrapped(rule.says, width, '  ')}\n"
    facts = [("level", level), ("stages", ", ".join(rule.stages)), ("about", _ABOUT[rule.scope])]
    if len(rule.modes) < len(MODES):
        facts.append(("modes", ", ".join(mode for mode in rule.modes if mode != "row") + "; row by row in mode row"))
    facts += [
        (bound.name, f"{bound.default:g} ({bound.of}); --set {rule.name}.{bound.name}=VALUE changes it")
        for bound in rule.bounds
    ]
    if rule.tolerant:
        share = f"{rule.tolerance * 100:g} % of the rows" if rule.tolerance else "no row"
        facts.append(("tolerance", f"{share} may fail it before the data set fails"))
    if rule.needs:
        facts.append(("needs", f"{rule.needs}; skipped without"))
    if rule.locked:
        facts.append(("locked", "it cannot be ignored or loosened"))
    for name, value in facts:
        yield f"  {name:<10} {value}\n"
    yield f"\nWhy it matters\n{_wrapped(rule.why, width, '  ')}\nWhat to do\n{_wrapped(rule.fix, width, '  ')}"
    for title, example in (("Passes", rule.passing), ("Fails", rule.failing)):
        yield f"\n{title}\n{textwrap.indent(example.rstrip(), '  ')}\n"


_ABOUT = {
    "shard": "one whole shard",
    "row": "one row",
    "cross": "one row against the data set it was made from (--upstream)",
    "dataset": "the whole data set",
}


def _level(rule: Rule, stage: Stage | None) -> str:
    levels = {rule.shipped_level(each) for each in ((stage,) if stage else rule.stages)}
    return "/".join(sorted(levels))


def _stages(rule: Rule) -> str:
    short = {"prompts": "P", "completions": "C", "tokenized": "T", "hidden_states": "H"}
    return "".join(short[stage] if stage in rule.stages else "·" for stage in short)


def _wrapped(text: str, width: int, indent: str) -> str:
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False) + "\n"
