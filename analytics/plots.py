"""Pictures, drawn by Altair: imported here only, since it is an extra."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

import polars as pl

from analytics.statistics import wilson

EXTRA = "pip install 'quarto-arena[plots]'"
MODULES = ("altair", "vl_convert")  # what the extra brings

WIDTH, HEIGHT = 640, 320  # pixels
FEW, MOST = 40, 200  # points up to which each is marked, and which a line has at most: more would hide it
INK, FAINT, GRID, FIRST = "#222222", "#666666", "#e6e6e6", "#1f6f8b"

_TICKS: dict[str, Any] = {"tickCount": 6, "labelFlush": False, "grid": False}


def learning_curve(curve: pl.DataFrame, title: str, subtitle: Sequence[str]) -> bytes:
    """A learning curve as SVG: the win rate by games with its 95 % interval, or fitness by generations.

    ``curve`` is what ``analytics.curves.learning_curve`` makes, or has a column ``generation`` and, of type Float64,
    one for each line to draw. Raises ``ModuleNotFoundError`` without the extra ``plots``.
    """
    import altair as alt

    chart = _by_games(alt, curve) if "win_rate" in curve.columns else _by_generations(alt, curve)
    heading = alt.TitleParams(
        title,
        subtitle=list(subtitle),
        anchor="start",
        frame="group",
        offset=14,
        fontSize=16,
        subtitleFontSize=12,
        color=INK,
        subtitleColor=FAINT,
        subtitlePadding=6,
        fontWeight="bold",
    )
    styled = (
        chart.properties(width=WIDTH, height=HEIGHT, title=heading, background="white", padding=16)
        .configure_view(stroke=None)
        .configure_axis(
            gridColor=GRID,
            domainColor=FAINT,
            tickColor=FAINT,
            labelColor=INK,
            titleColor=INK,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            titlePadding=10,
        )
        .configure_legend(labelColor=INK, labelFontSize=12, title=None, orient="top-left", symbolType="stroke")
    )
    text = StringIO()
    styled.save(text, format="svg")
    return text.getvalue().encode()


def _by_games(alt: Any, curve: pl.DataFrame) -> Any:
    """The win rate of each block where its games end, in the band that holds the true one 19 times in 20."""
    curve = _joined(curve)
    low, high = zip(*(wilson(*each) for each in curve.select("wins", "games").rows()), strict=True)
    rows = curve.select(
        "win_rate", end=pl.col("first_game") + pl.col("games"), low=pl.Series(low), high=pl.Series(high)
    )
    block = int(curve["games"][0])
    games = alt.X(
        "end:Q", title="games learned from", axis=alt.Axis(format=",d", **_TICKS), scale=alt.Scale(domainMin=0)
    )
    share = alt.Axis(format=".0%", tickCount=6)
    win_rate = alt.Y("win_rate:Q", title=f"games won, of each {block:,}", axis=share, scale=alt.Scale(zero=False))
    base = alt.Chart(alt.Data(values=rows.to_dicts())).encode(x=games)
    band = base.mark_area(color=FIRST, opacity=0.18).encode(y=alt.Y("low:Q"), y2="high:Q")
    line = base.mark_line(color=FIRST, strokeWidth=2, point={"color": FIRST, "size": 30} if len(rows) <= FEW else False)
    return band + line.encode(y=win_rate)


def _joined(curve: pl.DataFrame) -> pl.DataFrame:
    """A curve of at most ``MOST`` rows of as many games each: the last one, if it has fewer, is left out."""
    together = pl.int_range(pl.len()) // (-(-len(curve) // MOST))
    counts = pl.col("games", "wins").sum()
    joined = curve.group_by(row=together, maintain_order=True).agg(pl.col("first_game").first(), counts)
    full = joined.filter(pl.col("games") == pl.first("games"))
    return full.select("first_game", "games", "wins", win_rate=pl.col("wins") / pl.col("games"))


def _by_generations(alt: Any, curve: pl.DataFrame) -> Any:
    """Every fitness by its name."""
    names = [name for name, kind in curve.schema.items() if kind == pl.Float64]
    rows = curve.select("generation", *names).unpivot(index="generation", variable_name="fitness")
    return (
        alt.Chart(alt.Data(values=rows.to_dicts()))
        .mark_line(strokeWidth=2, point=len(curve) <= FEW)
        .encode(
            x=alt.X("generation:Q", title="generation", axis=alt.Axis(format="d", **_TICKS)),
            y=alt.Y("value:Q", title="fitness", scale=alt.Scale(zero=False)),
            color=alt.Color("fitness:N", sort=names),
        )
    )
