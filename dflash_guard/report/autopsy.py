"""An autopsy as text: the dominant failure, what it is made of, and rows with the mask painted over them."""

from collections.abc import Iterator

from dflash_guard.contract.catalog import CATALOG
from dflash_guard.profile.model import TopResponse
from dflash_guard.report._cells import count, cut, inert
from dflash_guard.report._lines import WORDS, found, last_line
from dflash_guard.report._style import Style
from dflash_guard.verdict.autopsy import Autopsy, Finding, Piece, Specimen
from dflash_guard.verdict.failures import REDACTED
from dflash_guard.verdict.model import Verdict

__all__ = ["ROW", "TURN", "pieces", "shortened", "unquoted"]

TURN = 600  # characters of a turn
ROW = 1_200  # characters of a painted run
SUPERVISED, PROMPT = "30;42", "2"


def pieces(verdict: Verdict, autopsy: Autopsy, style: Style) -> Iterator[str]:
    """What is wrong, the most important first; supervised text is green, or in ⟦ ⟧ where there is no colour."""
    yield f"{WORDS[verdict.result]} · {verdict.contract.stage} · {cut(inert(' '.join(verdict.data)), style.width)}\n\n"
    yield f"{_paint(inert(cut(unquoted(autopsy.dominant, style), 500)), '1', style)}\n"
    if autopsy.response is not None:
        yield f"\n{_response(autopsy.response, style)}\n"
    for finding in autopsy.findings:
        yield from _finding(finding, style)
    yield f"\n{last_line(verdict)}\n"


def unquoted(text: str, style: Style) -> str:
    """A message that may quote a sample, without what it quotes."""
    return text.split(": '", maxsplit=1)[0].split(": ids ", maxsplit=1)[0] if style.redact else text


def _response(top: TopResponse, style: Style) -> str:
    if style.redact:
        return f"  {REDACTED}"
    if top.text is not None:
        text = "\n".join(f"  │ {inert(line)}" for line in shortened(top.text, TURN).split("\n"))
    else:
        text = f"  ids {cut(', '.join(map(str, top.ids[:512])), TURN)} (--tokenizer PATH shows them as text)"
    return text


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    result = finding.result
    hue = "1;31" if result.level == "error" else "1;33"
    yield f"\n{_paint(result.rule, hue, style)} ({result.level}): {found(result)}\n"
    if result.message:
        yield f"  {inert(cut(unquoted(result.message, style), 400))}\n"
    if result.rule in CATALOG:
        yield f"  To do: {CATALOG[result.rule].fix}\n"
    if finding.sources:
        yield f"  Sources: {', '.join(f'{inert(cut(name, 40))} {rows:,}' for name, rows in finding.sources)}\n"
    for specimen in finding.specimens:
        yield from _specimen(specimen, style)


def _specimen(specimen: Specimen, style: Style) -> Iterator[str]:
    place = f"{inert(specimen.shard)}:{specimen.line if specimen.line is not None else f'row {specimen.row}'}"
    name = f" (id {inert(cut(specimen.sample_id, 60))})" if specimen.sample_id is not None else ""
    yield f"\n  {_paint(place + name, '4', style)} {REDACTED if style.redact else inert(cut(specimen.detail))}\n"
    if style.redact:
        yield f"    {REDACTED}\n"
        return
    if specimen.pieces:
        yield f"    {''.join(_painted(piece, style) for piece in specimen.pieces)}\n"
    for index, turn in enumerate(specimen.sample.turns):
        said = [("", turn.content)]
        said += [(f" {what}", text) for what, text in (("thinking", turn.thinking), ("calls", turn.calls)) if text]
        for what, text in said:
            lines = shortened(text, TURN).split("\n")
            yield f"    {index} {inert(cut(turn.role, 30))}{what}: {inert(lines[0])}\n"
            yield from (f"      {inert(line)}\n" for line in lines[1:])
    if not specimen.pieces and not specimen.sample.turns and specimen.sample.raw is not None:
        yield f"    {inert(cut(specimen.sample.raw, TURN))}\n"


def _painted(piece: Piece, style: Style) -> str:
    ids = ", ".join(map(str, piece.ids[:40])) + (f", … ({count(len(piece.ids), 'id')})" if len(piece.ids) > 40 else "")
    text = inert(shortened(piece.text, ROW).replace("\n", "↵")) if piece.text is not None else ids
    if style.color:
        return _paint(text, SUPERVISED if piece.supervised else PROMPT, style)
    return f"⟦{text}⟧" if piece.supervised else f"{text}"


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and its end and how much is between."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} … ({len(text) - most:,} characters) … {text[-(most // 3) :]}"


def _paint(text: str, codes: str, style: Style) -> str:
    return f"\x1b[{codes}m{text}\x1b[0m" if style.color else text
