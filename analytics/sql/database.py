"""SQL over an archive: DuckDB in memory with views over the committed files, read-only."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import duckdb
import polars as pl

from analytics.derived_tables.decisions import ANNOTATIONS
from analytics.derived_tables.derived_table import Shard
from analytics.derived_tables.position_index import INDEXES, Index, NotIndexedError, index_jobs
from analytics.sql import views
from analytics.sql.answers import Answer, Complaint, Writer, ask, explained
from analytics.sql.limits import NO_LIMITS, Limits
from analytics.sql.scratch import Scratch
from analytics.sql.views_read import views_read
from analytics.store.archive import Archive, unknown_run
from analytics.store.checked_files import CheckedFile, first_damaged
from analytics.store.inventory import require_consistent
from analytics.store.records import StoredFile
from analytics.store.schema import TABLES
from analytics.store.snapshot import Snapshot
from quarto.errors import FailureError, RequestError

_BUSY_SECONDS = 0.05
_Taken = TypeVar("_Taken")

_ABOUT_THE_TEXT = re.compile(r"(Parser|Binder|Catalog) Error: ")
# Errors of a file, and errors without a kind, as those of Thrift.
_ABOUT_A_FILE = re.compile(r"(Invalid|IO) Error: |(?![A-Z][A-Za-z ]+ Error: )")


_OVER_FILES = set(views.VIEWS) - set(views.FILLED)


def _damage(file: CheckedFile) -> FailureError:
    return FailureError(f"{file.path} is missing or damaged: run 'qarena archive verify'")


def _committed(archive: Snapshot) -> dict[str, list[CheckedFile]]:
    files: dict[str, list[CheckedFile]] = {table: [] for table in TABLES}
    for run_id in archive.run_ids():
        for commit in archive.commits(run_id):
            for table in TABLES:
                stored: StoredFile = getattr(commit, table)
                files[table].append(CheckedFile(run_id, archive.file(table, run_id, stored).absolute(), stored))
    files["decisions"] = [
        CheckedFile(run_id, ANNOTATIONS.file(archive, run_id, annotation).absolute(), annotation.decisions)
        for run_id in archive.run_ids()
        for annotation in ANNOTATIONS.counting(archive, run_id, archive.commits(run_id)).values()
    ]
    return files


def _in_sql(text: str) -> str:
    """A text as DuckDB takes it: bytes of a path or a command that are not UTF-8 are replaced."""
    return text.encode(errors="replace").decode()


def _require_consistent(archive: Snapshot) -> None:
    """Raise ``FailureError`` for commits that are lost, hold the same games, or contradict themselves."""
    for run_id in sorted({*archive.run_ids(), *archive.recorded()}):
        record = None
        with suppress(FailureError):  # a damaged record spoils the views that need it
            record = archive.run(run_id)
        require_consistent(archive, run_id, record, archive.commits(run_id))


def _require_whole(files: list[CheckedFile]) -> None:
    """Raise ``FailureError`` for a file that is missing or truncated."""
    for file in files:
        if not file.is_whole:
            raise _damage(file)


class OpenArchive:
    """The content of an archive when it was opened; ``refresh`` for what is there by now. A context manager.

    Views ``games`` and ``plies`` are the tables of ``data/README.md`` with ``run_id`` in front and small integers
    widened to 32 bits; ``runs`` has a row a run, ``sweeps`` a row a pairing of a sweep's job, ``decisions`` a row a
    decision of annotated games, ``verdicts`` a row a test of strength, ``positions`` a row a position, turn and player.
    """

    def __init__(self, root: Path, limits: Limits = NO_LIMITS, check: bool = True) -> None:
        """Open the archive at ``root``. A question that goes beyond ``limits`` is an error.

        With ``check``, commits must fit together, and a file is compared with its checksum before the first question to
        it, once per machine (see ``checked_files``). Raises ``RequestError`` for a wrong ``root``, ``FailureError`` for
        a damaged commit and, with ``check``, for commits that are lost or contradict one another.
        """
        self._root = root
        self._limits = limits
        self._check = check
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._scratch: Scratch | None = None
        self.refresh()

    def refresh(self) -> None:
        """See the archive as it is now. Raises ``FailureError`` as opening it does."""
        self.close()
        self.archive = Snapshot(Archive.open(self._root).root)
        if self._check:
            _require_consistent(self.archive)
        self._files = _committed(self.archive)
        self._shards = self._find_shards()
        self._broken: dict[str, FailureError] = {}  # by view
        self._unchecked = _OVER_FILES.copy() if self._check else set()

    def sql(self, text: str) -> pl.DataFrame:
        """The answer to one SELECT (or EXPLAIN) in DuckDB's dialect.

        Raises ``RequestError`` unless ``text`` is one question that DuckDB accepts, and for one that meets a limit;
        ``FailureError`` if it needs a damaged file.
        """
        return self._answer(text, lambda answer: answer.frame())

    def stream(self, text: str, write: Writer) -> None:
        """Pass the answer of a question to ``write``, which consumes it once, in parts: it need not fit into memory.

        ``write`` also gets a function that ends the rows early: it calls that and consumes what is left. The rows and
        types are those of ``sql``; raises the same errors, and those of ``write``.
        """
        try:
            self._answer(text, lambda answer: answer.stream(write, self._scratch_folder().folder))
        except BaseException:
            self._abandon()
            raise

    def _answer(self, text: str, take: Callable[[Answer], _Taken]) -> _Taken:
        found: _Taken | Complaint
        broken: list[RequestError] = []
        if self._connection is None:
            try:
                self._connection = self._connect()
            except (duckdb.OutOfMemoryException, MemoryError) as error:
                found = Complaint.of(error)
        if self._connection is not None:
            if self._unchecked:
                self._require_sound(views_read(self._connection, text, self._unchecked) - set(self._broken))
            limits = self._limits.kept(self._connection, self._scratch_folder().spill, broken)
            found = ask(self._connection, text, take, limits)
        # Not raised in an except clause: a chained error would keep DuckDB's objects alive until the interpreter ends.
        if isinstance(found, Complaint):
            if found.is_fatal:
                self._disconnect()  # it answers nothing more
            raise (
                (broken and broken[0])
                or self._failure(found.text)
                or self._limits.explained(found.text)
                or explained(found.text)
            )
        return found

    def place(self, path: Path) -> Path:
        """The path by which DuckDB and Polars read a file of the archive.

        They take some names of folders as patterns, and none that is not UTF-8.
        """
        root = self.archive.root.absolute()
        plain = self._scratch_folder().plain(root)
        return path if plain == root else plain / path.absolute().relative_to(root)

    def _scratch_folder(self) -> Scratch:
        if self._scratch is None:
            try:
                self._scratch = Scratch()
            except OSError as error:
                raise FailureError(
                    f"no temporary folder can be made: {error.strerror or error}; name another one in TMPDIR"
                ) from error
        return self._scratch

    def games(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``games``, or one run's part of it, as a Polars LazyFrame; raises as ``plies`` does."""
        return self._scan("games", run_id)

    def plies(self, run_id: str | None = None) -> pl.LazyFrame:
        """The view ``plies``, or one run's part of it, as a Polars LazyFrame.

        A filter on ``ply`` reads only the row groups with these plies. The argument ``run_id``, unlike a filter on it,
        reads only the files of that run. Raises ``FailureError`` for a file that is missing or truncated,
        ``RequestError`` for a run that is not in the archive.
        """
        return self._scan("plies", run_id)

    def close(self) -> None:
        """Free memory and temporary files. May be called twice; the next question opens everything again."""
        self._disconnect()
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    def _abandon(self) -> None:
        """Close a connection that has rows left, which a thread of Polars may be reading ahead at this moment."""
        while self._connection is not None:
            self._connection.interrupt()
            try:
                self._disconnect()
            except duckdb.ResourceInUseException:
                time.sleep(_BUSY_SECONDS)
        time.sleep(_BUSY_SECONDS)  # for that thread to end: it must not outlive the interpreter

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_sound(self, named: set[str]) -> None:
        """Raise ``FailureError`` if a file of these views is not as it was written; each view is looked at once."""
        damaged = first_damaged(self._root, [file for view in sorted(named) for file in self._files[view]])
        if damaged is not None:
            raise _damage(damaged)
        self._unchecked -= named

    def shards(self) -> list[Shard[Index]]:
        """All shards with the indexes of their positions, by run and number.

        Raises ``FailureError`` for a damaged index and for a run without a record.
        """
        if isinstance(self._shards, FailureError):
            raise self._shards
        return self._shards

    def _find_shards(self) -> list[Shard[Index]] | FailureError:
        """The shards, or the error that hides them, which must not prevent answers about other views."""
        self._files["positions"] = []
        try:
            shards = INDEXES.shards(self.archive, self.archive.run_ids())
        except FailureError as error:
            return error
        for shard in shards:
            if shard.manifest is not None:
                run_id, index = shard.record.run_id, shard.manifest
                path = INDEXES.file(self.archive, run_id, index).absolute()
                self._files["positions"].append(CheckedFile(run_id, path, index.positions))
        return shards

    def _require_indexed(self) -> None:
        """Raise ``NotIndexedError`` unless all shards are indexed, since a part would be a wrong answer."""
        shards = self.shards()
        missing = len(index_jobs(self.archive, shards))
        if missing:
            what = f"{missing} of {len(shards)} shards are not indexed"
            raise NotIndexedError(f"{what}: run 'qarena archive index' first")

    def _scan(self, table: str, run_id: str | None) -> pl.LazyFrame:
        files = self._files[table]
        if run_id is not None:
            files = [file for file in files if file.run_id == run_id]
            if not files and self.archive.run(run_id) is None:
                known = (file.run_id for file in self._files[table])
                raise unknown_run(self.archive, run_id, known)
        damaged = first_damaged(self._root, files) if table in self._unchecked else None
        if damaged is not None:
            raise _damage(damaged)
        _require_whole(files)
        widened = {name: pl.Int32() if kind == pl.Int8 else kind for name, kind in TABLES[table].items()}
        if not files:
            return pl.LazyFrame(schema={"run_id": pl.String(), **widened})
        # The scan itself widens: with a cast after it, filters could not skip row groups.
        frame = pl.scan_parquet(
            [self.place(file.path) for file in files],
            schema=widened,
            cast_options=pl.ScanCastOptions(integer_cast="upcast"),
            hive_partitioning=False,  # it would read folders above the archive as columns
            glob=False,
            include_file_paths="path",
        )
        run_of_file = pl.lit(run_id) if run_id is not None else pl.col("path").str.extract("/run=([0-9a-f]{12})/[^/]*$")
        return frame.select(run_of_file.alias("run_id"), *widened)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        spill = str(self._scratch_folder().spill)
        connection = duckdb.connect(config={"memory_limit": self._limits.memory, "temp_directory": spill})
        self._broken = {}
        for view in views.VIEWS:
            failure = self._create(connection, view)
            if failure is not None:  # the other views can be asked all the same
                self._broken[view] = failure
                connection.execute(views.broken(view, _in_sql(str(failure))))
        paths = [str(self.place(file.path)) for files in self._files.values() for file in files]
        connection.execute("SET VARIABLE files = $1", [paths])
        connection.execute("SET allowed_paths = getvariable('files')")
        connection.execute("SET parquet_metadata_cache = true")  # committed files never change
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def _create(self, connection: duckdb.DuckDBPyConnection, view: str) -> FailureError | None:
        """Create a view, or return the error that prevents it."""
        try:
            if view not in views.FILLED:
                if view == "positions":
                    self._require_indexed()
                _require_whole(self._files[view])
                known = [] if view in TABLES else views.pairings(self.archive)
                connection.execute(views.over_files(view, [self.place(file.path) for file in self._files[view]], known))
                return None
            rows = views.rows(view, self.archive)
        except FailureError as error:
            return error
        except duckdb.OutOfMemoryException:
            raise  # the files are not damaged
        except duckdb.Error as error:
            return self._failure(str(error)) or FailureError(f"view {view} cannot be made: {explained(str(error))}")
        connection.execute(views.table(view))
        for row in rows:
            values = {name: _in_sql(value) if isinstance(value, str) else value for name, value in row.items()}
            connection.execute(views.insert(view), values)
        return None

    def _failure(self, complaint: str) -> FailureError | None:
        """The error for the damaged file behind DuckDB's message, None if no file is damaged."""
        for failure in self._broken.values():
            if _in_sql(str(failure)) in complaint:
                return failure
        if _ABOUT_THE_TEXT.match(complaint):
            return None
        files = [file for files in self._files.values() for file in files]
        named = [file for file in files if str(self.place(file.path)) in complaint]
        if not named and _ABOUT_A_FILE.match(complaint):
            named = files
        damaged = [file for file in files if not file.is_whole] or [file for file in named if not file.is_sound]
        return _damage(damaged[0]) if damaged else None
