"""SQL over an archive: DuckDB in memory, with read-only views over the effective files."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import polars as pl

from analytics.questions.sql import views
from analytics.questions.sql.archive_files import ArchiveFiles, MissingFileError
from analytics.questions.sql.conditions import SqlFunction
from analytics.questions.sql.connection import ORDERED_OPENINGS_MACRO, QUERYABLE_NAMES, Connection, is_plain_path
from analytics.questions.sql.lazy_rows import ArrowStream, scan_frames
from analytics.questions.sql.query_execution import (
    NO_LIMITS,
    QueryFailure,
    QueryLimits,
    QueryResult,
    RowConsumer,
    build_query_error,
    run_query,
)
from analytics.questions.sql.syntax import SELECT_KINDS, ParsedQuery, parse_query
from analytics.questions.sql.vocabulary import check_vocabulary
from analytics.store.marker import VerifiableFile, warn_at_first_use_of_foreign_archive
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.snapshot import Snapshot, SnapshotMemory
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.boards import ORDERED_PLIES
from quarto.errors import ArenaError, FailureError, RequestError, suggest_valid_names

AnswerT = TypeVar("AnswerT")

Parameters = Sequence[Any] | Mapping[str, Any]


_IMPORTING_PROCESS = os.getpid()  # the process that has the threads of Polars


def _check_not_forked() -> None:
    """Raise ``RequestError`` in a process that was created by ``fork()`` after this module was imported.

    Such a process lacks the threads of Polars. Code that waits for these threads would hang without a message.
    """
    if os.getpid() != _IMPORTING_PROCESS:
        raise RequestError(
            "an archive cannot be asked in a process that fork() made, because threads of Polars are missing there: "
            "start processes by multiprocessing.get_context('spawn')"
        )


class OpenArchive:
    """An open archive with the content that it had when it was opened; ``refresh`` updates the content.

    The views are ``games``, ``plies``, ``runs``, ``results``, ``agents``, ``policies``, ``sweeps``, ``verdicts``,
    ``seats``, ``pairs``, ``boards``, ``positions``, ``first_plies`` and ``decisions``. ``docs/sql.md`` has an example
    of each view and macro. ``scan(name)`` returns a view as a Polars LazyFrame. With the argument ``run_id``, ``scan``
    reads only the files of that run, whereas a filter on the column ``run_id`` reads the files of all runs. An open
    archive is a context manager.
    """

    def __init__(
        self,
        root: PurePath,
        limits: QueryLimits = NO_LIMITS,
        check: bool = True,
        vocabulary_only: bool = False,
        memory: SnapshotMemory | None = None,
    ) -> None:
        """Open the archive at ``root``.

        Args:
            root: The folder or the location in a bucket.
            limits: Limits of memory, disk space and time; a query that exceeds a limit raises an error.
            check: Whether to check that runs have all games that their records name, and to compare each file with its
                checksum before the first query that reads it, once per machine (see ``ArchiveFiles.check_files``).
            vocabulary_only: Whether to restrict queries to the views and the macros of ``docs/sql.md``. This is
                necessary for queries from untrusted users.
            memory: What was read when the archive was opened before. What has not changed is not read again.

        Raises:
            RequestError: ``root`` is not an archive.
            FailureError: Games are lost, and ``check`` is set.

        """
        self._root = root
        self._limits = limits
        self._check = check
        self._vocabulary_only = vocabulary_only
        self._connection: Connection | None = None
        self._memory = SnapshotMemory() if memory is None else memory
        self.refresh()
        if check:
            warn_at_first_use_of_foreign_archive(root)

    def refresh(self) -> None:
        """Update the content to the present state of the archive. Raises the errors of opening an archive."""
        self.close()
        self.files = ArchiveFiles(self._root, self._check, self._memory)

    def _connect(self) -> Connection:
        _check_not_forked()
        if self._connection is None:
            self._connection = Connection(self.files, self._limits)
        return self._connection

    def to_queryable_path(self, path: PurePath) -> PurePath:
        """Return the path or URL by which DuckDB and Polars read a file of the archive.

        If DuckDB takes the path of the archive literally, no connection is opened for this.
        """
        root = self.archive.backend.absolute(self.archive.root)
        return path if isinstance(root, Path) and is_plain_path(root) else self._connect().to_queryable_path(path)

    @property
    def archive(self) -> Snapshot:
        """The records of the archive and its effective ranges, as they were when it was opened or refreshed."""
        return self.files.archive

    # Questions.

    def sql(self, text: str, parameters: Parameters | None = None, **frames: Any) -> pl.DataFrame:
        """Return the answer to one SELECT (or EXPLAIN) in DuckDB's dialect.

        If files are missing because other processes replaced them since the archive was opened, the archive is
        refreshed.

        Args:
            text: The query.
            parameters: The values of ``?`` or ``$1`` in the text, in order, or the values of ``$name``, by name.
            **frames: Tables that the query reads by these names: frames of Polars, lazy or not, of pandas, or of Arrow.

        Returns:
            The answer. Whole numbers have 64 bits if they fit.

        Raises:
            RequestError: ``text`` is not a single query that DuckDB accepts, or the query exceeds a limit.
            FailureError: The query reads a damaged file.

        Examples:
            >>> import analytics
            >>> archive = analytics.open_archive("data/sample")
            >>> archive.sql("SELECT count(*) FROM games WHERE rules = ?", ["classic"]).item() > 0
            True

        """
        return self.retry_if_file_missing(lambda: self._run_query(text, QueryResult.read_frame, parameters, frames))

    def read_first_rows(self, text: str, rows: int) -> pl.DataFrame:
        """Return the first ``rows`` rows of the answer to one SELECT. Raises the errors of ``sql``."""
        return self.retry_if_file_missing(lambda: self._run_query(text, lambda answer: answer.read_first_rows(rows)))

    def fork(self) -> Self:
        """Return a copy with the same content for use in another thread.

        The copy has a connection of its own, and is closed separately.
        """
        copied = copy(self)
        copied._connection = None
        return copied

    def without_runs(self, run_ids: Collection[str]) -> Self:
        """Return a copy that lacks these runs, such as runs with damaged files.

        The copy has a connection of its own, and is closed separately.
        """
        copied = self.fork()
        copied.files = self.files.without_runs(run_ids)
        return copied

    def stream(self, text: str, write: RowConsumer, exact: bool = True) -> None:
        """Pass the answer to a query to a function in parts, so that the answer need not fit into memory.

        Args:
            text: The query.
            write: A function that consumes the rows once. It also receives a function that stops the query early. After
                calling it, ``write`` must still consume the rows that are left, because a thread of Polars reads ahead.
            exact: Whether to give the same rows and types as ``sql``. If false, sums stay 128-bit decimals, and the
                first rows come at once.

        Raises:
            RequestError: As in ``sql``.
            FailureError: As in ``sql``.

        """
        query = self.parse_query(text)
        self.retry_if_file_missing(lambda: self._connect().prepare_query(query))
        folder = self._connect().scratch.folder if exact else None
        try:
            self._run_query(query, lambda answer: answer.stream(write, folder))
        except BaseException:
            self._interrupt_streams_and_close()
            raise

    def query_files_by_path(self, text: str, **frames: pl.DataFrame) -> pl.DataFrame:
        """Return the answer to a SELECT of our own that reads files by their paths, and ``frames`` by their names.

        The text is not parsed here, because it may name thousands of files. Raises ``MissingFileError`` if a file is
        missing.
        """
        return self._run_query(ParsedQuery(text, SELECT_KINDS), QueryResult.read_frame, frames=frames)

    def retry_if_file_missing(self, operation: Callable[[], AnswerT]) -> AnswerT:
        """Return the result of ``operation``. If a file is missing, refresh the archive and repeat ``operation``."""
        with suppress(MissingFileError):
            return operation()
        self.refresh()
        return operation()

    def parse_query(self, text: str) -> ParsedQuery:
        """Parse an SQL text. Raises ``RequestError`` for a text that is nested too deeply."""
        return parse_query(self._connect().duckdb, text)

    def list_functions(self, names: Iterable[str]) -> list[SqlFunction]:
        """List the name, the stability and the definition of each function or macro that has one of these names."""
        return self._connect().list_functions(names)

    def _run_query(
        self,
        text: str | ParsedQuery,
        consume_result: Callable[[QueryResult], AnswerT],
        parameters: Parameters | None = None,
        frames: Mapping[str, Any] | None = None,
    ) -> AnswerT:
        answer: AnswerT | QueryFailure
        limit_errors: list[RequestError] = []

        def run_on(connection: Connection) -> AnswerT | QueryFailure:
            limits = self._limits.enforce(connection.duckdb, connection.scratch.spill_folder, limit_errors)
            with connection.register_frames(frames or {}):
                if self._vocabulary_only:
                    check_vocabulary(connection.duckdb, query, QUERYABLE_NAMES)
                return run_query(connection.duckdb, prepared, parameters, consume_result, limits)

        try:
            connection = self._connect()
            query = self.parse_query(text) if isinstance(text, str) else text
            prepared = connection.prepare_query(query)
            answer = run_on(connection)
            if isinstance(answer, QueryFailure) and answer.is_unknown_name and connection.define_all():
                answer = run_on(connection)  # now DuckDB can propose any name
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            self.close()  # the connection lacks some views
            answer = QueryFailure.from_error(error)
        else:
            if connection.failures:  # rows are missing
                failure = connection.failures[0]
                connection.failures.clear()
                raise failure
        # Not raised in an except clause: a chained error would keep DuckDB's objects alive until the interpreter ends.
        if isinstance(answer, QueryFailure):
            raise (limit_errors and limit_errors[0]) or self._build_error_and_close_if_fatal(answer)
        return answer

    def _build_error_and_close_if_fatal(self, query_failure: QueryFailure) -> ArenaError:
        """Build the error for a failed query: a damaged file, an exceeded limit, or an invalid query.

        If the failure is fatal, also close the connection.
        """
        damage_error = self._connection and self._connection.find_damage_error(query_failure.text)
        if query_failure.is_fatal:
            self.close()  # the connection answers no more questions
        return (
            damage_error or self._limits.build_memory_error(query_failure.text) or build_query_error(query_failure.text)
        )

    # The views as lazy frames.

    def scan(self, name: str, run_id: str | None = None) -> pl.LazyFrame:
        """Return the rows of a view as a lazy frame, which reads only the columns and rows that a computation needs.

        A filter on ``ply`` reads only the row groups of ``plies`` that contain the plies in question.

        Args:
            name: The name of a view.
            run_id: The id of the only run to read, or None for all runs.

        Raises:
            RequestError: There is no such view, or no such run.
            FailureError: A file or a record is missing or damaged, or ``positions`` is scanned before all games have
                been indexed.

        Examples:
            >>> import analytics
            >>> analytics.open_archive("data/sample").scan("runs").select("run_id").collect().width
            1

        """
        _check_not_forked()
        if name not in views.VIEWS and not name.startswith(f"{ORDERED_OPENINGS_MACRO}("):
            raise RequestError(f"{name!r} is no view{suggest_valid_names(name, views.VIEWS)}")
        if name in ("games", "plies"):
            return self._scan_table(name, run_id)
        if name in views.RECORD_VIEWS and run_id is None:
            return views.build_view_frame(name, self.archive).lazy()
        if run_id is not None:
            self.files.check_run_exists(run_id)
        if name == "positions":
            self.retry_if_file_missing(
                lambda: self.files.list_and_check_files(name, run_id)
            )  # games that are not indexed are an error at once
        if run_id is None:
            return self._scan_query(name)
        return self._scan_query(f"{name} WHERE run_id = {views.quote_text_or_number(run_id)}")

    def policy(self, name: str) -> pl.LazyFrame:
        """Return, as a lazy frame, the table of the policy with this name or id; for a genome, the table of its genes.

        Raises ``RequestError`` if there is no such policy.
        """
        return self._scan_query(f"({self._connect().build_policy_query(name)})")

    def ordered_openings(self, plies: int, run_id: str | None = None) -> pl.LazyFrame:
        """Return the first ``plies`` plies of each game that is long enough, up to symmetry, in the order of play.

        The macro ``ordered_openings(plies)`` gives the same rows in SQL.

        Args:
            plies: The number of plies, 1 to 8.
            run_id: The id of the only run to read, or None for all runs.

        Raises:
            RequestError: ``plies`` is out of range, or there is no such run.

        """
        if not 1 <= plies <= ORDERED_PLIES:
            raise RequestError(f"ordered_openings({plies}): plies must be 1 to {ORDERED_PLIES}")
        return self.scan(f"{ORDERED_OPENINGS_MACRO}({plies})", run_id)

    def _scan_table(self, table: str, run_id: str | None) -> pl.LazyFrame:
        """Scan the rows of a stored table, either of one run or, if ``run_id`` is None, of all runs.

        Raises ``FailureError`` if the content of a file has changed since it was written. For ``games``, a damaged or
        lost record raises this error, too, because some columns follow from records, and it is not known yet which
        columns will be read.
        """
        _check_not_forked()
        if run_id is not None:
            self.files.check_run_exists(run_id)
        checked_files = self.retry_if_file_missing(lambda: self.files.list_and_check_files(table, run_id))
        for run in {file.run_id for file in checked_files} if table == "games" else ():
            self.archive.load_run(run)
        widened = {name: pl.Int32() if kind == pl.Int8 else kind for name, kind in TABLE_SCHEMAS[table].items()}
        types = {name: widened.get(name) or views.POLARS_TYPES[kind] for name, kind in views.VIEWS[table].items()}
        groups = self.files.group_files_by_condition_and_record_columns(table, checked_files)
        frames = [
            self._scan_files(files, widened).select(**self._build_columns(types, run_id, values))
            for files, values in groups
        ]
        return pl.concat(frames) if frames else pl.LazyFrame(schema=types)

    def _scan_files(self, files: Sequence[VerifiableFile], schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """Scan the rows of ``files``; the column ``path`` has the location of each row's file.

        All files must have the same ``condition``, which selects the rows that readers use.
        """
        # The scan itself widens integers, because filters could not skip row groups if a cast followed the scan.
        rows = pl.scan_parquet(
            [str(self.to_queryable_path(file.path)) for file in files],
            schema=schema,
            cast_options=pl.ScanCastOptions(integer_cast="upcast"),
            hive_partitioning=False,  # it would read folders above the archive as columns
            glob=False,
            include_file_paths="path",
            **self.archive.backend.polars_arguments,
        )
        condition = files[0].condition
        return rows.filter(pl.sql_expr(condition)) if condition else rows

    @staticmethod
    def _build_columns(
        types: Mapping[str, pl.DataType], run_id: str | None, record_columns: Mapping[str, str]
    ) -> dict[str, pl.Expr]:
        """Build the expression for each column of scanned rows, by the column's name.

        ``types`` has the types of all columns, and ``record_columns`` the SQL of the columns that follow from records.
        If ``run_id`` is None, the run's id is read from the path of the row's file.
        """
        run_of_file = pl.col("path").str.extract("/run=([0-9a-f]{12})/[^/]*$")
        expressions = {"run_id": run_of_file if run_id is None else pl.lit(run_id)}
        expressions |= {name: pl.sql_expr(value).cast(types[name]) for name, value in record_columns.items()}
        return {name: expressions.get(name, pl.col(name)) for name in types}

    def _scan_query(self, from_clause: str) -> pl.LazyFrame:
        """Scan the rows of a FROM clause, which DuckDB reads anew each time that the lazy frame is collected."""
        return scan_frames(
            self.sql(f"FROM {from_clause} LIMIT 0").schema, partial(self._stream_query_frames, from_clause)
        )

    def _stream_query_frames(
        self, from_clause: str, columns: Sequence[str] | None, max_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a FROM clause in parts, over a separate connection.

        ``columns`` are the columns to read, and ``max_rows`` is the largest number of rows; None stands for all.
        """
        column_list = "*" if columns is None else ", ".join(f'"{name}"' for name in columns)
        limit = "" if max_rows is None else f" LIMIT {max_rows}"
        text = f"SELECT {column_list} FROM {from_clause}{limit}"  # noqa: S608  (names of columns)
        copied, failure = self.fork(), None
        try:
            query = copied.parse_query(text)
            copied.retry_if_file_missing(lambda: copied._connect().fill_referenced_views(query))
            yield from pl.scan_arrow_c_stream(ArrowStream(copied._connect().duckdb.sql(text))).collect_batches()
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            failure = copied._build_error_and_close_if_fatal(QueryFailure.from_error(error))
        else:
            copied.close()
        finally:
            copied._interrupt_streams_and_close()
        if failure is not None:
            raise failure

    # Description and closing.

    def __repr__(self) -> str:
        names = ", ".join(views.VIEWS)
        hint = 'ask with .sql("SELECT …"), or .scan("games") for a lazy frame'
        return f"{self._describe_run_and_game_counts()}\nviews: {names}; {hint}"

    def _repr_html_(self) -> str:
        """Return a description of the archive, with a table of its runs, as HTML for a notebook."""
        try:
            runs = (
                self.scan("runs")
                .select("run_id", "created", "rules", "agents", "games", "status")
                .collect()
                ._repr_html_()
            )
        except FailureError as error:
            runs = f"<p>{html.escape(str(error))}</p>"
        return f"<p>{html.escape(repr(self))}</p>{runs}"

    def _describe_run_and_game_counts(self) -> str:
        games, runs = 0, len(self.archive.list_ids_of_runs_with_games())
        for run_id in self.archive.list_ids_of_runs_with_games():
            with suppress(FailureError):  # a damaged record: how many games a pair has is not known
                games += self.archive.count_games(run_id)
        return f"archive {self._root}: {format_count_with_noun(runs, 'run')}, {format_count_with_noun(games, 'game')}"

    def close(self) -> None:
        """Free memory and temporary files. Calling this again is harmless, and the next query connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _interrupt_streams_and_close(self) -> None:
        if self._connection is not None:
            self._connection.interrupt_streams_and_close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
