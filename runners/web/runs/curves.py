"""Curves of several runs laid over each other, and the path of a sequential test."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analytics.report import style
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative
from analytics.statistics.sprt import Hypotheses

MAX_SERIES = len(style.AGENT_COLOURS)
WIDE = {"width": 620, "height": 210}  # pixels of a picture that stands alone on a page


def build_overlay_figure(
    title: str, rows: pl.DataFrame, series: Sequence[str], axes: tuple[Spec, Spec], name: str, note: str = ""
) -> Figure:
    """Build a picture with a line for each series, all with the same axes.

    Args:
        title: The title.
        rows: The points; the columns ``series`` (texts), and those of the two axes.
        series: The values of the column ``series``, in the order of their colours.
        axes: The channels x and y.
        name: The beginning of the picture's ids.
        note: How to read the picture.

    """
    colours = [light for light, _ in style.AGENT_COLOURS][: len(series)]
    colour = nominal("series", scale={"domain": [*series], "range": colours}, legend={"symbolType": "stroke"})
    points = rows.group_by("series").len()["len"].max()
    marks = [layer("line", {}, strokeWidth=2)]
    if isinstance(points, int) and points <= style.MAX_MARKED_POINTS:
        marks.append(layer("point", {}, filled=True, size=22, opacity=1))
    chart = {
        **style.PANEL,
        "data": inline_data(rows),
        "encoding": {"x": axes[0], "y": axes[1], "color": colour},
        "layer": marks,
    }
    return Figure(title, chart, f"{name}-", note)


def build_sprt_figure(path: pl.DataFrame, hypotheses: Hypotheses) -> Figure:
    """Build the picture of a test's log-likelihood ratio by pairs, between the bounds at which the test ends.

    ``path`` has the columns ``pairs`` and ``ratio``.
    """
    lower, upper = hypotheses.bounds
    bounds = pl.DataFrame({"ratio": [lower, upper], "text": ["accepts elo0", "accepts elo1"]})
    height = quantitative("ratio", title="log-likelihood ratio", axis={"tickCount": 5, **style.PLAIN_AXIS})
    rule = layer("rule", {"y": height}, strokeDash=[5, 4], color=style.FAINT)
    # The texts stand on the left, because a test begins between its bounds.
    words = {"y": height, "x": {"value": 6}, "text": nominal("text")}
    texts = [
        {"data": inline_data(bounds.slice(number, 1)), **layer("text", words, align="left", dy=dy, color=style.FAINT)}
        for number, dy in enumerate((-6, 11))
    ]
    pairs = quantitative("pairs", title="pairs of games", axis={**style.PLAIN_AXIS, "tickCount": 6, "grid": False})
    line = layer("line", {"x": pairs, "y": height}, color=style.FIRST_COLOUR, strokeWidth=2)
    chart = {
        **WIDE,
        "layer": [
            {"data": inline_data(bounds), **rule},
            *texts,
            {"data": inline_data(path), **line},
        ],
    }
    return Figure("Log-likelihood ratio of elo1 to elo0, and the bounds of the test", chart, "sprt-")
