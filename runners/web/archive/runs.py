"""Lists of the runs of an archive, and tables about one run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from analytics.questions.columns import (
    Cell,
    Table,
    format_count,
    format_duration,
    format_plies,
    link_column,
    number_column,
    pairing_columns,
    property_columns,
)
from analytics.questions.pairings import PairingResult, load_results, pairings_frame
from analytics.questions.selection import GameFilter
from analytics.questions.sql.database import OpenArchive
from analytics.store.archive import GAMES_FOLDER, unknown_run_error
from analytics.store.ranges import parse_file_names
from analytics.store.records import RunRecord
from quarto.errors import RequestError
from runners.web.archive import urls

SILENT_SECONDS = 300.0  # without a new file, after which a run no longer counts as running
RUN_STATUSES = ("complete", "running", "interrupted")


class RunRow(NamedTuple):
    """A run as a row in a list of runs."""

    record: RunRecord
    games: int  # number of games in the archive
    last_written: float = 0.0  # when the newest file of a running run was written, in seconds since 1970
    games_a_second: float | None = None  # of a running run, since it was begun or continued; None: not known
    name: str = ""
    note: str = ""

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def rules(self) -> str:
        """The name of the run's rules."""
        return str(self.record.spec["rules"]["name"])

    @property
    def agents(self) -> tuple[str, ...]:
        """The labels of the run's agents, in the order in which tables list the agents.

        The list of runs shows the score of the first of these agents.
        """
        return self.record.distinct_labels_in_table_order

    @property
    def games_text(self) -> str:
        """The number of games as text, with the planned number if some are missing."""
        planned = self.record.games * len(self.record.pairings)
        return f"{self.games:,}" if self.games == planned else f"{self.games:,} of {planned:,}"

    @property
    def status(self) -> str:
        """The status in the record, or the time since the last games if the run seems to have been killed.

        A run that was killed could not update the status in its record. A run is taken for killed if it is recorded as
        running but has stored no games for ``SILENT_SECONDS``.
        """
        silent = time.time() - self.last_written
        if self.record.status != "running" or silent < SILENT_SECONDS:
            return self.record.status
        return f"no new games for {format_duration(silent)}"

    @property
    def start_and_status_text(self) -> str:
        """The UTC time when the run began, such as 2026-01-31 12:00, and the run's status unless it is complete."""
        created = format_minute(self.record.created)
        return created if self.record.status == "complete" else f"{created}, {self.status}"


def format_minute(created: str) -> str:
    """Format the time ``created`` of a record to the minute, such as 2026-01-31 12:00."""
    return created[:16].replace("T", " ")


def select_runs(
    rows: Iterable[RunRow], game_filter: GameFilter, status: str = "", search_text: str = ""
) -> list[RunRow]:
    """Return the runs that may contain games that match a filter.

    If ``status`` is given, only runs with this status are returned. If ``search_text`` is given, the run's id, its
    name, its note or the label of one of its agents must contain this text.
    """
    return [
        row
        for row in rows
        if status in ("", row.record.status)
        and (
            not search_text
            or any(search_text.lower() in text.lower() for text in (row.run_id, row.name, row.note, *row.agents))
        )
        and game_filter.can_match_run(row.record)
    ]


def list_runs(opened: OpenArchive, most: int | None = None) -> tuple[RunRow, ...]:
    """Return the rows of the ``most`` newest runs, or of all runs, with the newest first.

    Raises ``FailureError`` for a damaged record.
    """
    return tuple(build_run_row(opened, record) for record in reversed(opened.archive.load_runs()[-(most or 0) :]))


class FilterNames(NamedTuple):
    """The names of the rules and agents that filters can offer."""

    rules: tuple[str, ...]
    agents: tuple[str, ...]


class RunList(NamedTuple):
    """The rows of all runs, the newest first, and the names that filters can offer for them."""

    rows: tuple[RunRow, ...]
    names: FilterNames


def list_runs_and_names(opened: OpenArchive) -> RunList:
    """Return the rows of all runs, and the names of their rules and agents.

    Raises ``FailureError`` for a damaged record.
    """
    rows = list_runs(opened)
    return RunList(rows, list_rules_and_agent_names(rows))


def build_run_row(opened: OpenArchive, record: RunRecord) -> RunRow:
    """Build the row that shows a run in a list, from the run's record and files."""
    games = opened.archive.count_games_by_record(record)
    note = opened.archive.find_note(record.run_id)
    row = RunRow(record, games, name=note.name, note=note.note)
    return row if record.status != "running" else _add_progress(opened, row)


def _add_progress(opened: OpenArchive, row: RunRow) -> RunRow:
    """Return the row of a run that is being played, with the time of its newest file and its pace.

    The record was written when the run was begun or continued, so the files since then tell the pace.
    """
    archive, run_id = opened.archive, row.run_id
    statuses = archive.list_file_statuses(GAMES_FOLDER, run_id)
    last_written = max(
        [*(status.modified for status in statuses.values()), datetime.fromisoformat(row.record.created).timestamp()]
    )
    record_status = archive.backend.status(archive.run_record_path(run_id))
    started = record_status.modified if record_status else last_written
    new_files = parse_file_names(name for name, status in statuses.items() if status.modified > started)
    games = sum(file.units for file in new_files) * row.record.unit_line.games_a_pair
    pace = games / (last_written - started) if games and last_written > started else None
    return row._replace(last_written=last_written, games_a_second=pace)


def find_run_record(opened: OpenArchive, run_id: str) -> RunRecord:
    """Return the record of a run. Raises ``NotFoundError`` if there is no such run."""
    record = opened.archive.find_run(run_id)
    if record is None:
        raise unknown_run_error(opened.archive, run_id, opened.archive.list_recorded_run_ids())
    return record


def list_rules_and_agent_names(rows: Iterable[RunRow]) -> FilterNames:
    """Return the names of the rules and of the agents of the given runs.

    The rules with the most games come first; the agents are in alphabetical order.
    """
    counts: dict[str, int] = {}
    agents: set[str] = set()
    for row in rows:
        counts[row.rules] = counts.get(row.rules, 0) + row.games
        agents.update(row.agents)
    return FilterNames(tuple(sorted(counts, key=lambda name: (-counts[name], name))), tuple(sorted(agents)))


MAX_PAIRINGS = 100  # rows of the table of results


def build_run_tables(opened: OpenArchive, row: RunRow) -> list[Table]:
    """Build the table of a run's results and the table of its properties."""
    fingerprint = f"{opened.archive.list_effective_ranges(row.run_id).fingerprint:016x}"
    return [
        _build_pairings_table(row.record, load_results(opened.archive, row.run_id)),
        _build_properties_table(row, fingerprint),
    ]


def _build_properties_table(row: RunRow, fingerprint: str) -> Table:
    record, spec, code = row.record, row.record.spec, row.record.code
    values: dict[str, str | Cell] = {
        "status": row.status,
        "rules": record.rules.name,
        "games": Cell(row.games_text, link=urls.games_url(run=row.run_id)),
        "fingerprint of the games": fingerprint,
        "seats": "swapped in each pair" if record.swapped else "fixed",
        "imposed plies": str(spec["opening_plies"]),
        "seed": str(spec["seed"]),
        "begun": f"{record.created[:19].replace('T', ' ')} UTC",
        "time playing": f"{record.seconds:,.1f} s" if record.seconds else "known when it ends",
        "code": f"{code.get('version', '?')}, fingerprint {code.get('fingerprint', '?')}",
        "command": record.command,
    }
    return Table("Properties of the run", property_columns(values, ("command",)))


def _build_pairings_table(record: RunRecord, results: Sequence[PairingResult]) -> Table:
    """Build the table of the first agent's result in each pairing, with the columns that `qarena run` prints."""
    first_results, rules = results[:MAX_PAIRINGS], record.rules.name
    games = [urls.games_url(run=record.run_id, agent=result.first, opponent=result.second) for result in first_results]
    columns = [
        link_column(
            "first",
            [result.first for result in first_results],
            [urls.agent_url(result.first, rules) for result in first_results],
        ),
        link_column(
            "second",
            [result.second for result in first_results],
            [urls.agent_url(result.second, rules) for result in first_results],
        ),
        link_column("games", [format_count(result.games) for result in first_results], games, right_aligned=True),
        *pairing_columns(pairings_frame(first_results))[3:],
        number_column("plies a game", [result.mean_plies for result in first_results], format_plies),
    ]
    limit_note = "" if len(results) <= MAX_PAIRINGS else f" (the first {MAX_PAIRINGS} of {len(results):,})"
    return Table(f"Results of the first agent{limit_note}, in %", columns)


def select_records_or_raise(opened: OpenArchive, game_filter: GameFilter) -> list[RunRecord]:
    """Return the records of the runs that may contain games that match a filter.

    Raises ``RequestError`` if there are no such runs.
    """
    records = game_filter.select_runs(opened.archive)
    if not records:
        raise RequestError("all runs here are those of trainings")
    return records
