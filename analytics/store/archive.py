"""The store of runs: a set of files that only grows, each named by its content. No log, no order, no lock.

A game is a function of its run and its number, so two writers of the same games write the same rows. A file of a table
holds an aligned range of units, and its name says which (``ranges``). Readers use a range once its file in ``games``
exists, which is written last. So any number of writers, on one machine or many, need nothing but the names, and no
reader opens the files that a crash left.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath

from msgspec import structs

from analytics.store import marker
from analytics.store.files.backend import DEFAULT_ARCHIVE, FileStatus, explain_errors, format_archive_option
from analytics.store.files.local_files import find_backend
from analytics.store.labels import find_stored_label_or_keep_text
from analytics.store.ranges import (
    FileSlice,
    Range,
    Ranges,
    StoredRange,
    merge_ranges,
    parse_file_names,
    select_effective_derived,
    select_effective_slices,
)
from analytics.store.records import (
    RESTORE_REMEDY,
    RUN_ID,
    RecordError,
    RunRecord,
    StoredRecord,
    SweepJob,
    T,
    encode_record,
    load_record,
    parse_record_file,
)
from analytics.store.schema import SCHEMA_VERSION
from quarto.errors import Advice, FailureError, NotFoundError, RequestError, describe_nearest_name

WRITER_POLL_SECONDS = 0.05
PRESENCE_CHECK_SECONDS = 10.0  # between checks whether a store still has the archive, because each check is a request
MAX_RUN_NUMBER = 1 << 62  # a greater number in a record is ignored
RECORD_NAME = re.compile(rf"{RUN_ID.pattern}\.json")
LISTING_ATTEMPTS = 5  # attempts, if a file that was cut is removed after it was listed
GAMES_FOLDER = "games"  # the table whose files decide which ranges readers use

REPLAY_REMEDY = "restore them from a copy, or give the command of the run (see {}) again, which plays them"

FORMAT_REMEDY = "'qarena archive upgrade' brings it there, or says which program is needed"
ExtentFilter = Callable[[str], bool]  # whether an extent of a derived table is enough


def is_any_extent(extent: str) -> bool:
    """Return True, because any extent of a derived table is enough."""
    del extent
    return True


def check_record_format(record: RunRecord) -> RunRecord:
    """Return the record, or raise ``RequestError`` if its format is not the one that this program reads and writes."""
    if record.schema_version != SCHEMA_VERSION:
        raise RequestError(
            f"run {record.run_id} has format {record.schema_version}, and this program reads and writes format "
            f"{SCHEMA_VERSION}: {FORMAT_REMEDY}, or leave the run out"
        )
    return record


class VanishedError(FailureError):
    """The error for a file that was removed after it was listed, before a slice of it could be read."""


class ArchiveStore:
    """An archive of games. It keeps no files open, so any number of processes may use the same archive at once.

    ``root`` is a local folder or the URL of a prefix; ``backend`` reads and writes the files below ``root``.
    """

    def __init__(self, root: PurePath) -> None:
        self.root = root
        self.backend = find_backend(root)
        # By table and run: the files by the first three parts of their names.
        self._files: dict[tuple[str, str], dict[tuple[int, int, int], StoredRange]] = {}
        self._slices: dict[tuple[str, FileSlice], StoredRange] = {}  # the ranges of slices, by run and slice
        self._cut_files: dict[tuple[str, StoredRange], StoredRange] = {}  # by run and range of the slice
        self._look_again = time.monotonic() + (0.0 if isinstance(root, Path) else PRESENCE_CHECK_SECONDS)

    @staticmethod
    def open(root: PurePath, create: bool = False) -> ArchiveStore:
        """Open the archive at ``root``; with ``create``, make it there first if the folder is empty or absent.

        Raises ``RequestError`` if ``root`` is not an archive, if it has another schema version, or (with ``create``) if
        the archive cannot be written to.
        """
        marker.ensure_archive(root, create)
        return ArchiveStore(root)

    def format_command(self, command: str) -> str:
        """Format a command of ``qarena`` for a message, in quotes and with the option that names this archive.

        The default archive needs no option.
        """
        return f"'qarena {command}{format_archive_option(self.root)}'"

    def format_call(self, function: str, *arguments: str) -> str:
        """For messages in Python, format a call of a function in ``runners`` with this archive as its first argument.

        The default archive is left out. ``arguments`` are the keyword arguments as they are written, such as
        ``choices=True``.
        """
        root = [] if self.root == DEFAULT_ARCHIVE else [repr(str(self.root))]
        return f"runners.{function}({', '.join([*root, *arguments])})"

    # Tables: which ranges of units readers use, and their files.

    def folder(self, table: str, run_id: str) -> PurePath:
        """Return the folder that holds a run's files for one table, such as ``games``.

        Raises ``ValueError`` for a malformed run id.
        """
        if not RUN_ID.fullmatch(run_id):
            raise ValueError(f"run_id {run_id!r} is not 12 lower-case hex digits")
        return self.root / table / f"run={run_id}"

    def list_ids_of_runs_with_games(self) -> list[str]:
        """List the ids of the runs that have a folder of games, sorted."""
        with explain_errors("list", self.root / GAMES_FOLDER):
            names = self.backend.list_names(self.root / GAMES_FOLDER)
        run_ids = (name.removeprefix("run=") for name in names if name.startswith("run="))
        return sorted(filter(RUN_ID.fullmatch, run_ids))

    def list_files(self, table: str, run_id: str) -> list[StoredRange]:
        """List all files of a run's table, in no particular order, including files that readers do not use.

        Readers do not use a file if other files hold all its units, or if it was computed from games that the run does
        not have. Files whose names do not look like those of a table's files are left out.
        """
        folder = self.folder(table, run_id)
        with explain_errors("list", folder):
            return parse_file_names(self.backend.list_names(folder))

    def list_file_statuses(self, table: str, run_id: str) -> dict[str, FileStatus]:
        """Return the status of each file in the folder of a run's table, keyed by the file's name."""
        folder = self.folder(table, run_id)
        with explain_errors("list", folder):
            return dict(self.backend.list_statuses(folder))

    def list_effective_ranges(
        self, run_id: str, table: str = GAMES_FOLDER, is_sufficient_extent: ExtentFilter = is_any_extent
    ) -> Ranges:
        """List the ranges of a run's table that readers use, in ascending order.

        The ranges are disjoint: if several files hold a unit, readers use one of them. Of a derived table (one that is
        computed from the games), readers use only files that match the run's games and whose extent (how much of the
        games a file holds) satisfies ``is_sufficient_extent``. Raises ``FailureError`` if the ranges cannot be listed.
        """
        attempts = 1
        while True:
            files = self.list_files(table, run_id)
            try:
                return self.select_effective(
                    run_id, table, frozenset(filter(is_sufficient_extent, {file.extent for file in files})), files
                )
            except VanishedError:  # others have written the slices as files, and removed the file that was cut
                if attempts == LISTING_ATTEMPTS:
                    raise
            attempts += 1
            self.forget_cached_listings()

    def select_effective(
        self, run_id: str, table: str, extents: frozenset[str], files: Sequence[StoredRange]
    ) -> Ranges:
        """Select the ranges that readers use from ``files``, which are all files of a run's table.

        ``list_effective_ranges`` says which ranges these are. If the table is computed from the games, only files whose
        extent is in ``extents`` are considered.
        """
        if table == GAMES_FOLDER:
            return Ranges(self._find_or_compute_stored_range(run_id, piece) for piece in select_effective_slices(files))
        return select_effective_derived(
            (file for file in files if file.extent in extents), self.list_effective_ranges(run_id)
        )

    def _find_or_compute_stored_range(self, run_id: str, piece: FileSlice) -> StoredRange:
        """Return the range of games in ``piece``, which is a whole file or a slice of a file.

        The fingerprint of a slice is computed from its games. Raises ``FailureError`` if the sliced file is damaged, or
        if its run has no record.
        """
        if piece.is_whole:
            return piece.file
        if (run_id, piece) not in self._slices:
            from analytics.store.table_files import load_games  # most archives need not load what reads tables

            line = self.load_run(run_id).unit_line
            try:
                paths = [
                    self.find_path_of_containing_file(table, run_id, piece.file) for table in (GAMES_FOLDER, "plies")
                ]
                games = load_games(self.backend, *paths).select_units(line, piece.first, piece.end)
            except FileNotFoundError as error:
                path = error.filename or error
                raise VanishedError(f"{path} is missing: see {self.format_command('archive verify')}") from error
            stored = StoredRange(piece.first, piece.end, games.fingerprint)
            self._cut_files[run_id, stored] = piece.file
            self._slices[run_id, piece] = stored
        return self._slices[run_id, piece]

    def resolve_slice_to_file(self, run_id: str, stored: StoredRange) -> StoredRange:
        """Return the file of games from which ``stored`` was cut, or ``stored`` itself if it is a whole file."""
        return self._cut_files.get((run_id, stored), stored)

    def list_covered_ranges(self, run_id: str) -> list[Range]:
        """Return the units of a run that are stored, merged into as few ranges as possible.

        Only the names of the run's files are read.
        """
        return merge_ranges(
            (piece.first, piece.end) for piece in select_effective_slices(self.list_files(GAMES_FOLDER, run_id))
        )

    def find_path_of_containing_file(self, table: str, run_id: str, stored: StoredRange) -> PurePath:
        """Find the file of a table that holds the games of a range, and return its path.

        Raises the errors of ``find_containing_file``.
        """
        return self.folder(table, run_id) / self.find_containing_file(table, run_id, stored).name

    def find_containing_file(self, table: str, run_id: str, stored: StoredRange) -> StoredRange:
        """Find the file of a table that holds the games of a range.

        If the range is a slice of a file, that file holds other games too. Raises ``FileNotFoundError`` if there is no
        such file.
        """
        key, games = (table, run_id), self.resolve_slice_to_file(run_id, stored)[:3]
        files = self._files.get(key, {})  # another thread may list the folder too, or forget its listing
        if games not in files:
            # Of several files for one range, the one with the smallest checksum is kept.
            listed = sorted(self.list_files(table, run_id), reverse=True)
            files = self._files[key] = {file[:3]: file for file in listed}
        if games not in files:
            raise FileNotFoundError(f"{self.folder(table, run_id) / stored.games_stem}.*.parquet")
        return files[games]

    def forget_cached_listings(self) -> None:
        """Forget the cached listings, because files may have been replaced since they were listed."""
        self._files.clear()

    def count_games(self, run_id: str) -> int:
        """Count the games of a run. Raises ``FailureError`` if the run has no record."""
        return self.count_games_by_record(self.load_run(run_id))

    def count_games_by_record(self, record: RunRecord) -> int:
        """Count the games of the run that has this record."""
        return self.list_effective_ranges(record.run_id).units * record.unit_line.games_a_pair

    # Records.

    def relative_name(self, path: PurePath) -> str:
        """Return the path of a file relative to the archive's root, with ``/`` between its parts."""
        return path.relative_to(self.root).as_posix()

    def list_files_below(self, folder: str) -> list[PurePath]:
        """List the paths of all files in one of the archive's folders and its subfolders, sorted.

        Raises ``FailureError`` if the folder cannot be listed.
        """
        with explain_errors("list", self.root / folder):
            return sorted(self.backend.list_files_below(self.root / folder))

    def load_record(self, path: PurePath, kind: type[T], remedy: str = RESTORE_REMEDY) -> T:
        """Load a record of type ``kind`` from a JSON file.

        Raises ``FailureError`` if the file cannot be read or is not such a record. In the second case, the message ends
        with ``remedy``, which says what the user can do.
        """
        return load_record(path, kind, remedy, self.backend)

    def run_record_path(self, run_id: str) -> PurePath:
        """Return the path of a run's record."""
        return self.root / "runs" / f"{run_id}.json"

    # Runs.

    def load_runs(self) -> list[RunRecord]:
        """Load the records of all runs, oldest first.

        Raises:
            FailureError: A record is damaged, or a run has games but no record.

        """
        recorded = self.list_recorded_run_ids()
        records = [self.find_run(run_id) for run_id in recorded]
        lost = {*self.list_ids_of_runs_with_games()}.difference(recorded)
        records += [self.load_run(run_id) for run_id in sorted(lost) if self.list_effective_ranges(run_id)]
        return sorted(
            filter(None, records),
            key=lambda record: (record.number, record.begun, record.run_id),
        )

    def list_recorded_run_ids(self) -> list[str]:
        """List the ids of the runs that have a record, even a damaged one, sorted."""
        with explain_errors("list", self.root / "runs"):
            names = self.backend.list_names(self.root / "runs")
        return sorted(name.removesuffix(".json") for name in names if RECORD_NAME.fullmatch(name))

    def find_run(self, run_id: str) -> RunRecord | None:
        """Return the record of a run, or None if the run has no record.

        Raises ``FailureError`` if the record is damaged.
        """
        if not RUN_ID.fullmatch(run_id):
            return None
        path = self.run_record_path(run_id)
        with explain_errors("read", path):
            try:
                content = self.backend.read(path)
            except FileNotFoundError:
                return None
        return self._parse_run(run_id, content)

    def _parse_run(self, run_id: str, content: bytes) -> RunRecord:
        path = self.run_record_path(run_id)
        record = parse_record_file(path, content, RunRecord)
        if record.run_id != run_id:
            raise FailureError(f"{path} is damaged (it is the record of run {record.run_id}): restore it from a copy")
        return record

    def load_run(self, run_id: str) -> RunRecord:
        """Load the record of a run that has games. Raises ``FailureError`` if the record is missing or damaged."""
        record = self.find_run(run_id)
        if record is None:
            raise self.lost_record_error(run_id)
        return record

    def lost_record_error(self, run_id: str) -> FailureError:
        """Return the error for a run that has games but no record."""
        record, folder = self.run_record_path(run_id), self.folder(GAMES_FOLDER, run_id)
        return FailureError(
            f"run {run_id} has games and no record: restore {record} from a copy, or move {folder} away to go on "
            "without it"
        )

    def load_requested_run(self, run_id: str) -> RunRecord:
        """Load the record of a run that a user named. Raises ``NotFoundError`` if there is no such run."""
        record = self.find_run(run_id)
        if record is None:
            raise unknown_run_error(self, run_id, self.list_ids_of_runs_with_games())
        return record

    def compute_next_run_number(self) -> int:
        """Return the number for a run that begins now: at least 1, and greater than the number of any recorded run.

        Numbers record the order in which runs began; times would not do, because the clocks of several machines may
        disagree. Two runs that begin at the same moment may get the same number. Records that cannot be read are
        ignored. Raises ``FailureError`` if the records cannot be listed.
        """
        identity, run_ids = self.backend.encode_absolute_location(self.root), self.list_recorded_run_ids()
        unknown = [run_id for run_id in run_ids if not _run_numbers.get((identity, run_id))]
        contents = self._read_contents_or_empty_bytes([*map(self.run_record_path, unknown)])
        for run_id, content in zip(unknown, contents, strict=True):
            _run_numbers[identity, run_id] = _parse_run_number_or_zero(content)
        return 1 + max((_run_numbers[identity, run_id] for run_id in run_ids), default=0)

    def _read_contents_or_empty_bytes(self, paths: Sequence[PurePath]) -> list[bytes]:
        """Return the contents of files in the order of ``paths``, with empty bytes for a file that cannot be read."""
        try:
            return self.backend.read_all(paths)
        except OSError:
            contents = [b""] * len(paths)
            for index, path in enumerate(paths):
                with suppress(OSError):
                    contents[index] = self.backend.read(path)
            return contents

    def write_run_and_unit_count(self, record: RunRecord) -> None:
        """Store or replace a run's record in one step, with its number of units brought up to date.

        See ``update_run_and_unit_count``, which raises the same errors.
        """
        self.update_run_and_unit_count(record.run_id, lambda _: record)

    def update_run_and_unit_count(self, run_id: str, change: Callable[[RunRecord | None], RunRecord | None]) -> None:
        """Replace a run's record with what ``change`` returns for the present record.

        ``change`` gets None if there is no record; if it returns None, the record stays unchanged. Where the file
        system has locks or the object store has conditional writes, no change by another process or thread is lost:
        either the other writer waits, or ``change`` is called again with the record that the other writer stored. The
        number of units in the new record is brought up to date. Raises ``FailureError`` if the record cannot be written
        or the present one is damaged.
        """

        def change_content(content: bytes | None) -> bytes | None:
            stored = None if content is None else self._parse_run(run_id, content)
            record = change(stored)
            if record is None:
                return None
            held = sum(end - first for first, end in self.list_covered_ranges(run_id))
            record = structs.replace(record, units=max(record.units, held))
            return None if record == stored else _encode_record(record)

        with explain_errors("write to", self.root):
            self.backend.update(self.run_record_path(run_id), self.root / marker.MARKER_NAME, change_content)

    @contextmanager
    def lock_run(self, run_id: str, patience: float = 0.0) -> Iterator[None]:
        """Hold, inside the context, the exclusive right to play a run whose games cannot be repeated identically.

        If another process is playing the run, wait up to ``patience`` seconds for it to finish. If it is still playing
        then, raise ``RequestError``.
        """
        path, last = self.root / "runs" / f"{run_id}.writer", time.monotonic() + patience
        with ExitStack() as stack:
            with explain_errors("write to", path):
                while not stack.enter_context(self.backend.lock(path)):
                    if time.monotonic() > last:
                        raise RequestError(
                            f"another process plays run {run_id}, whose games cannot be repeated: wait until it ends"
                            + ("" if isinstance(path, Path) else f"; if it ended without a word, remove {path}")
                        )
                    time.sleep(WRITER_POLL_SECONDS)
            yield

    def write_file(self, path: PurePath, content: bytes | bytearray | memoryview) -> None:
        """Write a file in one step. Writing the same content again is harmless.

        Raises ``FailureError`` if the file cannot be written, or if the archive was removed: writing would otherwise
        create an archive that holds only this file.
        """
        with explain_errors("write to", self.root):
            self._check_exists()
            self.backend.replace(path, content)

    def _check_exists(self) -> None:
        """Raise ``FailureError`` if the archive was removed.

        A local folder is checked each time, but object storage at most once in ``PRESENCE_CHECK_SECONDS``, because each
        check is a request.
        """
        now = time.monotonic()
        if now < self._look_again:
            return
        if self.backend.status(self.root / marker.MARKER_NAME) is None:
            raise FailureError(
                f"archive {self.root} was removed while in use: remove what is left of it, or name another archive.root"
            )
        if not isinstance(self.root, Path):
            self._look_again = now + PRESENCE_CHECK_SECONDS

    # Sweeps.

    def write_sweep_job(self, job: SweepJob) -> None:
        """Store or replace one job of a sweep in one step. Raises ``FailureError`` if the job cannot be written."""
        self.write_record(self.root / "sweeps" / job.sweep_id / f"{job.job}.json", job)

    def write_record(self, path: PurePath, record: StoredRecord) -> None:
        """Store or replace a record in one step. Raises ``FailureError`` if the record cannot be written."""
        self.write_file(path, _encode_record(record))

    def load_sweep_jobs(self) -> list[SweepJob]:
        """Load the jobs of all sweeps, sorted by sweep and number. Raises ``FailureError`` if a job is damaged."""
        paths = self.list_job_files()
        with explain_errors("read", self.root):
            contents = self.backend.read_all(paths)
        jobs = [
            check_job_location(path, parse_record_file(path, content, SweepJob))
            for path, content in zip(paths, contents, strict=True)
        ]
        return sorted(jobs, key=lambda job: (job.sweep_id, job.job))

    def list_lost_job_files(self, jobs: Iterable[SweepJob]) -> list[PurePath]:
        """List the paths of lost jobs, sorted: jobs that a finished sweep had and that are not in ``jobs``.

        ``jobs`` holds all stored jobs. One job of each finished sweep records how many jobs the sweep had. A sweep that
        was killed has no such record, so a job that is missing from it does not count as lost.
        """
        there, ended = set[tuple[str, int]](), dict[str, int]()
        for job in jobs:
            there.add((job.sweep_id, job.job))
            ended[job.sweep_id] = max(ended.get(job.sweep_id, 0), job.jobs)
        lost = ((sweep, job) for sweep, count in ended.items() for job in range(count) if (sweep, job) not in there)
        return [self.root / "sweeps" / sweep / f"{job}.json" for sweep, job in sorted(lost)]

    def list_job_files(self) -> list[PurePath]:
        """List the paths of all files that are named like the job of a sweep, sorted. Damaged files are included."""
        return [
            path
            for path in self.list_files_below("sweeps")
            if path.suffix == ".json" and path.stem.isdecimal() and path.parent.parent == self.root / "sweeps"
        ]


def _encode_record(record: StoredRecord) -> bytes:
    """Encode a record as bytes.

    Raises ``RequestError`` if the record could not be read back, because it is invalid or too large.
    """
    try:
        return encode_record(record)
    except RecordError as error:
        raise RequestError(f"this cannot be recorded: {error}") from error


# By archive and run: the number in the record, which never changes, or 0 if there was none to read. They are kept
# because a training or a sweep begins thousands of runs, and would otherwise look at all records for each of them.
_run_numbers: dict[tuple[bytes, str], int] = {}


def _parse_run_number_or_zero(content: bytes) -> int:
    """Return the number in the content of a run's record, or 0 if there is no valid number."""
    with suppress(ValueError, AttributeError, RecursionError):
        number = json.loads(content).get("number", 0)
        return number if type(number) is int and 0 <= number <= MAX_RUN_NUMBER else 0
    return 0


def list_newer_run_ids(archive: ArchiveStore) -> list[str]:
    """List, sorted, the ids of the runs that were added to the archive after ``archive`` listed its runs."""
    view_ids = {*archive.list_recorded_run_ids()}
    return [run_id for run_id in ArchiveStore(archive.root).list_recorded_run_ids() if run_id not in view_ids]


def is_agent_of_newer_run(archive: ArchiveStore, label: str) -> bool:
    """Return whether an agent played in a run that was added to the archive after ``archive`` listed its runs."""
    present_archive, records = ArchiveStore(archive.root), list[RunRecord]()
    for run_id in list_newer_run_ids(archive):
        with suppress(FailureError):  # a damaged record names no agent
            records += filter(None, [present_archive.find_run(run_id)])
    stored_label = find_stored_label_or_keep_text(records, label)
    return any(stored_label in record.labels for record in records)


def unknown_run_error(archive: ArchiveStore, run_id: str, run_ids: Iterable[str]) -> NotFoundError:
    """Build the error for a run that is not in an archive, with the most similar of ``run_ids`` as a suggestion."""
    text = f"run {run_id!r} is not in archive {archive.root}"
    if run_id and any(newer_id.startswith(run_id) for newer_id in list_newer_run_ids(archive)):
        return NotFoundError(
            Advice(
                f"{text} as it was when it was opened, and is in its folder now",
                "give the command again",
                "archive.refresh() reads it",
            )
        )
    meant = describe_nearest_name(run_id, run_ids)
    return NotFoundError(
        Advice(
            text,
            f"{meant}{archive.format_command('archive ls')} lists its runs",
            f"{meant}archive.runs() lists its runs",
        )
    )


MAX_NAMED_RUNS = 6  # of those that an ambiguous beginning may mean


def find_run_id(archive: ArchiveStore, digits: str, run_ids: Sequence[str] | None = None) -> str:
    """Return the id of the only run whose id begins with ``digits``, out of ``run_ids`` or of all recorded runs.

    Raises ``NotFoundError`` if there is no such run, and ``RequestError`` if there are several.
    """
    run_ids = archive.list_recorded_run_ids() if run_ids is None else run_ids
    run_id = match_run_id(digits, run_ids)
    if run_id is None:
        raise unknown_run_error(archive, digits, run_ids)
    return run_id


def match_run_id(digits: str, run_ids: Sequence[str]) -> str | None:
    """Return the only one of ``run_ids`` that begins with ``digits``, or None if there is none.

    Raises ``RequestError`` if there are several.
    """
    matches = [run_id for run_id in run_ids if digits and run_id.startswith(digits)]
    if len(matches) > 1:
        more = ", …" if len(matches) > MAX_NAMED_RUNS else ""
        raise RequestError(f"run {digits!r} is one of several: {', '.join(matches[:MAX_NAMED_RUNS])}{more}")
    return matches[0] if matches else None


def find_run_ids(root: PurePath, requested_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the runs in the archive at ``root`` whose ids begin with the requested digits.

    Raises the errors of ``find_run_id`` and, unless nothing is requested, those of ``ArchiveStore.open``.
    """
    return tuple(find_run_id(ArchiveStore.open(root), digits) for digits in requested_ids)


def select_requested_or_all_run_ids(archive: ArchiveStore, requested_ids: Sequence[str]) -> list[str]:
    """Return the ids of the requested runs without duplicates, or the ids of all runs if none is requested.

    The first digits of an id are enough. Raises ``RequestError`` for a run that is not in the archive, and for digits
    with which several ids begin.
    """
    stored_ids = archive.list_ids_of_runs_with_games()
    run_ids = [find_run_id(archive, digits, stored_ids) for digits in requested_ids]
    return list(dict.fromkeys(run_ids)) or stored_ids


def load_sweep_job(archive: ArchiveStore, path: PurePath) -> SweepJob:
    """Load the job of a sweep from a file. Raises ``FailureError`` if the file is damaged or misplaced."""
    return check_job_location(path, archive.load_record(path, SweepJob))


def check_job_location(path: PurePath, job: SweepJob) -> SweepJob:
    """Return ``job``, which was loaded from ``path``.

    Raises ``FailureError`` if ``path`` is not the path of this job.
    """
    if (job.sweep_id, str(job.job)) != (path.parent.name, path.stem):
        raise FailureError(
            f"{path} is damaged (it is job {job.job} of sweep {job.sweep_id}): restore it from a copy, or move it away "
            "to go on without it"
        )
    return job


# What a run has lost.


def list_lost_ranges(record: RunRecord, ranges: Ranges) -> list[Range]:
    """List the ranges of units that a run had when its record was written but lacks now.

    The record says how many units there were, not which. So if the run has fewer units now, all gaps in ``ranges``, the
    ranges that it has now, count as lost. Otherwise the list is empty.
    """
    if ranges.units >= record.units:
        return []
    return ranges.list_gaps(max(record.units, int(ranges.ends[-1]) if len(ranges) else 0))


def check_nothing_lost(archive: ArchiveStore, run_id: str, record: RunRecord | None) -> None:
    """Raise ``FailureError`` if a run has lost games since ``record`` was written; without a record, do nothing."""
    lost = list_lost_ranges(record, archive.list_effective_ranges(run_id)) if record else []
    if lost:
        first, end = lost[0]
        raise FailureError(
            f"{archive.folder('games', run_id)} lacks units {first} to {end - 1}, which were there, and their games "
            f"with them: {REPLAY_REMEDY.format(archive.format_command('archive ls'))}"
        )


def has_requested_units(record: RunRecord, ranges: Ranges) -> bool:
    """Return whether ``ranges`` hold all units that the user requested for a run.

    The result is always False for imported games, which nobody requested.
    """
    return "imported" not in record.spec and not ranges.list_gaps(record.end_unit)
