"""The value that agents give up against perfect play, by ply."""

from __future__ import annotations

import polars as pl

from analytics.query.mistakes import decision_summaries
from analytics.report import style
from analytics.report.reported_games import ReportedGames
from analytics.report.section import ReportSection, agent_figures, agent_table
from analytics.report.style import Figure, Picture
from analytics.results.columns import decision_columns

KINDS = ("gift", "placement")
HEADROOM = 1.25  # height of the figures over the largest share; intervals are cut there


def mistakes(chosen: ReportedGames) -> ReportSection:
    """The regret and the blunders of agents, in all and by ply."""
    totals = mistakes_frame(chosen, by_ply=False)
    if totals.is_empty():
        return ReportSection(missing="no decision of these games is judged ('qarena annotate' does that)")
    by_ply = mistakes_frame(chosen, by_ply=True)
    note = (
        "Decisions judged by the exact value of the position. Regret is what a decision gave up in half-points, from 0 "
        "to 2; a blunder gives up something. The pictures show blunders by ply. Solid lines with dots are gifts, "
        "dashed lines with squares placements, bands 95 % intervals."
    )
    tables = [
        agent_table(chosen, caption, frame, decision_columns(frame)[1:])
        for caption, frame in (("Regret in half-points, and blunders", totals), ("The same by ply", by_ply))
    ]
    return ReportSection(note, tables[0], _figures(by_ply, chosen), tables[1])


def mistakes_frame(chosen: ReportedGames, by_ply: bool) -> pl.DataFrame:
    """The agents that are shown, in the columns of ``decision_summaries``. No rows where nothing was judged."""
    found = decision_summaries(chosen.opened, chosen.selection.condition, by_ply, chosen.names)
    return chosen.by_rank(found.filter(pl.col("agent").is_in(chosen.agents)))


def _figures(frame: pl.DataFrame, chosen: ReportedGames) -> list[Figure]:
    """A figure an agent, all on the same scale: the share of blunders by ply, in the band of its interval."""
    largest = frame["blunders"].max()
    top = min(1.0, HEADROOM * float(largest)) if isinstance(largest, float) and largest > 0 else 1.0
    cut = frame.with_columns(pl.col("blunders_high").clip(upper_bound=top))
    return agent_figures(chosen, "mistakes", cut, _lines, top)


def _lines(rows: pl.DataFrame, colour: str, top: float) -> Picture:
    import altair as alt

    share = alt.Axis(format=".0%", tickCount=4, domain=False, ticks=False)
    height = alt.Y("blunders:Q", title="blunders", axis=share, scale=alt.Scale(domain=[0, top], nice=False))
    base = alt.Chart(alt.InlineData(values=rows.to_dicts())).encode(x=style.by_ply(alt, 0), detail="kind:N")
    band = base.mark_area(color=colour, opacity=0.16).encode(
        y=alt.Y("blunders_low:Q", title="blunders"), y2="blunders_high:Q"
    )
    dashes = alt.StrokeDash("kind:N", scale=alt.Scale(domain=[*KINDS], range=[[1, 0], [4, 3]]), legend=None)
    line = base.mark_line(color=colour, strokeWidth=2).encode(y=height, strokeDash=dashes)
    shapes = alt.Shape("kind:N", scale=alt.Scale(domain=[*KINDS], range=["circle", "square"]), legend=None)
    points = base.mark_point(color=colour, filled=True, size=26, opacity=1).encode(y=height, shape=shapes)
    return (band + line + points).properties(width=style.PANEL_WIDTH, height=style.PANEL_HEIGHT)
