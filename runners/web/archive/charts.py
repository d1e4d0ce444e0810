"""Simple charts of rows, as SVG in the style of reports: lines, bars, points and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from analytics.report import style
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, ordinal, quantitative, range_end
from quarto.errors import RequestError, suggest_valid_names

CHART_KINDS = ("bars", "line", "points", "heat map")
WIDTH, HEIGHT = 560, 300  # of the plot, in pixels
MAX_BARS = 60
MAX_POINTS = 2_000
LABEL_WIDTH = 150  # pixels after which a label is cut
LETTERS_ACROSS = 80  # total length of the column labels of a heat map, beyond which they are slanted
FEW_TILES = 14  # up to so many tiles in a row show their numbers
FEW_TICKS = 12  # an axis over so small a range has a tick at every whole number
LEGEND_COLUMNS = 4  # few, because the reader's font may be wider than the renderer's


class ChartPlan(NamedTuple):
    """The kind of a chart and the columns that the chart shows."""

    kind: str  # one of ``CHART_KINDS``
    x: str
    y: str
    colour: str | None = None  # column of the series; in a heat map, of the tiles' values
    low: str | None = None  # columns of the interval of y
    high: str | None = None


def plan_chart(frame: pl.DataFrame, kind: str = "", x: str = "", y: str = "", colour: str = "") -> ChartPlan:
    """Plan a chart of the rows that a query returned.

    If the kind or a column is "", one that fits the rows is chosen. Raises ``RequestError`` for an unknown kind or
    column, and if there are no rows or no numbers.
    """
    if kind and kind not in CHART_KINDS:
        raise RequestError(f"chart {kind!r} is not one of {', '.join(CHART_KINDS)}")
    for column in filter(None, (x, y, colour)):
        if column not in frame.columns:
            raise RequestError(f"column {column!r} is not in the answer{suggest_valid_names(column, frame.columns)}")
    numbers = [name for name, kind_of in frame.schema.items() if kind_of.is_numeric()]
    if not frame.height or not numbers:
        raise RequestError("a chart needs rows and a column of numbers")
    x = x or next((name for name in frame.columns if name != y), frame.columns[0])
    other_columns = [name for name in frame.columns if name != x]
    if kind == "heat map":
        y = y or next(iter(other_columns), x)
        colour = colour or next((name for name in reversed(numbers) if name not in (x, y)), numbers[-1])
        return ChartPlan(kind, x, y, _check_number_column(colour, numbers))
    y = _check_number_column(y or next((name for name in numbers if name != x), numbers[0]), numbers)
    kind = kind or ("line" if x in numbers and frame[x].n_unique() == frame.height else "bars")
    return ChartPlan(kind, x, y, colour or (None if kind == "points" else _find_series_column(frame, x, y)))


def _check_number_column(column: str, numbers: Sequence[str]) -> str:
    """Return ``column`` if it is one of ``numbers``, the columns with numbers. Raises ``RequestError`` otherwise."""
    if column not in numbers:
        raise RequestError(f"column {column!r} has no numbers: draw one of {', '.join(numbers)}")
    return column


def _find_series_column(frame: pl.DataFrame, x: str, y: str) -> str | None:
    """Return a column that tells rows with the same ``x`` apart, or None if no such column is needed or exists.

    ``x`` and ``y`` are the columns that the axes show.
    """
    if frame[x].n_unique() == frame.height:
        return None
    candidates = [name for name in frame.columns if name not in (x, y) and not frame[name].dtype.is_float()]
    return next((name for name in candidates if frame.select(x, name).is_unique().all()), None)


def build_chart(frame: pl.DataFrame, plan: ChartPlan, title: str) -> Figure:
    """Draw a chart of the rows in ``frame``.

    Rows with missing values are left out, and so are rows beyond the limit of this kind of chart. Raises
    ``RequestError`` if several rows would share a bar or a tile, because a shared bar would look like a sum.
    """
    max_rows = MAX_BARS if plan.kind == "bars" else MAX_POINTS
    columns = list(dict.fromkeys(column for column in plan[1:] if column))
    rows = _to_drawable(frame.select(columns).drop_nulls().head(max_rows))
    within = {"bars": [plan.x, plan.colour or plan.x], "heat map": [plan.x, plan.y]}.get(plan.kind)
    if within and not rows.select(*dict.fromkeys(within)).is_unique().all():
        names = " and ".join(dict.fromkeys(within))
        raise RequestError(f"several rows have the same {names}: choose columns that tell them apart, or points")
    note = f"The first {max_rows:,} of {frame.height:,} rows." if frame.height > max_rows else ""
    draw = {"bars": _build_bars, "heat map": _build_heat_map}.get(plan.kind, _build_line_or_points)
    return Figure(title, {"width": WIDTH, "height": HEIGHT, **draw(rows, plan)}, "chart-", note)


def _to_drawable(rows: pl.DataFrame) -> pl.DataFrame:
    """Convert all values to numbers or texts, because a chart can hold nothing else."""
    texts = [
        pl.Series(name, [str(value) for value in rows[name].to_list()], pl.String)
        for name, kind in rows.schema.items()
        if not kind.is_numeric()
    ]
    numbers = [pl.col(name).cast(pl.Float64) for name, kind in rows.schema.items() if kind.is_decimal()]
    return rows.with_columns(*texts, *numbers)


def _build_data_and_field_names(rows: pl.DataFrame) -> tuple[Spec, dict[str, str]]:
    """Build the inline data of a chart, and a mapping from the name of each column to the name that replaces it.

    The data has these plain names because a dot or a bracket in a name would be read as a path.
    """
    names = {column: f"c{number}" for number, column in enumerate(rows.columns)}
    values = [
        {
            names[name]: value if not isinstance(value, float) or math.isfinite(value) else None
            for name, value in row.items()
        }
        for row in rows.to_dicts()
    ]
    return inline_data(values), names


def _build_colour_encoding_or_default(plan: ChartPlan, names: dict[str, str], rows: pl.DataFrame) -> Spec:
    """Build the colour encoding of a chart: a colour for each series, or one colour if the plan has no series."""
    colours = [light for light, _ in style.AGENT_COLOURS]
    if plan.colour is None:
        return {"value": style.FIRST_COLOUR}
    values = list(dict.fromkeys(rows[plan.colour].to_list()))
    legend = {
        "title": plan.colour,
        "titleColor": style.INK,
        "symbolType": "square",
        "symbolOpacity": 1,
        "symbolStrokeWidth": 3,
        "columns": LEGEND_COLUMNS,
        "columnPadding": 24,
        "labelLimit": LABEL_WIDTH,
    }
    scale = {"domain": values[: len(colours)], "range": colours[: len(values)]}
    return nominal(names[plan.colour], scale=scale, legend=legend)


def _build_line_or_points(rows: pl.DataFrame, plan: ChartPlan) -> Spec:
    """Build the marks of a line chart or a scatter plot, with an interval for each value if the plan has intervals."""
    values, names = _build_data_and_field_names(rows)
    line, numeric = plan.kind == "line", rows.schema[plan.x].is_numeric()
    ticks = _build_axis_ticks_of_whole_numbers(rows[plan.x]) if numeric and rows[plan.x].dtype.is_integer() else {}
    scale = {"zero": False, "nice": True}
    axis = {"grid": False, "labelAngle": 0 if numeric else -35, "labelLimit": LABEL_WIDTH, **ticks}
    x = (
        quantitative(names[plan.x], title=plan.x, axis=axis, scale=scale)
        if numeric
        else nominal(names[plan.x], title=plan.x, axis=axis, sort=None)
    )
    placed = {"x": x, "color": _build_colour_encoding_or_default(plan, names, rows)}
    y = quantitative(names[plan.y], title=plan.y, scale=scale)
    point = {"size": 34} if rows.height <= style.MAX_MARKED_POINTS else False
    look = {"strokeWidth": 2, "point": point} if line else {"filled": True, "size": 44, "opacity": 0.85}
    marks = layer(plan.kind.removesuffix("s"), {**placed, "y": y}, **look)
    if plan.low is None or plan.high is None:
        return {"data": values, **marks}
    between = {**placed, "y": quantitative(names[plan.low], title=plan.y), "y2": range_end(names[plan.high])}
    interval = layer("area", between, opacity=0.18) if line else layer("rule", between, strokeWidth=2)
    return {"data": values, "layer": [interval, marks]}


def _build_axis_ticks_of_whole_numbers(whole_numbers: pl.Series) -> dict[str, Any]:
    """Build the tick settings of an axis that shows ``whole_numbers``.

    A short axis gets a tick at each number, because default ticks would be fractions that round to the same number. If
    there are no numbers, the settings are empty.
    """
    if not len(whole_numbers):
        return {}
    lowest, highest = min(whole_numbers), max(whole_numbers)
    return {"format": "d", **({"values": [*range(lowest, highest + 1)]} if highest - lowest <= FEW_TICKS else {})}


def _build_bars(rows: pl.DataFrame, plan: ChartPlan) -> Spec:
    values, names = _build_data_and_field_names(rows)
    axis = {"labelAngle": -35 if rows[plan.x].dtype == pl.String else 0, "labelLimit": LABEL_WIDTH}
    encoding = {
        "x": nominal(names[plan.x], title=plan.x, sort=None, axis=axis),
        "y": quantitative(names[plan.y], title=plan.y),
        "color": _build_colour_encoding_or_default(plan, names, rows),
        **({"xOffset": nominal(names[plan.colour])} if plan.colour else {}),
    }
    return {"data": values, **layer("bar", encoding)}


MAX_SHADE = 0.55  # opacity of a tile, at most, so that its number is legible in light and dark mode
FULL_COLOUR_INTERVALS = 3.0  # mean half-widths of intervals: nearer to the mean, no value has the full colour


def _build_heat_map(rows: pl.DataFrame, plan: ChartPlan) -> Spec:
    """Build a heat map, whose tiles are blue above the mean of all values and orange below it.

    A tile is pale if the interval of its value contains the mean.
    """
    column = plan.colour or plan.y
    values, names = _build_data_and_field_names(rows.with_columns(_build_side_and_opacity_columns(column, plan)))
    plain = {"domain": False, "ticks": False, "labelLimit": LABEL_WIDTH}
    letters = rows.select(pl.col(plan.x).unique().cast(pl.String).str.len_chars().sum()).item()
    above = {"labelAngle": 0 if letters < LETTERS_ACROSS else -35, "orient": "top", **plain}
    placed = {
        "x": ordinal(names[plan.x], title=plan.x, axis=above),
        "y": ordinal(names[plan.y], title=plan.y, axis=plain),
    }
    colours = {"domain": ["above", "below"], "range": [style.FIRST_COLOUR, style.SECOND_COLOUR]}
    shades = {
        "fill": nominal(names[SIDE_COLUMN], scale=colours, legend=None),
        "fillOpacity": quantitative(names[SHADE_COLUMN], scale=None, legend=None),
    }
    layers = [layer("rect", shades, stroke=style.FAINT, strokeWidth=0.5)]
    if rows[plan.x].n_unique() <= FEW_TILES:
        text = quantitative(names[column], format="d" if rows[column].dtype.is_integer() else ".4g")
        layers.append(layer("text", {"text": text}, color=style.INK, fontSize=12))
    return {"data": values, "encoding": placed, "layer": layers}


SIDE_COLUMN, SHADE_COLUMN = "\0side", "\0shade"  # names that no column of an answer can have


def _build_side_and_opacity_columns(column: str, plan: ChartPlan) -> list[pl.Expr]:
    """Return two expressions: on which side of the mean each value of ``column`` lies, and how opaque its tile is."""
    away = pl.col(column) - pl.col(column).mean()
    reach, within = away.abs().max(), pl.lit(value=False)
    if plan.low is not None and plan.high is not None:
        within = pl.col(column).mean().is_between(pl.col(plan.low), pl.col(plan.high))
        reach = pl.max_horizontal(reach, FULL_COLOUR_INTERVALS * (pl.col(plan.high) - pl.col(plan.low)).mean() / 2)
    shade = pl.when(within | (reach == 0)).then(0.0).otherwise(MAX_SHADE * away.abs() / reach)
    return [
        pl.when(away < 0).then(pl.lit("below")).otherwise(pl.lit("above")).alias(SIDE_COLUMN),
        shade.alias(SHADE_COLUMN),
    ]


def warm_up_renderer() -> None:
    """Load the chart renderer in advance, because otherwise the first picture of a process takes a second longer."""
    frame = pl.DataFrame({"x": [0, 1], "y": [0, 1]})
    build_chart(frame, ChartPlan("line", "x", "y"), "").svg  # noqa: B018  (reading the property draws)


def list_axis_columns(frame: pl.DataFrame) -> Sequence[str]:
    """Return the names of the columns that the axes of a chart can show."""
    return [name for name, kind in frame.schema.items() if not kind.is_nested()]
