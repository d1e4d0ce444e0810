"""A chart of each study: published win rates and ours, each with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from analytics.published import PublishedFigure
from analytics.published.comparison import Comparison, Reproduction, published_rate
from analytics.report.style import INK, inline
from analytics.statistics.intervals import Estimate

SERIES = ("published", "ours by the text", "ours by the code")
COLOURS = (INK, "#0072b2", "#d55e00")  # colour-blind readers can distinguish them (Okabe and Ito), also by shape
SHAPES = ("diamond", "circle", "square")
ROW_HEIGHT = 30  # pixels
WIDTH = 620
LABELS = 260  # pixels: wide enough for every label, so that all charts have the same left edge


def panels(reproduction: Reproduction) -> Mapping[str, str]:
    """A chart of each study as SVG for the middle of a page, by the study's letter."""
    return {
        study.study: inline(chart(comparisons), f"study{study.study}-") for study, comparisons in reproduction.studies
    }


def chart(comparisons: Sequence[Comparison]) -> alt.LayerChart:
    """The comparisons of one study, one row each."""
    names = [_name(each.figure) for each in comparisons]
    points = [point for each in comparisons for point in _points(each)]
    base = alt.Chart(alt.InlineData(values=points)).encode(
        y=alt.Y(
            "figure:N",
            sort=names,
            title=None,
            axis=alt.Axis(labelLimit=LABELS, minExtent=LABELS, grid=True, tickBand="extent"),
        ),
        yOffset=alt.YOffset("series:N", sort=SERIES, scale=alt.Scale(paddingOuter=0.4)),
        color=alt.Color("series:N", sort=SERIES, title=None, scale=alt.Scale(domain=SERIES, range=COLOURS)),
    )
    scale = alt.Scale(domain=(0, 100), nice=False)
    axis = alt.Axis(values=[*range(0, 101, 10)])
    reach = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=scale, axis=axis, title="games won, % (95 % interval)"), x2="high:Q"
    )
    shape = alt.Shape("series:N", sort=SERIES, title=None, scale=alt.Scale(domain=SERIES, range=SHAPES))
    point = base.mark_point(filled=True, size=55, opacity=1).encode(x=alt.X("rate:Q", scale=scale), shape=shape)
    layered: alt.LayerChart = (reach + point).properties(
        width=WIDTH, height=alt.Step(ROW_HEIGHT, **{"for": "position"})
    )
    return layered


def _name(figure: PublishedFigure) -> str:
    seat = "" if figure.seat == "both" else f", {figure.seat if figure.seat.isalpha() else f'seat {figure.seat}'}"
    return f"{figure.figure}  {figure.player} v {figure.opponent}{seat}"


def _points(comparison: Comparison) -> list[dict[str, Any]]:
    ours = [one.rate if one else None for one in (comparison.text, comparison.code)]
    rates: list[Estimate | None] = [published_rate(comparison.figure), *ours]
    return [
        {
            "figure": _name(comparison.figure),
            "series": series,
            "rate": 100 * rate.mean,
            "low": 100 * rate.low,
            "high": 100 * rate.high,
        }
        for series, rate in zip(SERIES, rates, strict=True)
        if rate
    ]
