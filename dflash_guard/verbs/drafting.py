"""The contract of a call: its options, then what the data set's manifest says, then the contract file."""

from collections.abc import Sequence
from dataclasses import replace

from dflash_guard.contract.load import Draft, read_contract
from dflash_guard.contract.model import Stage
from dflash_guard.verdict.manifest import Manifest

__all__ = ["draft_contract"]


def draft_contract(
    manifest: Manifest | None,
    name: str | None,
    *,
    stage: Stage,
    mode: str | None = None,
    family: str | None = None,
    sets: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Draft:
    """Read a contract as `read_contract` does; mode and family come from the manifest where no option names them.

    Args:
        manifest: Of the data set, None without one.
        name: The contract's name or file; the stage's by default.
        stage: As in `read_contract`, like all that follow, and the errors.
        mode: The serving mode.
        family: The target's family.
        sets: Changes of rules.
        ignore: Rules to leave out.
    """
    said_mode = manifest.mode if manifest is not None and mode is None else ""
    said_family = manifest.family if manifest is not None and family is None else ""
    draft = read_contract(
        name,
        stage=stage,
        mode=mode or said_mode or None,
        family=family or said_family or None,
        sets=sets,
        ignore=ignore,
    )
    if said_mode:
        draft = replace(draft, mode_from="manifest")
    return replace(draft, family_from="manifest") if said_family else draft
