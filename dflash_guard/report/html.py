"""A page of HTML that needs nothing else: no network, no script, every text escaped."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.profile.cost import ASSUMPTIONS, Cost
from dflash_guard.profile.model import Profile
from dflash_guard.report._cells import cut, flat
from dflash_guard.report._charts import charts
from dflash_guard.report._lines import WORDS, amounts, found, outcome
from dflash_guard.report._style import Style
from dflash_guard.report.autopsy import ROW, TURN, shortened, unquoted
from dflash_guard.report.lineage import tree
from dflash_guard.report.profile import summary_figures, tables
from dflash_guard.verdict.autopsy import Autopsy, Finding, Piece, Specimen
from dflash_guard.verdict.failures import REDACTED
from dflash_guard.verdict.lineage import Node
from dflash_guard.verdict.model import Verdict

__all__ = ["profile_page", "report_page"]

SHARDS = 200


def profile_page(profile: Profile, style: Style, title: str) -> Iterator[str]:
    """A profile alone."""
    yield _page(heading=title, stage=profile.stage, figures=summary_figures(profile), **_profile(profile, style))


def report_page(
    verdict: Verdict, profile: Profile, autopsy: Autopsy, cost: Cost | None, style: Style, *, lineage: Node | None
) -> Iterator[str]:
    """All that is known of a data set.

    Args:
        verdict: How it was judged.
        profile: What it looks like.
        autopsy: What is wrong with it.
        cost: Of its failing rows; None where there is none.
        style: Redacted or not.
        lineage: Where it comes from; None where nothing is on record.
    """
    counts = verdict.counts
    figures = [
        *summary_figures(profile),
        ("failed", f"{counts.failed_rows:,}"),
        ("warned", f"{counts.warned_rows:,}"),
        ("quarantined", f"{counts.quarantined_rows:,}"),
    ]
    yield _page(
        heading=" ".join(verdict.data),
        stage=verdict.contract.stage,
        figures=figures,
        verdict=_verdict(verdict),
        autopsy=_autopsy(autopsy, style),
        cost=_cost(cost) if cost is not None and cost.rows else None,
        lineage="\n".join(tree(lineage)) if lineage is not None else "",
        **_profile(profile, style),
    )


def _page(**content: Any) -> str:
    page: str = _template().render(**content)
    return page + "\n"


@cache
def _template() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("dflash_guard.report", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.ChainableUndefined, finalize=_shown, trim_blocks=True
    )
    return environment.get_template("page.html.jinja")


def _shown(value: Any) -> Any:
    """Text without control characters, but for the ends of lines."""
    return "\n".join(flat(line) for line in value.split("\n")) if type(value) is str else value


def _profile(profile: Profile, style: Style) -> dict[str, Any]:
    from markupsafe import Markup

    return {
        "charts": [(name, Markup(svg)) for name, svg in charts(profile)],  # noqa: S704 - drawn by us, texts escaped
        "tables": list(tables(profile, style)),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    contract = verdict.contract
    rules = [["rule", "level", "outcome", "rows", "share"]]
    rules += [
        [
            r.rule,
            r.level,
            f"not judged: {r.skipped}" if r.skipped else outcome(r),
            *(("–", "–") if r.skipped else amounts(r)),
        ]
        for r in verdict.rules
    ]
    shards = [["shard", "rows", "bytes", "sha256"]]
    shards += [[s.shard.name, f"{s.rows:,}", f"{s.size:,}", s.sha256[:16]] for s in verdict.seals[:SHARDS]]
    if len(verdict.seals) > SHARDS:
        shards.append([f"… and {len(verdict.seals) - SHARDS:,} more", "", "", ""])
    return {
        "result": verdict.result,
        "word": WORDS[verdict.result],
        "rules": rules,
        "shards": shards,
        "left_out": [f"{each.name}: {each.why}" for each in verdict.left_out[:50]],
        "contract": f"{contract.name} · {contract.path} · {contract.digest}",
        "family": contract.family.name,
        "mode": contract.mode,
        "when": f"{verdict.started:%Y-%m-%d %H:%M:%S} UTC",
    }


def _autopsy(autopsy: Autopsy, style: Style) -> dict[str, Any]:
    findings = [_finding(each, style) for each in autopsy.findings]
    response = autopsy.response
    dominant = unquoted(autopsy.dominant, style)
    if response is not None and response.text is not None and not style.redact:
        dominant += f": {shortened(response.text, 200)}"
    return {
        "dominant": cut(dominant, 800),
        "findings": findings,
        "painted": any(row["pieces"] for each in findings for row in each["specimens"]),
    }


def _finding(finding: Finding, style: Style) -> dict[str, Any]:
    result = finding.result
    return {
        "rule": result.rule,
        "level": result.level,
        "found": found(result),
        "message": cut(unquoted(result.message, style), 800),
        "sources": [(cut(name, 60), f"{rows:,}") for name, rows in finding.sources],
        "help": CATALOG.get(result.rule),
        "specimens": [_specimen(each, style) for each in finding.specimens],
    }


def _specimen(specimen: Specimen, style: Style) -> dict[str, Any]:
    where = f"{specimen.shard}:{specimen.line if specimen.line is not None else f'row {specimen.row}'}"
    place = where + (f" (id {cut(specimen.sample_id, 80)})" if specimen.sample_id is not None else "")
    if style.redact:
        return {"place": place, "detail": REDACTED, "pieces": [], "turns": [], "raw": ""}
    sample = specimen.sample
    turns = [
        {"role": f"{cut(turn.role, 40)}{what}", "text": shortened(text, TURN * 2)}
        for turn in sample.turns
        for what, text in (("", turn.content), (" thinking", turn.thinking), (" calls", turn.calls))
        if text
    ]
    raw = shortened(sample.raw, TURN) if sample.raw is not None and not sample.turns else ""
    pieces = [{"supervised": piece.supervised, "text": _text(piece)} for piece in specimen.pieces]
    return {"place": place, "detail": cut(specimen.detail, 400), "pieces": pieces, "turns": turns, "raw": raw}


def _text(piece: Piece) -> str:
    if piece.text is not None:
        return shortened(piece.text, ROW)
    more = f", … ({len(piece.ids):,} ids) " if len(piece.ids) > 60 else " "
    return ", ".join(map(str, piece.ids[:60])) + more


def _cost(cost: Cost) -> dict[str, Any]:
    lines = [
        ["", "about"],
        ["failing rows", f"{cost.rows:,}"],
        ["their tokens", f"{cost.tokens:,}"],
        ["GPU hours to read them once in training", f"{cost.train_hours:,.1f}"],
        ["GPU hours to answer them again", f"{cost.regenerate_hours:,.1f}"],
        ["hidden states stored offline", _bytes(cost.state_bytes)],
    ]
    return {"lines": lines, "assumptions": ASSUMPTIONS}


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:,.1f} {unit}"
