"""The views of SQL: their columns, and the statements and rows that fill them.

The columns of ``games`` and ``plies`` are those of the table files; ``views.csv`` lists those of the other views.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import NamedTuple

import polars as pl

from analytics.derived_tables.boards import ORDERS
from analytics.store.archive import Archive
from analytics.store.schema import FIRST_PLIES, GIFT, NOT_COUNTED, TABLES
from quarto.batch import GAME_BITS

_TYPES: dict[type[pl.DataType], str] = {pl.Int64: "BIGINT", pl.Int32: "INTEGER", pl.Int8: "INTEGER"}  # else VARCHAR


class Pairing(NamedTuple):
    """A pairing of a run, for the views in which a row has its number."""

    run: str
    number: int
    first_agent: str
    second_agent: str
    mover_chooses: bool  # under the rules of the run
    rules: str  # their name


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
FILLED = ("runs", "results", "sweeps", "verdicts", "agents", "policies")  # tables in memory, made from records
MADE = {"seats": "games", "pairs": "games"}  # views that are made from another one, in made_views.sql
ORDERED = "_orders"  # behind the table macro ordered_openings
HIDDEN = {ORDERED: {"run_id": "VARCHAR"} | {name: _TYPES[type(kind)] for name, kind in ORDERS.items()}}
READ_FROM = {  # the table whose files a view reads
    **{view: view for view in ("games", "plies", "decisions", "positions")},
    **dict.fromkeys(("boards", "ordered_openings"), "plies"),
}
STRUCT = "STRUCT"  # the type of a column whose fields depend on the archive

# The folder that a file lies in, and no other: folders above the archive may be called name=value too. DuckDB
# evaluates it once a file, and does not open files that a condition on run_id excludes.
RUN_OF_FILE = "regexp_extract(filename, '/run=([0-9a-f]{12})/[^/]*$', 1)"


def literal(value: object) -> str:
    """A text or a number as an SQL literal, for statements that take no parameters."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def among(runs: Iterable[str]) -> str:
    """The condition that a row is of one of these runs; without any, no condition."""
    listed = ", ".join(map(literal, runs))
    return f"run_id IN ({listed})" if listed else "true"


def from_files(paths: Iterable[PurePath]) -> str:
    """The clause that reads table files, with ``RUN_OF_FILE`` for each row."""
    listed = ", ".join(literal(str(path)) for path in paths)  # a view takes no parameters
    return f"FROM read_parquet([{listed}], filename = true, hive_partitioning = false)"


def over_files(view: str, paths: Sequence[PurePath], known: Iterable[Pairing] = ()) -> str:
    """The statement that creates a view over Parquet files.

    The agents of ``decisions`` and ``positions`` follow from the pairings ``known``, so that ``games`` is not read.
    """
    if not paths:
        return empty(view)
    source = from_files(paths)
    values, number = _DERIVED.get(view, ({"run_id": RUN_OF_FILE}, ""))
    if number:
        source += _joined(known, RUN_OF_FILE, number)
    return _view(view, {name: f"{values.get(name, name)}::{kind}" for name, kind in VIEWS[view].items()}, source)


def over_first_plies(counted: Sequence[PurePath], rest: Sequence[PurePath], known: Iterable[Pairing]) -> str:
    """The statement that creates the view ``first_plies``.

    ``counted`` are the files that count them, ``rest`` the files of plies of the games in none of these.
    """
    parts = []
    if counted:
        own = ", ".join(FIRST_PLIES)
        parts.append(f"SELECT {RUN_OF_FILE} AS run_of_file, {own} {from_files(counted)}")
    if rest:
        parts.append(
            f"SELECT {RUN_OF_FILE} AS run_of_file, pairing, 1 - game_id % 2 AS second, piece, cell, count(*) AS games, "
            "count(*) FILTER (outcome = 1) AS wins, count(*) FILTER (outcome = 0) AS draws "
            f"{from_files(rest)} WHERE ply = 0 GROUP BY ALL"
        )
    if not parts:
        return empty("first_plies")
    key = "run_of_file, pairing, second, piece, cell"
    summed = f"SELECT {key}, sum(games) AS games, sum(wins) AS wins, sum(draws) AS draws"
    source = (
        f"FROM ({summed} FROM ({' UNION ALL '.join(parts)}) GROUP BY {key}){_joined(known, 'run_of_file', 'pairing')}"
    )
    columns = VIEWS["first_plies"].items()
    return _view("first_plies", {name: f"{_OF_FIRST_PLIES.get(name, name)}::{kind}" for name, kind in columns}, source)


def _joined(known: Iterable[Pairing], run: str, number: str) -> str:
    """The clause that adds the columns of ``Pairing`` to rows, given their run and the number of their pairing."""
    rows = ", ".join(f"({', '.join(map(literal, pairing))})" for pairing in known)
    names = ", ".join(Pairing._fields)
    return f" JOIN (VALUES {rows}) AS pairings ({names}) ON run = {run} AND number = {number}"


_OF_DECISIONS = {
    "run_id": "run",
    "kind": f"CASE kind WHEN {GIFT} THEN 'gift' ELSE 'placement' END",
    "agent": "CASE WHEN seat = game_id & 1 THEN first_agent ELSE second_agent END",
    "regret": "(value_before - value_after)",
    "choices": "legal",
    "saving": f"nullif(saving, {NOT_COUNTED})",
}


_OF_POSITIONS = {
    "run_id": "run",
    "position": (
        "(board_text(occupied, board) || ' ' || CASE WHEN mover_chooses THEN '-' "
        "ELSE piece_name(board & 15) END || _rules_text(rules))"
    ),
    "agent": "CASE WHEN second = 0 THEN first_agent ELSE second_agent END",
    "opponent": "CASE WHEN second = 0 THEN second_agent ELSE first_agent END",
    "piece": "nullif(piece, -1)",
    "imposed": "CASE imposed WHEN 0 THEN 'nothing' WHEN 1 THEN 'placement' ELSE 'turn' END",
    "losses": "(games - wins - draws)",
    "sample_game": f"(pairing::BIGINT << {GAME_BITS} | sample)",
}

_OF_FIRST_PLIES = {name: _OF_POSITIONS[name] for name in ("run_id", "agent", "opponent", "losses")}

# For each view of a derived table: the columns that are not its own, and the number of a row's pairing.
_DERIVED: dict[str, tuple[Mapping[str, str], str]] = {
    "decisions": (_OF_DECISIONS, f"game_id >> {GAME_BITS}"),
    "positions": (_OF_POSITIONS, "pairing"),
}


def empty(view: str) -> str:
    """The statement that creates a view without rows: what all are until a question reads them."""
    return _view(view, {name: f"NULL::{kind}" for name, kind in _simple(view).items()}, "WHERE false")


def over_runs(view: str, relations: Mapping[str, str]) -> str:
    """The statement that creates a view of the rows of a relation for each run."""
    if not relations:
        return empty(view)
    values = {name: f"{name}::{kind}" for name, kind in _columns(view).items()}
    parts = (f"SELECT {_listed(values | {'run_id': literal(run)})} FROM {each}" for run, each in relations.items())  # noqa: S608  (names of our own)
    return f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(parts)}"


def policy_macro(questions: Mapping[str, str]) -> str:
    """The statement that makes ``policy(name)`` the answer to a question for each name."""
    known = ", ".join(f"{literal(name)}: {literal(question)}" for name, question in questions.items())
    return f"CREATE OR REPLACE MACRO policy(name) AS TABLE FROM query(MAP {{{known}}}[name])"


def policy_question(path: PurePath, schema: Mapping[str, pl.DataType]) -> str:
    """The question whose answer is the table of a policy: small integers are widened, as in the views."""
    values = {name: f"{name}::INTEGER" if kind in (pl.Int8, pl.Int16) else name for name, kind in schema.items()}
    return f"SELECT {_listed(values)} {from_files([path])}"


def genome_question(genes: Mapping[str, float]) -> str:
    """The question whose answer is a row for each gene."""
    rows = ", ".join(f"({literal(gene)}, {value!r}::DOUBLE)" for gene, value in genes.items())
    return f"SELECT gene, value FROM (VALUES {rows}) AS genes (gene, value)"  # noqa: S608  (quoted)


def _columns(view: str) -> Mapping[str, str]:
    return VIEWS.get(view) or HIDDEN[view]


def _simple(view: str) -> dict[str, str]:
    """The columns of a view, those whose fields depend on the archive as JSON."""
    return {name: "JSON" if kind == STRUCT else kind for name, kind in _columns(view).items()}


def filled(view: str, source: str, schema: Mapping[str, pl.DataType]) -> str:
    """The statements that create one of ``FILLED`` from a registered frame of this schema.

    A column of settings without any field is JSON, of which every field is NULL.
    """
    without = {name for name, kind in VIEWS[view].items() if kind == STRUCT and not schema[name].is_nested()}
    kinds = VIEWS[view] | dict.fromkeys(without, "JSON")
    values = {name: name if kind == STRUCT else f"{name}::{kind}" for name, kind in kinds.items()}
    table = f"CREATE OR REPLACE TABLE _{view} AS SELECT {_listed(values)} FROM {source}"  # noqa: S608  (names of our own)
    return f"{table}; CREATE OR REPLACE VIEW {view} AS FROM _{view}"


def broken(view: str, reason: str) -> str:
    """The statement that creates a view that cannot be read: DuckDB raises ``reason`` instead."""
    error = f"error({literal(reason)})"
    # The error is in every column too: DuckDB decides a condition on a column that is always NULL without any row.
    return _view(view, {name: f"{error}::{kind}" for name, kind in _simple(view).items()}, f"WHERE {error} IS NULL")


def _view(view: str, values: Mapping[str, str], rest: str) -> str:
    return f"CREATE OR REPLACE VIEW {view} AS SELECT {_listed(values)} {rest}"


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def pairings(archive: Archive) -> list[Pairing]:
    """Every pairing of every run. Raises ``FailureError`` for a damaged record."""
    return [
        Pairing(record.run_id, number, first, second, record.rules.mover_chooses, record.rules.name)
        for record in archive.runs()
        for number, (first, second) in enumerate(record.pairings)
    ]
