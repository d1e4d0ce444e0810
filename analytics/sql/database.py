"""SQL over an archive: DuckDB in memory with views over the committed files, read-only."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import polars as pl

from analytics.files.backends import filesystem_of
from analytics.sql import records, replays, views
from analytics.sql.answers import Answer, Complaint, Writer, ask, explained
from analytics.sql.arrow_stream import LazyRows, Stream
from analytics.sql.files import damage, require_whole
from analytics.sql.frames import Frames
from analytics.sql.limits import NO_LIMITS, Limits
from analytics.sql.views_read import POSITIONS, Read, read_by
from analytics.sql.vocabulary import check_vocabulary
from analytics.store.schema import TABLES
from quarto.errors import FailureError, RequestError

_BUSY_SECONDS = 0.05
_Taken = TypeVar("_Taken")

_ABOUT_THE_TEXT = re.compile(r"(Parser|Binder|Catalog) Error: ")
# Errors of a file, and errors without a kind, as those of Thrift.
_ABOUT_A_FILE = re.compile(r"(Invalid|IO) Error: |(?![A-Z][A-Za-z ]+ Error: )")

_REPLAYED = {"boards": replays.boards, "ordered_openings": replays.orders}  # what is prepared when it is read first
_READ_FROM = views.MADE | {"ordered_openings": "plies", views.ORDERED: "plies"}
_OVER_FILES = (*TABLES, "decisions", "positions", "first_plies")
_TEXTS = "position_macros.sql"  # what is made when a question names it or reads POSITIONS
_PARQUET = "parquet"  # in a question that reads files itself, by read_parquet or by a name
_RECORDS = {*views.FILLED, "policy"}  # what is made from records alone
_KNOWN = {*views.VIEWS, *_READ_FROM, "policy"}

Parameters = Sequence[Any] | Mapping[str, Any]


class OpenArchive(Frames):
    """The content of an archive when it was opened; ``refresh`` for what is there by now. A context manager.

    ``docs/sql.md`` has an example of each view and macro. The views are ``games``, ``plies``, ``runs``, ``results``,
    ``agents``, ``policies``, ``sweeps``, ``verdicts``, ``seats``, ``pairs``, ``boards``, ``positions``, ``first_plies``
    and ``decisions``; each is a method too, which returns it as a Polars LazyFrame.
    """

    def __init__(
        self, root: PurePath, limits: Limits = NO_LIMITS, check: bool = True, vocabulary_only: bool = False
    ) -> None:
        """Open the archive at ``root``. A question that goes beyond ``limits`` is an error.

        With ``vocabulary_only``, so is one that reads anything but these views and the macros of ``docs/sql.md``: for
        questions of strangers.

        With ``check``, commits must fit together, and a file is compared with its checksum before the first question to
        it, once per machine (see ``checked_files``). Raises ``RequestError`` for a wrong ``root``, ``FailureError`` for
        a damaged commit and, with ``check``, for commits that are lost or contradict one another.
        """
        self._limits = limits
        self._vocabulary_only = vocabulary_only
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._over: set[str] | None = None  # the views that read table files, others are empty; None: none is made yet
        self._broken: dict[str, FailureError] = {}  # by view
        self._prepared: set[str] = set()  # of what is made when a question reads it first
        self._policies: dict[str, str] = {}  # by name: the question that reads its table
        super().__init__(root, check)

    def sql(self, text: str, parameters: Parameters | None = None, **frames: Any) -> pl.DataFrame:
        """The answer to one SELECT (or EXPLAIN) in DuckDB's dialect.

        ``parameters`` are the values of ``?`` or ``$1`` in the text, in order, or of ``$name``, by name. Each of
        ``frames`` is a table of that name in the question: a frame of Polars, lazy or not, of pandas, or of Arrow.

        Raises ``RequestError`` unless ``text`` is one question that DuckDB accepts, and for one that meets a limit;
        ``FailureError`` if it needs a damaged file. If files were removed because others replaced them since the
        archive was opened, it is opened again.
        """
        try:
            return self._answer(text, lambda answer: answer.frame(), parameters, frames)
        except FailureError:
            if not self._was_replaced():
                raise
        self.refresh()
        return self._answer(text, lambda answer: answer.frame(), parameters, frames)

    def first(self, text: str, rows: int) -> pl.DataFrame:
        """The first rows of the answer to one SELECT. Raises as ``sql`` does."""
        return self._answer(text, lambda answer: answer.first(rows))

    def fork(self) -> Self:
        """The same content for another thread, with a connection of its own. Each is closed on its own."""
        other = copy(self)
        other._connection, other._over, other._scratch = None, None, None
        return other

    def ask_files(self, text: str, tables: set[str]) -> pl.DataFrame:
        """The answer to a question that reads files of ``tables`` by their names (see ``_files_of``), and no views."""
        return self._answer(text, lambda answer: answer.frame(), tables=tables)

    def stream(self, text: str, write: Writer, exact: bool = True) -> None:
        """Pass the answer of a question to ``write``, which consumes it once, in parts: it need not fit into memory.

        ``write`` also gets a function that ends the rows early: it calls that and consumes what is left. The rows and
        types are those of ``sql``, unless ``exact`` is false: then sums stay 128-bit decimals, and the first rows come
        at once. Raises the same errors, and those of ``write``.
        """
        try:
            self._answer(text, lambda answer: answer.stream(write, self._scratch_folder().folder if exact else None))
        except BaseException:
            self._abandon()
            raise

    def _answer(
        self,
        text: str,
        take: Callable[[Answer], _Taken],
        parameters: Parameters | None = None,
        frames: Mapping[str, Any] | None = None,
        tables: set[str] | None = None,
    ) -> _Taken:
        found: _Taken | Complaint
        broken: list[RequestError] = []
        try:
            connection, read = self._ready(text, tables)
        except BaseException as error:
            self._disconnect()  # not all views are there
            if not isinstance(error, (duckdb.OutOfMemoryException, MemoryError)):
                raise
            found = Complaint.of(error)
        else:
            self._prepare(connection, read)
            limits = self._limits.kept(connection, self._scratch_folder().spill, broken)
            with _registered(connection, frames or {}):
                if self._vocabulary_only:
                    check_vocabulary(connection, text, _KNOWN)
                found = ask(connection, text, parameters, take, limits)
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

    def close(self) -> None:
        """Free memory and temporary files. May be called twice; the next question opens everything again."""
        self._disconnect()
        super().close()

    def __repr__(self) -> str:
        names = ", ".join(views.VIEWS)
        return f'{self._contents()}\nviews, and methods of these names: {names}; ask with .sql("SELECT …")'

    def _repr_html_(self) -> str:
        """The same for a notebook, with a table of the runs."""
        try:
            runs = self.runs().select("run_id", "created", "rules", "agents", "games", "status").collect()._repr_html_()
        except FailureError as error:
            runs = f"<p>{html.escape(str(error))}</p>"
        return f"<p>{html.escape(repr(self))}</p>{runs}"

    def _contents(self) -> str:
        held = [self.archive.log(run_id).summary for run_id in self.archive.run_ids()]
        games, plies = (sum(getattr(summary, table) for summary in held) for table in TABLES)
        return f"archive {self._root}: {len(self.archive.run_ids()):,} runs, {games:,} games, {plies:,} plies"

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
            self._connection, self._over = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, connection: duckdb.DuckDBPyConnection, read: Read) -> None:
        """Check the files of what a question reads, and make what is made when it is read first."""
        if read.texts and _TEXTS not in self._prepared:
            self._execute(connection, _TEXTS)
            self._prepared.add(_TEXTS)
        if POSITIONS in read.views and POSITIONS not in self._prepared:
            self._make(connection, POSITIONS, self._over or set())
            self._prepared.add(POSITIONS)
        named = {view for view in read.views if view not in self._broken}
        self._require_sound({_READ_FROM.get(view, view) for view in named} - set(self._broken))
        for name in named & set(_REPLAYED) - self._prepared:
            self._replay(connection, name)
            self._prepared.add(name)
        names = [card.name for card in self.archive.cards()] if read.policies is None else read.policies
        new = {name: self._policy_question(name) for name in names if name not in self._policies}
        if new:
            self._policies |= new
            connection.execute(views.policy_macro(self._policies))

    def _replay(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Register the replays of all runs, and the view over them: a condition on the run leaves out the others."""
        view = "boards" if name == "boards" else views.ORDERED
        runs = self.archive.run_ids()
        for run_id in runs:
            relation = f"{view}_{run_id}"
            frame = _REPLAYED[name](self.archive, run_id)  # raises before DuckDB reads
            connection.register(relation, LazyRows(partial(_same, frame)))
        if runs:
            connection.execute(views.over_runs(view, {run_id: f"{view}_{run_id}" for run_id in runs}))

    def _policy_question(self, name: str) -> str:
        """The question whose answer is the table of a policy."""
        card = self._policy_card(name)
        file = self._sound_policy_file(card)
        if file is None:
            return views.genome_question(card.parameters)
        path = self.place(file.path)
        rows = pl.scan_parquet(str(path), glob=False, **self.archive.backend.polars_options)
        return views.policy_question(path, rows.collect_schema())

    def _ready(self, text: str, tables: set[str] | None) -> tuple[duckdb.DuckDBPyConnection, Read]:
        """A connection with the views for a question, and what it reads by DuckDB's parser.

        ``tables`` are those whose files it reads by their names; None: if it reads files at all, any.
        """
        connection = self._connected()
        read = read_by(connection, text, _KNOWN)
        needed = {_READ_FROM.get(view, view) for view in read.views - _RECORDS} | (tables or set())
        if tables is None and _PARQUET in text.lower():
            needed |= set(_OVER_FILES)
        known = self._over
        if known is not None and not needed <= known:  # this connection may not read their files any more
            self._disconnect()
            connection = self._connected()
        if self._over is None:
            self._make_views(connection, needed | (known or set()))
        return connection, read

    def _connected(self) -> duckdb.DuckDBPyConnection:
        """The connection; a new one has no views yet."""
        if self._connection is None:
            spill = str(self._scratch_folder().spill)
            self._connection = duckdb.connect(config={"memory_limit": self._limits.memory, "temp_directory": spill})
        return self._connection

    def _make_views(self, connection: duckdb.DuckDBPyConnection, over: set[str]) -> None:
        """Make all views; of those over table files, the ones that are not in ``over`` are empty, and cost nothing."""
        if (filesystem := filesystem_of(self.archive.backend)) is not None:
            connection.register_filesystem(filesystem)
        self._broken, self._prepared, self._policies = {}, set(), {}
        self._execute(connection, "macros.sql")
        for view in views.MADE_HERE:
            self._make(connection, view, over - {POSITIONS})
        connection.execute(views.policy_macro({}))
        self._execute(connection, "made_views.sql")
        connection.execute("SET VARIABLE files = $1", [self._paths(over)])
        connection.execute("SET allowed_paths = getvariable('files')")
        connection.execute("SET parquet_metadata_cache = true")  # committed files never change
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        self._over = over

    def _paths(self, over: set[str]) -> list[str]:
        """The files that DuckDB may read. A damaged card, or digest, spoils what needs it only."""
        stored = []
        for table in over:
            with suppress(FailureError):
                stored += self._files_of(table)
        with suppress(FailureError):
            tables = map(self._policy_file, self.archive.cards())
            stored += [file for file in tables if file is not None]
        return list(dict.fromkeys(str(self.place(file.path)) for file in stored))

    def _execute(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Execute a file of this package."""
        connection.execute((files("analytics.sql") / name).read_text(encoding="utf-8"))

    def _make(self, connection: duckdb.DuckDBPyConnection, view: str, over: set[str]) -> None:
        """Make a view; if that fails, one whose questions fail: the others can be asked all the same."""
        failure = self._create(connection, view, over)
        if failure is not None:
            self._broken[view] = failure
            connection.execute(views.broken(view, str(failure).encode(errors="replace").decode()))

    def _create(self, connection: duckdb.DuckDBPyConnection, view: str, over: set[str]) -> FailureError | None:
        """Create a view, or return the error that prevents it."""
        try:
            if view in views.FILLED:
                frame = records.frame(view, self.archive)
                with _registered(connection, {"_frame": frame}):
                    connection.execute(views.filled(view, "_frame", frame.schema))
                return None
            if _READ_FROM.get(view, view) not in over:
                connection.execute(views.empty(view))
                return None
            if view == POSITIONS:
                self._require_indexed()
            require_whole(self._files_of(views.REPLAYED.get(view, view)))
            if view in views.REPLAYED:
                connection.execute(views.empty(view))
                return None
            connection.execute(self._over_files(view))
        except FailureError as error:
            return error
        except duckdb.OutOfMemoryException:
            raise  # the files are not damaged
        except duckdb.Error as error:
            return self._failure(str(error)) or FailureError(f"view {view} cannot be made: {explained(str(error))}")
        return None

    def _over_files(self, view: str) -> str:
        """The statement that creates a view over its files."""
        known = [] if view in TABLES else views.pairings(self.archive)
        if view == "first_plies":
            counted, rest = ([self.place(file.path) for file in part] for part in self.first_plies_files())
            return views.over_first_plies(counted, rest, known)
        return views.over_files(view, [self.place(file.path) for file in self._files_of(view)], known)

    def _failure(self, complaint: str) -> FailureError | None:
        """The error for the damaged file behind DuckDB's message, None if no file is damaged."""
        for failure in self._broken.values():
            if str(failure).encode(errors="replace").decode() in complaint:
                return failure
        if _ABOUT_THE_TEXT.match(complaint):
            return None
        files = [file for files in self._files.values() for file in files]
        named = [file for file in files if str(self.place(file.path)) in complaint]
        if not named and _ABOUT_A_FILE.match(complaint):
            named = files
        damaged = [file for file in files if not file.is_whole] or [file for file in named if not file.is_sound]
        return damage(damaged[0]) if damaged else None


def _same(frame: pl.LazyFrame) -> pl.LazyFrame:
    return frame


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, frames: Mapping[str, Any]) -> Iterator[None]:
    """Make frames known to DuckDB by their names inside the context. Raises ``RequestError`` for what is no frame."""
    done: list[str] = []
    try:
        for name, frame in frames.items():
            if name.lower() in _KNOWN:
                raise RequestError(f"SQL: a frame named {name!r} would hide the view {name.lower()}: name it otherwise")
            try:
                connection.register(name, _readable(frame))
            except (duckdb.Error, TypeError) as error:
                raise RequestError(
                    f"SQL: {name}={type(frame).__name__} is not a frame that DuckDB reads: pass one of Polars or pandas"
                ) from error
            done.append(name)
        yield
    finally:
        for name in done:
            connection.unregister(name)


def _readable(frame: Any) -> Any:
    """A frame in the form in which DuckDB reads it."""
    if isinstance(frame, pl.LazyFrame):
        return LazyRows(partial(_same, frame))
    return Stream(frame) if isinstance(frame, pl.DataFrame) else frame
