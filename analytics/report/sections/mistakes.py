"""The value that agents give up against perfect play, by ply."""

from __future__ import annotations

import polars as pl

from analytics.questions.columns import regret_and_blunder_columns
from analytics.questions.mistakes import summarise_decisions
from analytics.report import style
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import agent_figures, agent_table
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative, range_end

KINDS = ["gift", "placement"]
HEADROOM = 1.25  # height of the figures over the largest share; intervals are cut there


def build_mistakes_section(data: ReportData) -> Result:
    """The regret and the blunders of agents, in all and by ply."""
    every = mistakes_frame(data, by_ply=False)
    if every.is_empty():
        return Result(missing="no decision of these games is judged ('qarena annotate' does that)")
    every_by_ply = mistakes_frame(data, by_ply=True)
    totals, by_ply = map(data.select_shown, (every, every_by_ply))
    note = (
        "Decisions judged by the exact value of the position. Regret is what a decision gave up in half-points, from 0 "
        "to 2; a blunder gives up something. The pictures show blunders by ply. Solid lines with dots are gifts, "
        "dashed lines with squares placements, bands 95 % intervals."
    )
    tables = [
        agent_table(data, caption, frame, regret_and_blunder_columns(frame)[1:])
        for caption, frame in (("Regret in half-points, and blunders", totals), ("The same by ply", by_ply))
    ]
    return Result(note, tables[0], _build_figures(by_ply, data), tables[1], frame=pl.concat([every, every_by_ply]))


def mistakes_frame(data: ReportData, by_ply: bool) -> pl.DataFrame:
    """The decisions of agents, in the columns of ``summarise_decisions``. No rows where nothing was judged."""
    found = summarise_decisions(data.opened, data.selection.condition, by_ply, data.agent_names)
    return data.sort_by_rank(data.select_wanted(found))


def _build_figures(frame: pl.DataFrame, data: ReportData) -> list[Figure]:
    """A figure an agent, all on the same scale: the share of blunders by ply, in the band of its interval."""
    largest = frame["blunders"].max()
    top = min(1.0, HEADROOM * float(largest)) if isinstance(largest, float) and largest > 0 else 1.0
    cut = frame.with_columns(pl.col("blunders_high").clip(upper_bound=top))
    return agent_figures(data, "mistakes", cut, _build_chart, top)


def _build_chart(rows: pl.DataFrame, colour: str, max_share: float) -> Spec:
    height = quantitative(
        "blunders", title="blunders", axis=style.SHARE_AXIS, scale={"domain": [0, max_share], "nice": False}
    )
    dashes = nominal("kind", scale={"domain": KINDS, "range": [[1, 0], [4, 3]]}, legend=None)
    shapes = nominal("kind", scale={"domain": KINDS, "range": ["circle", "square"]}, legend=None)
    band = {"y": quantitative("blunders_low", title="blunders"), "y2": range_end("blunders_high")}
    return {
        **style.PANEL,
        "data": inline_data(rows),
        "encoding": {"x": style.ply_axis(0), "detail": nominal("kind")},
        "layer": [
            layer("area", band, color=colour, opacity=0.16),
            layer("line", {"y": height, "strokeDash": dashes}, color=colour, strokeWidth=2),
            layer("point", {"y": height, "shape": shapes}, color=colour, filled=True, size=26, opacity=1),
        ],
    }
