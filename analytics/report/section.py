"""The tables and figures of the sections of a report, in the colours of the agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import polars as pl

from analytics.questions.columns import Cell, ResultColumn, Table, text_column
from analytics.report.advice import Advice
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.report.style import AGENT_COLOURS, Figure, Picture


def agent_cells(data: ReportData, agents: Iterable[str], with_ranks: bool = False) -> list[Cell]:
    """Build cells with the labels of agents in their colours; with ``with_ranks``, a rank precedes each label."""
    colours = {agent: colour for colour, agent in enumerate(data.shown_agents)}  # a crosstable has more agents
    return [
        Cell(agent, f"{rank} " if with_ranks else "", colour=colours.get(agent)) for rank, agent in enumerate(agents, 1)
    ]


def agent_table(data: ReportData, caption: str, frame: pl.DataFrame, other_columns: Sequence[ResultColumn]) -> Table:
    """Build a table with the column ``agent`` of a frame, in the agents' colours, followed by ``other_columns``."""
    return Table(caption, [text_column("agent", agent_cells(data, frame["agent"])), *other_columns])


def agent_figures(
    data: ReportData,
    prefix: str,
    frame: pl.DataFrame,
    build_picture: Callable[..., Picture],
    *picture_arguments: object,
) -> list[Figure]:
    """Build a figure for each agent in a frame, from the agent's rows and in the agent's colour.

    ``build_picture`` receives the rows, the colour and ``picture_arguments``. The figures' names begin with ``prefix``.
    """
    figures = []
    for (agent,), rows in frame.group_by("agent", maintain_order=True):
        colour = data.find_colour_number(str(agent))
        figures.append(
            Figure(str(agent), build_picture(rows, AGENT_COLOURS[colour][0], *picture_arguments), colour=colour)
        )
    return assign_figure_ids(prefix, figures)


def build_section_by_ply(
    data: ReportData,
    summarise: Callable[[ReportData, bool], pl.DataFrame],
    missing: Advice,
    build_parts: Callable[[pl.DataFrame, pl.DataFrame, ReportData], tuple[Table, Table, list[Figure]]],
    note: str,
) -> Result:
    """Build a section about the turns of agents, with one table over all plies and one table by ply.

    The table by ply is not printed. If ``summarise`` returns no rows, the section only shows the remark ``missing``.

    Args:
        data: The games and agents.
        summarise: A function that returns a row for each agent or, if its second argument is True, for each agent and
            ply.
        missing: Why there is nothing to show, if ``summarise`` returns no rows.
        build_parts: A function that builds the table over all plies, the table by ply and the figures, from the rows of
            the agents that are shown.
        note: How to read the section.

    """
    all_totals = summarise(data, False)
    if all_totals.is_empty():
        return Result(missing=missing)
    all_by_ply = summarise(data, True)
    totals, by_ply = map(data.select_rows_of_shown_agents, (all_totals, all_by_ply))
    table, table_by_ply, figures = build_parts(totals, by_ply, data)
    frame = pl.concat([all_totals, all_by_ply])
    return Result(note, table, figures, table_by_ply, frame=frame, prints_numbers=False)


def assign_figure_ids(prefix: str, figures: Iterable[Figure]) -> list[Figure]:
    """Return the figures, renamed to ``prefix`` and a number, so that their ids are unique in a page."""
    return [replace(figure, name=f"{prefix}{number}-") for number, figure in enumerate(figures)]
