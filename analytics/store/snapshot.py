"""An archive as it was at one moment, for questions whose answers must fit together while others write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import PurePath
from typing import TypeVar

from analytics.statistics.tally import Tally
from analytics.store import policy_cards, run_notes, sprt_verdicts
from analytics.store.archive import GAMES_FOLDER, ArchiveStore, ExtentFilter, is_any_extent
from analytics.store.files.backend import FileStatus, explain_errors
from analytics.store.files.local_files import find_backend, find_listing_backend
from analytics.store.policy_cards import PolicyCard
from analytics.store.ranges import Ranges, StoredRange
from analytics.store.records import RunRecord, SweepJob
from analytics.store.run_notes import RunNote
from analytics.store.sprt_verdicts import SprtVerdict
from quarto.errors import FailureError

T = TypeVar("T")
MISSING_VERDICT = "missing: restore it from a copy, or give the command of the test again"


class SnapshotMemory:
    """What earlier snapshots of an archive have read, so that the next one reads only what has changed since.

    Records are known by the version of their file, listings by the version of their folder, and what follows from
    listings by these listings. Any number of snapshots and threads may share a memory.
    """

    def __init__(self) -> None:
        self.records: dict[str, tuple[Hashable, RunRecord]] = {}  # by run, with the version of the file
        # By table and run, with the version of the folder.
        self.listings: dict[tuple[str, str], tuple[Hashable, list[StoredRange]]] = {}
        # By table, run and extents, with the files of the table and of the games.
        self.ranges: dict[
            tuple[str, str, frozenset[str]], tuple[Sequence[StoredRange], Sequence[StoredRange], Ranges]
        ] = {}
        # By run, with the files of the games and of the tallies.
        self.tallies: dict[str, tuple[Sequence[StoredRange], Sequence[StoredRange], Mapping[int, Tally]]] = {}


class Snapshot(ArchiveStore):
    """A view of an archive in which records and ranges stay as they were when the view was made.

    The folders of tables other than ``games`` are listed only when they are first needed. This is safe, because a file
    of a table that is computed from the games is used only if it matches the games. Reading a record raises
    ``FailureError`` if the record is damaged, or if it is lost but its run has games.
    """

    def __init__(self, root: PurePath, memory: SnapshotMemory | None = None) -> None:
        super().__init__(root)
        self.backend = find_listing_backend(root)
        self._memory = SnapshotMemory() if memory is None else memory
        self._folder_versions: dict[str, Mapping[str, Hashable]] = {}  # by table
        # Read referring records before what they refer to: a record never says more than the files that are there.
        self._jobs = _catch_failure(self._load_sweep_jobs_unless_any_lost)
        self._cards = _catch_failure(lambda: policy_cards.load_cards(self))
        self._verdicts = _catch_failure(
            lambda: [sprt_verdicts.load_verdict(self, path) for path in sprt_verdicts.list_verdict_files(self)]
        )
        self._notes = {
            run_id: _catch_failure(partial(run_notes.load_note, self, run_id))
            for run_id in run_notes.list_ids_of_runs_with_notes(self)
        }
        with explain_errors("list", root / "runs"):
            statuses = self.backend.list_statuses(root / "runs")
        self._records = {
            run_id: self._recall_or_load_run(run_id, statuses.get(f"{run_id}.json"))
            for run_id in super().list_recorded_run_ids()
        }
        self._listed_files: dict[tuple[str, str], list[StoredRange]] = {
            (GAMES_FOLDER, run_id): files
            for run_id in super().list_ids_of_runs_with_games()
            if (files := self._recall_or_list_files(GAMES_FOLDER, run_id)) or run_id in self._records
        }
        self._ranges: dict[tuple[str, str, frozenset[str]], Ranges] = {}
        self._game_ranges: dict[str, Ranges] = {}
        self._sorted_records: list[RunRecord] | None = None
        new = {
            run_id: self._load_run_or_error(run_id) for _, run_id in self._listed_files if run_id not in self._records
        }
        self._records |= {run_id: record or self.lost_record_error(run_id) for run_id, record in new.items()}

    def drop_damaged_runs_and_list_messages(self) -> list[str]:
        """Remove the runs with damaged or lost records from this view, and return an error message for each run."""
        damaged = {run_id: kept for run_id, kept in self._records.items() if isinstance(kept, FailureError)}
        if not damaged:
            return []
        self._records = {run_id: kept for run_id, kept in self._records.items() if run_id not in damaged}
        self._listed_files = {key: files for key, files in self._listed_files.items() if key[1] not in damaged}
        self._ranges, self._game_ranges, self._sorted_records = {}, {}, None
        return [str(error) for error in damaged.values()]

    def without_runs(self, run_ids: Collection[str]) -> Snapshot:
        """Return a copy of this view that lacks these runs."""
        copied = copy(self)
        copied._records = {run_id: record for run_id, record in self._records.items() if run_id not in run_ids}
        copied._listed_files = {key: files for key, files in self._listed_files.items() if key[1] not in run_ids}
        copied._ranges, copied._game_ranges, copied._sorted_records = {}, {}, None
        return copied

    def _load_sweep_jobs_unless_any_lost(self) -> list[SweepJob]:
        """Load the jobs of all sweeps. Raises ``FailureError`` if a job is damaged, or lost from a finished sweep."""
        jobs = super().load_sweep_jobs()
        for path in filter(self._is_absent_now, self.list_lost_job_files(jobs)):
            raise FailureError(f"{path} is missing: restore it from a copy, or sweep again")
        return jobs

    def _is_absent_now(self, path: PurePath) -> bool:
        """Return whether a file is absent right now.

        A file that the snapshot did not list may have been written since.
        """
        with explain_errors("find", path):
            return find_backend(self.root).status(path) is None

    def _recall_or_load_run(self, run_id: str, status: FileStatus | None) -> RunRecord | FailureError | None:
        """Return the record of a run from the memory, or load it if its file has changed since it was remembered."""
        version, record = self._memory.records.get(run_id, (None, None))
        if status is not None and record is not None and version == status.version:
            return record
        loaded = self._load_run_or_error(run_id)
        if status is not None and isinstance(loaded, RunRecord):
            self._memory.records[run_id] = status.version, loaded  # of the listing, which is older than the record
        return loaded

    def _recall_or_list_files(self, table: str, run_id: str) -> list[StoredRange]:
        """Return the files of a run's table from the memory, or list them if the folder has changed since then."""
        if table not in self._folder_versions:
            with explain_errors("list", self.root / table):
                self._folder_versions[table] = self.backend.list_folder_versions(self.root / table)
        version = self._folder_versions[table].get(f"run={run_id}")
        known_version, known_files = self._memory.listings.get((table, run_id), (None, None))
        if version is not None and known_files is not None and version == known_version:
            return known_files
        files = super().list_files(table, run_id)
        if version is not None:
            self._memory.listings[table, run_id] = version, files
        return files

    def find_note(self, run_id: str) -> RunNote:
        """Return the name and the note of a run; both are empty if nobody has named it, or if their file is damaged."""
        note = self._notes.get(run_id)
        return note if isinstance(note, RunNote) else RunNote(run_id)

    def list_damaged_notes(self) -> list[str]:
        """Return an error message for each run whose name and note cannot be read."""
        return [str(note) for note in self._notes.values() if isinstance(note, FailureError)]

    def recall_tallies(self, run_id: str) -> Mapping[int, Tally] | None:
        """Return the tallies of a run by pairing, or None if they are not remembered for its present files."""
        games, stored, tallies = self._memory.tallies.get(run_id, (None, None, None))
        files = self._list_tallied_files(run_id)
        return tallies if games is files[0] and stored is files[1] else None

    def remember_tallies(self, run_id: str, tallies: Mapping[int, Tally]) -> None:
        """Remember the tallies of a run by pairing, for its present files."""
        self._memory.tallies[run_id] = (*self._list_tallied_files(run_id), tallies)

    def _list_tallied_files(self, run_id: str) -> tuple[Sequence[StoredRange], Sequence[StoredRange]]:
        return self.list_files(GAMES_FOLDER, run_id), self.list_files("tallies", run_id)

    def _load_run_or_error(self, run_id: str) -> RunRecord | FailureError | None:
        return _catch_failure(lambda: super(Snapshot, self).find_run(run_id))

    def list_recorded_run_ids(self) -> list[str]:
        """List the ids of the runs that had a record or files of games, sorted."""
        return sorted(self._records)

    def load_runs(self) -> list[RunRecord]:
        """Load the records of all runs, oldest first, as ``ArchiveStore.load_runs`` does, and cache their order."""
        if self._sorted_records is None:
            self._sorted_records = super().load_runs()
        return [*self._sorted_records]

    def list_effective_ranges(
        self, run_id: str, table: str = GAMES_FOLDER, is_sufficient_extent: ExtentFilter = is_any_extent
    ) -> Ranges:
        """List ranges as ``ArchiveStore.list_effective_ranges`` does; those of the games are cached by run."""
        if table != GAMES_FOLDER:
            return super().list_effective_ranges(run_id, table, is_sufficient_extent)
        ranges = self._game_ranges.get(run_id)
        if ranges is None:
            ranges = self._game_ranges[run_id] = super().list_effective_ranges(run_id)
        return ranges

    def find_run(self, run_id: str) -> RunRecord | None:
        """Return the record of a run, or None if there is no such run.

        Raises ``FailureError`` if the record is damaged or lost.
        """
        return _get_or_raise(self._records.get(run_id))

    def list_ids_of_runs_with_games(self) -> list[str]:
        """List the ids of the runs that had a folder of games, sorted."""
        return sorted(run_id for table, run_id in self._listed_files if table == GAMES_FOLDER)

    def list_files(self, table: str, run_id: str) -> list[StoredRange]:
        """List the files of a run's table as they were when first listed.

        Files whose names do not look like those of a table's files are left out.
        """
        if (table, run_id) not in self._listed_files:
            if table == GAMES_FOLDER:
                return []
            self._listed_files[table, run_id] = self._recall_or_list_files(table, run_id)
        return self._listed_files[table, run_id]

    def select_effective(
        self, run_id: str, table: str, extents: frozenset[str], files: Sequence[StoredRange]
    ) -> Ranges:
        """Select ranges as ``ArchiveStore.select_effective`` does, and cache them, because the files never change."""
        key = run_id, table, extents
        if key not in self._ranges:
            games = self.list_files(GAMES_FOLDER, run_id)
            known_files, known_games, ranges = self._memory.ranges.get(key, (None, None, None))
            if ranges is None or known_files is not files or known_games is not games:
                ranges = super().select_effective(*key, files)
                self._memory.ranges[key] = files, games, ranges
            self._ranges[key] = ranges
        return self._ranges[key]

    def load_sweep_jobs(self) -> list[SweepJob]:
        """Load the jobs of all sweeps, sorted by sweep and number.

        Raises ``FailureError`` if a job is damaged or lost.
        """
        return _get_or_raise(self._jobs)

    def load_cards(self) -> list[PolicyCard]:
        """Load the cards of all policies, oldest first. Raises ``FailureError`` if a card is damaged."""
        return _get_or_raise(self._cards)

    def load_verdicts_unless_any_missing(self) -> list[SprtVerdict]:
        """Load all verdicts, sorted by run and id.

        Raises ``FailureError`` if a verdict is damaged, or if a run's record names a verdict that is missing.
        """
        verdicts = _get_or_raise(self._verdicts)
        there = {(verdict.run_id, verdict.verdict_id) for verdict in verdicts}
        sound = [record for record in self._records.values() if isinstance(record, RunRecord)]
        for record in sound:
            for verdict_id in record.verdicts:
                path = sprt_verdicts.verdict_path(self, record.run_id, verdict_id)
                if (record.run_id, verdict_id) not in there and self._is_absent_now(path):
                    raise FailureError(f"{path} is {MISSING_VERDICT}")
        return verdicts


def _catch_failure(read: Callable[[], T]) -> T | FailureError:
    """Return what ``read`` returns, or the ``FailureError`` that it raises, so that the error can be raised later."""
    try:
        return read()
    except FailureError as error:
        return error


def _get_or_raise(result: T | FailureError) -> T:
    if isinstance(result, FailureError):
        raise result
    return result
