"""Simple charts of rows, as SVG in the style of reports: lines, bars, points and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from analytics.report import style
from analytics.report.content import Figure
from quarto.errors import RequestError, nearest

KINDS = ("bars", "line", "points", "heat map")
WIDTH, HEIGHT = 560, 300  # pixels of the plot
MOST_BARS = 60
MOST_POINTS = 2_000
MOST_LABEL = 24  # letters
FEW_TICKS = 12
LEGEND_COLUMNS = 4  # the reader's letters may be wider than the ones that the renderer knows


class ChartPlan(NamedTuple):
    """A chart of the columns of an answer."""

    kind: str  # one of KINDS
    x: str
    y: str
    colour: str | None = None  # a further column; of a heat map the one that colours
    low: str | None = None  # of an interval of y
    high: str | None = None


def planned(frame: pl.DataFrame, kind: str = "", x: str = "", y: str = "", colour: str = "") -> ChartPlan:
    """The chart that is asked for; what is left open follows from the columns.

    Raises ``RequestError`` for an unknown kind or column, and for an answer that has nothing to draw.
    """
    if kind and kind not in KINDS:
        raise RequestError(f"chart {kind!r} is not one of {', '.join(KINDS)}")
    for column in filter(None, (x, y, colour)):
        if column not in frame.columns:
            raise RequestError(f"column {column!r} is not in the answer{nearest(column, frame.columns)}")
    numbers = [name for name, kind_of in frame.schema.items() if kind_of.is_numeric()]
    if not frame.height or not numbers:
        raise RequestError("a chart needs rows and a column of numbers")
    x = x or next((name for name in frame.columns if name != y), frame.columns[0])
    others = [name for name in frame.columns if name != x]
    if kind == "heat map":
        y = y or next(iter(others), x)
        colour = colour or next((name for name in reversed(numbers) if name not in (x, y)), numbers[-1])
        return ChartPlan(kind, x, y, colour)
    y = y or next((name for name in numbers if name != x), numbers[0])
    if y not in numbers:
        raise RequestError(f"column {y!r} has no numbers: draw one of {', '.join(numbers)}")
    kind = kind or ("line" if x in numbers and frame[x].n_unique() == frame.height else "bars")
    return ChartPlan(kind, x, y, colour or (None if kind == "points" else _series(frame, x, y)))


def _series(frame: pl.DataFrame, x: str, y: str) -> str | None:
    """The column that tells rows with the same ``x`` apart; None if there are none, or no such column."""
    if frame[x].n_unique() == frame.height:
        return None
    others = [name for name in frame.columns if name not in (x, y) and not frame[name].dtype.is_float()]
    return next((name for name in others if frame.select(x, name).is_unique().all()), None)


def chart(frame: pl.DataFrame, plan: ChartPlan, title: str) -> Figure:
    """A chart as a figure. Rows without a value are left out."""
    most = MOST_BARS if plan.kind == "bars" else MOST_POINTS
    columns = list(dict.fromkeys(each for each in plan[1:] if each))
    rows = frame.select(columns).drop_nulls().head(most)
    note = f"The first {most:,} of {frame.height:,} rows." if frame.height > most else ""
    draw = {"bars": _bars, "line": _line, "points": _points, "heat map": _heat}[plan.kind]
    picture = draw(_drawable(rows), plan).properties(width=WIDTH, height=HEIGHT)
    return Figure(title, style.inline(picture, "chart-"), note)


def _drawable(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with values that a picture can hold: numbers and short texts."""
    texts = [
        pl.Series(name, [_short(value) for value in rows[name].to_list()], pl.String)
        for name, kind in rows.schema.items()
        if not kind.is_numeric()
    ]
    numbers = [pl.col(name).cast(pl.Float64) for name, kind in rows.schema.items() if kind.is_decimal()]
    return rows.with_columns(*texts, *numbers)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MOST_LABEL else f"{text[: MOST_LABEL - 1]}…"


def _data(rows: pl.DataFrame) -> tuple[Any, dict[str, str]]:
    """The rows for Altair under plain names, since it reads dots and brackets in names as paths."""
    import altair as alt

    names = {column: f"c{number}" for number, column in enumerate(rows.columns)}
    values = [
        {
            names[name]: value if not isinstance(value, float) or math.isfinite(value) else None
            for name, value in row.items()
        }
        for row in rows.to_dicts()
    ]
    kinds = {plain: "quantitative" if rows.schema[name].is_numeric() else "nominal" for name, plain in names.items()}
    return alt.Chart(alt.InlineData(values=values)), {
        name: f"{names[name]}:{kinds[names[name]]}" for name in rows.columns
    }


def _colour(alt: Any, plan: ChartPlan, fields: dict[str, str], rows: pl.DataFrame) -> Any:
    colours = [light for light, _ in style.AGENTS]
    if plan.colour is None:
        return alt.value(style.FIRST)
    names = list(dict.fromkeys(rows[plan.colour].to_list()))
    return alt.Color(
        f"{fields[plan.colour].partition(':')[0]}:nominal",
        scale=alt.Scale(domain=names[: len(colours)], range=colours[: len(names)]),
        legend=alt.Legend(
            title=plan.colour,
            titleColor=style.INK,
            symbolType="square",
            symbolOpacity=1,
            symbolStrokeWidth=3,
            columns=LEGEND_COLUMNS,
            columnPadding=24,
        ),
    )


def _axes(alt: Any, rows: pl.DataFrame, plan: ChartPlan, fields: dict[str, str]) -> tuple[Any, Any]:
    plain = alt.Scale(zero=False, nice=True)
    numeric = rows.schema[plan.x].is_numeric()
    whole = numeric and rows[plan.x].dtype.is_integer()
    ticks = _whole_ticks(rows[plan.x]) if whole else {}
    across = alt.Axis(grid=False, labelAngle=0 if numeric else -35, **ticks)
    sort = {} if numeric else {"sort": None}
    x = alt.X(fields[plan.x], title=plan.x, axis=across, **sort, **({"scale": plain} if numeric else {}))
    return x, alt.Y(fields[plan.y], title=plan.y, scale=plain)


def _whole_ticks(values: pl.Series) -> dict[str, Any]:
    """Ticks of whole numbers: on a short axis each of them, where fractions would be rounded to the same ones."""
    if not len(values):
        return {}
    least, most = min(values), max(values)
    return {"format": "d", **({"values": [*range(least, most + 1)]} if most - least <= FEW_TICKS else {})}


def _line(rows: pl.DataFrame, plan: ChartPlan) -> Any:
    import altair as alt

    base, fields = _data(rows)
    x, y = _axes(alt, rows, plan, fields)
    base = base.encode(x=x, color=_colour(alt, plan, fields, rows))
    line = base.mark_line(strokeWidth=2, point={"size": 34} if rows.height <= style.FEW else False).encode(y=y)
    if plan.low is None or plan.high is None:
        return line
    low, high = (fields[each].partition(":")[0] for each in (plan.low, plan.high))
    band = base.mark_area(opacity=0.18).encode(y=alt.Y(f"{low}:Q", title=plan.y), y2=f"{high}:Q")
    return band + line


def _points(rows: pl.DataFrame, plan: ChartPlan) -> Any:
    import altair as alt

    base, fields = _data(rows)
    x, y = _axes(alt, rows, plan, fields)
    points = base.encode(x=x, color=_colour(alt, plan, fields, rows))
    dots = points.mark_point(filled=True, size=44, opacity=0.85).encode(y=y)
    if plan.low is None or plan.high is None:
        return dots
    low, high = (fields[each].partition(":")[0] for each in (plan.low, plan.high))
    return points.mark_rule(strokeWidth=2).encode(y=alt.Y(f"{low}:Q", title=plan.y), y2=f"{high}:Q") + dots


def _bars(rows: pl.DataFrame, plan: ChartPlan) -> Any:
    import altair as alt

    base, fields = _data(rows)
    x = alt.X(
        f"{fields[plan.x].partition(':')[0]}:nominal",
        title=plan.x,
        sort=None,
        axis=alt.Axis(labelAngle=-35 if rows[plan.x].dtype == pl.String else 0),
    )
    y = alt.Y(fields[plan.y], title=plan.y)
    offset = {"xOffset": f"{fields[plan.colour].partition(':')[0]}:nominal"} if plan.colour else {}
    return base.mark_bar().encode(x=x, y=y, color=_colour(alt, plan, fields, rows), **offset)


def _heat(rows: pl.DataFrame, plan: ChartPlan) -> Any:
    import altair as alt

    base, fields = _data(rows)
    x, y, colour = (fields[each].partition(":")[0] for each in (plan.x, plan.y, plan.colour or plan.y))
    numbers = rows[plan.colour or plan.y]
    scale = alt.Scale(range=[style.WORST, style.MIDDLE, style.BEST], interpolate="rgb")
    base = base.encode(
        x=alt.X(f"{x}:ordinal", title=plan.x, axis=alt.Axis(labelAngle=0, domain=False, ticks=False, orient="top")),
        y=alt.Y(f"{y}:ordinal", title=plan.y, axis=alt.Axis(domain=False, ticks=False)),
    )
    tiles = base.mark_rect().encode(color=alt.Color(f"{colour}:Q", scale=scale, legend=None))
    few = rows[plan.x].n_unique() <= 14
    form = "d" if numbers.dtype.is_integer() else ".4~g"
    texts = base.mark_text(color=style.ON_TILE, fontSize=12).encode(text=alt.Text(f"{colour}:Q", format=form))
    return tiles + texts if few else tiles


def warm() -> None:
    """Load what draws: the first picture of a process takes a second longer than the others."""
    frame = pl.DataFrame({"x": [0, 1], "y": [0, 1]})
    chart(frame, ChartPlan("line", "x", "y"), "")


def columns_of(frame: pl.DataFrame) -> Sequence[str]:
    """The columns that a chart can have on its axes."""
    return [name for name, kind in frame.schema.items() if not kind.is_nested()]
