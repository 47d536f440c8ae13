"""What a contract in force asks, as plain data: for its digest, and for a gate that compares two of them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dflash_guard.contract.catalog import CATALOG_VERSION
from dflash_guard.contract.model import Contract, Family, RuleSetting
from dflash_guard.contract.settings import at_least_as_strict

__all__ = ["digest_of", "terms_of", "why_looser"]


def digest_of(contract: Contract) -> str:
    """The digest of a contract in force: equal for all that judges alike, however it is written.

    Covers rules, sources, mix, declarations, target, mode, stage, family, aliases and the catalog's version; not
    names, paths, or what an ignored rule would have been.
    """
    rules = {name: _meaning(setting) for name, setting in contract.rules.items()}
    return f"sha256:{_digest(terms_of(contract) | {'rules': rules})}"


def terms_of(contract: Contract) -> dict[str, Any]:
    """What a contract asks beside its rules' settings: JSON types only."""
    return {
        "catalog": CATALOG_VERSION,
        "stage": contract.stage,
        "mode": contract.mode,
        "family": _digest({name: getattr(contract.family, name) for name in Family.__dataclass_fields__}),
        "sources": None if contract.sources is None else sorted(contract.sources),
        "mix": {name: list(share) for name, share in contract.mix.items()} if contract.mix else None,
        "source": asdict(contract.source) if contract.source else None,
        "id": asdict(contract.id) if contract.id else None,
        "target": contract.target,
        "aliases": dict(contract.aliases or {}),
        "upstream": contract.upstream,
    }


def why_looser(terms: Mapping[str, Any], judged: Mapping[str, RuleSetting], asked: Contract) -> str | None:
    """Say why a judgement does not answer for a contract; None where it was at least as strict in everything.

    Args:
        terms: `terms_of` the contract that the data was judged by.
        judged: The settings of that contract's rules, by name; ignored ones included.
        asked: The contract that is in force now.
    """
    wanted = terms_of(asked)
    for name in ("catalog", "stage", "mode", "family", "source", "id", "aliases"):
        if terms.get(name) != wanted[name]:
            return f"{_NAMES[name]} {_said(terms.get(name))}, and {_said(wanted[name])} is asked for"
    if wanted["sources"] is not None and not set(wanted["sources"]) >= set(terms["sources"] or [""]):
        return "it was judged with other sources allowed than the contract now lists"
    for name in ("mix", "target"):
        if wanted[name] and terms.get(name) != wanted[name]:
            return f"{_NAMES[name]} {_said(terms.get(name))}, and {_said(wanted[name])} is asked for"
    for name, setting in asked.rules.items():
        if setting.ignored:
            continue
        if name not in judged:
            return f"{name} was not judged"
        if (why := at_least_as_strict(judged[name], setting)) is not None:
            return why
    return None


_NAMES: Mapping[str, str] = {
    "catalog": "it was judged by catalog version",
    "stage": "it was judged at stage",
    "mode": "it was judged for mode",
    "family": "it was judged for a family file with digest",
    "source": "it was judged with source declared as",
    "id": "it was judged with id declared as",
    "aliases": "it was judged with role aliases",
    "mix": "it was judged with mix",
    "target": "it was judged with target",
}


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_said(each)}" for key, each in value.items()) or "nothing"
    text = str(value)
    return (text[:12] + "…" if len(text) == 64 else text) if value else "nothing"


def _meaning(setting: RuleSetting) -> dict[str, Any]:
    if setting.ignored:
        return {"ignored": True}
    return {"level": setting.level, "tolerance": setting.tolerance, "bound": dict(setting.bound)}


def _digest(said: Mapping[str, Any]) -> str:
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False, default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()
