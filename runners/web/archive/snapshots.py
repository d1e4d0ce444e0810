"""Snapshots: an archive opened once for many readers, and reopened when it changes; answers are kept until then."""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from queue import Empty, LifoQueue
from typing import Any, TypeVar

import polars as pl

from analytics.questions.sql.database import OpenArchive
from analytics.questions.sql.query_execution import QueryLimits
from analytics.store import marker
from analytics.store.files.local_files import LocalBackend
from analytics.store.records import RUN_ID
from analytics.store.snapshot import SnapshotMemory
from quarto.errors import ArenaError, FailureError, RequestError

CONNECTIONS = 3  # requests that can be answered at the same time
QUERY_LIMITS = QueryLimits(memory="20%", spill="4GiB", seconds=20.0, options=False)  # of each connection
BUSY_SECONDS = 20.0  # that a request waits for a connection
CHECK_SECONDS = 0.5  # between two checks whether the archive has changed
FAILED_PAUSE_FACTOR = 20  # pause before a damaged archive is reopened, in multiples of the time that opening takes
# That time is taken to be at least so long, because a new snapshot forgets all answers: a page that gets its pictures
# one by one would otherwise never have all of them on a busy machine.
MIN_FAILED_SECONDS = 0.25
REOPEN_WAIT_SECONDS = 1.5  # that a reader waits for a changed archive, before the old snapshot is shown
REMOTE_SECONDS = 60.0  # between two openings of an archive in object storage
MAX_ANSWERS = 128  # kept for each snapshot
MAX_WAITING = 20  # readers; more would leave no thread to send answers that are kept

MAX_DAMAGED_RUNS = 20  # that an answer leaves out; with more, the archive as a whole is damaged
_RUN_FOLDER = re.compile(rf"run=({RUN_ID.pattern})\b")  # in the path of a damaged file

ResultT = TypeVar("ResultT")
Stamp = tuple[Any, ...]


def read_archive_stamp(root: PurePath) -> Stamp:
    """Return a stamp that differs from an earlier one if the archive has changed.

    On a disk, the stamp consists of the modification times of the archive's folders. Object storage cannot show a
    change without a listing of the whole archive, so there the stamp changes at regular intervals.
    """
    if not isinstance(root, Path):
        return (time.monotonic() // REMOTE_SECONDS,)
    times: list[tuple[str, int]] = []
    backend = LocalBackend(root)
    for folder in (root, *(root / name for name in _NESTED_FOLDERS)):
        text = str(folder)  # because thousands of path objects would take twice as long
        with suppress(OSError):  # a folder may vanish, or be a link
            times += sorted((name, os.lstat(f"{text}/{name}").st_mtime_ns) for name in backend.list_names(folder))
    return tuple(times)


# These have a folder for each run, sweep or policy. Plies and tallies need no check, because they are written before
# the games that they belong to.
_NESTED_FOLDERS = ("games", "decisions", "evaluations", "positions", "first_plies", "policies", "sweeps")


class BusyError(FailureError):
    """The error for a request to a server that is busy with other requests.

    The same request may succeed if it is sent again in a moment.
    """


class ArchiveSnapshot:
    """An archive in the state in which it was opened, without the runs whose records are damaged."""

    def __init__(
        self,
        root: PurePath,
        limits: QueryLimits = QUERY_LIMITS,
        memory: SnapshotMemory | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        """Open the archive; what ``memory`` has from earlier snapshots and has not changed is not read again.

        ``stamp`` is what ``read_archive_stamp`` returned a moment ago; None: it is read now. Raises ``RequestError`` if
        the archive does not exist, and ``FailureError`` if it has lost games.
        """
        self.stamp = read_archive_stamp(root) if stamp is None else stamp
        started = time.monotonic()
        opened = OpenArchive(root, limits, memory=memory)
        self.seconds = time.monotonic() - started  # that opening the archive took
        # A line for each damaged record, and for each damaged name of a run.
        self.damaged = [*opened.archive.drop_damaged_runs_and_list_messages(), *opened.archive.list_damaged_notes()]
        self.run_ids = opened.archive.list_recorded_run_ids()
        self.failed = bool(self.damaged)  # a damaged file may be repaired at any time
        self._free: LifoQueue[OpenArchive] = (
            LifoQueue()
        )  # last in, first out: the connection used last has the most in its caches
        connections = [opened, *(opened.fork() for _ in range(CONNECTIONS - 1))]
        for connection in reversed(connections):
            self._free.put(connection)
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._left_out: dict[Hashable, tuple[str, ...]] = {}
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._finalizer = weakref.finalize(self, _close_all, connections)

    def compute_once(self, compute: Callable[..., ResultT], *arguments: Hashable) -> ResultT:
        """Return ``compute(opened, *arguments)``, and keep the value for other readers that request it.

        A reader that requests a value while it is being computed waits for it. The snapshot opens the archive several
        times, so that several values can be computed at once; ``opened`` is one of these open archives, and no other
        reader uses it until ``compute`` returns. Raises ``BusyError`` if too many readers are waiting, or if no open
        archive becomes free in time.
        """
        key = (compute, arguments)
        with self._lock:
            if key in self._answers:
                return self._get_kept_answer_and_mark_used(key)  # type: ignore[no-any-return]
            lock = self._locks.setdefault(key, threading.Lock())
        if not self._waiting.acquire(blocking=False):
            raise _build_busy_error()
        try:
            with lock:  # concurrent readers of the same answer wait for the first one
                return self._compute_answer_unless_kept(key, compute, arguments)
        except BaseException as error:
            damaged = isinstance(error, FailureError | pl.exceptions.PolarsError) and not isinstance(error, BusyError)
            with self._lock:
                self._locks.pop(key, None)  # failures are not kept
                self.failed |= damaged
            if damaged and not isinstance(error, FailureError):
                raise FailureError(f"a file changed while it was read: load the page again ({error})") from error
            raise
        finally:
            self._waiting.release()

    def _get_kept_answer_and_mark_used(self, key: Hashable) -> Any:
        """Return the kept answer with this key, and mark it as the one used last.

        The answer that has not been used for the longest time is dropped first.
        """
        self._answers.move_to_end(key)
        return self._answers[key]

    def _compute_answer_unless_kept(
        self, key: Hashable, compute: Callable[..., ResultT], arguments: Sequence[Hashable]
    ) -> ResultT:
        """Compute an answer and keep it, unless another reader has done so meanwhile."""
        with self._lock:
            if key in self._answers:
                return self._get_kept_answer_and_mark_used(key)  # type: ignore[no-any-return]
        with self._borrow_connection() as opened:
            answer, left_out = compute_without_damaged_runs(opened, compute, arguments)
        with self._lock:
            self._answers[key] = answer
            self._left_out[key] = left_out
            self.failed |= bool(left_out)
            while len(self._answers) > MAX_ANSWERS:
                oldest_key = self._answers.popitem(last=False)[0]
                self._locks.pop(oldest_key, None)
                self._left_out.pop(oldest_key, None)
        return answer

    def list_left_out(self, compute: Callable[..., object], *arguments: Hashable) -> tuple[str, ...]:
        """List a line for each run that a kept answer leaves out because a file of the run is damaged."""
        return self._left_out.get((compute, arguments), ())

    @contextmanager
    def _borrow_connection(self) -> Iterator[OpenArchive]:
        try:
            opened = self._free.get(timeout=BUSY_SECONDS)
        except Empty:
            raise _build_busy_error() from None
        try:
            yield opened
        finally:
            self._free.put(opened)

    def close(self) -> None:
        """Free the memory and the temporary files of the snapshot."""
        self._finalizer()


def compute_without_damaged_runs(
    opened: OpenArchive, compute: Callable[..., ResultT], arguments: Sequence[Hashable]
) -> tuple[ResultT, tuple[str, ...]]:
    """Return ``compute(opened, *arguments)``, and a line for each run that it leaves out.

    A run is left out if ``compute`` met a damaged file of it. Raises the errors of ``compute``; if it raises a
    ``RequestError`` because a run is left out, the error about the damaged file is raised instead.
    """
    damaged: dict[str, FailureError] = {}
    sound = opened
    while True:
        try:
            return compute(sound, *arguments), tuple(error.for_command_line for error in damaged.values())
        except FailureError as error:
            named = _RUN_FOLDER.search(str(error))
            if named is None or named[1] in damaged or len(damaged) == MAX_DAMAGED_RUNS:
                raise
            damaged[named[1]] = error
        except RequestError as error:
            if damaged:
                raise next(iter(damaged.values())) from error
            raise
        finally:
            if sound is not opened:
                sound.close()
        sound = opened.without_runs(damaged)


def _build_busy_error() -> BusyError:
    return BusyError("the server is busy with other requests: try again in a moment")


def _close_all(archives: Sequence[OpenArchive]) -> None:
    for opened in archives:
        opened.close()


class StillOpeningError(Exception):
    """The error for an archive that cannot be read yet, because it is being opened for the first time."""


class SnapshotService:
    """A service that keeps the current snapshot of an archive, and replaces the snapshot when the archive changes.

    Several threads may use the service at once.
    """

    def __init__(self, root: PurePath, limits: QueryLimits = QUERY_LIMITS) -> None:
        self._root = root
        self._limits = limits
        self._memory = SnapshotMemory()
        self._snapshot: ArchiveSnapshot | None = None
        self._error: ArenaError | None = None
        self._opening: threading.Thread | None = None
        self._last_checked = 0.0
        self._lock = threading.Lock()

    def expect_change(self) -> None:
        """Look at the archive again when the next snapshot is requested, because this process has changed it."""
        with self._lock:
            self._last_checked = 0.0

    def load_snapshot(self, wait_seconds: float | None = None) -> ArchiveSnapshot | None:
        """Return the current snapshot of the archive or, if opening a changed archive takes long, the previous one.

        ``wait_seconds`` is how long to wait for an archive that is being opened; None stands for the usual time.

        Return None if there is no archive or the archive has no runs. Raises ``FailureError`` for a damaged archive,
        and ``StillOpeningError`` while the archive is being opened for the first time.
        """
        opening = self._start_or_find_opening_if_changed()
        if opening is not None:
            opening.join(REOPEN_WAIT_SECONDS if wait_seconds is None else wait_seconds)
        with self._lock:
            if self._snapshot is None and self._error is not None:
                raise self._error
            if self._snapshot is None and opening is not None and opening.is_alive():
                raise StillOpeningError
            return self._snapshot

    def _start_or_find_opening_if_changed(self) -> threading.Thread | None:
        """Return the thread that opens the changed archive, or None if there is nothing to open.

        If no such thread is running yet, it is started.
        """
        with self._lock:
            if self._opening is not None and self._opening.is_alive():
                return self._opening
            now = time.monotonic()
            if self._snapshot is not None:
                seconds, failed = self._snapshot.seconds, self._snapshot.failed
                pause = FAILED_PAUSE_FACTOR * max(seconds, MIN_FAILED_SECONDS) if failed else seconds
                if now - self._last_checked < CHECK_SECONDS + pause:
                    return None
            self._last_checked = now
            stamp = read_archive_stamp(self._root)
            if self._snapshot is not None and not self._snapshot.failed and self._snapshot.stamp == stamp:
                return None
            self._opening = threading.Thread(
                target=self._open_and_publish_snapshot, args=(stamp,), name="open archive", daemon=True
            )
            self._opening.start()
            return self._opening

    def _open_and_publish_snapshot(self, stamp: Stamp) -> None:
        """Open the archive and make the result, a snapshot or an error, the current one.

        ``stamp`` was read before: if the archive has changed since, it is opened again at the next check.
        """
        content, error = None, None
        try:
            if marker.read_marker_content(self._root) is not None:
                content = ArchiveSnapshot(self._root, self._limits, self._memory, stamp)
                if not content.run_ids and not content.damaged:
                    content.close()
                    content = None
        except ArenaError as raised:
            error = raised
        with self._lock:
            self._snapshot, self._error = content, error

    def close(self) -> None:
        """Free the memory and the temporary files of the snapshots."""
        with self._lock:
            content, self._snapshot = self._snapshot, None
        if content is not None:
            content.close()
