"""A section of a report as a value: a note, tables and figures, or the reason why it is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from analytics.questions.columns import Cell, ResultColumn, Table, words
from analytics.report.rendering import render
from analytics.report.reported_games import ReportedGames
from analytics.report.style import AGENTS, Figure, Picture


@dataclass(frozen=True)
class ReportSection:
    """A part of a report, which a notebook shows too. ``missing``, if not empty, says why there is nothing to show."""

    note: str = ""  # how to read it
    table: Table | None = None
    figures: Sequence[Figure] = ()
    numbers: Table | None = None  # the figures' values, shown on request
    beside: bool = False  # figures and table side by side
    missing: str = ""
    legend: Sequence[str] = ()  # of the figures: results, and "random play"
    title: str = ""

    @property
    def anchor(self) -> str:
        """The section's id in the page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    @property
    def tables(self) -> list[Table]:
        """Its tables with rows."""
        return [each for each in (self.table, self.numbers) if each is not None and each.rows]

    def _repr_html_(self) -> str:
        return render("notebook.html", title="", sections=[self])


def agent_cells(chosen: ReportedGames, agents: Iterable[str], ranked: bool = False) -> list[Cell]:
    """Labels of agents, marked with their colours; with their ranks in front of them."""
    return [
        Cell(agent, f"{rank} " if ranked else "", colour=chosen.colour(agent)) for rank, agent in enumerate(agents, 1)
    ]


def agent_table(chosen: ReportedGames, caption: str, frame: pl.DataFrame, columns: Sequence[ResultColumn]) -> Table:
    """A table of a frame with a column ``agent``: these, and then the others."""
    return Table(caption, [words("agent", agent_cells(chosen, frame["agent"])), *columns])


def agent_figures(
    chosen: ReportedGames, prefix: str, frame: pl.DataFrame, draw: Callable[..., Picture], *others: object
) -> list[Figure]:
    """A figure of the rows of each agent of a frame, in its colour; ``draw`` gets them, the colour and the others."""
    figures = []
    for (agent,), rows in frame.group_by("agent", maintain_order=True):
        colour = chosen.colour(str(agent))
        figures.append(Figure(str(agent), draw(rows, AGENTS[colour][0], *others), colour=colour))
    return numbered(prefix, figures)


def numbered(prefix: str, figures: Iterable[Figure]) -> list[Figure]:
    """Figures with names of their own. ``prefix`` keeps their ids apart from those of other figures in a page."""
    return [replace(figure, name=f"{prefix}{number}-") for number, figure in enumerate(figures)]
