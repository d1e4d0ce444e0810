"""The views of SQL: their columns, and the statements and rows that fill them.

The first half makes statements, the second the rows of the views that follow from records: ``FILLED``.
``made_views.sql`` and ``position_macros.sql`` define the views that follow from other rows. ``views.csv`` lists their
columns, with types, units and meanings; the types of ``games`` and ``plies`` are those of the table files.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import PurePath
from typing import Any

import msgspec
import polars as pl

from analytics.questions.pairings import PairingResult, results_of, results_of_jobs
from analytics.statistics.sprt import strength
from analytics.store.archive import Archive
from analytics.store.policy_cards import TABLE, PolicyCard
from analytics.store.ranges import UnitLine
from analytics.store.records import RunRecord, SweepJob
from analytics.store.schema import TABLES
from analytics.store.snapshot import Snapshot
from analytics.store.sprt_verdicts import SprtVerdict
from analytics.tables.derived import tables
from analytics.tables.derived.boards import KEYS, MORE, ORDERS, VALUE_WORDS
from quarto.errors import FailureError
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
    for row in _described_columns():
        columns.setdefault(row["view"], {}).setdefault(row["column"], row["type"])
    return columns


def _described_columns() -> Iterator[dict[str, str]]:
    return csv.DictReader((files("analytics.questions.sql") / "views.csv").read_text(encoding="utf-8").splitlines())


def described_columns(view: str) -> dict[str, tuple[str, str]]:
    """The meaning and the unit of each column of a view; empty: none is given."""
    return {row["column"]: (row["meaning"], row["unit"]) for row in _described_columns() if row["view"] == view}


OF_RECORDS = ("rules", "opening_number", "game_number")  # columns of games that are in no file
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


MOST_COMPARED = 256  # runs with which DuckDB compares the name of every file before it opens one


def among(runs: Iterable[str]) -> str:
    """The condition that a row is of one of these runs; without any, no condition.

    Few runs are compared with the name of each file, so that the other files stay closed. Of many runs the time for
    that grows with the square: 7 s for 3,000 runs. There rows are joined, which takes a tenth of it.
    """
    chosen = [*map(literal, runs)]
    if not chosen:
        return "true"
    listed = ", ".join(chosen)
    return f"run_id IN ({listed})" if len(chosen) <= MOST_COMPARED else f"run_id IN (SELECT unnest([{listed}]))"


def from_files(paths: Iterable[PurePath], condition: str = "") -> str:
    """The clause that reads the rows of table files that meet a condition, with ``RUN_OF_FILE`` for each row."""
    listed = ", ".join(literal(str(path)) for path in paths)  # a view takes no parameters
    rows = f"read_parquet([{listed}], filename = true, hive_partitioning = false)"
    return f"FROM (FROM {rows} WHERE {condition})" if condition else f"FROM {rows}"


_PAIR = "game_id % 4294967296 // 2"


def _unit(line: UnitLine) -> str:
    """The unit of a row of ``games`` or ``plies``, in SQL of DuckDB and Polars."""
    return _PAIR if line.pairings == 1 else f"({_PAIR} * {line.pairings} + pairing)"


def is_in_units(line: UnitLine, first: int, end: int) -> str:
    """The condition that a row of ``games`` or ``plies`` is in a range of units, in SQL of DuckDB and Polars."""
    return f"{_unit(line)} >= {first} AND {_unit(line)} < {end}"


def values_of(record: RunRecord | FailureError) -> dict[str, str]:
    """Return the columns of ``games`` that follow from a run's record, in SQL of DuckDB and Polars.

    Of a record that is damaged or lost they are the error, which DuckDB raises when a question reads them.
    """
    if isinstance(record, FailureError):
        return dict.fromkeys(OF_RECORDS, f"error({literal(str(record))})")
    unit = _unit(record.line)
    return {
        "rules": literal(record.rules.name),
        "opening_number": "NULL" if record.opening_seed is None else _PAIR,
        "game_number": f"{unit} * 2 + game_id % 2" if record.swapped else unit,
    }


def over(view: str, sources: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """The statement that creates a view of the rows of some clauses FROM, each with the columns that its rows lack."""
    usual = {name: name for name in _columns(view)}
    parts = [f"SELECT {_typed(view, usual | dict(values))} {source}" for source, values in sources]
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


def filled(view: str, schema: Mapping[str, pl.DataType]) -> str:
    """The statements that create one of ``FILLED`` from the registered ``_frame`` of this schema.

    A column of settings without any field is JSON, of which every field is NULL.
    """
    without = {name for name, kind in VIEWS[view].items() if kind == STRUCT and not schema[name].is_nested()}
    kinds = VIEWS[view] | dict.fromkeys(without, "JSON")
    values = {name: name if kind == STRUCT else f"{name}::{kind}" for name, kind in kinds.items()}
    table = f"CREATE OR REPLACE TABLE _{view} AS SELECT {_listed(values)} FROM _frame"  # noqa: S608  (names of our own)
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


Row = dict[str, Any]


def frame(view: str, archive: Snapshot) -> pl.DataFrame:
    """One of the views ``FILLED``. Raises ``FailureError`` for a damaged record, tally, verdict or card.

    A column of settings has a field for each setting of any row. If there is none, it is a column of nulls.
    """
    rows = [{name: _decodable(value) for name, value in row.items()} for row in _ROWS[view](archive)]
    columns = {
        name: typed_settings([row[name] for row in rows])
        if kind == STRUCT
        else pl.Series([row[name] for row in rows], dtype=IN_POLARS[kind])
        for name, kind in VIEWS[view].items()
    }
    return pl.DataFrame(columns)


def _decodable(value: Any) -> Any:
    """A value whose texts DuckDB and Polars take: bytes of a path or a command that are not UTF-8 are replaced."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_decodable(name): _decodable(each) for name, each in value.items()}
    return [_decodable(each) for each in value] if isinstance(value, list | tuple) else value


def typed_settings(rows: Sequence[Mapping[str, Any]]) -> pl.Series:
    """Settings as one column of structs: a field for each name, in their order; nulls if there is no name.

    A field is BOOLEAN, BIGINT or DOUBLE if all its values are, else VARCHAR, in which lists and the like are JSON.
    Where names differ in case only, which SQL does not see, the later ones get an underscore.
    """
    fields: dict[str, str] = {}
    for name in sorted({name for row in rows for name in row}):
        field = name
        while field.lower() in map(str.lower, fields):
            field += "_"
        fields[field] = name
    if not fields:
        return pl.Series([None] * len(rows), dtype=pl.String)
    columns = [_column_of([row.get(name) for row in rows]).alias(field) for field, name in fields.items()]
    return pl.DataFrame(columns).to_struct()


def _column_of(values: Sequence[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values if value is not None):
        return pl.Series(values, dtype=pl.Int64)
    if kinds and kinds <= {int, float}:
        return pl.Series(values, dtype=pl.Float64, strict=False)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


_WORDS = {"true": True, "false": False, "null": None, "none": None}
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def value_of(text: str) -> bool | int | float | str | None:
    """The value of a setting that is kept as text, as it was typed on a command line."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _run_row(archive: Archive, record: RunRecord) -> Row:
    held = archive.ranges(record.run_id)
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
        "games": held.units * record.line.games_a_pair,
        "ranges": len(held),
        "fingerprint": f"{held.fingerprint:016x}",
        "code_version": record.code.get("version"),
        "code_fingerprint": record.code.get("fingerprint"),
        "command": record.command,
        "seconds": record.seconds,
    }


def _result_rows(result: PairingResult, record: RunRecord) -> Iterator[Row]:
    """A row for each agent of a pairing and each seat in which it played."""
    agents = result.first, result.second
    for second, seat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        losses, draws, wins = result.in_seat(seat ^ second)  # of the first agent, which then holds that seat
        counts = {"games": losses + draws + wins, "wins": wins, "draws": draws, "losses": losses}
        if second:
            counts |= {"wins": losses, "losses": wins}
        if counts["games"]:
            names = {"agent": agents[second], "opponent": agents[1 - second]}
            yield {
                "run_id": record.run_id,
                "pairing": result.pairing,
                **names,
                "seat": seat,
                **counts,
                "rules": record.rules.name,
            }


def _job_rows(job: SweepJob, found: Sequence[PairingResult]) -> list[Row]:
    """A row for each pairing that was played; one row without agents and counts if the job played none."""
    of_job = {
        "sweep_id": job.sweep_id,
        "job": job.job,
        "overrides": {name: value_of(text) for name, text in job.overrides.items()},
        "run_id": job.run_id,
        "status": job.status,
        "error": job.error,
        "objective": job.objective,
        "value": job.value,
    }
    empty = dict.fromkeys(VIEWS["sweeps"])
    return [empty | of_job | columns for columns in map(_pairing_columns, found)] or [empty | of_job]


def _pairing_columns(result: PairingResult) -> Row:
    return {
        "agent_a": result.first,
        "agent_b": result.second,
        "games": result.games,
        "wins": result.wins,
        "draws": result.draws,
        "losses": result.losses,
        **dict(zip(("win_rate", "win_low", "win_high"), result.win_rate, strict=True)),
    }


def _verdict_row(verdict: SprtVerdict) -> Row:
    estimate = strength(verdict.counts).normalised_elo
    stored = msgspec.structs.asdict(verdict) | msgspec.structs.asdict(verdict.hypotheses)
    return {
        **{name: value for name, value in stored.items() if name in VIEWS["verdicts"]},
        "created": datetime.fromisoformat(verdict.created).replace(tzinfo=None),
        **dict(zip(("ll", "ld", "dd", "wd", "ww"), verdict.counts, strict=True)),
        **dict(zip(("normalised_elo", "normalised_elo_low", "normalised_elo_high"), estimate, strict=True)),
    }


def _agent_rows(record: RunRecord) -> list[Row]:
    return [
        {
            "run_id": record.run_id,
            "label": agent["label"],
            "target": agent.get("target"),
            "parameters": agent.get("params", {}),
        }
        for agent in record.spec["agents"]
    ]


def _policy_rows(archive: Snapshot) -> list[Row]:
    cards = archive.cards()
    current = {card.name: card.policy_id for card in cards}  # the newest comes last
    return [_policy_row(card, current[card.name] == card.policy_id) for card in cards]


def _policy_row(card: PolicyCard, current: bool) -> Row:
    learned = card.learned
    return {
        "policy_id": card.policy_id,
        "name": card.name,
        "current": current,
        "kind": card.kind,
        "parameters": card.parameters,
        "rules": card.rules["name"],
        "trainer": learned["trainer"],
        "seed": learned["seed"],
        "games": learned["games"],
        "run_ids": list(learned["run_ids"]),
        "condition": learned.get("where"),
        "rows": card.files[TABLE].rows if TABLE in card.files else None,
        "bytes": sum(file.bytes for file in card.files.values()),
        "created": datetime.fromisoformat(card.created).replace(tzinfo=None),
        "command": learned.get("command"),
    }


_ROWS: Mapping[str, Callable[[Snapshot], list[Row]]] = {
    "runs": lambda archive: [_run_row(archive, record) for record in archive.runs()],
    "results": lambda archive: [
        row
        for run_id, found in results_of(archive, archive.runs()).items()
        for result in found
        for row in _result_rows(result, archive.known_run(run_id))
    ],
    "sweeps": lambda archive: [
        row for played in results_of_jobs(archive, archive.sweep_jobs()) for row in _job_rows(*played)
    ],
    "verdicts": lambda archive: [_verdict_row(verdict) for verdict in archive.verdicts()],
    "agents": lambda archive: [row for record in archive.runs() for row in _agent_rows(record)],
    "policies": _policy_rows,
}
