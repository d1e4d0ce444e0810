"""Results, ratings, mistakes and pictures of the games of some runs: the sections of a report, one a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from analytics.query.game_filter import GameFilter
from analytics.query.selection import Selection
from analytics.report import sections
from analytics.report.content import Cell, PageTable, ReportSection, linked
from analytics.report.figures.reported_games import ReportedGames
from analytics.results.columns import column, words
from analytics.sql.database import OpenArchive
from analytics.sql.views import among
from analytics.store.records import RunRecord
from quarto.errors import NotFoundError, RequestError
from runners.browse import links
from runners.browse.runs import chosen_records
from runners.perfect.solve import VALUE_NAMES

FIRST_SCORE = 3  # column of a crosstable
MOST_MISTAKES = 25  # that a list shows
MOST_OF_A_SORT = 2  # of an agent, a kind of decision and a ply, unless a ply is asked for


class Subject(NamedTuple):
    """A section of a report that has a page of its own."""

    slug: str
    name: str
    make: Callable[[ReportedGames], ReportSection]


SUBJECTS = (
    Subject("crosstable", "Crosstable", sections.crosstable_section),
    Subject("ratings", "Ratings", sections.ratings_section),
    Subject("mistakes", "Mistakes", sections.mistakes_section),
    Subject("lengths", "Game lengths", sections.game_lengths_section),
    Subject("placements", "First placements", sections.first_placements_section),
    Subject("gifts", "First gifts", sections.first_gifts_section),
    Subject("learning", "Learning curves", sections.learning_curves_section),
)
_OF_TRAININGS = "learning"  # the section that is about them


class ShownSection(NamedTuple):
    """A section, and the games that it is about."""

    section: ReportSection
    games: int
    runs: int
    agents: int  # of which at most ``reported_games.MOST_AGENTS`` are shown


def section(opened: OpenArchive, slug: str, wanted: GameFilter) -> ShownSection:
    """A section about all games of some runs.

    Raises ``RequestError`` for an unknown section or run, and if there are no games.
    """
    subject = next((each for each in SUBJECTS if each.slug == slug), None)
    if subject is None:
        raise NotFoundError(f"there is no page of {slug!r} here: {', '.join(each.slug for each in SUBJECTS)}")
    chosen = games_of_runs(opened, replace(wanted, trainings=True) if slug == _OF_TRAININGS else wanted)
    made = subject.make(chosen)
    if slug == "crosstable" and made.table is not None:
        labels = _labels(chosen.records.values())
        made = replace(made, table=_with_games(made.table, labels, wanted))
    made = replace(made, table=_with_agents(made.table, chosen.records.values()))
    return ShownSection(made, chosen.selection.games, len(chosen.records), len(chosen.games_of))


def games_of_runs(opened: OpenArchive, wanted: GameFilter) -> ReportedGames:
    """All games of these runs. Raises ``RequestError`` if there are none."""
    records = chosen_records(opened, wanted)
    held = [(record, opened.archive.games_held(record.run_id)) for record in records]
    there = [(record, games) for record, games in held if games]
    if not there:
        raise RequestError("these runs have no games yet")
    where = among(record.run_id for record, _ in there)
    return ReportedGames(Selection(opened, where, tuple(each for each, _ in there), tuple(count for _, count in there)))


def _labels(records: Iterable[RunRecord]) -> set[str]:
    return {label for record in records for label in record.labels}


def _with_agents(table: PageTable | None, records: Collection[RunRecord]) -> PageTable | None:
    """A table in which the labels of agents lead to their pages."""
    if table is None:
        return None
    labels, rules = _labels(records), {record.rules.name for record in records}
    own = next(iter(rules)) if len(rules) == 1 else ""

    def cell(shown: Cell) -> Cell:
        return replace(shown, link=links.agent_page(shown.text, own)) if shown.text in labels else shown

    return replace(table, rows=[[cell(row[0]), *row[1:]] for row in table.cells])


def _with_games(table: PageTable, labels: Collection[str], wanted: GameFilter) -> PageTable:
    """A crosstable in which each score leads to the games behind it, unless a name is more than a label."""
    agents = [row[0].text for row in table.cells]

    def cell(row: int, column: int, shown: Cell) -> Cell:
        other = column - FIRST_SCORE
        if not 0 <= other < len(agents) or shown.tint is None or not {agents[row], agents[other]} <= set(labels):
            return shown
        filters = {"run": wanted.runs[0]} if wanted.runs else {"rules": wanted.rules or ""}
        return replace(shown, link=links.games_page(agent=agents[row], opponent=agents[other], **filters))

    rows = [[cell(row, column, each) for column, each in enumerate(cells)] for row, cells in enumerate(table.cells)]
    return replace(table, rows=rows)


def worst(opened: OpenArchive, wanted: GameFilter, kind: str = "", ply: int | None = None) -> PageTable:
    """The mistakes of some games, those that gave up most first, then the latest in a game; of each sort a few.

    A sort is an agent, a kind of decision and a ply.

    ``kind`` is gift or placement, ``ply`` counts from 0. Raises ``RequestError`` for a run that is not there.
    """
    records = chosen_records(opened, wanted)
    found = opened.sql(
        "SELECT run_id, game_id, ply, kind, agent, value_before, value_after FROM decisions "  # noqa: S608  (ids)
        f"WHERE regret > 0 AND {among(record.run_id for record in records)} "
        "AND ($agent IS NULL OR agent = $agent) AND ($kind = '' OR kind = $kind) AND ($ply IS NULL OR ply = $ply) "
        "QUALIFY row_number() OVER (PARTITION BY agent, kind, ply ORDER BY regret DESC, run_id, game_id) <= $each "
        f"ORDER BY regret DESC, ply DESC, run_id, game_id LIMIT {MOST_MISTAKES}",
        {"agent": wanted.agent, "kind": kind, "ply": ply, "each": MOST_OF_A_SORT if ply is None else MOST_MISTAKES},
    )
    values = found.select("value_before", "value_after").rows()
    columns = [
        words("game", [links.game_cell(*each) for each in found.select("run_id", "game_id", "ply").rows()]),
        linked("agent", found["agent"], map(links.agent_page, found["agent"])),
        words("decision", found["kind"]),
        column("ply", found["ply"]),
        words("value", [f"{VALUE_NAMES[before]} → {VALUE_NAMES[after]}" for before, after in values]),
    ]
    return PageTable.of("The largest mistakes, the latest in a game first", columns)
