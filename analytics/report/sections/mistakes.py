"""The value that agents give up against perfect play, by ply."""

from __future__ import annotations

import polars as pl

from analytics.questions.columns import decision_columns
from analytics.questions.mistakes import decision_summaries
from analytics.report import style
from analytics.report.reported_games import ReportedGames
from analytics.report.section import ReportSection, agent_figures, agent_table
from analytics.report.style import Figure
from analytics.report.vega import Spec, category, data, end, layer, quantity

KINDS = ["gift", "placement"]
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


def _lines(rows: pl.DataFrame, colour: str, top: float) -> Spec:
    height = quantity("blunders", title="blunders", axis=style.SHARE_AXIS, scale={"domain": [0, top], "nice": False})
    dashes = category("kind", scale={"domain": KINDS, "range": [[1, 0], [4, 3]]}, legend=None)
    shapes = category("kind", scale={"domain": KINDS, "range": ["circle", "square"]}, legend=None)
    band = {"y": quantity("blunders_low", title="blunders"), "y2": end("blunders_high")}
    return {
        **style.PANEL,
        "data": data(rows),
        "encoding": {"x": style.by_ply(0), "detail": category("kind")},
        "layer": [
            layer("area", band, color=colour, opacity=0.16),
            layer("line", {"y": height, "strokeDash": dashes}, color=colour, strokeWidth=2),
            layer("point", {"y": height, "shape": shapes}, color=colour, filled=True, size=26, opacity=1),
        ],
    }
