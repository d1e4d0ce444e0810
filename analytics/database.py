"""SQL over an archive: DuckDB in memory, views over the committed files, nothing that could write."""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import polars as pl

from analytics.archive import Archive
from analytics.records import RunRecord, SweepJob
from analytics.results import results
from analytics.schema import TABLES
from analytics.stream import Stream
from quarto.errors import RequestError, nearest

VIEWS = ("games", "plies", "runs", "sweeps")

MEMORY = "70%"  # of the machine's; a larger question spills to the temporary folder

RUNS = """
    run_id VARCHAR, created TIMESTAMP, status VARCHAR, rules VARCHAR, agents VARCHAR[], pairings INTEGER, seed BIGINT,
    opening_plies INTEGER, games_asked BIGINT, games BIGINT, shards INTEGER, code_version VARCHAR, fingerprint VARCHAR,
    command VARCHAR, seconds DOUBLE"""
SWEEPS = """
    sweep_id VARCHAR, job INTEGER, overrides MAP(VARCHAR, VARCHAR), run_id VARCHAR, status VARCHAR, error VARCHAR,
    agent_a VARCHAR, agent_b VARCHAR, games BIGINT, wins BIGINT, draws BIGINT, losses BIGINT, win_rate DOUBLE,
    win_low DOUBLE, win_high DOUBLE"""
INSERT_RUN = "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_JOB = "INSERT INTO sweeps VALUES (?, ?, MAP(?::VARCHAR[], ?::VARCHAR[]), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_TYPES: dict[type[pl.DataType], str] = {
    pl.Int64: "BIGINT",
    pl.Int32: "INTEGER",
    pl.Int8: "INTEGER",
}  # all else is VARCHAR
_EXPLAIN = re.compile(r"\s*explain\s+(analyze\s+)?", re.IGNORECASE)


class OpenArchive:
    """What an archive held when it was opened: open it again to see what came since. A context manager.

    Views ``games`` and ``plies`` are the tables of ``data/README.md`` with ``run_id`` in front and small integers
    widened to 32 bits; ``runs`` has a row a run, ``sweeps`` a row a pairing of a sweep's job.
    """

    def __init__(self, root: Path) -> None:
        """Raises ``RequestError`` when ``root`` is not an archive, ``FailureError`` for a damaged commit."""
        self.archive = Archive.open(root)
        self._files = {
            table: [str(path.absolute()) for path in self.archive.committed_files(table)] for table in TABLES
        }
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._spill = Path(tempfile.gettempdir()) / f"quarto-arena-sql-{uuid.uuid4().hex}"

    def sql(self, text: str) -> pl.DataFrame:
        """The answer to one SELECT (or EXPLAIN) in DuckDB's dialect.

        Raises ``RequestError`` for anything that is not a single question, and for one that DuckDB rejects.
        """
        if self._connection is None:
            self._connection = self._connect()
        return _answer(self._connection, text)

    def games(self) -> pl.LazyFrame:
        """The view ``games`` as a Polars LazyFrame."""
        return self._scan("games")

    def plies(self) -> pl.LazyFrame:
        """The view ``plies`` as a Polars LazyFrame; a filter on ``ply`` reads only the row groups that hold it."""
        return self._scan("plies")

    def close(self) -> None:
        """Let go of memory and temporary files. Closing twice is fine; the next question opens everything again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        shutil.rmtree(self._spill, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _scan(self, table: str) -> pl.LazyFrame:
        widened = {name: pl.Int32() if kind == pl.Int8 else kind for name, kind in TABLES[table].items()}
        if not self._files[table]:
            return pl.LazyFrame(schema={"run_id": pl.String(), **widened})
        # Widened by the scan itself: a cast after it would keep filters from the row groups.
        frame = pl.scan_parquet(
            self._files[table],
            schema=widened,
            cast_options=pl.ScanCastOptions(integer_cast="upcast"),
            hive_partitioning=True,
            hive_schema={"run": pl.String},
            glob=False,
        )
        return frame.select(pl.col("run").alias("run_id"), *widened)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(self._spill)})
        for table, files in self._files.items():
            connection.execute(_view(table, files))
        self._insert_runs(connection)
        self._insert_sweeps(connection)
        connection.execute("SET VARIABLE files = $1", [[file for files in self._files.values() for file in files]])
        connection.execute("SET allowed_paths = getvariable('files')")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def _insert_runs(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"CREATE TABLE runs ({RUNS})")
        for record in self.archive.runs():
            connection.execute(INSERT_RUN, _run_row(self.archive, record))

    def _insert_sweeps(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"CREATE TABLE sweeps ({SWEEPS})")
        for job in self.archive.sweep_jobs():
            for row in _job_rows(self.archive, job):
                connection.execute(INSERT_JOB, row)


def _view(table: str, files: list[str]) -> str:
    """The statement that creates the view of a table over its files."""
    columns = {"run_id": "VARCHAR"} | {name: _TYPES.get(type(kind), "VARCHAR") for name, kind in TABLES[table].items()}
    if not files:
        nothing = ", ".join(f"NULL::{kind} AS {name}" for name, kind in columns.items())
        return f"CREATE VIEW {table} AS SELECT {nothing} WHERE false"
    widened = ", ".join(f"{name if name != 'run_id' else 'run'}::{kind} AS {name}" for name, kind in columns.items())
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)  # a view takes no parameters
    # A run id may look like a number (123456789012, 1234567890e1): it stays a text.
    source = f"read_parquet([{listed}], hive_partitioning = true, hive_types_autocast = false)"
    return f"CREATE VIEW {table} AS SELECT {widened} FROM {source}"  # noqa: S608 - names of ours, quoted paths


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
        record.games,
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


def _answer(connection: duckdb.DuckDBPyConnection, text: str) -> pl.DataFrame:
    try:
        _check(text)
        connection.execute("BEGIN TRANSACTION READ ONLY")  # a SELECT may hold an INSERT
        try:
            return pl.DataFrame(Stream(connection.sql(text)))
        finally:
            connection.execute("ROLLBACK")
    except duckdb.Error as error:
        message = _one_line(str(error))
    # Raised outside of the handler: a chained error would keep DuckDB's objects alive until the interpreter ends.
    raise RequestError(message)


def _check(text: str) -> None:
    """Raises ``RequestError`` unless ``text`` is one SELECT, or one EXPLAIN of a SELECT."""
    kinds = _kinds(text)
    explained = _EXPLAIN.match(text)
    if kinds == ["EXPLAIN"] and explained:
        kinds = _kinds(text[explained.end() :])  # EXPLAIN ANALYZE runs what it explains
    if kinds != ["SELECT"]:
        found = "; ".join(kinds) or "nothing"
        raise RequestError(f"SQL here is one SELECT that only reads (this is: {found}); views: {', '.join(VIEWS)}")


def _kinds(text: str) -> list[str]:
    return [statement.type.name for statement in duckdb.extract_statements(text)]


def _one_line(message: str) -> str:
    """DuckDB's message without the picture of where it points, with our views if it misses a table."""
    missing = re.match(r"Catalog Error: Table with name (\S+) does not exist!", message)
    if missing:
        return f"SQL: there is no table {missing[1]!r}{nearest(missing[1], VIEWS)}"
    lines = [line.strip() for line in message.partition("\nLINE ")[0].splitlines()]
    return "SQL: " + " ".join(line for line in lines if line)
