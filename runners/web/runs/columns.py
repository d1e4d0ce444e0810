"""The list of runs: its columns, which one may choose, and the order of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from agents.base.parameters import format_parameter
from analytics.questions.columns import (
    MISSING,
    Cell,
    ResultColumn,
    SortLink,
    Table,
    format_count,
    format_percent,
    format_seconds,
)
from analytics.questions.pairings import load_results_by_run
from analytics.questions.run_comparison import compute_pace_without_people, format_games_a_second
from analytics.questions.sql.database import OpenArchive
from analytics.store.texts import to_line
from quarto.errors import RequestError, suggest_valid_names
from runners.web.archive import urls
from runners.web.archive.runs import RunRow

MAX_AGENTS = 4  # named in a row


def build_agents_cell(row: RunRow) -> Cell:
    """Build the table cell with the first agents of a run, each linked to its page, and the number of other agents."""
    first_agents, more = row.agents[:MAX_AGENTS], len(row.agents) - MAX_AGENTS
    parts = tuple(Cell(agent, link=urls.agent_url(agent, row.rules)) for agent in first_agents)
    return Cell(f"{more} more" if more > 0 else "", parts=parts)


class RunColumn(NamedTuple):
    """A column that the list of runs can show, and by which it can be sorted."""

    heading: str
    cells: Callable[[OpenArchive, Sequence[RunRow]], Sequence[Any]]  # texts or cells, one for each run
    keys: Callable[[OpenArchive, Sequence[RunRow]], Sequence[Any]]  # by which runs are sorted; None: no value
    is_number: bool = False


def _text_of_row(heading: str, read: Callable[[RunRow], str]) -> RunColumn:
    """Build a column whose texts are read from the rows alone."""
    return RunColumn(
        heading,
        lambda _, rows: [read(row) or MISSING for row in rows],
        lambda _, rows: [read(row).casefold() or None for row in rows],
    )


def _number_of_row(
    heading: str, read: Callable[[RunRow], float | None], format_value: Callable[[Any], str] = str
) -> RunColumn:
    """Build a column whose numbers are read from the rows alone."""
    return RunColumn(
        heading,
        lambda _, rows: [MISSING if (value := read(row)) is None else format_value(value) for row in rows],
        lambda _, rows: [read(row) for row in rows],
        is_number=True,
    )


def _build_run_cells(_: OpenArchive, rows: Sequence[RunRow]) -> list[Cell]:
    return [Cell(row.run_id, link=urls.run_url(row.run_id), code=True, checkbox=row.run_id) for row in rows]


def _list_games_a_second(row: RunRow) -> float | None:
    return compute_pace_without_people([(row.record, row.games)])


def compute_first_agent_match_scores(opened: OpenArchive, rows: Sequence[RunRow]) -> list[float | None]:
    """Compute the score of the first agent in each run, from 0 to 1.

    The score is None for a tournament and for a run without games.
    """
    matches = (row.record for row in rows if len(row.record.pairings) == 1 and row.games)
    results = load_results_by_run(opened.archive, matches)
    return [results[row.run_id][0].score.mean if row.run_id in results else None for row in rows]


RUN_COLUMN = RunColumn("run", _build_run_cells, lambda _, rows: [row.run_id for row in rows])
SCORE_COLUMN = RunColumn(
    "first one's score, %",
    lambda opened, rows: [
        MISSING if score is None else format_percent(score) for score in compute_first_agent_match_scores(opened, rows)
    ],
    compute_first_agent_match_scores,
    is_number=True,
)
BEGUN_COLUMN = RunColumn(
    "begun (UTC)",
    lambda _, rows: [row.start_and_status_text for row in rows],
    lambda _, rows: [datetime.fromisoformat(row.record.created) for row in rows],
)
AGENTS_COLUMN = RunColumn(
    "agents",
    lambda _, rows: [build_agents_cell(row) for row in rows],
    lambda _, rows: [", ".join(row.agents).casefold() for row in rows],
)
GAMES_COLUMN = RunColumn(
    "games", lambda _, rows: [row.games_text for row in rows], lambda _, rows: [row.games for row in rows], True
)
NAME_COLUMN = _text_of_row("name", lambda row: row.name)
NOTE_COLUMN = _text_of_row("note", lambda row: to_line(row.note, MAX_NOTE_CHARACTERS) if row.note else "")
DEFAULT_CHOSEN = ("rules", "imposed plies", "begun (UTC)", "kind")
CHOOSABLE_COLUMNS = (
    _text_of_row("rules", lambda row: row.rules),
    _number_of_row("seed", lambda row: int(row.record.spec["seed"])),
    _number_of_row("imposed plies", lambda row: int(row.record.spec["opening_plies"])),
    _text_of_row("seats", lambda row: "swapped" if row.record.swapped else "fixed"),
    _number_of_row("pairings", lambda row: len(row.record.pairings), format_count),
    _number_of_row("games a pairing", lambda row: row.record.games, format_count),
    BEGUN_COLUMN,
    _number_of_row("seconds", lambda row: row.record.seconds or None, format_seconds),
    _number_of_row("games a second", _list_games_a_second, format_games_a_second),
    _text_of_row("version", lambda row: str(row.record.code.get("version", ""))),
    _text_of_row("code", lambda row: str(row.record.code.get("fingerprint", ""))),
    NOTE_COLUMN,
    _text_of_row("kind", lambda row: "training" if row.record.training else ""),
)
MAX_NOTE_CHARACTERS = 80  # of a note in a row
MAX_PARAMETERS = 20  # columns with parameters of agents
PARAMETER_PREFIX = "parameter "


def list_choosable_columns(rows: Iterable[RunRow]) -> list[RunColumn]:
    """List the columns that one may choose for a list of these runs: settings, then the agents' parameters.

    A parameter's column has its values in the order of the agents that have it. The commonest parameters are listed.
    """
    counts = Counter(name for row in rows for name in {*_list_parameters(row)})
    names = sorted(name for name, _ in counts.most_common(MAX_PARAMETERS))
    return [*CHOOSABLE_COLUMNS, *(_build_parameter_column(name) for name in names)]


def _list_parameters(row: RunRow) -> Iterable[str]:
    return (name for agent in row.record.spec["agents"] for name in agent.get("params", {}))


def _build_parameter_column(name: str) -> RunColumn:
    def list_values(row: RunRow) -> list[Any]:
        params = [agent.get("params", {}) for agent in row.record.spec["agents"]]
        return [values[name] for values in params if name in values]

    def find_key(row: RunRow) -> tuple[bool, float, str] | None:
        for value in list_values(row):
            is_number = isinstance(value, int | float)
            return not is_number, float(value) if is_number else 0.0, str(value)
        return None

    return RunColumn(
        PARAMETER_PREFIX + name,
        lambda _, rows: [", ".join(format_parameter(value) for value in list_values(row)) or MISSING for row in rows],
        lambda _, rows: [find_key(row) for row in rows],
    )


def choose_columns(rows: Sequence[RunRow], chosen: Sequence[str]) -> list[RunColumn]:
    """List the columns of the list of runs: those that it always has, and the chosen ones.

    ``chosen`` has headings. Raises ``RequestError`` for a heading that is none of ``list_choosable_columns``.
    """
    choosable = {column.heading: column for column in list_choosable_columns(rows)}
    for heading in chosen:
        if heading not in choosable:
            raise RequestError(f"column {heading[:60]!r} does not exist{suggest_valid_names(heading, choosable)}")
    names = [NAME_COLUMN] if any(row.name for row in rows) else []
    picked = [column for heading, column in choosable.items() if heading in chosen]
    return [RUN_COLUMN, *names, AGENTS_COLUMN, SCORE_COLUMN, GAMES_COLUMN, *picked]


def sort_runs(opened: OpenArchive, rows: Sequence[RunRow], columns: Sequence[RunColumn], order: str) -> list[RunRow]:
    """Return the runs sorted by a column, of which ``order`` is the heading, after ``-`` if the order is descending.

    Runs without a value are the last ones. If ``order`` is "", the runs stay as they are, the newest first. Raises
    ``RequestError`` if there is no such column.
    """
    if not order:
        return [*rows]
    column = next((column for column in columns if column.heading == order.removeprefix("-")), None)
    if column is None:
        headings = [column.heading for column in columns]
        raise RequestError(f"runs cannot be sorted by {order[:60]!r}{suggest_valid_names(order, headings)}")
    keys = column.keys(opened, rows)
    valued = [index for index, key in enumerate(keys) if key is not None]
    valued.sort(key=lambda index: keys[index], reverse=order.startswith("-"))
    return [rows[index] for index in (*valued, *(index for index, key in enumerate(keys) if key is None))]


def build_runs_table(
    opened: OpenArchive,
    rows: Sequence[RunRow],
    caption: str,
    columns: Sequence[RunColumn],
    build_link: Callable[[RunColumn], SortLink] | None = None,
) -> Table:
    """Build a table of runs with these columns. ``build_link`` returns the link of the heading of a column."""
    return Table(
        caption,
        [
            ResultColumn(
                column.heading,
                column.cells(opened, rows),
                column.is_number,
                sort=build_link(column) if build_link else None,
            )
            for column in columns
        ],
    )


def build_brief_runs_table(opened: OpenArchive, rows: Sequence[RunRow], caption: str) -> Table:
    """Build a table of runs that has only the most important columns, and no checkboxes."""
    table = build_runs_table(opened, rows, caption, choose_columns(rows, ()))
    names = [replace(cell, checkbox="") for cell in table.columns[0].texts]
    return replace(table, columns=[table.columns[0]._replace(texts=names), *table.columns[1:]])
