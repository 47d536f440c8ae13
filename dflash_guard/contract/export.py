"""A contract in the forms of other tools: its own YAML, ODCS 3.1, a Great Expectations suite."""

from collections.abc import Mapping
from typing import Any

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.contract.expectations import compile_expectations
from dflash_guard.contract.model import Contract, Stage

__all__ = ["as_gx", "as_mapping", "as_odcs"]

# The columns of each stage, as ODCS types; (name, logical type, physical type, required, what it is).
_Column = tuple[str, str, str, bool, str]
_ID: _Column = ("id", "string", "string", True, "stable id, the same at every stage")
_SOURCE: _Column = ("source", "string", "string", True, "where the prompt comes from")
_MESSAGES: _Column = ("messages", "array", "list<struct<role: string, content: string>>", True, "the conversation")
_COLUMNS: Mapping[Stage, tuple[_Column, ...]] = {
    "prompts": (_ID, _SOURCE, _MESSAGES, ("tools", "array", "list<struct>", False, "tools that were offered")),
    "completions": (
        _ID,
        _SOURCE,
        _MESSAGES,
        ("finish_reason", "string", "string", True, "why the engine stopped"),
        ("usage", "object", "struct", False, "token counts of the engine"),
        ("generator", "object", "struct", False, "model, revision, engine, sampling and template; or in the manifest"),
    ),
    "tokenized": (
        ("sample_id", "string", "string", True, "id of the sample"),
        _SOURCE,
        ("turn", "integer", "int32", False, "index of the assistant turn that the row ends on"),
        ("input_ids", "array", "list<int32>", True, "token ids"),
        ("loss_mask", "array", "list<int8>", True, "1 where the loss is computed"),
        ("seq_len", "integer", "int32", False, "length of input_ids"),
    ),
    "hidden_states": (_ID, _SOURCE),
}
_ITEMS = {"input_ids": "integer", "loss_mask": "integer", "messages": "object", "tools": "object"}


def as_mapping(contract: Contract) -> dict[str, Any]:
    """The contract in force as a contract file would say it, every rule named."""
    said: dict[str, Any] = {"name": contract.name, "stage": contract.stage, "mode": contract.mode}
    said |= {"family": contract.family.name} | ({"target": contract.target} if contract.target else {})
    said |= {"upstream": contract.upstream} if contract.upstream != "optional" else {}
    if contract.sources is not None:
        said["sources"] = list(contract.sources)
    if contract.mix:
        said["mix"] = {source: list(bounds) for source, bounds in contract.mix.items()}
    for key, declared in (("source", contract.source), ("id", contract.id)):
        if declared is not None:
            said[key] = declared.kind if declared.kind == "content" else {declared.kind: declared.value}
    said["rules"] = {}
    for name, setting in contract.rules.items():
        if not setting.ignored:
            tolerance = {"tolerance": setting.tolerance} if CATALOG[name].tolerant else {}
            said["rules"][name] = {"level": setting.level, **tolerance, **setting.bound}
    return said


def as_odcs(contract: Contract) -> dict[str, Any]:
    """The contract as an Open Data Contract Standard 3.1 document: columns, and each rule as a check of this tool."""
    return {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": f"dflash-guard-{contract.name}",
        "name": contract.name,
        "version": contract.digest.removeprefix("sha256:")[:12],
        "status": "active",
        "description": {
            "purpose": f"What {contract.stage} of a drafter's training data must be, for {contract.family.name} "
            f"served in mode {contract.mode}.",
            "usage": f"dflash-guard check DATA --stage {contract.stage} --contract {contract.name}",
        },
        "schema": [
            {
                "name": contract.stage,
                "logicalType": "object",
                "physicalType": "shard",
                "properties": [_property(*column) for column in _COLUMNS[contract.stage]],
                "quality": [_quality(name, contract) for name, s in contract.rules.items() if not s.ignored],
            }
        ],
        "customProperties": [{"property": "effectiveDigest", "value": contract.digest}],
    }


def _property(name: str, logical: str, physical: str, required: bool, words: str) -> dict[str, Any]:
    items = {"items": {"logicalType": _ITEMS[name]}} if name in _ITEMS else {}
    said = {"name": name, "logicalType": logical, "physicalType": physical, "required": required, "description": words}
    return said | items


def _quality(name: str, contract: Contract) -> dict[str, Any]:
    setting, rule = contract.rules[name], CATALOG[name]
    bound = {"tolerance": setting.tolerance, **setting.bound} if rule.tolerant else dict(setting.bound)
    return {
        "type": "custom",
        "engine": "dflash-guard",
        "name": name,
        "description": rule.says,
        "severity": setting.level,
        "dimension": "completeness" if rule.table == "provenance" else "conformity",
        "implementation": {"rule": name, **bound},
    }


def as_gx(contract: Contract) -> dict[str, Any]:
    """The contract's distribution rules as a Great Expectations suite, over the columns of a profile's frame."""
    from dflash_guard.contract.gx_process import make_suite

    suite = make_suite(compile_expectations(contract), contract.name)
    return suite | {"meta": {**suite.get("meta", {}), "contract": contract.digest, "stage": contract.stage}}
