"""The append-only store of runs: folders and files, and the protocol by which a shard of games is committed.

A table file counts if and only if a commit names it. Commits of a run are numbered 0, 1, 2, ...; each is created whole
and only if its number is free, after its writer has read all earlier ones. So with any number of writers, on one
machine or many, no pair of games is ever in the archive twice, and no reader opens the files that a crash left.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from threading import Lock

from msgspec import structs

from analytics.statistics.tally import Tally, summed, tally_of
from analytics.store import locks
from analytics.store.atomic import TEMPORARY, create, explained, make_folder
from analytics.store.blocks import Table, in_order, tables
from analytics.store.json_records import RESTORE, JsonRecord, RecordError, dump, load, parse, save
from analytics.store.pending import PendingFiles
from analytics.store.ranges import Range, merged, overlaps
from analytics.store.records import COMMIT, RUN_ID, Commit, RunRecord, Slice, StoredFile, SweepJob, joined
from analytics.store.schema import SCHEMA_VERSION, TABLES
from quarto.batch import Block
from quarto.errors import FailureError, RequestError, nearest

MARKER = "archive.json"
FORMAT = "quarto-arena archive"


class Marker(JsonRecord, frozen=True, forbid_unknown_fields=False):
    """The file that makes a folder an archive. One of another schema version may hold other fields too."""

    format: str
    schema_version: int


def now() -> str:
    """The current time as the archive stores it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def readable(record: RunRecord) -> RunRecord:
    """The record. Raises ``RequestError`` if its run was written by a program with another schema."""
    if record.schema_version != SCHEMA_VERSION:
        raise RequestError(
            f"run {record.run_id} has schema version {record.schema_version}, this program reads {SCHEMA_VERSION}: use "
            "the program that wrote it, or leave the run out"
        )
    return record


class _Ledger:
    """The commits of one run that were read so far: their numbers, and the pairs that they hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = Lock()
        self.numbers: set[int] = set()
        self.ranges: dict[int, list[Range]] = {}
        self._free = 0  # no lower number is

    @property
    def next_number(self) -> int:
        """The least free number: so a shard that is played again takes the place of a commit that was lost."""
        while self._free in self.numbers:
            self._free += 1
        return self._free

    def refresh(self) -> None:
        """Read the commits that are new since the last call: a commit never changes."""
        for path in commit_files(self.folder):
            if int(path.stem) not in self.numbers:
                self.learn(commit_in(path), int(path.stem))

    def learn(self, commit: Commit, number: int) -> None:
        self.numbers.add(number)
        for part in commit.slices:
            known = self.ranges.get(part.pairing, [])
            self.ranges[part.pairing] = merged([*known, (part.first_pair, part.end_pair)])

    def holds_any(self, slices: Sequence[Slice]) -> bool:
        return any(overlaps(self.ranges.get(part.pairing, []), part.first_pair, part.end_pair) for part in slices)


def covered_by(commits: Iterable[Commit]) -> dict[int, list[Range]]:
    """The pairs in commits: by pairing, sorted ranges ``(first_pair, end_pair)`` that do not touch."""
    ranges: dict[int, list[Range]] = {}
    for part in (part for commit in commits for part in commit.slices):
        ranges.setdefault(part.pairing, []).append((part.first_pair, part.end_pair))
    return {pairing: merged(ranges[pairing]) for pairing in sorted(ranges)}


def commit_files(folder: Path) -> list[Path]:
    """The files in a folder that are named like commits, by number. Raises ``FailureError`` if it cannot be listed."""
    with explained("list", folder):
        paths = list(folder.iterdir()) if folder.is_dir() else []
    return sorted((path for path in paths if COMMIT.fullmatch(path.name)), key=lambda path: int(path.stem))


def commit_in(path: Path) -> Commit:
    """The commit in a file. Raises ``FailureError`` for a damaged one, or one that has another number."""
    commit = load(path, Commit)
    if commit.shard != int(path.stem):
        raise FailureError(f"{path} is damaged (it says shard {commit.shard}): {RESTORE}")
    return commit


class Archive:
    """An archive. It holds no open files: any number of processes may use one at the same time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ledgers: dict[str, _Ledger] = {}

    @staticmethod
    def open(root: Path, create: bool = False) -> Archive:
        """The archive in folder ``root``; with ``create`` it is made there if the folder is empty or absent.

        Raises ``RequestError`` when ``root`` is not an archive, is one of another schema version, or (with ``create``)
        cannot be written to.
        """
        root = Path(root)
        _refuse_file(root)
        marker = root / MARKER
        if not marker.exists():
            if not create:
                raise RequestError(f"{_no_archive(root)}: run an experiment first, or name another folder")
            check_place(root)
            _make(root)
        _check_marker(marker)
        if create and not os.access(root, os.W_OK | os.X_OK):
            raise _not_writable(root)
        return Archive(root)

    # Paths.

    def folder(self, table: str, run_id: str) -> Path:
        """The folder of a run's files in ``games``, ``plies``, ``commits`` ... Raises ``ValueError`` for no run id."""
        if not RUN_ID.fullmatch(run_id):
            raise ValueError(f"run_id {run_id!r} is not 12 lower-case hex digits")
        return self.root / table / f"run={run_id}"

    def file(self, table: str, run_id: str, stored: StoredFile) -> Path:
        """The path of a stored file of a table."""
        return self.folder(table, run_id) / stored.file

    # Runs.

    def runs(self) -> list[RunRecord]:
        """All run records, oldest first. Raises ``FailureError`` for a damaged one."""
        records = [record for record in map(self.run, self.recorded()) if record]
        return sorted(
            records, key=lambda record: (record.number, datetime.fromisoformat(record.created), record.run_id)
        )

    def recorded(self) -> list[str]:
        """The runs that have a record, damaged or not, sorted."""
        return sorted(path.stem for path in self.root.glob("runs/*.json") if RUN_ID.fullmatch(path.stem))

    def run(self, run_id: str) -> RunRecord | None:
        """The record of one run, or None. Raises ``FailureError`` for a damaged one."""
        path = self.root / "runs" / f"{run_id}.json"
        if not RUN_ID.fullmatch(run_id) or not path.exists():
            return None
        record = load(path, RunRecord)
        if record.run_id != run_id:
            raise FailureError(f"{path} is damaged (it is the record of run {record.run_id}): restore it from a copy")
        return record

    def save_run(self, record: RunRecord) -> None:
        """Store or replace a run's record in one step. Raises ``FailureError`` when that cannot be written."""
        self.update_run(record.run_id, lambda _: record)

    def update_run(self, run_id: str, change: Callable[[RunRecord | None], RunRecord | None]) -> None:
        """Replace a run's record by what ``change`` makes of the one that is there; None leaves it as it is.

        No other process or thread changes a record meanwhile (where the file system has locks). The new one also says
        how many commits there are. Raises ``FailureError`` when it cannot be written or the old one is damaged.
        """
        with explained("write to", self.root), locks.held(self.root / MARKER):
            known = self.run(run_id)
            record = change(known)
            if record is not None:
                there = max((number + 1 for number in self.numbers(run_id)), default=0)
                record = structs.replace(record, commits=max(record.commits, there))
            if record is not None and record != known:
                save(self.root / "runs" / f"{run_id}.json", record)

    # Commits.

    def run_ids(self) -> list[str]:
        """The runs that have a folder of commits, sorted."""
        names = (path.name.removeprefix("run=") for path in self.root.glob("commits/run=*") if path.is_dir())
        return sorted(filter(RUN_ID.fullmatch, names))

    def numbers(self, run_id: str) -> list[int]:
        """The numbers of the commits of a run, damaged or not, ascending."""
        return [int(path.stem) for path in commit_files(self.folder("commits", run_id))]

    def commits(self, run_id: str) -> list[Commit]:
        """The commits of a run by number. Raises ``FailureError`` naming a file that is not a whole commit."""
        return [commit_in(path) for path in commit_files(self.folder("commits", run_id))]

    def covered(self, run_id: str) -> dict[int, list[Range]]:
        """The pairs a run holds: by pairing, sorted ranges ``(first_pair, end_pair)`` that do not touch."""
        return covered_by(self.commits(run_id))

    def tallies(self, run_id: str) -> dict[int, Tally]:
        """The tallies of a run's games by pairing, from the commits alone."""
        parts = (part for commit in self.commits(run_id) for part in commit.slices)
        return dict(sorted(summed((part.pairing, part.tally) for part in parts).items()))

    def committed_files(self, table: str) -> list[Path]:
        """All files of ``games`` or ``plies`` that commits name."""
        return [
            self.file(table, run_id, getattr(commit, table))
            for run_id in self.run_ids()
            for commit in self.commits(run_id)
        ]

    def commit(self, run_id: str, blocks: Sequence[Block], pairings: Sequence[tuple[str, str]]) -> Commit | None:
        """Write ``blocks`` as one shard and commit it; may be called from several threads.

        ``pairings`` holds the labels of each pairing of the run. Returns None, and leaves nothing, when some pair of
        ``blocks`` is in the archive already. Raises ``FailureError`` when the disk refuses or a file was removed
        meanwhile: then the shard may be committed if the disk failed in the last step, else it is not, and nothing of
        it counts. Raises ``ValueError`` when blocks overlap one another.
        """
        blocks = in_order(blocks)
        slices = tuple(Slice(block.pairing, block.first_pair, block.pairs, tally_of(block)) for block in blocks)
        if any(a.pairing == b.pairing and a.end_pair > b.first_pair for a, b in pairwise(slices)):
            raise ValueError("two blocks of a shard hold the same pair")
        slices = joined(slices)
        ledger = self._ledgers.setdefault(run_id, _Ledger(self.folder("commits", run_id)))
        with ledger.lock:
            ledger.refresh()
            if ledger.holds_any(slices):
                return None
            name = f"part-{ledger.next_number:06d}-{uuid.uuid4().hex}.parquet"
        with explained("write to", self.root), PendingFiles() as pending:
            encoded = zip(TABLES, tables(blocks, pairings), strict=True)
            games, plies = (store(pending, self.folder(table, run_id) / name, content) for table, content in encoded)
            make_folder(ledger.folder)
            with ledger.lock:
                return _publish(ledger, slices, games, plies, pending)

    # Sweeps.

    def save_sweep_job(self, job: SweepJob) -> None:
        """Store or replace one job of a sweep in one step. Raises ``FailureError`` when that cannot be written."""
        save(self.root / "sweeps" / job.sweep_id / f"{job.job}.json", job)

    def sweep_jobs(self) -> list[SweepJob]:
        """All jobs of all sweeps, by sweep and number. Raises ``FailureError`` for a damaged one."""
        return sorted(map(sweep_job, self.sweep_files()), key=lambda job: (job.sweep_id, job.job))

    def sweep_files(self) -> list[Path]:
        """The files that are named like jobs of sweeps, damaged or not, sorted."""
        return sorted(path for path in self.root.glob("sweeps/*/*.json") if path.stem.isdecimal())


def unknown_run(archive: Archive, run_id: str, known: Iterable[str]) -> RequestError:
    """The error for a run that is not in an archive; ``known`` are those that could be meant."""
    return RequestError(f"run {run_id!r} is not in archive {archive.root}{nearest(run_id, known)}")


def chosen_runs(archive: Archive, wanted: Sequence[str]) -> list[str]:
    """The runs in ``wanted``, or all if it is empty. Raises ``RequestError`` for one that is not in the archive."""
    known = archive.run_ids()
    for run_id in wanted:
        if run_id not in known:
            raise unknown_run(archive, run_id, known)
    return list(dict.fromkeys(wanted)) or known


def sweep_job(path: Path) -> SweepJob:
    """The job of a sweep in a file. Raises ``FailureError`` for a damaged one, or one that belongs elsewhere."""
    job = load(path, SweepJob)
    if (job.sweep_id, str(job.job)) != (path.parent.name, path.stem):
        raise FailureError(
            f"{path} is damaged (it is job {job.job} of sweep {job.sweep_id}): restore it from a copy, or move it away "
            "to go on without it"
        )
    return job


def store(pending: PendingFiles, path: Path, table: Table) -> StoredFile:
    """Write a table's file, whole or not at all. Raises ``OSError``."""
    pending.add(path, table.content)
    return table.stored(path.name)


def _publish(
    ledger: _Ledger, slices: tuple[Slice, ...], games: StoredFile, plies: StoredFile, pending: PendingFiles
) -> Commit | None:
    """Create the next free commit, unless one that others created meanwhile holds some of our pairs."""
    while True:
        number = ledger.next_number
        path = ledger.folder / f"{number:06d}.json"
        commit = Commit(number, games, plies, slices, now())
        if create(path, dump(commit), pending.check):
            ledger.learn(commit, number)
            return commit
        pending.refused()
        ledger.learn(commit_in(path), number)
        if ledger.holds_any(slices):
            pending.drop()
            return None


def _refuse_file(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise RequestError(f"archive {root} is a file: name a folder")


def check_place(root: Path) -> None:
    """Raises ``RequestError`` if no archive can be in ``root``: it is a file, or a folder with other files in it."""
    _refuse_file(root)
    if (root / MARKER).exists() or not root.exists():
        return
    try:
        foreign = any(not path.name.startswith(TEMPORARY) for path in root.iterdir())
    except PermissionError as error:
        raise _not_writable(root) from error
    if foreign and not (root / MARKER).exists():  # another process may have made the archive just now
        raise RequestError(f"{_no_archive(root)} but has other files in it: name an empty folder or an archive")


def archive_around(path: Path) -> Path | None:
    """The archive that ``path`` is in (or is), whichever archive it may be; None if it is in no archive."""
    place = path.resolve()
    return next((folder for folder in (place, *place.parents) if _is_marked(folder)), None)


def _is_marked(folder: Path) -> bool:
    """Whether a folder has an archive's marker. Other programs' files of that name are none, unless unreadable."""
    try:
        content = (folder / MARKER).read_bytes()
    except OSError:
        return (folder / MARKER).exists()
    return FORMAT.encode() in content or (folder / "commits").is_dir()


def _make(root: Path) -> None:
    try:
        make_folder(root)
        create(root / MARKER, dump(Marker(FORMAT, SCHEMA_VERSION)))  # never replaced: writers lock it
    except PermissionError as error:
        raise _not_writable(root) from error
    except OSError as error:
        raise RequestError(
            f"no archive can be made in {root}: {error.strerror}; choose another archive.root"
        ) from error


def _check_marker(marker: Path) -> None:
    try:
        found = parse(marker.read_bytes(), Marker)
    except (OSError, RecordError) as error:
        raise RequestError(f"{marker} cannot be read ({error}): is this an archive of yours?") from error
    if found.format != FORMAT:
        raise RequestError(f"{marker} has format {found.format!r}, not {FORMAT!r}: name another folder")
    if found.schema_version != SCHEMA_VERSION:
        raise RequestError(
            f"archive {marker.parent} has schema version {found.schema_version}, this program reads and writes "
            f"{SCHEMA_VERSION}: use the program that wrote it, or name another folder"
        )


def _no_archive(root: Path) -> str:
    return f"{root} is not an archive (it has no {MARKER})" if root.exists() else f"there is no archive at {root}"


def _not_writable(root: Path) -> RequestError:
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    status = existing.stat()
    return RequestError(
        f"archive {root} is not writable by user id {os.geteuid()} ({existing} has mode {status.st_mode & 0o777:o}, "
        f"owner {status.st_uid}): change its permissions or choose another archive.root"
    )
