"""A connection to DuckDB that fills each view of an archive with rows when a question first reads it.

A connection has a temporary folder, ``ScratchFolder``, for the rows that questions spill. If DuckDB would take the path
of an archive for a pattern, the process has one more such folder, for a link to the archive with a plain name. It lasts
until the process ends, because frames may read by this name.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any, ClassVar

import duckdb
import polars as pl

from analytics.questions.sql import lazy_rows, views
from analytics.questions.sql.archive_files import ArchiveFiles
from analytics.questions.sql.conditions import SqlFunction
from analytics.questions.sql.definitions import add_dependencies, list_needed_names, load_definitions
from analytics.questions.sql.lazy_rows import ArrowStream, Failures, LazyArrowStream, ReplayScanner
from analytics.questions.sql.query_execution import QueryLimits, build_query_error
from analytics.questions.sql.row_counts import COUNT_TABLES, rewrite_row_count
from analytics.questions.sql.syntax import POLICY_MACRO, ParsedQuery
from analytics.store.archive import is_agent_of_newer_run
from analytics.store.files.local_files import build_filesystem_unless_local
from analytics.store.labels import find_stored_label_or_keep_text, format_stale_warning
from analytics.store.marker import VerifiableFile
from analytics.store.records import RunRecord
from analytics.store.schema import TABLE_SCHEMAS
from analytics.tables.derived.boards import KEY_COLUMNS
from analytics.tables.derived.definitions import NotIndexedError
from quarto.errors import FailureError, RequestError, describe_nearest_name

logger = logging.getLogger(__name__)

ORDERED_OPENINGS_MACRO = "ordered_openings"
QUERYABLE_NAMES = {*views.VIEWS, ORDERED_OPENINGS_MACRO, POLICY_MACRO}  # views and macros that a question may read

RecordColumns = Callable[[RunRecord], dict[str, str]]  # the columns that follow from a run's record, in SQL

_BUSY_SECONDS = 0.05
# Replayed views, each with the view that has its rows.
_REPLAYED_VIEWS = {"boards": "boards", ORDERED_OPENINGS_MACRO: views.ORDERED_OPENINGS_VIEW}
_VIEWS_WITH_EXTRA_COLUMNS = ("boards", "decisions")  # views with columns of ``views.ON_DEMAND_COLUMNS``

_QUERY_TEXT_ERROR = re.compile(r"(Parser|Binder|Catalog) Error: ")
# Errors of a file, and errors without a kind, such as those of Thrift.
_FILE_ERROR = re.compile(r"(Invalid|Invalid Input|IO) Error: |(?![A-Z][A-Za-z ]+ Error: )")


class Connection:
    """A connection to DuckDB, in which a view is created and filled just before the first query that reads it."""

    def __init__(self, archive_files: ArchiveFiles, limits: QueryLimits) -> None:
        """Connect to DuckDB.

        Raises ``FailureError`` if there is no room for temporary files, and ``RequestError`` if there is too little
        memory.
        """
        self._files = archive_files
        self._defined: set[str] = set()  # views and macros that DuckDB knows
        self._filled_views: set[str] = set()  # views that have their rows
        self._columns: Collection[str] = frozenset()  # the ``views.ON_DEMAND_COLUMNS`` that filled views have
        self._reported_labels: set[str] = set()  # labels whose different stored form the user has been told
        self._errors_by_view: dict[str, FailureError] = {}
        self.failures = Failures()  # of replays that the current question reads
        self.scratch = ScratchFolder()
        self.duckdb = duckdb.connect(
            config={"memory_limit": limits.memory, "temp_directory": str(self.scratch.spill_folder)}
        )
        try:
            self._restrict_to_archive_folders()
        except duckdb.OutOfMemoryException as error:
            memory_error = limits.build_memory_error(str(error))
            self.close()
            if memory_error is None:
                raise
            raise memory_error from None  # a chained error would keep DuckDB's objects alive until the interpreter ends

    def _restrict_to_archive_folders(self) -> None:
        run = self.duckdb.execute
        if (filesystem := build_filesystem_unless_local(self._files.archive.backend)) is not None:
            self.duckdb.register_filesystem(filesystem)
        run(
            "SET VARIABLE tables = $1",
            [[f"{self.to_queryable_path(folder)}/" for folder in self._files.folders_of_all_tables]],
        )
        run("SET allowed_directories = getvariable('tables')")
        run("SET parquet_metadata_cache = true")  # files of tables never change
        run("SET python_enable_replacements = false")  # else an unknown name could be a variable of this program
        run("SET enable_external_access = false")
        run("SET lock_configuration = true")

    def to_queryable_path(self, path: PurePath) -> PurePath:
        """Return the path or URL by which DuckDB and Polars read a file of the archive.

        DuckDB and Polars interpret some names of folders as patterns, and refuse names that are not UTF-8. The returned
        path avoids both problems; URLs do not have these problems.
        """
        backend = self._files.archive.backend
        root = backend.absolute(self._files.archive.root)
        if not isinstance(root, Path):
            return path
        plain = ensure_plain_path(root)
        return path if plain == root else plain / backend.absolute(path).relative_to(root)

    def close(self) -> None:
        """Close the connection, and free its memory and its temporary files."""
        self.duckdb.close()
        self.scratch.remove()

    def interrupt_streams_and_close(self) -> None:
        """Interrupt the connection and close it, while a thread of Polars may still be reading rows ahead."""
        while True:
            self.duckdb.interrupt()
            try:
                self.close()
                break
            except duckdb.ResourceInUseException:
                time.sleep(_BUSY_SECONDS)
        time.sleep(_BUSY_SECONDS)  # lets the thread end, because it must not outlive the interpreter

    # The views that a question reads are filled before it is asked.

    def prepare_query(self, query: ParsedQuery) -> ParsedQuery:
        """Fill what a query reads, and return the query to run: itself, or one with the same answer.

        A query that only counts rows reads the numbers of rows instead of the files (``row_counts``). Raises
        ``FailureError`` if files that the query is about are damaged.
        """
        count_query = rewrite_row_count(query)
        if count_query is None or not self._fill_row_counts(count_query.table):
            self.fill_referenced_views(query)
            return query
        return replace(query, text=count_query.text)

    def _fill_row_counts(self, table: str) -> bool:
        """Create the table with the number of rows of each run, and return whether these numbers are known."""
        name = COUNT_TABLES[table]
        if name not in self._filled_views:
            rows = self._files.count_rows_by_run(table)
            if rows is None:
                return False
            schema = {"run_id": pl.String(), "_rows": pl.Int64()}
            with self.register_frames({"_frame": pl.DataFrame([*rows.items()], schema, orient="row")}):
                self.duckdb.execute(f"CREATE OR REPLACE TABLE {name} AS FROM _frame")
            self._filled_views.add(name)
        return True

    def fill_referenced_views(self, query: ParsedQuery) -> None:
        """Fill the views that a query reads. Raises ``FailureError`` if the files of a view are damaged."""
        view_names = query.select_views_possibly_read(QUERYABLE_NAMES)
        self._define_missing(list_needed_names(query))
        columns = views.ON_DEMAND_COLUMNS if query.columns is None else views.ON_DEMAND_COLUMNS & query.columns
        if columns != self._columns and not view_names.isdisjoint(_VIEWS_WITH_EXTRA_COLUMNS):
            self._columns = columns
            self._filled_views -= {*_VIEWS_WITH_EXTRA_COLUMNS}
        for view in sorted(
            {views.SOURCE_VIEWS.get(name, name) for name in view_names - {POLICY_MACRO}} - self._filled_views
        ):
            self._try_fill_view(view, may_be_unread=not query.is_certain)
        policy_names = (
            [card.name for card in self._files.archive.load_cards()] if query.policies is None else query.policies
        )
        if query.texts or query.agents or query.labels:
            self._define_label_macro_and_warn(query.texts, query.labels, query.agents)
        if policy_names:
            self.duckdb.execute(
                views.create_policy_macro_sql({name: self.build_policy_query(name) for name in policy_names})
            )

    def _define_label_macro_and_warn(
        self, texts: Collection[str], labels: Collection[str], agents: Collection[str]
    ) -> None:
        """Define the macro ``label`` for the labels in a query, and warn of labels that no agent has.

        ``texts`` has the string literals of the query that look like labels, ``labels`` has the string literals in
        calls of the macro, and ``agents`` has those that are compared with a column of agents. The warning names the
        form in which a label is stored, or a similar label.
        """
        archive, records = self._files.archive, list[RunRecord]()
        for run_id in archive.list_recorded_run_ids():
            with suppress(FailureError):  # a damaged record raises its error when a question reads it
                records.append(archive.load_run(run_id))
        stored = {text: label for text in texts if (label := find_stored_label_or_keep_text(records, text)) != text}
        for text in sorted(stored.keys() - {*labels, *self._reported_labels}):
            self._reported_labels.add(text)
            logger.warning("%r is stored as %r: write label(%s)", text, stored[text], views.quote_text_or_number(text))
        stored_labels = {label for record in records for label in record.labels}
        for text in sorted({*labels, *agents} - {*stored, *stored_labels, *self._reported_labels}):
            self._reported_labels.add(text)
            if is_agent_of_newer_run(archive, text):
                logger.warning("%s", format_stale_warning(text))
            elif meant := describe_nearest_name(text, stored_labels):
                logger.warning("no agent %r is in this archive; %s", text, meant.rstrip())
        if labels:
            self.duckdb.execute(views.create_label_macro_sql(stored))

    def _define_missing(self, names: Iterable[str]) -> bool:
        """Define the views and macros that are not defined yet, and return whether there were any.

        The views have no rows at first. ``names`` must be in the order of ``list_needed_names``.
        """
        missing_names = [name for name in names if name not in self._defined]
        for name in missing_names:
            self.duckdb.execute(load_definitions()[name])
            self._defined.add(name)
        return bool(missing_names)

    def define_all(self) -> bool:
        """Define every view and macro, so that DuckDB can suggest their names; return whether any was undefined."""
        return self._define_missing(add_dependencies(load_definitions()))

    def list_functions(self, names: Iterable[str]) -> list[SqlFunction]:
        """List the name, the stability and the definition of each function or macro that has one of these names.

        A macro has no stability.
        """
        names = [*names]
        self._define_missing(add_dependencies(names))
        query = (
            "SELECT DISTINCT function_name, stability, macro_definition FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'macro') AND list_contains($1, function_name)"
        )
        return [SqlFunction(*row) for row in self.duckdb.execute(query, [names]).fetchall()]

    def _try_fill_view(self, view: str, may_be_unread: bool) -> None:
        """Fill a view with its rows. Raises ``FailureError`` if the files of the view cannot be read.

        If ``may_be_unread`` is set, the error is raised only when DuckDB reads the view.
        """
        message = None
        try:
            self._fill_view(view)
            if self._errors_by_view.pop(view, None) and view in views.DERIVED_TABLE_VIEWS:  # its files were repaired
                self.duckdb.execute(load_definitions()[view])
            self._filled_views.add(view)
        except FailureError as error:
            # DuckDB reports an invalid question first, so that nobody indexes games for it.
            if not may_be_unread and not isinstance(error, NotIndexedError):
                raise
            self._errors_by_view[view] = error
            self.duckdb.execute(
                views.create_failing_view_sql(_REPLAYED_VIEWS.get(view, view), _format_error_as_utf8(error))
            )
        except duckdb.OutOfMemoryException:
            raise  # the files are not damaged
        except duckdb.Error as error:
            message = str(error)
        if message is not None:  # not raised above: a chained error would keep DuckDB's objects alive
            raise self.find_damage_error(message) or FailureError(
                f"view {view} cannot be made: {build_query_error(message)}"
            )

    def _fill_view(self, view: str) -> None:
        if view in views.RECORD_VIEWS:
            frame = views.build_view_frame(view, self._files.archive)
            with self.register_frames({"_frame": frame}):
                self.duckdb.execute(views.create_record_view_sql(view, frame.schema))
        elif view == ORDERED_OPENINGS_MACRO:
            self._create_replay_view(
                views.ORDERED_OPENINGS_VIEW,
                self._files.archive.list_ids_of_runs_with_games(),
                lazy_rows.scan_canonical_ordered_openings,
                _build_rules_column,
            )
        elif view == "boards":
            scan_boards = partial(lazy_rows.scan_boards_before_plies, extra_columns=self._columns)
            record_columns = partial(
                views.board_columns_sql, failing_columns=views.ON_DEMAND_COLUMNS.difference(self._columns)
            )
            self._create_replay_view(
                view, self._files.archive.list_ids_of_runs_with_games(), scan_boards, record_columns
            )
        elif view == "first_plies":
            counted_files, uncounted_ply_files = self._files.list_first_ply_files_and_rest()
            self._create_file_view("_first_plies", counted_files)
            self._create_file_view(views.UNCOUNTED_PLIES_VIEW, uncounted_ply_files)
        else:
            files = self._files.list_and_check_files(view)
            self._create_file_view(view if view in TABLE_SCHEMAS else f"_{view}", files)
            if view == "decisions":
                self._create_position_keys_if_columns_read({file.run_id for file in files})
        if view in views.DERIVED_TABLE_VIEWS:
            with self.register_frames({"_frame": views.build_agents_by_pairing_table(self._files.archive)}):
                self.duckdb.execute("CREATE OR REPLACE TABLE _pairings AS FROM _frame")

    def _create_file_view(self, view: str, files: Sequence[VerifiableFile]) -> None:
        groups = self._files.group_files_by_condition_and_record_columns(view, files)
        sources = [(self.build_from_clause(group), {"run_id": views.RUN_ID_SQL} | values) for group, values in groups]
        self.duckdb.execute(views.create_view_sql(view, sources))

    def build_from_clause(self, files: Sequence[VerifiableFile]) -> str:
        """Build the FROM clause that reads ``files``, all of which must have the same ``condition`` on their rows."""
        return views.file_rows_sql((self.to_queryable_path(file.path) for file in files), files[0].condition)

    def _create_replay_view(
        self, view: str, run_ids: Iterable[str], replay: ReplayScanner, record_columns: RecordColumns
    ) -> None:
        """Create a view whose rows are computed by replaying the games of some runs when the view is read.

        ``replay`` returns the rows of one run as a lazy frame, and ``record_columns`` the SQL of the columns that
        follow from the run's record. A condition on ``run_id`` skips the replays of other runs.
        """
        self._files.list_and_check_files("plies")
        archive, sources = self._files.archive, list[tuple[str, dict[str, str]]]()
        for run_id in run_ids:
            record = archive.load_run(run_id)  # raises before DuckDB reads
            self.duckdb.register(f"{view}_{run_id}", LazyArrowStream(replay(archive, record, self.failures)))
            sources.append(
                (f"FROM {view}_{run_id}", {"run_id": views.quote_text_or_number(run_id)} | record_columns(record))
            )
        self.duckdb.execute(views.create_view_sql(view, sources))

    def _create_position_keys_if_columns_read(self, run_ids: Iterable[str]) -> None:
        """Create the view with the keys of positions for these runs, if the current query may read columns of the key.

        The columns ``occupied`` and ``board`` of the view ``decisions`` are the key of a position. The macro ``_keyed``
        is redefined to return whether the view with the keys was created.
        """
        reads_keys = not KEY_COLUMNS.keys().isdisjoint(self._columns)
        if reads_keys:
            self._create_replay_view(
                views.POSITION_KEYS_VIEW,
                sorted(run_ids),
                partial(lazy_rows.scan_boards_before_plies, extra_columns=[*KEY_COLUMNS]),
                _build_rules_column,
            )
        self.duckdb.execute(f"CREATE OR REPLACE MACRO _keyed() AS {reads_keys}")

    def build_policy_query(self, name: str) -> str:
        """Build the query that returns the table of a policy. Raises ``RequestError`` if there is no such policy."""
        card = self._files.find_policy_card(name)
        file = self._files.find_policy_file(card)
        if file is None:
            return views.genome_table_sql(card.parameters)
        path = self.to_queryable_path(file.path)
        rows = pl.scan_parquet(str(path), glob=False, **self._files.archive.backend.polars_arguments)
        return views.policy_table_sql(path, rows.collect_schema())

    def find_damage_error(self, message: str) -> FailureError | None:
        """Return the error for the damaged file or record behind a message of DuckDB, or None if nothing is damaged."""
        for failure in (*self._errors_by_view.values(), *self._files.record_failures.values()):
            if _format_error_as_utf8(failure) in message:
                return failure
        if _QUERY_TEXT_ERROR.match(message) or not _FILE_ERROR.match(message):
            return None
        return self._files.find_damage_error(message, lambda path: str(self.to_queryable_path(path)))

    @contextmanager
    def register_frames(self, frames: Mapping[str, Any]) -> Iterator[None]:
        """Register frames under their names for the duration of the context.

        Raises ``RequestError`` for values that are not frames.
        """
        registered_names: list[str] = []
        try:
            for name, frame in frames.items():
                if name.lower() in QUERYABLE_NAMES:
                    raise RequestError(
                        f"SQL: a frame named {name!r} would hide the view {name.lower()}: name it otherwise"
                    )
                try:
                    self.duckdb.register(name, _to_registrable(frame))
                except (duckdb.Error, TypeError) as error:
                    raise RequestError(
                        f"SQL: {name}={type(frame).__name__} is not a frame that DuckDB reads: pass one of Polars or "
                        "pandas"
                    ) from error
                registered_names.append(name)
            yield
        finally:
            for name in registered_names:
                self.duckdb.unregister(name)


def _build_rules_column(record: RunRecord) -> dict[str, str]:
    return {"rules": views.quote_text_or_number(record.rules.name)}


def _format_error_as_utf8(error: FailureError) -> str:
    """Return an error's message in a form that DuckDB can hold: bytes of a path that are not UTF-8 are replaced."""
    return str(error).encode(errors="replace").decode()


def _to_registrable(frame: Any) -> Any:
    """Convert a frame to a form that DuckDB can read."""
    if isinstance(frame, pl.LazyFrame):
        return LazyArrowStream(frame)
    return ArrowStream(frame) if isinstance(frame, pl.DataFrame) else frame


SCRATCH_PREFIX = "quarto-arena-sql-"
_LOCK = "lock"
_GLOB_CHARACTERS = frozenset("*?[")  # DuckDB takes file names with these for patterns
_YOUNG_SECONDS = 60  # a folder without a lock may be about to get it


class ScratchFolder:
    """A new temporary folder of this process.

    The folder is removed when the last reference to this object is gone, or when the interpreter ends. If a process is
    killed, its folder stays. Creating a folder therefore also removes the folders that such processes of the same user
    left behind. Each folder holds a file that its process has locked, so that other processes can tell which folders
    are no longer in use.
    """

    folders: ClassVar[set[Path]] = set()  # of this process: a handler that ends the process at once removes them

    def __init__(self) -> None:
        """Create the folder. Raises ``FailureError`` if this fails."""
        try:
            remove_abandoned_folders(Path(tempfile.gettempdir()))
            self.folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
            try:
                lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            except OSError:
                self.folder.rmdir()
                raise
        except OSError as error:
            raise FailureError(
                f"no temporary folder can be made: {error.strerror or error}; name another one in TMPDIR"
            ) from error
        self.folders.add(self.folder)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._remove = weakref.finalize(self, _remove_folder_and_unlock, self.folder, lock, os.getpid())

    @property
    def spill_folder(self) -> Path:
        """The folder to which queries spill rows; DuckDB creates it when needed."""
        return self.folder / "spill"

    def remove(self) -> None:
        """Remove the folder and its content. Calling this again is harmless."""
        self._remove()


def _remove_folder_and_unlock(folder: Path, lock: int, process_id: int) -> None:
    """Remove a folder, and close its lock.

    In a fork of the process that created the folder, only close the lock, because the parent still uses the folder.
    """
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)  # links in it are removed, not followed
    ScratchFolder.folders.discard(folder)
    os.close(lock)


def ensure_plain_path(root: Path) -> Path:
    """Return a path to the archive at ``root`` that DuckDB and Polars do not interpret as a pattern.

    If necessary, the path is a temporary link to the archive.
    """
    if is_plain_path(root):
        return root
    link = _create_link_folder(os.getpid()).folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    with suppress(FileExistsError):
        link.symlink_to(root, target_is_directory=True)
    return link


@cache
def _create_link_folder(_process: int) -> ScratchFolder:
    return ScratchFolder()


def is_plain_path(path: PurePath) -> bool:
    """Return whether DuckDB takes a path literally, that is, whether it is UTF-8 and has no wildcard characters."""
    text = str(path)
    return not _GLOB_CHARACTERS & set(text) and text.encode(errors="replace").decode() == text


def remove_abandoned_folders(temporary_folder: Path) -> None:
    """Remove the scratch folders of this user's processes that have ended, but no folders of other users."""
    for folder in temporary_folder.glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):  # another process removes it at the same time
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not _is_in_use(folder, status):
                shutil.rmtree(folder, ignore_errors=True)


def _is_in_use(folder: Path, status: os.stat_result) -> bool:
    is_young = time.time() - status.st_mtime < _YOUNG_SECONDS
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return is_young
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return is_young and not any(file.name != _LOCK for file in folder.iterdir())
