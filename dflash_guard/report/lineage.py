"""A lineage for people and tools: tree, JSON, Mermaid, and a page of HTML."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from dflash_guard.report._cells import count, flat, inert
from dflash_guard.report.json import dumps
from dflash_guard.verdict.lineage import Node

__all__ = ["FORMATS", "SCHEMA", "pieces", "tree"]

FORMATS: Final = ("tree", "json", "mermaid", "html")
SCHEMA: Final = "dflash-guard/lineage/1"
_WORDS: Final[Mapping[str, str]] = {"pass": "PASS", "fail": "FAIL", "not judged": "NOT JUDGED"}


def pieces(node: Node, format: str) -> Iterator[str]:  # noqa: A002 - the option's name
    """A lineage in one of FORMATS.

    Args:
        node: The data set asked about.
        format: `tree`, `json`, `mermaid` or `html`.
    """
    match format:
        case "json":
            yield dumps({"schema": SCHEMA, "lineage": _as_json(node)}) + "\n"
        case "mermaid":
            yield from _mermaid(node)
        case "html":
            yield _page().render(title=flat(node.name), root=_box(node))
        case _:
            yield from (f"{line}\n" for line in tree(node))


def tree(node: Node) -> Iterator[str]:
    """A lineage as lines: each data set above what it was made from."""
    yield _headline(node)
    yield from _below(node, "")


def _below(node: Node, indent: str) -> Iterator[str]:
    for fact in _facts(node):
        yield f"{indent}{'│' if node.parents else ' '}   {fact}"
    for parent in node.parents:
        last = parent is node.parents[-1]
        yield f"{indent}{'└' if last else '├'}─ {parent.via} {_headline(parent)}"
        yield from _below(parent, indent + ("   " if last else "│  "))


def _headline(node: Node) -> str:
    return f"{inert(node.name)} · {node.stage or 'unknown stage'} · {_WORDS[node.result]}"


def _facts(node: Node) -> Iterator[str]:
    record = node.record
    if node.problem:
        yield inert(node.problem)
    if record is not None:
        counts = record.counts
        held = f"{count(counts.rows, 'row')} in {count(counts.shards, 'shard')}"
        yield f"{held}, {counts.quarantined_rows:,} failed an error rule"
        contract = f"contract {inert(record.contract_name)} {record.contract_digest[:19]}…"
        yield f"{contract}, judged {record.started:%Y-%m-%d %H:%M} UTC"
        yield f"verdict sha256:{record.digest[:12]}…, shards {node.bytes}"
        if broken := [each.rule for each in record.rules if each.failed]:
            yield f"broken: {', '.join(broken[:6])}" + (f" and {len(broken) - 6} more" if len(broken) > 6 else "")
    else:
        yield f"shards {node.bytes}"
    if node.made_by:
        yield f"made by {inert(node.made_by)}"


def _as_json(node: Node) -> dict[str, Any]:
    record, manifest = node.record, node.manifest
    return {
        "data": list(node.data),
        "stage": node.stage,
        "via": node.via or None,
        "result": node.result,
        "bytes": node.bytes,
        "problem": node.problem or None,
        "verdict": None
        if record is None
        else {
            "sha256": record.digest,
            "contract": {"name": record.contract_name, "digest": record.contract_digest},
            "rows": record.counts.rows,
            "shards": [{"name": each.name, "sha256": each.sha256, "rows": each.rows} for each in record.shards],
            "failed_rules": [each.rule for each in record.rules if each.failed],
            "ignored": list(record.ignored),
            "judged": record.started.isoformat(),
        },
        "manifest": None
        if manifest is None
        else {
            "sha256": manifest.digest,
            "maker": manifest.maker,
            "version": manifest.version,
            "created": manifest.created,
            "generator": manifest.generator,
            "tokenizer": manifest.tokenizer,
            "parameters": dict(manifest.parameters),
            "set_aside": dict(manifest.set_aside),
        },
        "parents": [_as_json(parent) for parent in node.parents],
    }


def _mermaid(node: Node) -> Iterator[str]:
    yield "flowchart LR\n"
    boxes: dict[str, Node] = {}
    for each in node.walk():
        boxes.setdefault(_identity(each), each)
    names = {identity: f"n{index}" for index, identity in enumerate(boxes)}
    for identity, each in boxes.items():
        rows = f"<br/>{count(each.record.counts.rows, 'row')}" if each.record is not None else ""
        label = f"{_label(each.stage or 'unknown stage')}<br/>{_label(each.name)}{rows}<br/>{_WORDS[each.result]}"
        yield f'  {names[identity]}["{label}"]:::{each.result.replace(" ", "_")}\n'
    for identity, each in boxes.items():
        for parent in each.parents:
            yield f'  {names[_identity(parent)]} -- "{parent.via}" --> {names[identity]}\n'
    yield "  classDef pass stroke:#1b6e3c,stroke-width:2px\n"
    yield "  classDef fail stroke:#b3261e,stroke-width:2px\n"
    yield "  classDef not_judged stroke:#8a5a00,stroke-dasharray:4 3\n"


def _identity(node: Node) -> str:
    """What makes two data sets of a lineage one."""
    return node.record.digest if node.record is not None else node.name


def _label(text: str) -> str:
    """Text in a quoted Mermaid label: whatever could end it, or start markup, as an entity code."""
    return "".join(c if c.isalnum() or c in " /._-,:" else f"#{ord(c)};" for c in flat(text))


def _box(node: Node) -> dict[str, Any]:
    return {
        "title": f"{node.stage or 'unknown stage'} · {_WORDS[node.result]}",
        "kind": node.result.split()[0],
        "via": node.via,
        "name": flat(node.name),
        "facts": [flat(fact) for fact in _facts(node)],
        "parents": [_box(parent) for parent in node.parents],
    }


@cache
def _page() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("dflash_guard.report", "templates")
    return jinja2.Environment(loader=loader, autoescape=True).get_template("lineage.html.jinja")
