"""The values that agents reported for their turns, beside the results and the exact values of the same games."""

from __future__ import annotations

import polars as pl

from analytics.questions.columns import (
    ResultColumn,
    Table,
    format_expected_value,
    format_seconds,
    format_value_error,
    number_column,
)
from analytics.questions.sql.views import run_condition_sql
from analytics.report import style
from analytics.report.advice import Advice
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.section import agent_figures, agent_table, assign_figure_ids, build_section_by_ply
from analytics.report.style import Figure
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative
from analytics.tables.derived.definitions import EVALUATIONS_TABLE

# A row for each turn; ``result`` and ``exact`` are from the view of its agent.
TURNS = """
    SELECT evaluations.run_id, evaluations.game_id, agent, ply, value, seconds, value_before AS exact,
        CASE winner WHEN -1 THEN 0 WHEN seat THEN 1 ELSE -1 END AS result
    FROM evaluations JOIN (SELECT run_id, game_id, winner FROM games WHERE ({condition})) USING (run_id, game_id)
    LEFT JOIN (SELECT run_id, game_id, ply, value_before FROM decisions WHERE kind = 'placement' AND ({condition}))
        USING (run_id, game_id, ply)
"""
SUMS = """
    SELECT run_id, agent, ply, count(*) AS turns, count(value) AS reported, sum(value) AS value,
        sum(result) FILTER (value IS NOT NULL) AS result, sum((value - result) ** 2) AS squares,
        count(exact) AS judged, sum(exact) AS exact, sum(seconds) AS seconds, max(seconds) AS slowest
    FROM ({turns}) GROUP BY ALL ORDER BY ALL
"""

VALUE_AXIS = {
    "title": "value",
    "axis": {"tickCount": 4, **style.PLAIN_AXIS},
    "scale": {"domain": [-1, 1], "nice": False},
}
NOT_STORED = Advice(
    "no evaluations were stored",
    "'archive.evaluations=true' stores them",
    "run(..., overrides=['archive.evaluations=true']) stores them",
)


def build_evaluations_section(data: ReportData) -> Result:
    """Build the section about agents' own evaluations: the values that agents expected from their turns."""
    note = (
        "The values that agents expected of their turns: 1 won, 0 drawn, \N{MINUS SIGN}1 lost, for the agent itself. "
        "The error is the root mean square of value minus result: an agent that expects a draw in every won or lost "
        "game has 1. Times are by the clock. Solid lines show expected values, dashed lines exact ones."
    )
    return build_section_by_ply(data, evaluations_frame, NOT_STORED, _build_parts, note)


def build_evaluations_overview(data: ReportData) -> Result:
    """Build the section about evaluations with one picture, in which each agent has a line.

    If the data is about one agent, the picture also has the exact values, and the numbers are those by ply.
    """
    if data.agent is not None:
        return build_evaluations_section(data)
    data = data.select_runs(_list_runs_with_evaluations(data))  # so that their agents are among the best
    totals = evaluations_frame(data, False) if data.records else pl.DataFrame()
    if totals.is_empty():
        return Result(missing=NOT_STORED)
    shown = data.select_rows_of_shown_agents(totals)
    by_ply = data.select_rows_of_shown_agents(evaluations_frame(data, True)).filter(pl.col("reported") > 0)
    note = (
        "The mean value that agents expected of their turns, by ply: 1 won, 0 drawn, \N{MINUS SIGN}1 lost, for the "
        "agent itself. The error is the root mean square of value minus result."
    )
    table = agent_table(data, "Values and times of turns", shown, _build_columns(shown))
    figures = [] if by_ply.is_empty() else [Figure("Expected values", _build_chart_of_agents(by_ply, data))]
    return Result(note, table, assign_figure_ids("evaluations", figures), frame=totals)


def _build_chart_of_agents(by_ply: pl.DataFrame, data: ReportData) -> Spec:
    """Build the chart of the values that agents expected by ply, with a line in the colour of each agent."""
    colours = [style.AGENT_COLOURS[data.find_colour_number(agent)][0] for agent in by_ply["agent"]]
    rows = by_ply.select("ply", "agent", "value", colour=pl.Series(colours, dtype=pl.String))
    lines = {
        "y": quantitative("value", **VALUE_AXIS),
        "color": nominal("colour", scale=None),
        "detail": nominal("agent"),
    }
    encoding = {"x": style.ply_axis(-1)}
    return {
        **style.PANEL,
        "data": inline_data(rows),
        "encoding": encoding,
        **layer("line", {**encoding, **lines}, strokeWidth=2),
    }


def _build_parts(totals: pl.DataFrame, by_ply: pl.DataFrame, data: ReportData) -> tuple[Table, Table, list[Figure]]:
    table = agent_table(data, "Values and times of turns", totals, _build_columns(totals))
    table_by_ply = agent_table(data, "The same by ply", by_ply, _build_columns(by_ply))
    return table, table_by_ply, _build_figures(by_ply, data)


def _build_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    return [
        *([number_column("ply", frame["ply"], str)] if frame["ply"].is_not_null().any() else []),
        number_column("turns", frame["turns"]),
        number_column("with a value", frame["reported"]),
        *(number_column(name, frame[name], format_expected_value) for name in ("value", "result")),
        number_column("error", frame["error"], format_value_error),
        number_column("exact", frame["exact"], format_expected_value),
        number_column("mean, s", frame["seconds"], format_seconds),
        number_column("slowest, s", frame["slowest"], format_seconds),
    ]


def evaluations_frame(data: ReportData, by_ply: bool) -> pl.DataFrame:
    """Return a summary of the evaluations, with a row for each agent or, if ``by_ply``, for each agent and ply.

    Columns:

    - ``agent``, and ``ply``, which is null without ``by_ply``;
    - ``turns``, the number of turns with an evaluation, ``reported``, the number of those with a value, and ``judged``,
      the number of those whose exact value is known;
    - ``value``, ``result`` and ``exact``, the means of the reported values, of the results and of the exact values,
      from the agent's point of view (-1 to 1);
    - ``error``, the root mean square of value minus result;
    - ``seconds`` and ``slowest``, the mean and the longest time of a turn.
    """
    # Joining the games of runs without evaluations would take most of the time.
    runs = run_condition_sql(_list_runs_with_evaluations(data))
    turns = TURNS.format(condition=f"{runs} AND (\n{data.selection.condition}\n)")
    rows = data.run_query_once(SUMS.format(turns=turns))  # the totals add them up
    names = [data.agent_names.find_name(*run_and_agent) for run_and_agent in rows.select("run_id", "agent").iter_rows()]
    ply = pl.col("ply") if by_ply else pl.lit(None, rows.schema["ply"])
    named = rows.with_columns(agent=pl.Series(names, dtype=pl.String), ply=ply)
    sums = ("turns", "reported", "value", "result", "squares", "judged", "exact", "seconds")
    totals = named.group_by("agent", "ply").agg(pl.sum(*sums), pl.max("slowest")).sort("agent", "ply")

    def divide(name: str, of: str) -> pl.Expr:
        """Return column ``name`` divided by column ``of``, or null where ``of`` is 0."""
        return pl.when(pl.col(of) > 0).then(pl.col(name) / pl.col(of))

    means = totals.with_columns(
        divide("value", "reported"),
        divide("result", "reported"),
        divide("exact", "judged"),
        divide("seconds", "turns"),
        error=divide("squares", "reported").sqrt(),
    )
    return data.sort_by_rank(data.select_rows_of_requested_agents(means))


def _list_runs_with_evaluations(data: ReportData) -> list[str]:
    """List the runs that have files of evaluations, sorted. Raises ``FailureError`` if evaluations are lost."""
    files = data.opened.files
    return sorted(run for run in data.records if files.list_derived_files_and_gaps(EVALUATIONS_TABLE, run).files)


def _build_figures(frame: pl.DataFrame, data: ReportData) -> list[Figure]:
    """Build a figure for each agent that reported values, with the means by ply."""
    return agent_figures(
        data, "evaluations", frame.filter(pl.col("reported") > 0), _build_expected_and_exact_values_chart
    )


def _build_expected_and_exact_values_chart(rows: pl.DataFrame, colour: str) -> Spec:
    """Build the chart of an agent's expected values, as a solid line, and exact values, as a dashed line, by ply."""
    lines = [
        {"data": inline_data(rows.select("ply", name).drop_nulls())}
        | layer("line", {"y": quantitative(name, **VALUE_AXIS)}, color=colour, strokeWidth=2, strokeDash=dash)
        for name, dash in (("value", [1, 0]), ("exact", [4, 3]))
        if rows[name].is_not_null().any()
    ]
    return {**style.PANEL, "encoding": {"x": style.ply_axis(-1)}, "layer": lines}
