"""Value that agents give up against perfect play, by ply, from judged decisions."""

from __future__ import annotations

from typing import Any

import polars as pl

from analytics.query.mistakes import decision_summaries
from analytics.report import style
from analytics.report.figures.reported_games import ReportedGames, reported_games
from analytics.report.figures.strength import colour_of
from analytics.report.style import Panel, Picture
from analytics.sql.database import OpenArchive
from quarto.errors import RequestError
from quarto.rules import CELLS

TITLE = "Blunders by ply"
HOW = "Solid lines with dots are gifts, dashed lines with squares placements, bands 95 % intervals."
KINDS = ("gift", "placement")
HEADROOM = 1.25  # height of the panels over the largest share; intervals are cut there


def mistakes_frame(chosen: ReportedGames, by_ply: bool) -> pl.DataFrame:
    """The agents that are shown, in the columns of ``decision_summaries``. No rows where nothing was judged."""
    found = decision_summaries(chosen.opened, chosen.selection.condition, by_ply, chosen.names)
    return chosen.by_rank(found.filter(pl.col("agent").is_in(chosen.agents)))


def mistakes_panels(frame: pl.DataFrame, chosen: ReportedGames) -> list[Panel]:
    """A panel an agent, all on the same scale: the share of blunders by ply, in the band of its interval."""
    import altair as alt

    largest = frame["blunders"].max()
    top = min(1.0, HEADROOM * float(largest)) if isinstance(largest, float) and largest > 0 else 1.0
    cut = frame.with_columns(pl.col("blunders_high").clip(upper_bound=top))
    return [
        Panel(str(agent), _lines(alt, rows, colour_of(chosen, str(agent)), top), str(agent))
        for (agent,), rows in cut.group_by("agent", maintain_order=True)
    ]


def _lines(alt: Any, rows: pl.DataFrame, colour: str, top: float) -> Picture:
    ticks = alt.Axis(labelAngle=0, grid=False, domain=False, ticks=False, values=[*range(0, CELLS, 3)])
    ply = alt.X("ply:Q", title="ply", axis=ticks, scale=alt.Scale(domain=[0, CELLS - 1], nice=False, padding=6))
    share = alt.Axis(format=".0%", tickCount=4, domain=False, ticks=False)
    height = alt.Y("blunders:Q", title="blunders", axis=share, scale=alt.Scale(domain=[0, top], nice=False))
    base = alt.Chart(alt.Data(values=rows.to_dicts())).encode(x=ply, detail="kind:N")
    band = base.mark_area(color=colour, opacity=0.16).encode(
        y=alt.Y("blunders_low:Q", title="blunders"), y2="blunders_high:Q"
    )
    dashes = alt.StrokeDash("kind:N", scale=alt.Scale(domain=[*KINDS], range=[[1, 0], [4, 3]]), legend=None)
    line = base.mark_line(color=colour, strokeWidth=2).encode(y=height, strokeDash=dashes)
    shapes = alt.Shape("kind:N", scale=alt.Scale(domain=[*KINDS], range=["circle", "square"]), legend=None)
    points = base.mark_point(color=colour, filled=True, size=26, opacity=1).encode(y=height, shape=shapes)
    return (band + line + points).properties(width=style.PANEL_WIDTH, height=style.PANEL_HEIGHT)


def mistakes_picture(frame: pl.DataFrame, chosen: ReportedGames) -> Picture:
    """All panels as one picture."""
    return style.beside(mistakes_panels(frame, chosen), TITLE, HOW)


def mistakes(opened: OpenArchive, where: str | None = None) -> Picture:
    """The share of blunders by agent and ply in the games that ``where`` chooses.

    Raises ``RequestError`` for an invalid condition or one that no game meets, and when none of their decisions is
    judged.
    """
    chosen = reported_games(opened, where)
    frame = mistakes_frame(chosen, by_ply=True)
    if frame.is_empty():
        raise RequestError("no decision of the games chosen is judged: run 'qarena annotate' first")
    return mistakes_picture(frame, chosen)
