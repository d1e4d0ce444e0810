"""Sections of the report about the games of some runs, one section on each page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from analytics.questions.columns import (
    VALUE_NAMES,
    ResultColumn,
    Table,
    link_column,
    number_column,
    text_column,
)
from analytics.questions.mistakes import build_judged_runs_condition
from analytics.questions.pairings import resolve_shown_agent_label
from analytics.questions.selection import GameFilter, Selection
from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.views import run_condition_sql
from analytics.report.page import find_subject
from analytics.report.report_data import ReportData
from analytics.report.result import Result
from analytics.store.records import RunRecord
from quarto.errors import RequestError
from runners.web.archive import urls
from runners.web.archive.runs import find_run_record, select_records_or_raise

MAX_MISTAKES = 25  # rows of the list of mistakes
MAX_OF_A_KIND = 2  # rows for an agent, a kind of decision and a ply, unless one ply is selected


def build_crosstable_if_tournament(opened: OpenArchive, run_id: str) -> Result | None:
    """Return the section with the crosstable of a run, without its numbers.

    The result is None if the run has only one pairing or no games, or if no two different agents met.
    """
    if len(find_run_record(opened, run_id).pairings) < 2 or not opened.archive.count_games(run_id):
        return None
    section = build_section(opened, "crosstable", GameFilter(runs=(run_id,))).section
    return replace(section, numbers=None) if section.table else None


class SectionView(NamedTuple):
    """A section of the report, with the numbers of games, runs and agents on which it is based."""

    section: Result
    games: int
    runs: int
    agents: int  # at most ``report_data.MAX_AGENTS`` of them are shown, in a crosstable ``MAX_CROSSTABLE_AGENTS``


def build_section(opened: OpenArchive, slug: str, game_filter: GameFilter) -> SectionView:
    """Build a section of the report about all games that match the filter.

    Raises ``RequestError`` for an unknown section or run, and if no games match.
    """
    subject = find_subject(slug)
    data = select_reported_games(opened, game_filter)
    section = subject.build_section(data)
    if slug == "crosstable" and section.table is not None:
        labels = _list_labels(data.records.values())
        section = replace(section, table=_link_games(section.table, labels, game_filter))
    section = replace(section, table=link_agents(section.table, data.records.values()))
    return SectionView(section, data.selection.games, len(data.records), len(data.games_by_agent))


def includes_trainings_by_default(slug: str) -> bool:
    """Return whether the section with this slug includes games of trainings by default.

    All sections do, except those about the strength of agents.
    """
    return not find_subject(slug).by_rules


def select_reported_games(opened: OpenArchive, game_filter: GameFilter) -> ReportData:
    """Select the games that match the filter, for a report about them. Raises ``RequestError`` if there are none."""
    records = select_records_or_raise(opened, game_filter)
    counted = [(record, opened.archive.count_games(record.run_id)) for record in records]
    nonempty = [(record, games) for record, games in counted if games]
    if not nonempty:
        raise RequestError("these runs have no games yet")
    where = run_condition_sql(record.run_id for record, _ in nonempty)
    selection = Selection(opened, where, tuple(record for record, _ in nonempty), tuple(count for _, count in nonempty))
    # A filter that includes trainings is a request to report them too.
    return ReportData(selection, frozenset(record.run_id for record, _ in nonempty))


def _list_labels(records: Iterable[RunRecord]) -> set[str]:
    return {label for record in records for label in record.labels}


def link_agents(table: Table | None, records: Collection[RunRecord]) -> Table | None:
    """Return a table in which each agent of the first column links to the agent's page, or None if there is no table.

    An agent gets a link only if it played in one of the runs that ``records`` describe.
    """
    if table is None:
        return None
    labels, rules = _list_labels(records), {record.rules.name for record in records}
    rules_name, (first, *other_columns) = next(iter(rules)) if len(rules) == 1 else "", table.columns
    cell_labels = [resolve_shown_agent_label(cell.text, labels) for cell in first.cells]
    cells = [
        replace(cell, link=urls.agent_url(label, rules_name)) if label else cell
        for cell, label in zip(first.cells, cell_labels, strict=True)
    ]
    return replace(table, columns=[first._replace(texts=cells), *other_columns])


def _link_games(table: Table, labels: Collection[str], game_filter: GameFilter) -> Table:
    """Return a crosstable in which each score links to the list of its games.

    ``labels`` are the labels of the agents. A heading that is not one of them gets no links, because it cannot be used
    as a filter; for example, it may also name a version of the code.
    """
    agents = [cell.text for cell in table.columns[0].cells]
    opponents = iter(agents)
    filters = {"run": game_filter.runs[0]} if game_filter.runs else {"rules": game_filter.rules or ""}

    def link_scores(opponent: str, scores: ResultColumn) -> ResultColumn:
        cells = [
            cell
            if cell.tint is None or not {agent, opponent} <= set(labels)
            else replace(cell, link=urls.games_url(agent=agent, opponent=opponent, **filters))
            for agent, cell in zip(agents, scores.cells, strict=True)
        ]
        return scores._replace(texts=cells)

    columns = [link_scores(next(opponents), column) if column.rotated else column for column in table.columns]
    return replace(table, columns=columns)


def build_mistakes_table(
    opened: OpenArchive, game_filter: GameFilter, kind: str = "", ply: int | None = None, with_agent: bool = True
) -> Table:
    """Build the table of mistakes, sorted by descending regret; among equal mistakes, later plies come first.

    Unless ``ply`` (from 0) selects one ply, only a few mistakes are listed for each agent, kind of decision and ply.
    ``kind`` is ``gift``, ``placement`` or "" for both. Without ``with_agent``, no column names the agent. Raises
    ``RequestError`` for an unknown run.
    """
    records = select_records_or_raise(opened, game_filter)
    rows = opened.sql(
        "SELECT run_id, game_id, ply, kind, agent, value_before, value_after FROM decisions "  # noqa: S608  (ids)
        f"WHERE regret > 0 AND {build_judged_runs_condition(opened, records)} "
        "AND ($agent IS NULL OR agent = $agent) AND ($kind = '' OR kind = $kind) AND ($ply IS NULL OR ply = $ply) "
        "QUALIFY row_number() OVER (PARTITION BY agent, kind, ply ORDER BY regret DESC, run_id, game_id) <= $each "
        f"ORDER BY regret DESC, ply DESC, run_id, game_id LIMIT {MAX_MISTAKES}",
        {"agent": game_filter.agent, "kind": kind, "ply": ply, "each": MAX_OF_A_KIND if ply is None else MAX_MISTAKES},
    )
    values = rows.select("value_before", "value_after").rows()
    columns = [
        text_column("game", [urls.build_game_cell(*place) for place in rows.select("run_id", "game_id", "ply").rows()]),
        *([link_column("agent", rows["agent"], map(urls.agent_url, rows["agent"]))] if with_agent else []),
        text_column("decision", rows["kind"]),
        number_column("ply", rows["ply"]),
        text_column("value", [f"{VALUE_NAMES[before]} → {VALUE_NAMES[after]}" for before, after in values]),
    ]
    return Table("The largest mistakes, the latest in a game first", columns)
