"""The files of an open archive: those that readers use, and whether they are sound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from copy import copy
from pathlib import PurePath
from typing import NamedTuple

from analytics.questions.sql.views import record_columns_sql, unit_condition_sql
from analytics.store.archive import GAMES_FOLDER, ArchiveStore, ExtentFilter, check_nothing_lost, unknown_run_error
from analytics.store.files.local_files import find_backend
from analytics.store.marker import VerifiableFile, find_damaged_file, find_remembered_row_counts
from analytics.store.policy_cards import FOLDER, TABLE, PolicyCard, policy_folder
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.snapshot import Snapshot, SnapshotMemory
from analytics.tables.derived.decisions import DECISIONS_TABLE
from analytics.tables.derived.definitions import (
    DERIVED_TABLES,
    END_PLY,
    EVALUATIONS_TABLE,
    FIRST_PLIES_TABLE,
    POSITIONS_TABLE,
    TABLE_FOLDERS,
    NotIndexedError,
    format_extent,
)
from analytics.tables.derived.range_table import (
    RangeTable,
    count_lost_units,
    describe_loss,
    list_extents_greatest_first,
    select_ranges_with_most_units,
)
from quarto.errors import Advice, FailureError, RequestError, suggest_valid_names

IRREPLACEABLE_TABLES = (DECISIONS_TABLE, EVALUATIONS_TABLE)  # their rows are in no other table


class MissingFileError(FailureError):
    """An error for an effective file that is missing, perhaps because another process has replaced it."""


class FileGroup(NamedTuple):
    """Files of one table whose rows are read with the same condition and the same SQL for record columns.

    Record columns are the columns that follow from a run's record, and are in no file.
    """

    files: list[VerifiableFile]
    record_columns: dict[str, str]  # SQL by column


class DerivedFiles(NamedTuple):
    """The effective files of a derived table of one run, and the ranges of games that none of these files covers.

    The checksums of the files are verified when the files are read.
    """

    files: list[VerifiableFile]
    missing_ranges: list[StoredRange]


class FirstPlyFiles(NamedTuple):
    """The files of the table ``first_plies``, and the files of ``plies`` for the games that the table lacks.

    The table counts games by the piece and the cell of ply 0.
    """

    counted_files: list[VerifiableFile]
    uncounted_ply_files: list[VerifiableFile]


class ArchiveFiles:
    """The effective files that an archive had at one moment, by table and run.

    Any number of threads may use this object.
    """

    def __init__(self, root: PurePath, check: bool = True, memory: SnapshotMemory | None = None) -> None:
        """List the files of the archive at ``root``; if ``check`` is set, verify that no games have been lost.

        ``memory`` has what earlier snapshots of the archive have read. What has not changed is not read again.
        Raises the errors of ``OpenArchive``.
        """
        self.archive = Snapshot(ArchiveStore.open(root).root, memory)
        self._current_backend = find_backend(self.archive.root)  # sees the archive as it is now, not as it was listed
        self._check = check
        self.record_failures: dict[str, FailureError] = {}  # by run; a question about the run's games may meet one
        self._checked_files: dict[PurePath, VerifiableFile] = {}  # by path; sound when a question first read them
        for run_id in (
            sorted({*self.archive.list_ids_of_runs_with_games(), *self.archive.list_recorded_run_ids()})
            if check
            else ()
        ):
            record = None
            with suppress(FailureError):  # a damaged record fails the views that need it
                record = self.archive.find_run(run_id)
            check_nothing_lost(self.archive, run_id, record)

    def without_runs(self, run_ids: Collection[str]) -> ArchiveFiles:
        """Return a copy that lacks the files of these runs."""
        copied = copy(self)
        copied.archive, copied.record_failures = self.archive.without_runs(run_ids), {}
        return copied

    @property
    def folders_of_all_tables(self) -> list[PurePath]:
        """The folders that hold the files of all tables."""
        return [self.archive.root / name for name in (*TABLE_FOLDERS, FOLDER)]

    def list_and_check_files(self, table: str, run_id: str | None = None) -> list[VerifiableFile]:
        """List the effective files of a table in one run or, without ``run_id``, in all runs; verify their checksums.

        Raises:
            FailureError: The content of a file has changed since it was written.
            MissingFileError: A file is missing.
            NotIndexedError: ``table`` is ``positions``, and no extent of at least ``END_PLY`` plies covers all games of
                a run.

        """
        files = list[VerifiableFile]()
        for listed_run in self.archive.list_ids_of_runs_with_games() if run_id is None else [run_id]:
            if table in TABLE_SCHEMAS:
                files += self.list_range_files(table, listed_run, self.archive.list_effective_ranges(listed_run))
            else:
                files += (
                    self._list_deepest_position_files(listed_run)
                    if table == POSITIONS_TABLE.name
                    else self.list_derived_files_and_gaps(DERIVED_TABLES[table], listed_run)[0]
                )
        self.check_files(files)
        return files

    def count_rows_by_run(self, table: str) -> dict[str, int] | None:
        """Count the rows of ``games`` or ``plies`` in each run that has games, without opening a file.

        The result is None if the number of rows of some file is not known, as in a bucket, whose files nobody reads to
        check them, or if readers use only a part of its rows. Raises the errors of ``list_and_check_files``, because
        the numbers are those of files that were found sound.
        """
        if not self._check or self.archive.backend.checks_bytes:
            return None
        files = self.list_and_check_files(table)
        counts = find_remembered_row_counts(self.archive.root, files)
        if counts is None or any(file.condition for file in files):
            return None
        rows = dict[str, int]()
        for file, count in zip(files, counts, strict=True):
            rows[file.run_id] = rows.get(file.run_id, 0) + count
        return rows

    def _load_record_or_remember_error(self, run_id: str) -> RunRecord | FailureError:
        """Load the record of a run that has games, or return the error if the record is damaged or lost.

        The error is also added to ``record_failures``.
        """
        try:
            return self.archive.load_run(run_id)
        except FailureError as error:
            self.record_failures[run_id] = error
            return error

    def group_files_by_condition_and_record_columns(
        self, table: str, files: Iterable[VerifiableFile]
    ) -> list[FileGroup]:
        """Group the files of a table by the condition on their rows and by the SQL of their record columns.

        Record columns follow from the record of a run; only ``games`` has such columns. If the record of a run is
        damaged or lost, a query that reads these columns of the run's games raises an error.
        """
        groups: dict[tuple[str, ...], FileGroup] = {}
        for file in files:
            values = (
                record_columns_sql(self._load_record_or_remember_error(file.run_id)) if table == GAMES_FOLDER else {}
            )
            groups.setdefault((file.condition, *values.values()), FileGroup([], values)).files.append(file)
        return [*groups.values()]

    def _list_deepest_position_files(self, run_id: str) -> list[VerifiableFile]:
        """List the files of ``positions`` with the greatest extent that covers all games of a run.

        The extent of such a file is the number of plies that it indexes. Files of different extents cannot be mixed,
        because files of a smaller extent lack plies. Raises ``NotIndexedError`` if no extent of at least ``END_PLY``
        plies covers all games.
        """
        least = format_extent(END_PLY)
        extents = [
            extent for extent in list_extents_greatest_first(self.archive, run_id, POSITIONS_TABLE) if extent >= least
        ]
        for extent in extents:
            files, missing_ranges = self.list_derived_files_and_gaps(POSITIONS_TABLE, run_id, extent.__eq__)
            if not missing_ranges:
                return files
        _, unindexed_ranges = self.list_derived_files_and_gaps(POSITIONS_TABLE, run_id, extents.__contains__)
        if not unindexed_ranges and not extents:  # there are no games
            return []
        needed = least if unindexed_ranges else extents[0]
        missing_ranges = unindexed_ranges or self.list_derived_files_and_gaps(POSITIONS_TABLE, run_id, needed.__eq__)[1]
        ranges = len(self.archive.list_effective_ranges(run_id))
        raise NotIndexedError(
            Advice(
                f"{len(missing_ranges)} of {ranges} ranges of games of run {run_id} are not indexed to ply "
                f"{int(needed)}",
                f"run {self.archive.format_command('archive index')} first",
                f"call {self.archive.format_call('index')}, then archive.refresh()",
            )
        )

    def list_range_files(self, table: str, run_id: str, ranges: Iterable[StoredRange]) -> list[VerifiableFile]:
        """List the files of ``table`` that hold these ranges of a run. Raises ``MissingFileError`` if a file is lost.

        ``table`` is ``games`` or ``plies``.
        """
        archive = self.archive
        folder = archive.backend.absolute(archive.folder(table, run_id))
        files = list[VerifiableFile]()
        for stored in ranges:
            try:
                named = archive.find_containing_file(table, run_id, stored)
            except FileNotFoundError as error:
                raise MissingFileError(self._describe_damage(str(error))) from error
            file = VerifiableFile(run_id, folder / named.name, named.checksum, archive.backend)
            if not stored.is_file:
                line = archive.load_run(run_id).unit_line
                file = file._replace(condition=unit_condition_sql(line, stored.first, stored.end))
            files.append(file)
        return files

    def list_derived_files_and_gaps(
        self, table: RangeTable, run_id: str, extent_filter: ExtentFilter | None = None
    ) -> DerivedFiles:
        """List the files of a derived table of one run, and the ranges of games that none of these files covers.

        The extent of a file says how much of its games the file covers, for example how many plies. ``extent_filter``
        returns whether an extent is enough, and only files with such an extent are listed. If it is None, the extents
        are chosen so that the files cover as many games as possible.
        """
        archive = self.archive
        folder = archive.backend.absolute(archive.folder(table.name, run_id))
        if extent_filter is None and self._check:
            self._check_lost_units(table, run_id)
        stored_ranges = (
            select_ranges_with_most_units(archive, run_id, table)
            if extent_filter is None
            else archive.list_effective_ranges(run_id, table.name, extent_filter)
        )
        files = [
            VerifiableFile(run_id, folder / stored.name, stored.checksum, archive.backend) for stored in stored_ranges
        ]
        return DerivedFiles(files, archive.list_effective_ranges(run_id).select_beginning_outside(stored_ranges))

    def _check_lost_units(self, table: RangeTable, run_id: str) -> None:
        """Raise ``FailureError`` if a derived table has fewer units of a run than the record of the run says.

        Only irreplaceable tables are checked, because the missing rows of other tables can be derived from the games
        again.
        """
        record = self.archive.find_run(run_id) if table in IRREPLACEABLE_TABLES else None
        lost = count_lost_units(self.archive, record, table) if record else 0
        if record and lost:
            raise FailureError(f"{self.archive.folder(table.name, run_id)} {describe_loss(record, table, lost)}")

    def list_first_ply_files_and_rest(self) -> FirstPlyFiles:
        """List the files of the table ``first_plies``, and those of ``plies`` for games that the table lacks.

        Raises ``FailureError`` if the content of a file has changed since it was written.
        """
        counted_files, uncounted_ply_files = list[VerifiableFile](), list[VerifiableFile]()
        for run_id in self.archive.list_ids_of_runs_with_games():
            derived_files, missing_ranges = self.list_derived_files_and_gaps(FIRST_PLIES_TABLE, run_id)
            counted_files += derived_files
            uncounted_ply_files += self.list_range_files("plies", run_id, missing_ranges)
        self.check_files([*counted_files, *uncounted_ply_files])
        return FirstPlyFiles(counted_files, uncounted_ply_files)

    def _build_damage_error(self, file: VerifiableFile) -> FailureError:
        """Build the error for a file that is missing or has changed since it was written."""
        kind = MissingFileError if self._current_backend.status(file.path) is None else FailureError
        return kind(self._describe_damage(str(file.path)))

    def _describe_damage(self, path: str) -> str:
        return f"{path} is missing or damaged: run {self.archive.format_command('archive verify')}"

    def check_files(self, files: Iterable[VerifiableFile]) -> None:
        """Raise ``FailureError`` if the content of a file has changed since the file was written.

        Each file is checked only once.
        """
        unchecked_files = {file.path: file for file in files if file.path not in self._checked_files}
        if self._check:
            damaged = find_damaged_file(self.archive.root, [*unchecked_files.values()])
        else:  # a link or a pipe is no file
            damaged = next((file for file in unchecked_files.values() if not file.is_there), None)
        if damaged is not None:
            raise self._build_damage_error(damaged)
        self._checked_files |= unchecked_files

    def find_damage_error(self, message: str, format_path: Callable[[PurePath], str]) -> FailureError | None:
        """Return an error for the damaged file that caused the error ``message``, or None if no file is damaged.

        ``format_path`` formats the path of a file in the form that messages use. Only files that a query has read are
        examined.
        """
        files = list(self._checked_files.values())
        candidates = [file for file in files if format_path(file.path) in message] or files
        missing_files = (file for file in candidates if self._current_backend.status(file.path) is None)
        damaged = next(missing_files, None) or next(
            (file for file in candidates if file.count_rows_if_sound() is None), None
        )
        return None if damaged is None else self._build_damage_error(damaged)

    def check_run_exists(self, run_id: str) -> None:
        """Raise ``RequestError`` unless the archive contains this run."""
        if run_id not in self.archive.list_ids_of_runs_with_games() and self.archive.find_run(run_id) is None:
            raise unknown_run_error(self.archive, run_id, self.archive.list_ids_of_runs_with_games())

    def find_policy_card(self, name_or_id: str) -> PolicyCard:
        """Return the card of the policy with this name or id. Raises ``RequestError`` if there is none."""
        cards = self.archive.load_cards()
        matching_cards = [card for card in cards if name_or_id in (card.policy_id, card.name)]
        if not matching_cards:
            names = {card.name for card in cards}
            raise RequestError(
                f"policy {name_or_id!r} is not in archive {self.archive.root}{suggest_valid_names(name_or_id, names)}"
            )
        return matching_cards[-1]  # the newest card of a name

    def find_policy_file(self, card: PolicyCard) -> VerifiableFile | None:
        """Return the file of a policy's table, or None for a genome, which has no table.

        Raises ``FailureError`` if the file is damaged.
        """
        if TABLE not in card.files:
            return None
        path = policy_folder(self.archive, card.policy_id) / card.stored_name(TABLE)
        recorded_file = card.files[TABLE]
        backend = self.archive.backend
        file = VerifiableFile("", backend.absolute(path), recorded_file.sha256, backend, recorded_file.rows)
        self.check_files([file])
        return file
