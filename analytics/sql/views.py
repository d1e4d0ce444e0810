"""The views of SQL: their columns, and the statements and rows that fill them.

The columns of ``games`` and ``plies`` are those of the table files; ``views.csv`` lists those of the other views.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from analytics.results.pairings import PairingResult, results
from analytics.statistics.sprt import strength
from analytics.store.archive import Archive
from analytics.store.records import RunRecord, SweepJob
from analytics.store.schema import GIFT, NOT_COUNTED, TABLES
from analytics.store.snapshot import Snapshot
from analytics.store.sprt_verdicts import Verdict
from quarto.batch import GAME_BITS
from quarto.notation import CLASSIC_NAME, PIECE_DIGITS
from quarto.rules import ATTRIBUTES, CELLS, SIDE, Rules

_TYPES: dict[type[pl.DataType], str] = {pl.Int64: "BIGINT", pl.Int32: "INTEGER", pl.Int8: "INTEGER"}  # else VARCHAR


class Pairing(NamedTuple):
    """A pairing of a run, for the views in which a row has its number."""

    run: str
    number: int
    first_agent: str
    second_agent: str
    mover_chooses: bool  # under the rules of the run
    rules: str  # the end of the text of a position: nothing, or a space and the name


def _columns_of_views() -> dict[str, dict[str, str]]:
    columns: dict[str, dict[str, str]] = {}
    for table, schema in TABLES.items():
        widened = {name: _TYPES.get(type(kind), "VARCHAR") for name, kind in schema.items()}
        columns[table] = {"run_id": "VARCHAR"} | widened
    text = (files("analytics.sql") / "views.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        columns.setdefault(row["view"], {})[row["column"]] = row["type"]
    return columns


VIEWS = _columns_of_views()  # the columns of each view: names and DuckDB's types
FILLED = ("runs", "sweeps", "verdicts")  # views that are tables in memory; the others read files

# The folder that a file lies in, and no other: folders above the archive may be called name=value too. DuckDB
# evaluates it once a file, and does not open files that a condition on run_id excludes.
RUN_OF_FILE = "regexp_extract(filename, '/run=([0-9a-f]{12})/[^/]*$', 1)"


def quoted(text: str) -> str:
    """A text as an SQL literal, for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


def _literal(value: object) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


def from_files(paths: Iterable[Path]) -> str:
    """The clause that reads table files, with ``RUN_OF_FILE`` for each row."""
    listed = ", ".join(quoted(str(path)) for path in paths)  # a view takes no parameters
    return f"FROM read_parquet([{listed}], filename = true, hive_partitioning = false)"


def over_files(view: str, paths: Sequence[Path], known: Iterable[Pairing] = ()) -> str:
    """The statement that creates a view over Parquet files.

    The agents of ``decisions`` and ``positions`` follow from the pairings ``known``, so that ``games`` is not read.
    """
    columns = VIEWS[view]
    if not paths:
        return _view(view, {name: f"NULL::{kind}" for name, kind in columns.items()}, "WHERE false")
    source = from_files(paths)
    values, number = _DERIVED.get(view, ({"run_id": RUN_OF_FILE}, ""))
    if number:
        rows = ", ".join(f"({', '.join(map(_literal, pairing))})" for pairing in known)
        names = ", ".join(Pairing._fields)
        source += f" JOIN (VALUES {rows}) AS pairings ({names}) ON run = {RUN_OF_FILE} AND number = {number}"
    return _view(view, {name: f"{values.get(name, name)}::{kind}" for name, kind in columns.items()}, source)


_OF_DECISIONS = {
    "run_id": "run",
    "kind": f"CASE kind WHEN {GIFT} THEN 'gift' ELSE 'placement' END",
    "agent": "CASE WHEN seat = game_id & 1 THEN first_agent ELSE second_agent END",
    "regret": "(value_before - value_after)",
    "choices": "legal",
    "saving": f"nullif(saving, {NOT_COUNTED})",
}


def _piece_text(cell: int) -> str:
    """The piece on a cell of ``positions`` as a hex digit, a dot if there is none: four lanes, each of ``ply`` bits."""
    place = f"bit_count(occupied::INTEGER & {(1 << cell) - 1})"
    bits = " + ".join(
        f"(((board >> (4 + {attribute} * ply + {place})) & 1) << {attribute})" for attribute in range(ATTRIBUTES)
    )
    return f"CASE WHEN occupied & {1 << cell} = 0 THEN '.' ELSE substr('{PIECE_DIGITS}', ({bits})::INTEGER + 1, 1) END"


_NEXT_ROW = " || '/' || "


def _position_text() -> str:
    rows = (" || ".join(map(_piece_text, range(first, first + SIDE))) for first in range(0, CELLS, SIDE))
    hand = f"CASE WHEN mover_chooses THEN '-' ELSE substr('{PIECE_DIGITS}', (board & 15)::INTEGER + 1, 1) END"
    return f"({_NEXT_ROW.join(rows)} || ' ' || {hand} || rules)"


_OF_POSITIONS = {
    "run_id": "run",
    "position": _position_text(),
    "agent": "CASE WHEN second = 0 THEN first_agent ELSE second_agent END",
    "opponent": "CASE WHEN second = 0 THEN second_agent ELSE first_agent END",
    "piece": "nullif(piece, -1)",
    "imposed": "CASE imposed WHEN 0 THEN 'nothing' WHEN 1 THEN 'placement' ELSE 'turn' END",
    "losses": "(games - wins - draws)",
    "sample_game": f"(pairing::BIGINT << {GAME_BITS} | sample)",
}

# For each view of a derived table: the columns that are not its own, and the number of a row's pairing.
_DERIVED: dict[str, tuple[Mapping[str, str], str]] = {
    "decisions": (_OF_DECISIONS, f"game_id >> {GAME_BITS}"),
    "positions": (_OF_POSITIONS, "pairing"),
}


def broken(view: str, reason: str) -> str:
    """The statement that creates a view that cannot be read: DuckDB raises ``reason`` instead."""
    error = f"error({quoted(reason)})"
    # The error is in every column too: DuckDB decides a condition on a column that is always NULL without any row.
    return _view(view, {name: f"{error}::{kind}" for name, kind in VIEWS[view].items()}, f"WHERE {error} IS NULL")


def _view(view: str, values: Mapping[str, str], rest: str) -> str:
    columns = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"CREATE VIEW {view} AS SELECT {columns} {rest}"


def table(view: str) -> str:
    """The statement that creates one of ``FILLED`` as an empty table."""
    return f"CREATE TABLE {view} ({', '.join(f'{name} {kind}' for name, kind in VIEWS[view].items())})"


def insert(view: str) -> str:
    """The statement that adds a row to such a table; its parameters are named like the columns.

    A map is passed as a list of entries: DuckDB reads a dictionary as a struct or a map, depending on its keys.
    """
    values = (_MAP.format(name) if kind.startswith("MAP") else f"${name}" for name, kind in VIEWS[view].items())
    return f"INSERT INTO {view} VALUES ({', '.join(values)})"  # noqa: S608  (names of our own)


_MAP = "map_from_entries(${}::STRUCT(name VARCHAR, setting VARCHAR)[])"


def pairings(archive: Archive) -> list[Pairing]:
    """Every pairing of every run. Raises ``FailureError`` for a damaged record."""
    return [
        Pairing(record.run_id, number, first, second, record.rules.mover_chooses, _suffix(record.rules))
        for record in archive.runs()
        for number, (first, second) in enumerate(record.pairings)
    ]


def _suffix(rules: Rules) -> str:
    return "" if rules.name == CLASSIC_NAME else f" {rules.name}"


def rows(view: str, archive: Snapshot) -> list[dict[str, Any]]:
    """The rows of one of ``FILLED``, by column. Raises ``FailureError`` for a damaged record, commit or verdict."""
    if view == "runs":
        return [_run_row(archive, record) for record in archive.runs()]
    if view == "sweeps":
        return [row for job in archive.sweep_jobs() for row in _job_rows(archive, job)]
    return [_verdict_row(verdict) for verdict in archive.verdicts()]


def _run_row(archive: Archive, record: RunRecord) -> dict[str, Any]:
    commits = archive.commits(record.run_id)
    return {
        "run_id": record.run_id,
        "created": datetime.fromisoformat(record.created).replace(tzinfo=None),
        "status": record.status,
        "rules": record.rules.name,
        "agents": list(record.labels),
        "pairings": len(record.pairings),
        "seed": record.spec["seed"],
        "opening_plies": record.spec["opening_plies"],
        "games_asked": record.games * len(record.pairings),
        "games": sum(commit.games.rows for commit in commits),
        "shards": len(commits),
        "code_version": record.code.get("version"),
        "fingerprint": record.code.get("fingerprint"),
        "command": record.command,
        "seconds": record.seconds,
    }


def _job_rows(archive: Archive, job: SweepJob) -> list[dict[str, Any]]:
    """A row for each pairing that was played; one row without agents and counts if the job played none."""
    known = job.run_id is not None and archive.run(job.run_id) is not None
    of_pairings = [_pairing_columns(result) for result in (results(archive, str(job.run_id)) if known else [])]
    of_job = {
        "sweep_id": job.sweep_id,
        "job": job.job,
        "overrides": [{"name": name, "setting": setting} for name, setting in job.overrides.items()],
        "run_id": job.run_id,
        "status": job.status,
        "error": job.error,
    }
    empty = dict.fromkeys(VIEWS["sweeps"])
    return [empty | of_job | columns for columns in of_pairings or [{}]]


def _pairing_columns(result: PairingResult) -> dict[str, Any]:
    return {
        "agent_a": result.first,
        "agent_b": result.second,
        "games": result.games,
        "wins": result.wins,
        "draws": result.draws,
        "losses": result.losses,
        **dict(zip(("win_rate", "win_low", "win_high"), result.win_rate, strict=True)),
    }


def _verdict_row(verdict: Verdict) -> dict[str, Any]:
    estimate = strength(verdict.counts).normalised_elo
    stored = msgspec.structs.asdict(verdict) | msgspec.structs.asdict(verdict.hypotheses)
    return {
        **{name: value for name, value in stored.items() if name in VIEWS["verdicts"]},
        "created": datetime.fromisoformat(verdict.created).replace(tzinfo=None),
        **dict(zip(("ll", "ld", "dd", "wd", "ww"), verdict.counts, strict=True)),
        **dict(zip(("normalised_elo", "normalised_elo_low", "normalised_elo_high"), estimate, strict=True)),
    }
