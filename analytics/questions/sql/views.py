"""The views of SQL: their columns, and the statements and rows that fill them.

The first half builds statements, the second half the rows of the views that follow from records: ``RECORD_VIEWS``.
``made_views.sql`` and ``position_macros.sql`` define the views that follow from other rows. ``views.csv`` lists the
columns of these views, with types, units and meanings; the types of ``games`` and ``plies`` are those of the table
files.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec
import polars as pl

from analytics.questions.pairings import PairingResult, load_results_by_run, load_results_requested_by_jobs
from analytics.statistics.sprt import estimate_strength
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import TABLE, PolicyCard
from analytics.store.ranges import UnitLine
from analytics.store.records import RunRecord, SweepJob
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.snapshot import Snapshot
from analytics.store.sprt_verdicts import SprtVerdict
from analytics.tables.derived import definitions
from analytics.tables.derived.boards import ATTRIBUTE_VALUE_WORDS, EXTRA_COLUMNS, KEY_COLUMNS, ORDERED_OPENINGS
from quarto.errors import FailureError
from quarto.notation import format_cell

# Types of columns in Polars by their names in DuckDB.
POLARS_TYPES: Mapping[str, pl.DataType] = {
    "VARCHAR": pl.String(),
    "VARCHAR[]": pl.List(pl.String()),
    "BIGINT": pl.Int64(),
    "INTEGER": pl.Int32(),
    "DOUBLE": pl.Float64(),
    "BOOLEAN": pl.Boolean(),
    "TIMESTAMP": pl.Datetime("us"),
}
_SQL_TYPES: dict[type[pl.DataType], str] = {pl.Int64: "BIGINT", pl.Int32: "INTEGER", pl.Int8: "INTEGER"}  # else VARCHAR


def _to_sql_types(schema: Mapping[str, pl.DataType]) -> dict[str, str]:
    """Return the SQL type of each column of a table that is stored by run, including ``run_id``."""
    return {"run_id": "VARCHAR"} | {name: _SQL_TYPES.get(type(kind), "VARCHAR") for name, kind in schema.items()}


def _load_view_columns() -> dict[str, dict[str, str]]:
    columns = {table: _to_sql_types(schema) for table, schema in TABLE_SCHEMAS.items()}
    for row in _read_column_rows():
        columns.setdefault(row["view"], {}).setdefault(row["column"], row["type"])
    return columns


def _read_column_rows() -> Iterator[dict[str, str]]:
    return csv.DictReader((files("analytics.questions.sql") / "views.csv").read_text(encoding="utf-8").splitlines())


class ColumnDescription(NamedTuple):
    """The description of a column of a view, from ``views.csv``."""

    meaning: str  # may be empty
    unit: str  # may be empty


def read_column_descriptions(view: str) -> dict[str, ColumnDescription]:
    """Read the descriptions of a view's columns, by the name of the column."""
    return {
        row["column"]: ColumnDescription(row["meaning"], row["unit"])
        for row in _read_column_rows()
        if row["view"] == view
    }


RECORD_COLUMNS = ("rules", "opening_number", "game_number")  # columns of games that are in no file
VIEWS = _load_view_columns()  # the columns of each view: names and DuckDB's types
RECORD_VIEWS = ("runs", "results", "sweeps", "verdicts", "agents", "policies")  # tables in memory, built from records
# Views that are made from the files of a derived table and the pairings of runs.
DERIVED_TABLE_VIEWS = tuple(name for name in definitions.DERIVED_TABLES if name in VIEWS)
SOURCE_VIEWS = {"seats": "games", "pairs": "games"}  # views that need the rows of another one
ORDERED_OPENINGS_VIEW = "_orders"  # has the rows of the table macro ordered_openings
POSITION_KEYS_VIEW = "_keys"  # has the columns of decisions that are a position's key
UNCOUNTED_PLIES_VIEW = "_uncounted"  # the plies of games whose first plies are in no file of the derived table
# Views of rows of files, and of replayed rows, from which the SQL files define other views.
HIDDEN_VIEWS = {
    **{f"_{table}": _to_sql_types(definitions.DERIVED_TABLES[table].schema) for table in DERIVED_TABLE_VIEWS},
    UNCOUNTED_PLIES_VIEW: _to_sql_types(TABLE_SCHEMAS["plies"]),
    ORDERED_OPENINGS_VIEW: _to_sql_types(ORDERED_OPENINGS) | {"rules": "VARCHAR"},
    POSITION_KEYS_VIEW: _to_sql_types(pl.Schema({"game_id": pl.Int64(), "ply": pl.Int8(), **KEY_COLUMNS}))
    | {"rules": "VARCHAR"},
}
# Columns of boards, and some of decisions, that are computed only if a question reads them.
ON_DEMAND_COLUMNS = frozenset(EXTRA_COLUMNS)
STRUCT = "STRUCT"  # the type of a column whose fields depend on the archive

# The run in the name of a file's own folder, because folders above the archive may be called name=value, too. DuckDB
# evaluates the expression once a file, and does not open files that a condition on run_id excludes.
RUN_ID_SQL = "regexp_extract(filename, '/run=([0-9a-f]{12})/[^/]*$', 1)"


def quote_text_or_number(value: object) -> str:
    """Format a text or a number as an SQL literal, for statements that cannot have parameters."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def quote_name(name: str) -> str:
    """Format a name of a column or table as a quoted SQL identifier, because it may be a stranger's."""
    return '"' + name.replace('"', '""') + '"'


MAX_COMPARED = 256  # runs with which DuckDB compares the name of every file before it opens one


def run_condition_sql(runs_else_all: Iterable[str]) -> str:
    """Return the condition that a row belongs to one of these runs, or ``true`` if ``runs_else_all`` is empty.

    For a few runs, DuckDB compares their ids with the name of each file, so that other files stay closed. For many
    runs, the time of that comparison would grow with the square of their number (7 s for 3,000 runs). Many runs are
    therefore joined with the rows, which takes a tenth of that time. Their ids are in one literal, because a syntax
    tree with a node for each of 14,000 ids takes half a second.
    """
    run_ids = [*runs_else_all]
    if not run_ids:
        return "true"
    if len(run_ids) <= MAX_COMPARED:
        return f"run_id IN ({', '.join(map(quote_text_or_number, run_ids))})"
    return joined_runs_condition_sql(run_ids)


def joined_runs_condition_sql(run_ids: Iterable[str]) -> str:
    """Return the condition that a row belongs to one of these runs, for rows that DuckDB joins with the runs.

    DuckDB then opens the files of all runs.
    """
    return f"run_id IN (SELECT unnest(string_split({quote_text_or_number(' '.join(run_ids))}, ' ')))"


def file_rows_sql(paths: Iterable[PurePath], condition: str = "") -> str:
    """Return the FROM clause that reads table files: the rows that meet ``condition``, or all rows if it is empty.

    Each row has a column ``filename``, from which ``RUN_ID_SQL`` reads the run.
    """
    path_list = ", ".join(quote_text_or_number(str(path)) for path in paths)  # a view takes no parameters
    rows = f"read_parquet([{path_list}], filename = true, hive_partitioning = false)"
    return f"FROM (FROM {rows} WHERE {condition})" if condition else f"FROM {rows}"


_PAIR_SQL = "game_id % 4294967296 // 2"


def _unit_sql(line: UnitLine) -> str:
    """Return the SQL expression that computes the unit of a row of ``games`` or ``plies``.

    ``line`` is the numbering of the run's units. Both DuckDB and Polars understand the expression.
    """
    return _PAIR_SQL if line.pairings == 1 else f"({_PAIR_SQL} * {line.pairings} + pairing)"


def unit_condition_sql(line: UnitLine, first: int, end: int) -> str:
    """Return the SQL condition that holds for the rows of ``games`` or ``plies`` whose units are in a range.

    The range is from ``first`` up to but not including ``end``, and ``line`` is the numbering of the run's units. Both
    DuckDB and Polars understand the condition.
    """
    return f"{_unit_sql(line)} >= {first} AND {_unit_sql(line)} < {end}"


def record_columns_sql(record: RunRecord | FailureError) -> dict[str, str]:
    """Return the SQL expression of each column of ``games`` that follows from a run's record, by the column's name.

    Both DuckDB and Polars understand the expressions. If ``record`` is the error of a damaged or lost record, DuckDB
    raises the error when a query reads these columns.
    """
    if isinstance(record, FailureError):
        return dict.fromkeys(RECORD_COLUMNS, f"error({quote_text_or_number(str(record))})")
    unit = _unit_sql(record.unit_line)
    return {
        "rules": quote_text_or_number(record.rules.name),
        "opening_number": "NULL" if record.opening_seed is None else _PAIR_SQL,
        "game_number": f"{unit} * 2 + game_id % 2" if record.swapped else unit,
    }


def create_view_sql(view: str, sources: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Return the statement that creates a view from the rows of several FROM clauses.

    ``sources`` has each clause together with the SQL of the columns that the rows of the clause lack.
    """
    column_names = {name: name for name in _find_view_columns(view)}
    selects = [f"SELECT {_cast_columns_sql(view, column_names | dict(values))} {source}" for source, values in sources]
    return f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(selects)}" if selects else create_empty_view_sql(view)


def create_empty_view_sql(view: str) -> str:
    """Return the statement that creates a view without rows."""
    return _create_constant_view_sql(
        view, {name: f"NULL::{kind}" for name, kind in _replace_struct_types(view).items()}, "WHERE false"
    )


def board_columns_sql(record: RunRecord, failing_columns: Collection[str]) -> dict[str, str]:
    """Return the SQL expression of each column of ``boards`` that depends on a run's record, by the column's name.

    The expressions convert numbers, which come from a replay of the games, into labels, lines and attributes.
    ``failing_columns`` are the columns that the replay did not compute. A query that reads one of them raises an error.
    """
    labels, rules = f"[{', '.join(map(quote_text_or_number, record.labels))}]", record.rules
    lines = [" ".join(map(format_cell, line)) for line in rules.lines]
    values = {
        "rules": quote_text_or_number(rules.name),
        "giver": "NULL" if rules.mover_chooses else f"{labels}[giver]",
        "mover": f"{labels}[mover]",
        "safe_gifts": "NULL" if rules.mover_chooses else "safe_gifts",
        "lines": _bit_texts_sql("lines", lines),
        "attributes": _bit_texts_sql("attributes", ATTRIBUTE_VALUE_WORDS),
    }
    return values | {name: f"error('{name} was not made')" for name in failing_columns}


def _bit_texts_sql(column: str, texts: Sequence[str]) -> str:
    """Return the SQL expression for the list of the texts whose bits are set in ``column``; NULL if no bit is set.

    Bit i stands for ``texts[i]``.
    """
    literals = ", ".join(map(quote_text_or_number, texts))
    return f"CASE WHEN {column} <> 0 THEN list_filter([{literals}], lambda _, bit: {column} >> (bit - 1) & 1 = 1) END"


def create_label_macro_sql(stored_labels: Mapping[str, str]) -> str:
    """Return the statement that defines the macro ``label(agent)``.

    The macro returns the stored form of a label, or the text itself if ``stored_labels`` has no stored form of it.
    """
    pairs = ", ".join(
        f"{quote_text_or_number(text)}: {quote_text_or_number(label)}" for text, label in stored_labels.items()
    )
    expression = f"coalesce(MAP {{{pairs}}}[agent], agent)" if pairs else "agent"
    return f"CREATE OR REPLACE MACRO label(agent) AS {expression}"


def create_policy_macro_sql(queries_by_policy: Mapping[str, str]) -> str:
    """Return the statement that defines the macro ``policy(name)``, which returns the table of a policy.

    ``queries_by_policy`` has the query that reads the table of each policy, by the policy's name.
    """
    pairs = ", ".join(
        f"{quote_text_or_number(name)}: {quote_text_or_number(question)}"
        for name, question in queries_by_policy.items()
    )
    return f"CREATE OR REPLACE MACRO policy(name) AS TABLE FROM query(MAP {{{pairs}}}[name])"


def policy_table_sql(path: PurePath, schema: Mapping[str, pl.DataType]) -> str:
    """Return the query that reads the table of a policy; small integers are widened, as they are in the views."""
    quoted = {name: quote_name(name) for name in schema}
    small = (pl.Int8, pl.Int16)
    values = {quoted[name]: quoted[name] + "::INTEGER" * (kind in small) for name, kind in schema.items()}
    return f"SELECT {_select_list_sql(values)} {file_rows_sql([path])}"


def genome_table_sql(genes: Mapping[str, float]) -> str:
    """Return the query for a table of genes, with one row for each gene: its name and its value."""
    rows = ", ".join(f"({quote_text_or_number(gene)}, {value!r}::DOUBLE)" for gene, value in genes.items())
    return f"SELECT gene, value FROM (VALUES {rows}) AS genes (gene, value)"  # noqa: S608  (quoted)


def _find_view_columns(view: str) -> Mapping[str, str]:
    return VIEWS.get(view) or HIDDEN_VIEWS[view]


def _replace_struct_types(view: str) -> dict[str, str]:
    """Return the column types of a view, with JSON for the columns whose fields depend on the archive."""
    return {name: "JSON" if kind == STRUCT else kind for name, kind in _find_view_columns(view).items()}


def create_record_view_sql(view: str, schema: Mapping[str, pl.DataType]) -> str:
    """Return the statements that create one of ``RECORD_VIEWS`` from the registered frame ``_frame``.

    ``schema`` is the schema of the frame. A column of settings without any fields becomes a JSON column, so that
    a query may name any field and gets NULL.
    """
    fieldless_columns = {name for name, kind in VIEWS[view].items() if kind == STRUCT and not schema[name].is_nested()}
    kinds = VIEWS[view] | dict.fromkeys(fieldless_columns, "JSON")
    values = {name: name if kind == STRUCT else f"{name}::{kind}" for name, kind in kinds.items()}
    table = f"CREATE OR REPLACE TABLE _{view} AS SELECT {_select_list_sql(values)} FROM _frame"  # noqa: S608  (names of our own)
    return f"{table}; CREATE OR REPLACE VIEW {view} AS FROM _{view}"


def create_failing_view_sql(view: str, reason: str) -> str:
    """Return the statement that creates a view that raises an error with the text ``reason`` when it is read."""
    error = f"error({quote_text_or_number(reason)})"
    # The error is in every column, too, because DuckDB decides a condition on a column that is always NULL without
    # reading a row.
    return _create_constant_view_sql(
        view, {name: f"{error}::{kind}" for name, kind in _replace_struct_types(view).items()}, f"WHERE {error} IS NULL"
    )


def _create_constant_view_sql(view: str, values: Mapping[str, str], where_clause: str) -> str:
    return f"CREATE OR REPLACE VIEW {view} AS SELECT {_select_list_sql(values)} {where_clause}"


def _cast_columns_sql(view: str, values: Mapping[str, str]) -> str:
    return _select_list_sql({name: f"({values[name]})::{kind}" for name, kind in _find_view_columns(view).items()})


def _select_list_sql(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def build_agents_by_pairing_table(archive: ArchiveStore) -> pl.DataFrame:
    """Build the rows of the table ``_pairings``, one row for every pairing of every run.

    Raises ``FailureError`` for a damaged record.
    """
    rows = [
        (record.run_id, number, first, second, record.rules.mover_chooses, record.rules.name)
        for record in archive.load_runs()
        for number, (first, second) in enumerate(record.pairings)
    ]
    kinds = (pl.String(), pl.Int32(), pl.String(), pl.String(), pl.Boolean(), pl.String())
    names = ("run_id", "pairing", "first_agent", "second_agent", "mover_chooses", "rules")
    return pl.DataFrame(rows, dict(zip(names, kinds, strict=True)), orient="row")


Row = dict[str, Any]


def build_view_frame(view: str, archive: Snapshot) -> pl.DataFrame:
    """Build one of the views in ``RECORD_VIEWS`` as a frame.

    A column of settings has a field for each setting that occurs in any row, or only nulls if there are no settings.
    Raises ``FailureError`` for a damaged record, tally, verdict or card.
    """
    rows = [{name: _replace_surrogates(value) for name, value in row.items()} for row in _ROW_BUILDERS[view](archive)]
    columns = {
        name: settings_to_struct_column([row[name] for row in rows])
        if kind == STRUCT
        else pl.Series([row[name] for row in rows], dtype=POLARS_TYPES[kind])
        for name, kind in VIEWS[view].items()
    }
    return pl.DataFrame(columns)


def _replace_surrogates(value: Any) -> Any:
    """Return a value in which the bytes that are not UTF-8 are replaced, because DuckDB and Polars refuse them.

    Such bytes can occur in the texts of paths and commands.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_replace_surrogates(name): _replace_surrogates(item) for name, item in value.items()}
    return [_replace_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def settings_to_struct_column(rows: Sequence[Mapping[str, Any]]) -> pl.Series:
    """Convert settings to one column of structs, with a field for each name, sorted by name.

    Without any names, the column has only nulls. A field is BOOLEAN, BIGINT or DOUBLE if all its values are of that
    type. Otherwise it is VARCHAR, and lists and similar values are JSON. If names differ only in case, which SQL
    ignores, underscores are appended to the later names.
    """
    fields: dict[str, str] = {}
    for name in sorted({name for row in rows for name in row}):
        field = name
        while field.lower() in map(str.lower, fields):
            field += "_"
        fields[field] = name
    if not fields:
        return pl.Series([None] * len(rows), dtype=pl.String)
    columns = [_build_setting_column([row.get(name) for row in rows]).alias(field) for field, name in fields.items()]
    return pl.DataFrame(columns).to_struct()


def _build_setting_column(values: Sequence[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values if value is not None):
        return pl.Series(values, dtype=pl.Int64)
    if kinds and kinds <= {int, float}:
        return pl.Series(values, dtype=pl.Float64, strict=False)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


_WORD_VALUES = {"true": True, "false": False, "null": None, "none": None}
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def parse_setting(text: str) -> bool | int | float | str | None:
    """Parse the value of a setting that is stored as text, in the form in which it was typed on a command line.

    The result is a truth value, a number or None if the text stands for one, or else the text itself.
    """
    if text.lower() in _WORD_VALUES:
        return _WORD_VALUES[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _build_run_row(archive: Snapshot, record: RunRecord) -> Row:
    ranges, note = archive.list_effective_ranges(record.run_id), archive.find_note(record.run_id)
    return {
        "run_id": record.run_id,
        "created": datetime.fromisoformat(record.created).replace(tzinfo=None),
        "status": record.status,
        "rules": record.rules.name,
        "agents": list(record.distinct_labels_in_table_order),
        "pairings": len(record.pairings),
        "seed": record.spec["seed"],
        "opening_plies": record.spec["opening_plies"],
        "games_asked": record.games * len(record.pairings),
        "games": ranges.units * record.unit_line.games_a_pair,
        "ranges": len(ranges),
        "fingerprint": f"{ranges.fingerprint:016x}",
        "code_version": record.code.get("version"),
        "code_fingerprint": record.code.get("fingerprint"),
        "command": record.command,
        "seconds": record.seconds,
        "name": note.name or None,
        "note": note.note or None,
    }


def _build_result_rows(result: PairingResult, record: RunRecord) -> Iterator[Row]:
    """Yield a row for each agent of a pairing and each seat in which that agent played."""
    agents = result.first, result.second
    for second, seat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        losses, draws, wins = result.losses_draws_wins_in_seat(
            seat ^ second
        )  # of the first agent, which then holds that seat
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


def _build_job_rows(job: SweepJob, results: Sequence[PairingResult]) -> list[Row]:
    """Build a row for each pairing that the job's run played; without pairings, one row without agents and counts."""
    job_columns = {
        "sweep_id": job.sweep_id,
        "job": job.job,
        "overrides": {name: parse_setting(text) for name, text in job.overrides.items()},
        "run_id": job.run_id,
        "status": job.status,
        "error": job.error,
        "objective": job.objective,
        "value": job.value,
    }
    empty = dict.fromkeys(VIEWS["sweeps"])
    return [empty | job_columns | columns for columns in map(_build_pairing_columns, results)] or [empty | job_columns]


def _build_pairing_columns(result: PairingResult) -> Row:
    return {
        "agent_a": result.first,
        "agent_b": result.second,
        "games": result.games,
        "wins": result.wins,
        "draws": result.draws,
        "losses": result.losses,
        **dict(zip(("win_rate", "win_low", "win_high"), result.win_rate, strict=True)),
        **dict(zip(("score", "score_low", "score_high"), result.score, strict=True)),
    }


def _build_verdict_row(verdict: SprtVerdict) -> Row:
    estimate = estimate_strength(verdict.counts).normalised_elo
    stored = msgspec.structs.asdict(verdict) | msgspec.structs.asdict(verdict.hypotheses)
    return {
        **{name: value for name, value in stored.items() if name in VIEWS["verdicts"]},
        "created": datetime.fromisoformat(verdict.created).replace(tzinfo=None),
        **dict(zip(("ll", "ld", "dd", "wd", "ww"), verdict.counts, strict=True)),
        **dict(zip(("normalised_elo", "normalised_elo_low", "normalised_elo_high"), estimate, strict=True)),
    }


def _build_agent_rows(record: RunRecord) -> list[Row]:
    return [
        {
            "run_id": record.run_id,
            "label": agent["label"],
            "target": agent.get("target"),
            "parameters": agent.get("params", {}),
        }
        for agent in record.spec["agents"]
    ]


def _build_policy_rows(archive: Snapshot) -> list[Row]:
    cards = archive.load_cards()
    current = {card.name: card.policy_id for card in cards}  # the newest comes last
    return [_build_policy_row(card, current[card.name] == card.policy_id) for card in cards]


def _build_policy_row(card: PolicyCard, is_current: bool) -> Row:
    learned = card.learned
    return {
        "policy_id": card.policy_id,
        "name": card.name,
        "current": is_current,
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


_ROW_BUILDERS: Mapping[str, Callable[[Snapshot], list[Row]]] = {
    "runs": lambda archive: [_build_run_row(archive, record) for record in archive.load_runs()],
    "results": lambda archive: [
        row
        for run_id, results in load_results_by_run(archive, archive.load_runs()).items()
        for result in results
        for row in _build_result_rows(result, archive.load_run(run_id))
    ],
    "sweeps": lambda archive: [
        row
        for played in load_results_requested_by_jobs(archive, archive.load_sweep_jobs())
        for row in _build_job_rows(*played)
    ],
    "verdicts": lambda archive: [_build_verdict_row(verdict) for verdict in archive.load_verdicts_unless_any_missing()],
    "agents": lambda archive: [row for record in archive.load_runs() for row in _build_agent_rows(record)],
    "policies": _build_policy_rows,
}
