"""The views of SQL: their columns, and the statements and rows that fill them.

``made_views.sql`` and ``position_macros.sql`` define the views that follow from other rows. The columns of ``games``
and ``plies`` are those of the table files; ``views.csv`` lists those of the other views.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import PurePath

import polars as pl

from analytics.derived_tables import tables
from analytics.derived_tables.boards import KEYS, MORE, ORDERS, VALUE_WORDS
from analytics.store.archive import Archive
from analytics.store.records import RunRecord
from analytics.store.schema import TABLES
from quarto.notation import format_cell

# Types of columns in Polars by their names in DuckDB.
IN_POLARS: Mapping[str, pl.DataType] = {
    "VARCHAR": pl.String(),
    "VARCHAR[]": pl.List(pl.String()),
    "BIGINT": pl.Int64(),
    "INTEGER": pl.Int32(),
    "DOUBLE": pl.Float64(),
    "BOOLEAN": pl.Boolean(),
    "TIMESTAMP": pl.Datetime("us"),
}
_TYPES: dict[type[pl.DataType], str] = {pl.Int64: "BIGINT", pl.Int32: "INTEGER", pl.Int8: "INTEGER"}  # else VARCHAR


def _widened(schema: Mapping[str, pl.DataType]) -> dict[str, str]:
    """The columns of a table of runs in SQL."""
    return {"run_id": "VARCHAR"} | {name: _TYPES.get(type(kind), "VARCHAR") for name, kind in schema.items()}


def _columns_of_views() -> dict[str, dict[str, str]]:
    columns = {table: _widened(schema) for table, schema in TABLES.items()}
    text = (files("analytics.sql") / "views.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        columns.setdefault(row["view"], {})[row["column"]] = row["type"]
    return columns


OF_RECORDS = ("rules", "opening_number", "game_number")  # columns of games that are in no file
FileGroup = tuple[Sequence[PurePath], Mapping[str, str]]  # files, and the columns of their rows that they lack
VIEWS = _columns_of_views()  # the columns of each view: names and DuckDB's types
FILLED = ("runs", "results", "sweeps", "verdicts", "agents", "policies")  # tables in memory, made from records
DERIVED = tuple(name for name in tables.DERIVED if name in VIEWS)  # by their files and the pairings of runs
MADE = {"seats": "games", "pairs": "games"}  # views that need the rows of another one
ORDERED = "_orders"  # behind the table macro ordered_openings
POSITIONS_OF_PLIES = "_keys"  # behind the columns of decisions that are a position's key
UNCOUNTED = "_uncounted"  # the plies of games whose first plies are in no file of the derived table
# What is behind the views of *.sql: rows of files, and replayed rows.
HIDDEN = {
    **{f"_{table}": _widened(tables.DERIVED[table].schema) for table in DERIVED},
    UNCOUNTED: _widened(TABLES["plies"]),
    ORDERED: _widened(ORDERS) | {"rules": "VARCHAR"},
    POSITIONS_OF_PLIES: _widened(pl.Schema({"game_id": pl.Int64(), "ply": pl.Int8(), **KEYS})) | {"rules": "VARCHAR"},
}
ON_DEMAND = frozenset(MORE)  # columns of boards, and some of decisions, that are made if a question reads them
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


def values_of(record: RunRecord | None) -> dict[str, str]:
    """The columns of ``games`` that follow from a run's record, in SQL of DuckDB and Polars; None: it has no record."""
    if record is None:
        return dict.fromkeys(OF_RECORDS, "NULL")
    pair, line = "game_id % 4294967296 // 2", record.line
    unit = pair if line.pairings == 1 else f"({pair} * {line.pairings} + pairing)"
    return {
        "rules": literal(record.rules.name),
        "opening_number": "NULL" if record.opening_seed is None else pair,
        "game_number": f"{unit} * 2 + game_id % 2" if record.swapped else unit,
    }


def over_files(view: str, groups: Sequence[FileGroup]) -> str:
    """The statement that creates a view of the rows of Parquet files, in groups: a condition may leave out some."""
    parts = []
    for paths, of_records in groups:
        values = {name: name for name in _columns(view)} | {"run_id": RUN_OF_FILE} | dict(of_records)
        parts.append(f"SELECT {_typed(view, values)} {from_files(paths)}")
    return f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(parts)}" if parts else empty(view)


def empty(view: str) -> str:
    """The statement that creates a view without rows."""
    return _view(view, {name: f"NULL::{kind}" for name, kind in _simple(view).items()}, "WHERE false")


def values_of_boards(record: RunRecord, left_out: Collection[str]) -> dict[str, str]:
    """The columns of ``boards`` that a run's record makes of replayed numbers. To read one ``left_out`` is an error."""
    labels, rules = f"[{', '.join(map(literal, record.labels))}]", record.rules
    lines = [" ".join(map(format_cell, line)) for line in rules.lines]
    values = {
        "rules": literal(rules.name),
        "giver": "NULL" if rules.mover_chooses else f"{labels}[giver]",
        "mover": f"{labels}[mover]",
        "safe_gifts": "NULL" if rules.mover_chooses else "safe_gifts",
        "lines": _texts_of_bits("lines", lines),
        "attributes": _texts_of_bits("attributes", VALUE_WORDS),
    }
    return values | {name: f"error('{name} was not made')" for name in left_out}


def _texts_of_bits(column: str, texts: Sequence[str]) -> str:
    """The list of the texts whose bits are set, NULL if no bit is."""
    listed = ", ".join(map(literal, texts))
    return f"CASE WHEN {column} <> 0 THEN list_filter([{listed}], lambda _, bit: {column} >> (bit - 1) & 1 = 1) END"


def over_runs(view: str, relations: Mapping[str, tuple[str, Mapping[str, str]]]) -> str:
    """The statement that creates a view of the rows of a relation for each run, with the columns that it lacks."""
    if not relations:
        return empty(view)
    parts = []
    for run, (relation, known) in relations.items():
        values = {name: name for name in _columns(view)} | {"run_id": literal(run)} | dict(known)
        parts.append(f"SELECT {_typed(view, values)} FROM {relation}")  # noqa: S608  (names of our own)
    return f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(parts)}"


def policy_macro(questions: Mapping[str, str]) -> str:
    """The statement that makes ``policy(name)`` the answer to a question for each name."""
    known = ", ".join(f"{literal(name)}: {literal(question)}" for name, question in questions.items())
    return f"CREATE OR REPLACE MACRO policy(name) AS TABLE FROM query(MAP {{{known}}}[name])"


def policy_question(path: PurePath, schema: Mapping[str, pl.DataType]) -> str:
    """The question whose answer is the table of a policy: small integers are widened, as in the views."""
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in schema}  # names may be a stranger's
    small = (pl.Int8, pl.Int16)
    values = {quoted[name]: quoted[name] + "::INTEGER" * (kind in small) for name, kind in schema.items()}
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


def _typed(view: str, values: Mapping[str, str]) -> str:
    return _listed({name: f"({values[name]})::{kind}" for name, kind in _columns(view).items()})


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def pairings(archive: Archive) -> pl.DataFrame:
    """The rows of the table ``_pairings``: every pairing of every run. Raises ``FailureError`` for a damaged record."""
    rows = [
        (record.run_id, number, first, second, record.rules.mover_chooses, record.rules.name)
        for record in archive.runs()
        for number, (first, second) in enumerate(record.pairings)
    ]
    kinds = (pl.String(), pl.Int32(), pl.String(), pl.String(), pl.Boolean(), pl.String())
    names = ("run_id", "pairing", "first_agent", "second_agent", "mover_chooses", "rules")
    return pl.DataFrame(rows, dict(zip(names, kinds, strict=True)), orient="row")
