"""Plots as SVG, drawn by Vega-Lite in this process: no network, no script in the page."""

import re
from collections.abc import Sequence
from typing import Any

from dflash_guard.profile.model import HistogramBin, Profile
from dflash_guard.report._cells import cut, inert

__all__ = ["charts"]

GREY, BLUE = "#808995", "#3b82c4"  # readable on white and on black
SOURCES = 12


def charts(profile: Profile) -> list[tuple[str, str]]:
    """A title and an SVG for each histogram that says something, and one of the sources."""
    found = [(fact, _histogram(bins)) for fact, bins in profile.histograms.items() if bins]
    if len(profile.sources) > 1:
        rows = [{"name": inert(cut(each.name, 30)), "rows": each.rows} for each in profile.sources[:SOURCES]]
        found.append(("Rows by source", _bars(rows)))
    return found


def _histogram(bins: Sequence[HistogramBin]) -> str:
    import altair as alt

    rows = [{"at": f"{each.start:,.6g}", "rows": each.rows} for each in bins]
    chart = alt.Chart(alt.Data(values=rows)).mark_bar(color=BLUE)
    return _svg(
        chart.encode(
            x=alt.X("at:N", sort=None, title="from", axis=alt.Axis(labelAngle=-40)), y=alt.Y("rows:Q", title="rows")
        )
    )


def _bars(rows: Sequence[dict[str, Any]]) -> str:
    import altair as alt

    chart = alt.Chart(alt.Data(values=list(rows))).mark_bar(color=BLUE)
    return _svg(chart.encode(y=alt.Y("name:N", sort=None, title=None), x=alt.X("rows:Q", title="rows")))


def _svg(chart: Any) -> str:
    import vl_convert

    plain = {"labelColor": GREY, "titleColor": GREY, "domainColor": GREY, "tickColor": GREY, "gridOpacity": 0.25}
    styled = chart.properties(width=380, height=200).configure(background="transparent").configure_axis(**plain)
    svg: str = vl_convert.vegalite_to_svg(styled.configure_view(stroke=None).to_dict())
    return re.sub(r"<\?xml.*?\?>", "", svg)
