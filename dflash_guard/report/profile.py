"""A profile as text, JSON (`dflash-guard/profile/1`), CSV, Markdown or HTML."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args

from dflash_guard.profile.model import Figures, Group, HistogramBin, Profile, TopResponse
from dflash_guard.report._cells import count, cut, inert, number, percent, unformula
from dflash_guard.report._style import Style
from dflash_guard.report._table import aligned
from dflash_guard.report.json import dumps
from dflash_guard.verdict.failures import REDACTED

__all__ = ["FORMATS", "PROFILE_SCHEMA", "ProfileFormat", "as_object", "pieces", "summary_figures", "tables"]

ProfileFormat = Literal["table", "json", "csv", "markdown", "html"]
FORMATS: tuple[ProfileFormat, ...] = get_args(ProfileFormat)
PROFILE_SCHEMA = "dflash-guard/profile/1"
TEXT = 2_000  # characters of a response
NAME = 1_000  # characters of a source or a finish reason
IDS = 512
SHOWN = 20  # sources and shards in a table
BAR = 30
QUANTILES = ("min", "mean", "median", "p90", "p99", "max")


def pieces(profile: Profile, format: ProfileFormat, style: Style, title: str = "") -> Iterator[str]:  # noqa: A002
    """A profile, piece by piece.

    Args:
        profile: What to show.
        format: How to write it.
        style: Redacted or not, width, colour.
        title: The data set's name, for formats that have a heading.
    """
    match format:
        case "json":
            yield _json(profile, style)
        case "csv":
            yield from _csv(profile)
        case "markdown":
            yield from _markdown(profile, style, title)
        case "html":
            from dflash_guard.report import html

            yield from html.profile_page(profile, style, title)
        case "table":
            yield from _text(profile, style, title)


def as_object(profile: Profile, style: Style) -> dict[str, Any]:
    """The profile as the JSON schema has it."""
    whole = profile.whole
    return {
        "schema": PROFILE_SCHEMA,
        "stage": profile.stage,
        "rows": whole.rows,
        "shards": profile.shards,
        "system_rows": whole.system_rows,
        "thinking_rows": whole.thinking_rows,
        "facts": _facts(whole),
        "sources": [{"source": cut(each.name, NAME), **_group(each)} for each in profile.sources],
        "by_shard": [{"shard": each.name, **_group(each)} for each in profile.by_shard],
        "roles": [{"roles": roles, "rows": rows} for roles, rows in profile.roles],
        "finish_reasons": [
            {"finish_reason": cut(str(why), NAME), "rows": rows} for why, rows in profile.finish_reasons
        ],
        "top_responses": [_response(each, style) for each in profile.top_responses],
        "histograms": {
            fact: [{"from": each.start, "to": each.end, "rows": each.rows} for each in bins]
            for fact, bins in profile.histograms.items()
        },
        "distribution": {
            **asdict(profile.distribution),
            "source_shares": {cut(name, NAME): share for name, share in profile.distribution.source_shares.items()},
        },
    }


def _json(profile: Profile, style: Style) -> str:
    found = as_object(profile, style)
    lines = [f"  {json.dumps(key)}: {dumps(value)}" for key, value in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _group(group: Group) -> dict[str, Any]:
    return {
        "rows": group.rows,
        "share": group.share,
        "system_rows": group.system_rows,
        "thinking_rows": group.thinking_rows,
        "facts": _facts(group),
    }


def _facts(group: Group) -> dict[str, Any]:
    return {fact: {key: _whole(value) for key, value in asdict(each).items()} for fact, each in group.facts.items()}


def _whole(value: float | None) -> float | int | None:
    """A figure that is a whole number as one."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _response(top: TopResponse, style: Style) -> dict[str, Any]:
    hidden = style.redact
    return {
        "rows": top.rows,
        "share": top.share,
        "chars": top.chars,
        "loss_tokens": top.loss_tokens,
        "text": REDACTED if hidden else top.text and cut(top.text, TEXT),
        "ids": [] if hidden else list(top.ids[:IDS]),
    }


def _csv(profile: Profile) -> Iterator[str]:
    """One line a fact of each group: whole, source or shard."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("level", "name", "rows", "share", "fact", "count", "nulls", *QUANTILES, "sum"))
    for level, group in profile.groups():
        head = (level, unformula(cut(group.name, NAME)), group.rows, group.share)
        for fact, figures in group.facts.items():
            values = [_whole(getattr(figures, key)) for key in (*QUANTILES, "sum")]
            writer.writerow((*head, fact, figures.count, figures.nulls, *values))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _text(profile: Profile, style: Style, title: str) -> Iterator[str]:
    yield f"PROFILE · {profile.stage} · {cut(inert(title), style.width)}\n{_summary(profile)}\n"
    for heading, lines, right in tables(profile, style):
        yield f"\n{heading}\n"
        for line in aligned(lines, right):
            yield f"  {line.rstrip()}\n"
    for fact, bins in profile.histograms.items():
        if bins and _is_main(fact):
            yield f"\n{fact}\n"
            yield from _bars(bins)


def _summary(profile: Profile) -> str:
    whole = profile.whole
    parts = [count(whole.rows, "row"), count(profile.shards, "shard"), count(len(profile.sources), "source")]
    return " · ".join([*parts, *(f"{value} {name}" for name, value in _shares(profile))])


def summary_figures(profile: Profile) -> list[tuple[str, str]]:
    """What is said of a profile first: name and value."""
    whole = profile.whole
    figures = [("rows", f"{whole.rows:,}"), ("shards", f"{profile.shards:,}"), ("sources", f"{len(profile.sources):,}")]
    return figures + _shares(profile)


def _shares(profile: Profile) -> list[tuple[str, str]]:
    whole = profile.whole
    found = []
    if whole.system_rows is not None:
        found.append(("with a system turn", f"{whole.system_rows:,}{_of(whole.system_rows, whole.rows)}"))
    if whole.thinking_rows is not None:
        found.append(("with thinking", f"{whole.thinking_rows:,}{_of(whole.thinking_rows, whole.rows)}"))
    if (share := profile.distribution.duplicate_share) is not None:
        found.append(("duplicate prompts", percent(share)))
    return found


def _of(part: int, rows: int) -> str:
    return f" ({percent(part / rows)})" if rows else ""


Table = tuple[str, list[list[str]], set[int]]


def tables(profile: Profile, style: Style) -> Iterator[Table]:
    """Every table of a profile: heading, lines with the header first, and which columns are numbers."""
    lines = [["fact", "rows", *QUANTILES]]
    lines += [[fact, f"{each.count:,}", *_quantiles(each)] for fact, each in profile.whole.facts.items()]
    yield "Facts", lines, set(range(1, 8))
    yield from _group_tables(profile)
    for heading, name, found in (
        ("Roles", "roles", profile.roles),
        ("Finish reasons", "finish_reason", profile.finish_reasons),
    ):
        if found:
            rows = [[f"{rows:,}", percent(rows / profile.whole.rows), inert(cut(value, 80))] for value, rows in found]
            yield heading, [["rows", "share", name], *rows], {0, 1}
    if profile.top_responses:
        size = "tokens" if profile.stage == "tokenized" else "chars"
        rows = [
            [
                f"{top.rows:,}",
                percent(top.share),
                number(top.chars if top.chars is not None else top.loss_tokens),
                _said(top, style),
            ]
            for top in profile.top_responses
        ]
        yield "Most common responses", [["rows", "share", size, "response"], *rows], {0, 1, 2}


def _group_tables(profile: Profile) -> Iterator[Table]:
    """Sources and shards, each by the stage's two main facts."""
    facts = [fact for fact in profile.whole.facts if _is_main(fact)]
    for heading, name, groups in (("Sources", "source", profile.sources), ("Shards", "shard", profile.by_shard)):
        if not groups:
            continue
        header = [name, "rows", "share"]
        for fact in facts:
            header += [f"{fact} mean", "median", "p90", "max"]
        lines = [header]
        for group in groups[:SHOWN]:
            line = [inert(cut(group.name, 50)), f"{group.rows:,}", percent(group.share)]
            for fact in facts:
                figures = group.facts[fact]
                line += [_figure(getattr(figures, key)) for key in ("mean", "median", "p90", "max")]
            lines.append(line)
        more = f" (the first {SHOWN} of {len(groups):,})" if len(groups) > SHOWN else ""
        yield heading + more, lines, set(range(1, len(header)))


def _is_main(fact: str) -> bool:
    return fact in {"prompt_chars", "response_chars", "loss_tokens", "loss_fraction"}


def _quantiles(figures: Figures) -> list[str]:
    return [_figure(getattr(figures, key)) for key in QUANTILES]


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    whole = _whole(value)
    if isinstance(whole, int):
        return f"{whole:,}"
    return f"{value:,.4f}" if abs(value) < 1 else f"{value:,.1f}"


def _said(top: TopResponse, style: Style) -> str:
    if style.redact:
        return REDACTED
    if top.text is not None:
        return inert(cut(top.text, 80).replace("\n", "↵"))
    return f"ids {cut(', '.join(map(str, top.ids[:IDS])), 80)}"


def _bars(bins: Sequence[HistogramBin]) -> Iterator[str]:
    most = max(each.rows for each in bins) or 1
    lines = [["from", "to", "rows", ""]]
    for each in bins:
        length = each.rows / most * BAR
        bar = "█" * int(length) + ("▌" if length - int(length) >= 0.5 else "")
        lines.append([_figure(each.start), _figure(each.end), f"{each.rows:,}", bar or ("▏" if each.rows else "")])
    for line in aligned(lines, {0, 1, 2}):
        yield f"  {line.rstrip()}\n"


def _markdown(profile: Profile, style: Style, title: str) -> Iterator[str]:
    from dflash_guard.report.markdown import escaped

    yield f"## Profile of {escaped(cut(title, 200))}\n\n{_summary(profile)}\n"
    for heading, lines, right in tables(profile, style):
        header, *rows = lines
        yield f"\n### {heading}\n\n| {' | '.join(header)} |\n"
        yield "|" + "|".join(" ---: " if column in right else " --- " for column in range(len(header))) + "|\n"
        for row in rows:
            yield f"| {' | '.join(escaped(cell) for cell in row)} |\n"
