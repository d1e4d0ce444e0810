"""What the views of SQL hold: their columns, and the statements and rows that fill them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from analytics.archive import Archive
from analytics.records import RunRecord, SweepJob
from analytics.results import results
from analytics.schema import GAME_BITS, GIFT, NOT_COUNTED, TABLES

_TYPES: dict[type[pl.DataType], str] = {
    pl.Int64: "BIGINT",
    pl.Int32: "INTEGER",
    pl.Int8: "INTEGER",
}  # all else is VARCHAR


def _widened(schema: pl.Schema) -> dict[str, str]:
    return {"run_id": "VARCHAR"} | {name: _TYPES.get(type(kind), "VARCHAR") for name, kind in schema.items()}


# The columns of each view: names and DuckDB's types.
VIEWS: dict[str, dict[str, str]] = {
    **{table: _widened(schema) for table, schema in TABLES.items()},
    "runs": {
        "run_id": "VARCHAR",
        "created": "TIMESTAMP",
        "status": "VARCHAR",
        "rules": "VARCHAR",
        "agents": "VARCHAR[]",
        "pairings": "INTEGER",
        "seed": "BIGINT",
        "opening_plies": "INTEGER",
        "games_asked": "BIGINT",
        "games": "BIGINT",
        "shards": "INTEGER",
        "code_version": "VARCHAR",
        "fingerprint": "VARCHAR",
        "command": "VARCHAR",
        "seconds": "DOUBLE",
    },
    "sweeps": {
        "sweep_id": "VARCHAR",
        "job": "INTEGER",
        "overrides": "MAP(VARCHAR, VARCHAR)",
        "run_id": "VARCHAR",
        "status": "VARCHAR",
        "error": "VARCHAR",
        "agent_a": "VARCHAR",
        "agent_b": "VARCHAR",
        "games": "BIGINT",
        "wins": "BIGINT",
        "draws": "BIGINT",
        "losses": "BIGINT",
        "win_rate": "DOUBLE",
        "win_low": "DOUBLE",
        "win_high": "DOUBLE",
    },
}

VIEWS["decisions"] = {
    "run_id": "VARCHAR",
    "game_id": "BIGINT",
    "ply": "INTEGER",
    "kind": "VARCHAR",  # gift or placement
    "seat": "INTEGER",
    "agent": "VARCHAR",
    "value_before": "INTEGER",
    "value_after": "INTEGER",
    "regret": "INTEGER",  # half-points given up
    "choices": "INTEGER",
    "saving": "INTEGER",  # NULL: not counted
}

VIEWS["verdicts"] = {
    "run_id": "VARCHAR",
    "verdict_id": "VARCHAR",
    "created": "TIMESTAMP",
    "elo0": "DOUBLE",
    "elo1": "DOUBLE",
    "alpha": "DOUBLE",
    "beta": "DOUBLE",
    "most_pairs": "BIGINT",
    "accepted": "VARCHAR",  # NULL: undecided
    "pairs": "BIGINT",
    "ll": "BIGINT",
    "ld": "BIGINT",
    "dd": "BIGINT",
    "wd": "BIGINT",
    "ww": "BIGINT",
    "ratio": "DOUBLE",
    "normalised_elo": "DOUBLE",
    "normalised_elo_low": "DOUBLE",
    "normalised_elo_high": "DOUBLE",
    "command": "VARCHAR",
}

INSERT_RUN = "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_JOB = "INSERT INTO sweeps VALUES (?, ?, MAP(?::VARCHAR[], ?::VARCHAR[]), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_VERDICT = "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

# The folder that a file lies in, and no other: folders above the archive may be called name=value too. DuckDB works it
# out once a file, and does not open those that a condition on run_id leaves out.
RUN_OF_FILE = "regexp_extract(filename, '/run=([0-9a-f]{12})/[^/]*$', 1)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _columns(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def over_files(view: str, files: Iterable[str]) -> str:
    """The statement that creates view ``games`` or ``plies`` over Parquet files."""
    columns = VIEWS[view]
    listed = ", ".join(map(_quoted, files))  # a view takes no parameters
    if not listed:
        return _view(view, {name: f"NULL::{kind}" for name, kind in columns.items()}, "WHERE false")
    values = {name: f"{name if name != 'run_id' else RUN_OF_FILE}::{kind}" for name, kind in columns.items()}
    return _view(view, values, f"FROM read_parquet([{listed}], filename = true, hive_partitioning = false)")


def over_decisions(files: Iterable[str], pairings: Iterable[tuple[str, int, str, str]]) -> str:
    """The statement that creates view ``decisions`` over Parquet files.

    ``pairings``: run, number, first and second agent of every pairing; who decided follows from them, so that no row of
    ``games`` needs to be looked up.
    """
    listed = ", ".join(map(_quoted, files))
    if not listed:
        return _view("decisions", {name: f"NULL::{kind}" for name, kind in VIEWS["decisions"].items()}, "WHERE false")
    known = ", ".join(
        f"({_quoted(run_id)}, {number}, {_quoted(first)}, {_quoted(second)})"
        for run_id, number, first, second in pairings
    )
    values = {name: f"{_OF_DECISIONS.get(name, name)}::{kind}" for name, kind in VIEWS["decisions"].items()}
    return _view(
        "decisions",
        values,
        f"FROM read_parquet([{listed}], filename = true, hive_partitioning = false) "
        f"JOIN (VALUES {known}) AS pairings (run, number, first, second) "
        f"ON run = {RUN_OF_FILE} AND number = game_id >> {GAME_BITS}",
    )


_OF_DECISIONS = {
    "run_id": "run",
    "kind": f"CASE kind WHEN {GIFT} THEN 'gift' ELSE 'placement' END",
    "agent": "CASE WHEN seat = game_id & 1 THEN first ELSE second END",
    "regret": "(value_before - value_after)",
    "choices": "legal",
    "saving": f"nullif(saving, {NOT_COUNTED})",
}


def broken(view: str, reason: str) -> str:
    """The statement that creates a view of which no row can be read: DuckDB raises ``reason`` instead."""
    error = f"error({_quoted(reason)})"
    # In every column too: of a column that is known to be NULL a condition is decided without asking for a row.
    return _view(view, {name: f"{error}::{kind}" for name, kind in VIEWS[view].items()}, f"WHERE {error} IS NULL")


def _view(view: str, values: Mapping[str, str], rest: str) -> str:
    return f"CREATE VIEW {view} AS SELECT {_columns(values)} {rest}"


def table(view: str) -> str:
    """The statement that creates ``runs``, ``sweeps`` or ``verdicts`` as an empty table."""
    return f"CREATE TABLE {view} ({', '.join(f'{name} {kind}' for name, kind in VIEWS[view].items())})"


def run_rows(archive: Archive) -> list[list[Any]]:
    """The rows of ``runs``. Raises ``FailureError`` for a damaged record or commit."""
    return [_run_row(archive, record) for record in archive.runs()]


def sweep_rows(archive: Archive) -> list[list[Any]]:
    """The rows of ``sweeps``. Raises ``FailureError`` for a damaged record or commit."""
    return [row for job in archive.sweep_jobs() for row in _job_rows(archive, job)]


def _run_row(archive: Archive, record: RunRecord) -> list[Any]:
    commits = archive.commits(record.run_id)
    return [
        record.run_id,
        datetime.fromisoformat(record.created).replace(tzinfo=None),
        record.status,
        record.rules.name,
        list(record.labels),
        len(record.pairings),
        record.spec["seed"],
        record.spec["opening_plies"],
        record.games * len(record.pairings),
        sum(commit.games.rows for commit in commits),
        len(commits),
        record.code.get("version"),
        record.code.get("fingerprint"),
        record.command,
        record.seconds,
    ]


def _job_rows(archive: Archive, job: SweepJob) -> list[list[Any]]:
    """A row a pairing that was played; one without agents and counts for a job that played none."""
    head = [job.sweep_id, job.job, list(job.overrides), list(job.overrides.values()), job.run_id, job.status, job.error]
    known = job.run_id is not None and archive.run(job.run_id) is not None
    rows = [
        [*head, result.first, result.second, result.games, result.wins, result.draws, result.losses, *result.win_rate]
        for result in (results(archive, str(job.run_id)) if known else [])
    ]
    return rows or [[*head, *[None] * 9]]
