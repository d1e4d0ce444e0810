"""Results, ratings, mistakes and pictures of the games of some runs: the sections of a report, one a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from analytics.questions.columns import (
    VALUE_NAMES,
    ResultColumn,
    Table,
    format_count_with_noun,
    link_column,
    number_column,
    text_column,
)
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
from runners.web.archive.archive_page import ArchivePage
from runners.web.archive.runs import build_run_row, build_run_tables, find_run_record, select_records

FIRST_SCORE_COLUMN = 3  # column of a crosstable
MAX_MISTAKES = 25  # that a list shows
MAX_OF_A_KIND = 2  # of an agent, a kind of decision and a ply, unless a ply is asked for


def build_run_page(opened: OpenArchive, run_id: str) -> ArchivePage:
    """The page of a run by its id: its results and properties. Raises ``NotFoundError`` if there is none."""
    row = build_run_row(opened, find_run_record(opened, run_id))
    lead = f"{format_count_with_noun(row.games, 'game')} by {row.record.rules.name} rules"
    parts = [*build_crosstable(opened, run_id), *build_run_tables(opened, row)]
    return ArchivePage(f"Run `{run_id}`", lead, parts=parts)


def build_crosstable(opened: OpenArchive, run_id: str) -> list[Table]:
    """The crosstable of a run of several pairings that has games."""
    if len(find_run_record(opened, run_id).pairings) < 2 or not opened.archive.count_games(run_id):
        return []
    table = build_section(opened, "crosstable", GameFilter(runs=(run_id,))).section.table
    return [table] if table else []


class SectionView(NamedTuple):
    """A section, and the games that it is about."""

    section: Result
    games: int
    runs: int
    agents: int  # of which at most ``report_data.MAX_AGENTS`` are shown


def build_section(opened: OpenArchive, slug: str, game_filter: GameFilter) -> SectionView:
    """A section about all games of some runs.

    Raises ``RequestError`` for an unknown section or run, and if there are no games.
    """
    subject = find_subject(slug)
    chosen = select_reported_games(opened, game_filter)
    made = subject.build_section(chosen)
    if slug == "crosstable" and made.table is not None:
        labels = _list_labels(chosen.records.values())
        made = replace(made, table=_link_games(made.table, labels, game_filter))
    made = replace(made, table=_link_agents(made.table, chosen.records.values()))
    return SectionView(made, chosen.selection.games, len(chosen.records), len(chosen.games_by_agent))


def counts_trainings(slug: str) -> bool:
    """Whether a section counts games of trainings unless told otherwise: all do but those about strength."""
    return not find_subject(slug).by_rules


def select_reported_games(opened: OpenArchive, game_filter: GameFilter) -> ReportData:
    """All games of these runs. Raises ``RequestError`` if there are none."""
    records = select_records(opened, game_filter)
    held = [(record, opened.archive.count_games(record.run_id)) for record in records]
    there = [(record, games) for record, games in held if games]
    if not there:
        raise RequestError("these runs have no games yet")
    where = run_condition_sql(record.run_id for record, _ in there)
    chosen = Selection(opened, where, tuple(each for each, _ in there), tuple(count for _, count in there))
    return ReportData(chosen, frozenset(record.run_id for record, _ in there))  # trainings are there if asked for


def _list_labels(records: Iterable[RunRecord]) -> set[str]:
    return {label for record in records for label in record.labels}


def _link_agents(table: Table | None, records: Collection[RunRecord]) -> Table | None:
    """A table in whose first column the labels of agents lead to their pages."""
    if table is None:
        return None
    labels, rules = _list_labels(records), {record.rules.name for record in records}
    own, (first, *others) = next(iter(rules)) if len(rules) == 1 else "", table.columns
    known = [resolve_shown_agent_label(cell.text, labels) for cell in first.cells]
    cells = [
        replace(cell, link=urls.agent_url(label, own)) if label else cell
        for cell, label in zip(first.cells, known, strict=True)
    ]
    return replace(table, columns=[first._replace(texts=cells), *others])


def _link_games(table: Table, labels: Collection[str], game_filter: GameFilter) -> Table:
    """A crosstable in which each score leads to the games behind it, unless a name is more than a label."""
    agents = [cell.text for cell in table.columns[0].cells]
    filters = {"run": game_filter.runs[0]} if game_filter.runs else {"rules": game_filter.rules or ""}

    def link_scores(opponent: str, scores: ResultColumn) -> ResultColumn:
        cells = [
            cell
            if cell.tint is None or not {agent, opponent} <= set(labels)
            else replace(cell, link=urls.games_url(agent=agent, opponent=opponent, **filters))
            for agent, cell in zip(agents, scores.cells, strict=True)
        ]
        return scores._replace(texts=cells)

    end = FIRST_SCORE_COLUMN + len(agents)
    scores = map(link_scores, agents, table.columns[FIRST_SCORE_COLUMN:end])
    return replace(table, columns=[*table.columns[:FIRST_SCORE_COLUMN], *scores, *table.columns[end:]])


def build_mistakes_table(opened: OpenArchive, game_filter: GameFilter, kind: str = "", ply: int | None = None) -> Table:
    """The mistakes of some games, those that gave up most first, then the latest in a game; of each sort a few.

    A sort is an agent, a kind of decision and a ply.

    ``kind`` is gift or placement, ``ply`` counts from 0. Raises ``RequestError`` for a run that is not there.
    """
    records = select_records(opened, game_filter)
    found = opened.sql(
        "SELECT run_id, game_id, ply, kind, agent, value_before, value_after FROM decisions "  # noqa: S608  (ids)
        f"WHERE regret > 0 AND {run_condition_sql(record.run_id for record in records)} "
        "AND ($agent IS NULL OR agent = $agent) AND ($kind = '' OR kind = $kind) AND ($ply IS NULL OR ply = $ply) "
        "QUALIFY row_number() OVER (PARTITION BY agent, kind, ply ORDER BY regret DESC, run_id, game_id) <= $each "
        f"ORDER BY regret DESC, ply DESC, run_id, game_id LIMIT {MAX_MISTAKES}",
        {"agent": game_filter.agent, "kind": kind, "ply": ply, "each": MAX_OF_A_KIND if ply is None else MAX_MISTAKES},
    )
    values = found.select("value_before", "value_after").rows()
    columns = [
        text_column("game", [urls.build_game_cell(*each) for each in found.select("run_id", "game_id", "ply").rows()]),
        link_column("agent", found["agent"], map(urls.agent_url, found["agent"])),
        text_column("decision", found["kind"]),
        number_column("ply", found["ply"]),
        text_column("value", [f"{VALUE_NAMES[before]} → {VALUE_NAMES[after]}" for before, after in values]),
    ]
    return Table("The largest mistakes, the latest in a game first", columns)
