"""The form of agents: the score of each run, beside the score that the ratings let expect."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analytics.questions.columns import Table, format_percent, interval_column, number_column, text_column
from analytics.report import style
from analytics.report.result import Result
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative, range_end

MIN_RUNS = 2  # of an agent that has a picture: one run shows no course of time
WIDTH = 420  # pixels
MAX_TICKS = 12  # numbered runs
NEARLY_ZERO = 0.2  # an axis with so small a score begins at 0
NOTE = (
    "The score in each run, in percent, with its 95 % interval; a draw counts half. Expected is the score that the "
    "ratings of all games let expect against the same opponents; in the picture, it is a flat stroke."
)


def build_form_result(frame: pl.DataFrame) -> Result:
    """Build the result for the form of agents; ``frame`` is that of ``compute_form``.

    An agent with several runs has a picture if it is the only agent. If its code has changed between them, each version
    has a colour of its own.
    """
    if frame.is_empty():
        return Result(missing="none of these agents met another one", title="Form", frame=frame)
    columns = [
        text_column("agent", frame["agent"]),
        text_column("run", frame["run_id"]),
        text_column("begun (UTC)", [created[:16].replace("T", " ") for created in frame["created"]]),
        number_column("opponents", frame["opponents"]),
        number_column("games", frame["games"]),
        number_column("score", frame["score"], format_percent),
        interval_column(frame["low"], frame["high"]),
        number_column("expected", frame["expected"], format_percent),
    ]
    figures = []
    is_one_agent = not frame["run_id"].is_duplicated().any()  # two agents that met have two rows of that run
    if is_one_agent and len(frame) >= MIN_RUNS:
        figures.append(Figure("Score by run, the oldest first", _build_chart(frame), "form-"))
    table = Table("Form by run, the oldest first, in %", columns)
    return Result(NOTE, figures=figures, numbers=table, title="Form", frame=frame)


def _build_chart(frame: pl.DataFrame) -> Spec:
    """Build the chart of the scores of one agent in its runs, with their intervals and the expected scores."""
    columns = ("agent", "score", "low", "high", "expected")
    rows = frame.select(columns).with_row_index("place", 1).cast({"place": pl.Int64})
    colour = _build_version_colours([*frame["agent"].unique(maintain_order=True)])
    step = -(-len(rows) // MAX_TICKS)
    axis = {"values": [*range(1, len(rows) + 1, step)], "format": "d", "grid": False, "domain": False}
    x = quantitative("place", title="run", axis=axis, scale={"domain": [0.5, len(rows) + 0.5], "nice": False})
    lowest = min(row for name in ("low", "expected") for row in rows[name].drop_nulls())
    scale = {"zero": lowest < NEARLY_ZERO, "nice": True}
    score = quantitative("score", title="score", axis=style.SHARE_AXIS, scale=scale)
    layers = [
        layer("line", {"y": score}, color=style.FAINT, opacity=0.5, strokeWidth=1.5),
        layer("rule", {"y": quantitative("low"), "y2": range_end("high"), "color": colour}, strokeWidth=2),
        layer("point", {"y": score, "color": colour}, filled=True, size=40, opacity=1),
    ]
    if rows["expected"].null_count() < len(rows):
        stroke_size = max(6, min(26, WIDTH // (2 * len(rows))))
        expected = {"y": quantitative("expected")}
        layers.append(
            layer("tick", expected, color=style.INK, orient="horizontal", thickness=2, size=stroke_size, opacity=1)
        )
    return {
        "width": WIDTH,
        "height": style.PANEL_HEIGHT,
        "data": inline_data(rows),
        "encoding": {"x": x},
        "layer": layers,
    }


def _build_version_colours(agents: Sequence[str]) -> Spec:
    """Build the encoding that gives each version of an agent's code a colour; a single version needs no legend."""
    if len(agents) == 1:
        return {"value": style.FIRST_COLOUR}
    palette = [light for light, _ in style.AGENT_COLOURS]
    colours = [palette[number % len(palette)] for number in range(len(agents))]
    legend = {"orient": "top", "title": None, "columns": 2, "labelLimit": WIDTH // 2}
    return nominal("agent", scale={"domain": [*agents], "range": colours}, legend=legend)
