"""Curves of several runs laid over each other, and the path of a sequential test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from analytics.report import style
from analytics.report.sections.learning import MEASURES, RunCurve
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative, range_end
from analytics.statistics.sprt import Hypotheses

MAX_SERIES = len(style.AGENT_COLOURS)
WIDE = {"width": 620, "height": 210}  # pixels of a picture that stands alone on a page


def build_overlay_figure(
    title: str, rows: pl.DataFrame, series: Sequence[str], axes: tuple[Spec, Spec], name: str, note: str = ""
) -> Figure:
    """Build a picture with a line for each series, all with the same axes.

    Args:
        title: The title.
        rows: The points; the columns ``series`` (texts), and those of the two axes. If there are also ``low`` and
            ``high``, the ends of an interval, each line has a band.
        series: The names of all series of the page, in the order of their colours. A series keeps its colour in
            pictures from which others are missing.
        axes: The channels x and y.
        name: The beginning of the picture's ids.
        note: How to read the picture.

    """
    present = {*rows["series"]}
    colours = {name: light for name, (light, _) in zip(series, style.AGENT_COLOURS, strict=False) if name in present}
    longest = max(map(len, colours), default=0)
    legend = {"symbolType": "stroke", "symbolOpacity": 1, "columns": max(1, style.PANEL_WIDTH // (22 + 6 * longest))}
    colour = nominal("series", scale={"domain": [*colours], "range": [*colours.values()]}, legend=legend)
    points = rows.group_by("series").len()["len"].max()
    marks = [layer("line", {}, strokeWidth=2)]
    if "low" in rows.columns and rows["low"].null_count() < rows.height:
        marks.insert(0, layer("area", {"y": {**axes[1], "field": "low"}, "y2": range_end("high")}, opacity=0.15))
    if isinstance(points, int) and points <= style.MAX_MARKED_POINTS:
        marks.append(layer("point", {}, filled=True, size=22, opacity=1))
    chart = {
        **style.PANEL,
        "data": inline_data(rows),
        "encoding": {"x": axes[0], "y": axes[1], "color": colour},
        "layer": marks,
    }
    return Figure(title, chart, f"{name}-", note)


GENERATION_AXIS = quantitative("step", title="generation", axis={"format": "d", "tickMinStep": 1, "grid": False})
MEASURE_AXES = {
    "win_rate": (
        quantitative(
            "step", title="games learned from", axis={**style.PLAIN_AXIS, "format": ",d", "tickCount": 3, "grid": False}
        ),
        quantitative("value", title="games won", axis=style.SHARE_AXIS, scale={"zero": False}),
    ),
    "strength": (GENERATION_AXIS, quantitative("value", title="mean score", axis=style.SHARE_AXIS)),
    "best": (
        GENERATION_AXIS,
        quantitative("value", title="fitness", axis={**style.PLAIN_AXIS, "tickCount": 4}, scale={"zero": False}),
    ),
}
MEASURE_NOTES = {
    "strength": "The mean score against all opponents; a draw counts half.",
    "best": "The fitness of the best individual of each generation.",
}


def build_learning_figures(curves: Mapping[str, RunCurve], names: Mapping[str, str]) -> Iterable[Figure]:
    """Yield a picture of learning curves for each measure by which at least two trainings were judged.

    Args:
        curves: The learning curves by run id; runs of one training have the same.
        names: The names of all compared runs by id, in the order of their colours.

    """
    for measure in MEASURES:
        judged = {run_id: curve for run_id, curve in curves.items() if curve.measure == measure}
        if len({curve.policy_id for curve in judged.values()}) < 2:
            continue
        rows = pl.concat(
            curve.rows.select(pl.lit(names[run_id]).alias("series"), pl.all()) for run_id, curve in judged.items()
        )
        note = " ".join(filter(None, (_describe_measure(measure, judged.values()), _describe_twins(judged, names))))
        axes = MEASURE_AXES[measure]
        yield build_overlay_figure("Learning curves", rows, [*names.values()], axes, f"learning-{measure}", note)


def _describe_measure(measure: str, curves: Iterable[RunCurve]) -> str:
    """Describe what each point of a curve is."""
    if measure in MEASURE_NOTES:
        return MEASURE_NOTES[measure]
    sizes = " or ".join(f"{size:,}" for size in sorted({curve.block_games for curve in curves}))
    return f"The share of games that the learner won, of each {sizes}. Bands are 95 % intervals."


def _describe_twins(curves: Mapping[str, RunCurve], names: Mapping[str, str]) -> str:
    """Name the runs that belong to one training, because their lines hide one another."""
    runs_by_training: dict[str, list[str]] = {}
    for run_id, curve in curves.items():
        runs_by_training.setdefault(curve.policy_id, []).append(names[run_id])
    return " ".join(
        f"{' and '.join(runs)} are runs of one training." for runs in runs_by_training.values() if len(runs) > 1
    )


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
