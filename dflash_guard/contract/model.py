"""The effective contract: what is asked of a data set, after everything was merged.

`extends`, the family, the mode, `--set` and `--ignore` are already in it; its digest covers them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Contract", "Declaration", "Family", "RuleSetting"]

Level = Literal["error", "warn"]
Mode = Literal["thinking", "off", "row"]
Stage = Literal["prompts", "completions", "tokenized", "hidden_states"]


@dataclass(frozen=True, slots=True)
class Family:
    r"""A target model family: its token ids, texts and tags, from `contracts/families/NAME.yaml`.

    Attributes:
        name: `qwen3`, `qwen3_5`, …
        vocab_size: Rows of the target's embedding; ids are below it.
        begin_turn, end_turn, end_text: `<|im_start|>`, `<|im_end|>`, `<|endoftext|>`.
        think_open, think_close: `<think>`, `</think>`.
        newline: The id of "\n".
        begin_ids: Ids that may begin a row once (the begin-of-text token).
        mask_token: The drafter's mask token, which must not stand in data.
        roles: Role name → the ids that stand after begin_turn for it (without the newline).
        prompt_thinking, prompt_off: Ids that the generation prompt writes after the assistant header
            and its newline, with thinking on and off.
        blank: Ids that are white space only, sorted.
        turn_texts: Texts that make or end a turn, such as `<|im_start|>`.
        control_texts: All other control tokens as text.
        thinking_tags: The texts of think_open and think_close.
        system_first: Whether the family's templates refuse a system turn that is not first.
        sampling: Named sampling settings, kept as they stand in the file.
    """

    name: str
    vocab_size: int
    begin_turn: int
    end_turn: int
    end_text: int
    think_open: int
    think_close: int
    newline: int
    begin_ids: tuple[int, ...]
    mask_token: int
    roles: Mapping[str, tuple[int, ...]]
    prompt_thinking: tuple[int, ...]
    prompt_off: tuple[int, ...]
    blank: tuple[int, ...]
    turn_texts: tuple[str, ...]
    control_texts: tuple[str, ...]
    thinking_tags: tuple[str, str]
    system_first: bool
    sampling: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RuleSetting:
    """How one rule of the catalog is applied by a contract.

    Attributes:
        rule: The rule's name.
        level: `error` or `warn`.
        tolerance: Share of rows that may fail before the data set fails.
        bound: The rule's own bounds by field name, such as {"min": 32}.
        ignored: Whether `--ignore` (or the contract) left it out.
        set_by: Where level, tolerance or bound were changed from the shipped default, "" if nowhere.
    """

    rule: str
    level: Level
    tolerance: float
    bound: Mapping[str, Any]
    ignored: bool = False
    set_by: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """Where a row's source or id comes from, by declaration of the contract.

    Attributes:
        kind: `column`, `path_pattern` (a regular expression with a group `source` over the shard's
            name), `constant`, or `content` (id only: a digest of the prompt).
        value: The column, pattern or constant; "" for content.
    """

    kind: Literal["column", "path_pattern", "constant", "content"]
    value: str


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract in force.

    Attributes:
        name: The contract's name.
        path: The file it came from.
        digest: `sha256:…` over the effective contract and the catalog's version.
        stage, mode: What it judges, and the serving mode that the data is for.
        family: The target's family.
        rules: Every rule of the catalog for this stage, by name, ignored ones included.
        sources: The only source names allowed; None where any known name will do.
        mix: Expected share per source as (min, max); empty where none is declared.
        source, id: Declared provenance, None where rows must carry it themselves.
        target: Name of the target model; "" where the contract names none.
        upstream: `required` where a gate opens only if the chain of verdicts reaches raw prompts.
        aliases: Role alias → role.
        family_from, mode_from: Who named them: `option`, `contract`, `data` or `default`.
    """

    name: str
    path: str
    digest: str
    stage: Stage
    mode: Mode
    family: Family
    rules: Mapping[str, RuleSetting]
    sources: tuple[str, ...] | None = None
    mix: Mapping[str, tuple[float, float]] | None = None
    source: Declaration | None = None
    id: Declaration | None = None
    target: str = ""
    upstream: Literal["required", "optional"] = "optional"
    aliases: Mapping[str, str] | None = None
    family_from: str = "option"
    mode_from: str = "option"
