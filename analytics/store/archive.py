"""The append-only store of runs: folders and files, and the protocol by which a shard of games is committed.

A table file counts if and only if a commit names it. Commits of a run are numbered 0, 1, 2, ...; each is created whole
and only if its number is free, after its writer has read all earlier ones. So with any number of writers, on one
machine or many, no pair of games is ever in the archive twice, and no reader opens the files that a crash left.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import PurePath

from msgspec import structs

from analytics.files.atomic import explained
from analytics.files.backends import backend_of
from analytics.files.pending import PendingFiles
from analytics.statistics.tally import Tally, tally_of
from analytics.store import checkpoints, marker
from analytics.store.blocks import Table, in_order, tables
from analytics.store.commit_log import CommitLog, Ledger, LogPlace, publish, read_log, write_checkpoint
from analytics.store.json_records import (
    RESTORE,
    StoredRecord,
    T,
    dump,
    load,
    parsed,
)
from analytics.store.ranges import Range
from analytics.store.records import COMMIT, RUN_ID, Commit, RunRecord, Slice, StoredFile, SweepJob, joined
from analytics.store.schema import SCHEMA_VERSION, TABLES
from quarto.batch import Block
from quarto.errors import FailureError, RequestError, did_you_mean


def readable(record: RunRecord) -> RunRecord:
    """The record. Raises ``RequestError`` if its run was written by a program with another schema."""
    if record.schema_version != SCHEMA_VERSION:
        raise RequestError(
            f"run {record.run_id} has schema version {record.schema_version}, this program reads {SCHEMA_VERSION}: use "
            "the program that wrote it, or leave the run out"
        )
    return record


def commit_files(archive: Archive, folder: PurePath) -> list[PurePath]:
    """The files in a folder that are named like commits, by number. Raises ``FailureError`` if it cannot be listed."""
    with explained("list", folder):
        names = filter(COMMIT.fullmatch, archive.backend.names(folder))
    return [folder / name for name in sorted(names, key=lambda name: int(name[:-5]))]


class Archive:
    """An archive. It holds no open files: any number of processes may use one at the same time.

    ``root`` is a folder of this machine or the URL of a prefix; ``backend`` reads and writes what is below.
    """

    def __init__(self, root: PurePath) -> None:
        self.root = root
        self.backend = backend_of(root)
        self.may_checkpoint = True  # ``log`` may write
        self._ledgers: dict[str, Ledger] = {}
        self._logs: dict[str, CommitLog] = {}  # by run, as they were read last

    @staticmethod
    def open(root: PurePath, create: bool = False) -> Archive:
        """The archive at ``root``; with ``create`` it is made there if the folder is empty or absent.

        Raises ``RequestError`` when ``root`` is not an archive, is one of another schema version, or (with ``create``)
        cannot be written to.
        """
        marker.require(root, create)
        return Archive(root)

    # Locations, and the records at them.

    def folder(self, table: str, run_id: str) -> PurePath:
        """The folder of a run's files in ``games``, ``plies``, ``commits`` ... Raises ``ValueError`` for no run id."""
        if not RUN_ID.fullmatch(run_id):
            raise ValueError(f"run_id {run_id!r} is not 12 lower-case hex digits")
        return self.root / table / f"run={run_id}"

    def file(self, table: str, run_id: str, stored: StoredFile) -> PurePath:
        """The location of a stored file of a table."""
        return self.folder(table, run_id) / stored.file

    def name_of(self, path: PurePath) -> str:
        """The name of a file below the archive's root, with ``/`` between its parts."""
        return path.relative_to(self.root).as_posix()

    def entries(self, folder: PurePath) -> list[PurePath]:
        """The names directly in a folder, in any order. Raises ``FailureError`` if it cannot be listed."""
        with explained("list", folder):
            return self.backend.entries(folder)

    def files_below(self, folder: str) -> list[PurePath]:
        """All files in one of the archive's folders, sorted. Raises ``FailureError`` if it cannot be listed."""
        with explained("list", self.root / folder):
            return sorted(self.backend.below(self.root / folder))

    def load(self, path: PurePath, kind: type[T], remedy: str = RESTORE) -> T:
        """The record in a JSON file. Raises ``FailureError`` naming the file if it cannot be read or is not one."""
        return load(path, kind, remedy, self.backend)

    def load_all(self, paths: Sequence[PurePath], kind: type[T], check: Callable[[PurePath, T], T]) -> list[T]:
        """The records in several files, in their order, each as ``check`` returns it. Raises as ``load`` does."""
        with explained("read", self.root):
            contents = self.backend.read_all(paths)
        return [check(path, parsed(path, content, kind)) for path, content in zip(paths, contents, strict=True)]

    def record_file(self, run_id: str) -> PurePath:
        """The location of a run's record."""
        return self.root / "runs" / f"{run_id}.json"

    # Runs.

    def runs(self) -> list[RunRecord]:
        """All run records, oldest first. Raises ``FailureError`` for a damaged one."""
        records = [record for record in map(self.run, self.recorded()) if record]
        return sorted(
            records, key=lambda record: (record.number, datetime.fromisoformat(record.created), record.run_id)
        )

    def recorded(self) -> list[str]:
        """The runs that have a record, damaged or not, sorted."""
        names = (path for path in self.entries(self.root / "runs") if path.suffix == ".json")
        return sorted(path.stem for path in names if RUN_ID.fullmatch(path.stem))

    def run(self, run_id: str) -> RunRecord | None:
        """The record of one run, or None. Raises ``FailureError`` for a damaged one."""
        if not RUN_ID.fullmatch(run_id):
            return None
        path = self.record_file(run_id)
        with explained("read", path):
            try:
                content = self.backend.read(path)
            except FileNotFoundError:
                return None
        return self._record(run_id, content)

    def _record(self, run_id: str, content: bytes) -> RunRecord:
        path = self.record_file(run_id)
        record = parsed(path, content, RunRecord)
        if record.run_id != run_id:
            raise FailureError(f"{path} is damaged (it is the record of run {record.run_id}): restore it from a copy")
        return record

    def save_run(self, record: RunRecord) -> None:
        """Store or replace a run's record in one step. Raises ``FailureError`` when that cannot be written."""
        self.update_run(record.run_id, lambda _: record)

    def update_run(self, run_id: str, change: Callable[[RunRecord | None], RunRecord | None]) -> None:
        """Replace a run's record by what ``change`` makes of the one that is there; None leaves it as it is.

        No other process or thread changes a record meanwhile (where the file system has locks, the store conditions):
        ``change`` may be called again with what another made of it. The new record also says how many commits there
        are. Raises ``FailureError`` when it cannot be written or the old one is damaged.
        """

        def changed(content: bytes | None) -> bytes | None:
            known = None if content is None else self._record(run_id, content)
            record = change(known)
            if record is None:
                return None
            there = max((number + 1 for number in self.numbers(run_id)), default=0)
            record = structs.replace(record, commits=max(record.commits, there))
            return None if record == known else dump(record)

        with explained("write to", self.root):
            self.backend.update(self.record_file(run_id), self.root / marker.MARKER, changed)

    # Commits.

    def run_ids(self) -> list[str]:
        """The runs that have a folder of commits, sorted."""
        with explained("list", self.root / "commits"):
            folders = self.backend.folders(self.root / "commits")
        names = (path.name.removeprefix("run=") for path in folders if path.name.startswith("run="))
        return sorted(filter(RUN_ID.fullmatch, names))

    def log_place(self, run_id: str) -> LogPlace:
        """Where the commits of a run are."""
        return LogPlace(self.backend, self.folder("commits", run_id), self.folder(checkpoints.FOLDER, run_id))

    def log(self, run_id: str) -> CommitLog:
        """The commits of a run. Raises ``FailureError`` naming a file that is not a whole commit.

        If many commits are in no checkpoint, one is written.
        """
        known = self._logs.get(run_id)
        log = self._logs[run_id] = read_log(self.log_place(run_id), known)
        if log is not known and self.may_checkpoint:
            with suppress(OSError):  # without it the next reader is slower, and nothing else
                write_checkpoint(log)
        return log

    def ledger(self, run_id: str) -> Ledger:
        """The commits of a run as this writer knows them."""
        return self._ledgers.setdefault(run_id, Ledger(self.log_place(run_id), lambda: self.log(run_id)))

    def numbers(self, run_id: str) -> list[int]:
        """The numbers of the commits of a run that are there, damaged or not, ascending."""
        return [int(path.stem) for path in commit_files(self, self.folder("commits", run_id))]

    def commits(self, run_id: str) -> list[Commit]:
        """The commits of a run that count, by number. Raises ``FailureError`` as ``log`` does."""
        return self.log(run_id).commits

    def covered(self, run_id: str) -> dict[int, list[Range]]:
        """The pairs a run holds: by pairing, sorted ranges ``(first_pair, end_pair)`` that do not touch."""
        return {pairing: list(ranges) for pairing, ranges in self.log(run_id).summary.covered}

    def tallies(self, run_id: str) -> dict[int, Tally]:
        """The tallies of a run's games by pairing, from the commits alone."""
        return dict(self.log(run_id).summary.tallies)

    def committed_files(self, table: str) -> list[PurePath]:
        """All files of ``games`` or ``plies`` that commits name, also those that were replaced."""
        return [
            self.file(table, run_id, getattr(commit, table))
            for run_id in self.run_ids()
            for commit in self.log(run_id).all.values()
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
        ledger = self.ledger(run_id)
        with ledger.lock:
            ledger.refresh()
            if ledger.holds_any(slices):
                return None
            name = f"part-{ledger.next_number:06d}-{uuid.uuid4().hex}.parquet"
        with explained("write to", self.root), self.backend.pending() as pending:
            encoded = zip(TABLES, tables(blocks, pairings), strict=True)
            games, plies = (store(pending, self.folder(table, run_id) / name, content) for table, content in encoded)
            with ledger.lock:
                return publish(ledger, slices, games, plies, pending)

    # Sweeps.

    def save_sweep_job(self, job: SweepJob) -> None:
        """Store or replace one job of a sweep in one step. Raises ``FailureError`` when that cannot be written."""
        self.save(self.root / "sweeps" / job.sweep_id / f"{job.job}.json", job)

    def save(self, path: PurePath, record: StoredRecord) -> None:
        """Store or replace a record in one step. Raises ``FailureError`` when that cannot be written."""
        content = dump(record)
        with explained("write", path):
            self.backend.replace(path, content)

    def sweep_jobs(self) -> list[SweepJob]:
        """All jobs of all sweeps, by sweep and number. Raises ``FailureError`` for a damaged one."""
        jobs = self.load_all(self.sweep_files(), SweepJob, job_at)
        return sorted(jobs, key=lambda job: (job.sweep_id, job.job))

    def sweep_files(self) -> list[PurePath]:
        """The files that are named like jobs of sweeps, damaged or not, sorted."""
        return [
            path
            for path in self.files_below("sweeps")
            if path.suffix == ".json" and path.stem.isdecimal() and path.parent.parent == self.root / "sweeps"
        ]


def unknown_run(archive: Archive, run_id: str, known: Iterable[str]) -> RequestError:
    """The error for a run that is not in an archive; ``known`` are those that could be meant."""
    meant = did_you_mean(run_id, known)
    return RequestError(f"run {run_id!r} is not in archive {archive.root}: {meant}'qarena archive ls' lists its runs")


def chosen_runs(archive: Archive, wanted: Sequence[str]) -> list[str]:
    """The runs in ``wanted``, or all if it is empty. Raises ``RequestError`` for one that is not in the archive."""
    known = archive.run_ids()
    for run_id in wanted:
        if run_id not in known:
            raise unknown_run(archive, run_id, known)
    return list(dict.fromkeys(wanted)) or known


def sweep_job(archive: Archive, path: PurePath) -> SweepJob:
    """The job of a sweep in a file. Raises ``FailureError`` for a damaged one, or one that belongs elsewhere."""
    return job_at(path, archive.load(path, SweepJob))


def job_at(path: PurePath, job: SweepJob) -> SweepJob:
    """The job, which a file holds. Raises ``FailureError`` if it belongs elsewhere."""
    if (job.sweep_id, str(job.job)) != (path.parent.name, path.stem):
        raise FailureError(
            f"{path} is damaged (it is job {job.job} of sweep {job.sweep_id}): restore it from a copy, or move it away "
            "to go on without it"
        )
    return job


def store(pending: PendingFiles, path: PurePath, table: Table) -> StoredFile:
    """Write a table's file, whole or not at all. Raises ``OSError``."""
    pending.add(path, table.content)
    return table.stored(path.name)
