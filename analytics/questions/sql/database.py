"""SQL over an archive: DuckDB in memory with views over the files that count, read-only."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import polars as pl

from analytics.questions.columns import format_count_with_noun
from analytics.questions.sql import views
from analytics.questions.sql.archive_files import ArchiveFiles, MissingFileError
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
from analytics.questions.sql.syntax import ParsedQuery, parse_query
from analytics.questions.sql.vocabulary import check_vocabulary
from analytics.store.marker import VerifiableFile, warn_if_unknown_archive
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.snapshot import Snapshot
from analytics.tables.derived.boards import ORDERED_PLIES
from quarto.errors import ArenaError, FailureError, RequestError, describe_valid_names

AnswerT = TypeVar("AnswerT")

Parameters = Sequence[Any] | Mapping[str, Any]


_IMPORTING_PROCESS = os.getpid()  # the process in which the threads of Polars are


def _check_not_forked() -> None:
    """Raise ``RequestError`` in a process that ``fork()`` made from one with this module.

    Polars' threads are not there, and whatever waits for them waits for ever, without a word.
    """
    if os.getpid() != _IMPORTING_PROCESS:
        raise RequestError(
            "an archive cannot be asked in a process that fork() made, because threads of Polars are missing there: "
            "start processes by multiprocessing.get_context('spawn')"
        )


class OpenArchive:
    """The content of an archive when it was opened; ``refresh`` updates it. A context manager.

    ``docs/sql.md`` has an example of each view and macro. The views are ``games``, ``plies``, ``runs``, ``results``,
    ``agents``, ``policies``, ``sweeps``, ``verdicts``, ``seats``, ``pairs``, ``boards``, ``positions``, ``first_plies``
    and ``decisions``. ``scan(name)`` returns one as a Polars LazyFrame. With the argument ``run_id``, unlike with a
    filter on it, only the files of that run are read.
    """

    def __init__(
        self, root: PurePath, limits: QueryLimits = NO_LIMITS, check: bool = True, vocabulary_only: bool = False
    ) -> None:
        """Open the archive at ``root``. A question that goes beyond ``limits`` is an error.

        With ``vocabulary_only``, for questions of strangers, a question may read only these views and the macros of
        ``docs/sql.md``.

        With ``check``, runs must have all games that their records name. A file is compared with the check in its name
        before the first question to it, once per machine (see ``ArchiveFiles.check_files``). Raises ``RequestError``
        for a wrong ``root`` and, with ``check``, ``FailureError`` for games that are lost.
        """
        self._root = root
        self._limits = limits
        self._check = check
        self._vocabulary_only = vocabulary_only
        self._connection: Connection | None = None
        self.refresh()
        if check:
            warn_if_unknown_archive(root)

    def refresh(self) -> None:
        """See the archive as it is now. Raises ``FailureError`` as opening it does."""
        self.close()
        self.files = ArchiveFiles(self._root, self._check)

    def _connect(self) -> Connection:
        _check_not_forked()
        if self._connection is None:
            self._connection = Connection(self.files, self._limits)
        return self._connection

    def to_queryable_path(self, path: PurePath) -> PurePath:
        """The path or URL by which DuckDB and Polars read a file of the archive. A plain path needs no connection."""
        root = self.archive.backend.absolute(self.archive.root)
        return path if isinstance(root, Path) and is_plain_path(root) else self._connect().to_queryable_path(path)

    @property
    def archive(self) -> Snapshot:
        """The records, and the ranges that count."""
        return self.files.archive

    # Questions.

    def sql(self, text: str, parameters: Parameters | None = None, **frames: Any) -> pl.DataFrame:
        """The answer to one SELECT (or EXPLAIN) in DuckDB's dialect.

        ``parameters`` are the values of ``?`` or ``$1`` in the text, in order, or of ``$name``, by name. Each of
        ``frames`` is a table of that name in the question: a frame of Polars, lazy or not, of pandas, or of Arrow.

        Raises ``RequestError`` unless ``text`` is one question that DuckDB accepts, and for one that meets a limit;
        ``FailureError`` if it needs a damaged file. If files were removed because others replaced them since the
        archive was opened, it is opened again.
        """
        return self.retry_if_file_missing(lambda: self._run_query(text, QueryResult.read_frame, parameters, frames))

    def read_first_rows(self, text: str, rows: int) -> pl.DataFrame:
        """The first rows of the answer to one SELECT. Raises as ``sql`` does."""
        return self.retry_if_file_missing(lambda: self._run_query(text, lambda answer: answer.read_first_rows(rows)))

    def fork(self) -> Self:
        """The same content for another thread, with a connection of its own. Each is closed on its own."""
        other = copy(self)
        other._connection = None
        return other

    def stream(self, text: str, write: RowConsumer, exact: bool = True) -> None:
        """Pass the answer of a question to ``write``, which consumes it once, in parts: it need not fit into memory.

        ``write`` also gets a function that ends the rows early: it calls that and consumes what is left. The rows and
        types are those of ``sql``, unless ``exact`` is false: then sums stay 128-bit decimals, and the first rows come
        at once. Raises the same errors, and those of ``write``.
        """
        query = self.parse_query(text)
        self.retry_if_file_missing(lambda: self._connect().fill_referenced_views(query))
        folder = self._connect().scratch.folder if exact else None
        try:
            self._run_query(query, lambda answer: answer.stream(write, folder))
        except BaseException:
            self._close_while_streaming()
            raise

    def query_files(self, text: str) -> pl.DataFrame:
        """The answer to a question that reads files by their names. Raises ``MissingFileError`` if one is gone."""
        return self._run_query(text, QueryResult.read_frame)

    def retry_if_file_missing(self, operation: Callable[[], AnswerT]) -> AnswerT:
        """The answer of ``operation``.

        If a file is gone, the archive is opened again, and ``operation`` is called again.
        """
        with suppress(MissingFileError):
            return operation()
        self.refresh()
        return operation()

    def parse_query(self, text: str) -> ParsedQuery:
        """Return what a text in SQL is and names. Raises ``RequestError`` for one that is nested too deeply."""
        return parse_query(self._connect().duckdb, text)

    def list_functions(self, names: Iterable[str]) -> list[tuple[str, str | None, str | None]]:
        """Return the name, stability and definition of each function and macro of these names."""
        return self._connect().list_functions(names)

    def _run_query(
        self,
        text: str | ParsedQuery,
        consume_result: Callable[[QueryResult], AnswerT],
        parameters: Parameters | None = None,
        frames: Mapping[str, Any] | None = None,
    ) -> AnswerT:
        found: AnswerT | QueryFailure
        broken: list[RequestError] = []

        def run_on(connection: Connection) -> AnswerT | QueryFailure:
            limits = self._limits.enforce(connection.duckdb, connection.scratch.spill_folder, broken)
            with connection.register_frames(frames or {}):
                if self._vocabulary_only:
                    check_vocabulary(connection.duckdb, query, QUERYABLE_NAMES)
                return run_query(connection.duckdb, query, parameters, consume_result, limits)

        try:
            connection = self._connect()
            query = self.parse_query(text) if isinstance(text, str) else text
            connection.fill_referenced_views(query)
            found = run_on(connection)
            if isinstance(found, QueryFailure) and found.is_unknown_name and connection.define_all():
                found = run_on(connection)  # now DuckDB can propose any name
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            self.close()  # not all views are there
            found = QueryFailure.from_error(error)
        else:
            if connection.failures:  # rows are missing
                failure = connection.failures[0]
                connection.failures.clear()
                raise failure
        # Not raised in an except clause: a chained error would keep DuckDB's objects alive until the interpreter ends.
        if isinstance(found, QueryFailure):
            raise (broken and broken[0]) or self._build_error(found)
        return found

    def _build_error(self, query_failure: QueryFailure) -> ArenaError:
        """The error to raise for a complaint: about a damaged file, a limit, or the question."""
        failure = self._connection and self._connection.find_damage_error(query_failure.text)
        if query_failure.is_fatal:
            self.close()  # it answers nothing more
        return failure or self._limits.build_memory_error(query_failure.text) or build_query_error(query_failure.text)

    # The views as lazy frames.

    def scan(self, name: str, run_id: str | None = None) -> pl.LazyFrame:
        """The rows of a view, of one run or of all, as a frame that reads what is asked for.

        A filter on ``ply`` reads only the row groups of ``plies`` with these plies. Raises ``RequestError`` for a name
        that is no view and for a run that is not there, ``FailureError`` for a file or record that is missing or
        damaged, and for ``positions`` of games that are not indexed.
        """
        _check_not_forked()
        if name not in views.VIEWS and not name.startswith(f"{ORDERED_OPENINGS_MACRO}("):
            raise RequestError(f"{name!r} is no view{describe_valid_names(name, views.VIEWS)}")
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
        return self._scan_query(f"{name} WHERE run_id = {views.quote_literal(run_id)}")

    def policy(self, name: str) -> pl.LazyFrame:
        """The table of a policy by its name or id; for a genome its genes, ``gene`` and ``value``."""
        return self._scan_query(f"({self._connect().build_policy_query(name)})")

    def ordered_openings(self, plies: int, run_id: str | None = None) -> pl.LazyFrame:
        """``ordered_openings(k)``: the first ``plies`` (1 to 8) of each game that has them, up to symmetry.

        Raises ``RequestError`` for another number.
        """
        if not 1 <= plies <= ORDERED_PLIES:
            raise RequestError(f"ordered_openings({plies}): plies must be 1 to {ORDERED_PLIES}")
        return self.scan(f"{ORDERED_OPENINGS_MACRO}({plies})", run_id)

    def _scan_table(self, table: str, run_id: str | None) -> pl.LazyFrame:
        """The rows of a stored table.

        Raises ``FailureError`` if a file is not as it was written, or if a record is damaged or lost from which columns
        follow: which columns will be read is not known yet.
        """
        _check_not_forked()
        if run_id is not None:
            self.files.check_run_exists(run_id)
        found = self.retry_if_file_missing(lambda: self.files.list_and_check_files(table, run_id))
        for each in {file.run_id for file in found} if table == "games" else ():
            self.archive.load_run(each)
        widened = {name: pl.Int32() if kind == pl.Int8 else kind for name, kind in TABLE_SCHEMAS[table].items()}
        types = {name: widened.get(name) or views.POLARS_TYPES[kind] for name, kind in views.VIEWS[table].items()}
        groups = self.files.group_files_by_condition(table, found)
        parts = [
            self._scan_files(files, widened).select(**self._build_columns(types, run_id, values))
            for files, values in groups
        ]
        return pl.concat(parts) if parts else pl.LazyFrame(schema=types)

    def _scan_files(self, files: Sequence[VerifiableFile], schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The rows of files with one condition, with their locations in ``path``."""
        # The scan itself widens: with a cast after it, filters could not skip row groups.
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
        """The columns of scanned rows, those that follow from records in SQL."""
        run_of_file = pl.col("path").str.extract("/run=([0-9a-f]{12})/[^/]*$")
        known = {"run_id": run_of_file if run_id is None else pl.lit(run_id)}
        known |= {name: pl.sql_expr(value).cast(types[name]) for name, value in record_columns.items()}
        return {name: known.get(name, pl.col(name)) for name in types}

    def _scan_query(self, from_clause: str) -> pl.LazyFrame:
        """The rows of a clause FROM, which are asked for anew each time that the frame is collected."""
        return scan_frames(
            self.sql(f"FROM {from_clause} LIMIT 0").schema, partial(self._stream_query_frames, from_clause)
        )

    def _stream_query_frames(
        self, from_clause: str, columns: Sequence[str] | None, max_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        """The answer in parts, on a connection of its own."""
        named = "*" if columns is None else ", ".join(f'"{name}"' for name in columns)
        limit = "" if max_rows is None else f" LIMIT {max_rows}"
        text = f"SELECT {named} FROM {from_clause}{limit}"  # noqa: S608  (names of columns)
        own, complaint = self.fork(), None
        try:
            query = own.parse_query(text)
            own.retry_if_file_missing(lambda: own._connect().fill_referenced_views(query))
            yield from pl.scan_arrow_c_stream(ArrowStream(own._connect().duckdb.sql(text))).collect_batches()
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            complaint = own._build_error(QueryFailure.from_error(error))
        else:
            own.close()
        finally:
            own._close_while_streaming()
        if complaint is not None:
            raise complaint

    # What is inside, and the end.

    def __repr__(self) -> str:
        names = ", ".join(views.VIEWS)
        how = 'ask with .sql("SELECT …"), or .scan("games") for a lazy frame'
        return f"{self._describe_contents()}\nviews: {names}; {how}"

    def _repr_html_(self) -> str:
        """The same for a notebook, with a table of the runs."""
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

    def _describe_contents(self) -> str:
        games, runs = 0, len(self.archive.list_run_ids())
        for run_id in self.archive.list_run_ids():
            with suppress(FailureError):  # a damaged record: how many games a pair has is not known
                games += self.archive.count_games(run_id)
        return f"archive {self._root}: {format_count_with_noun(runs, 'run')}, {format_count_with_noun(games, 'game')}"

    def close(self) -> None:
        """Free memory and temporary files. May be called twice; the next question opens everything again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _close_while_streaming(self) -> None:
        if self._connection is not None:
            self._connection.close_while_streaming()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
