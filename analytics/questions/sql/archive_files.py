"""The files of an open archive: which ones count, and whether they are sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import PurePath

from analytics.questions.sql.views import record_columns_sql, unit_condition_sql
from analytics.store.archive import GAMES_FOLDER, ArchiveStore, ExtentFilter, check_nothing_lost, unknown_run_error
from analytics.store.files.local_files import find_backend
from analytics.store.marker import VerifiableFile, find_damaged_file
from analytics.store.policy_cards import FOLDER, TABLE, PolicyCard, policy_folder
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.snapshot import Snapshot
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
    list_extents,
    select_best_ranges,
)
from quarto.errors import FailureError, RequestError, describe_valid_names

IRREPLACEABLE_TABLES = (DECISIONS_TABLE, EVALUATIONS_TABLE)  # their rows are in no other table


class MissingFileError(FailureError):
    """A file that counts is not there: others may have replaced it since the archive was listed."""


class ArchiveFiles:
    """The files of an archive that count, as it was at one moment. Any number of threads may use it."""

    def __init__(self, root: PurePath, check: bool = True) -> None:
        """See ``OpenArchive``."""
        self.archive = Snapshot(ArchiveStore.open(root).root)
        self._current_backend = find_backend(self.archive.root)  # what is there now, not as the archive was listed
        self._check = check
        self.record_failures: dict[str, FailureError] = {}  # by run: questions to its games may meet them
        self._checked_files: dict[PurePath, VerifiableFile] = {}  # files that questions read, sound when they first did
        for run_id in sorted({*self.archive.list_run_ids(), *self.archive.list_recorded_run_ids()}) if check else ():
            record = None
            with suppress(FailureError):  # a damaged record spoils the views that need it
                record = self.archive.find_run(run_id)
            check_nothing_lost(self.archive, run_id, record)

    @property
    def folders(self) -> list[PurePath]:
        """The folders of all tables."""
        return [self.archive.root / name for name in (*TABLE_FOLDERS, FOLDER)]

    def list_and_check_files(self, table: str, run_id: str | None = None) -> list[VerifiableFile]:
        """The files of a table that count, of one run or of all.

        Raises ``FailureError`` if a file is not as it was written, and ``MissingFileError`` if it is not there. Raises
        ``NotIndexedError`` for positions that are not counted in all games.
        """
        found = list[VerifiableFile]()
        for run in self.archive.list_run_ids() if run_id is None else [run_id]:
            if table in TABLE_SCHEMAS:
                found += self.list_range_files(table, run, self.archive.list_effective_ranges(run))
            else:
                found += (
                    self._list_deepest_position_files(run)
                    if table == POSITIONS_TABLE.name
                    else self.list_derived_files_and_gaps(DERIVED_TABLES[table], run)[0]
                )
        self.check_files(found)
        return found

    def _load_record_or_error(self, run_id: str) -> RunRecord | FailureError:
        """Return the record of a run that has games, or the error that it is damaged or lost."""
        try:
            return self.archive.load_run(run_id)
        except FailureError as error:
            self.record_failures[run_id] = error
            return error

    def group_files_by_condition(
        self, table: str, files: Iterable[VerifiableFile]
    ) -> list[tuple[list[VerifiableFile], dict[str, str]]]:
        """Files of a table in groups that have one condition, each with the columns that follow from records.

        Only ``games`` has such columns. To read one of a run whose record is damaged or lost is an error.
        """
        groups: dict[tuple[str, ...], tuple[list[VerifiableFile], dict[str, str]]] = {}
        for file in files:
            values = record_columns_sql(self._load_record_or_error(file.run_id)) if table == GAMES_FOLDER else {}
            groups.setdefault((file.condition, *values.values()), ([], values))[0].append(file)
        return [*groups.values()]

    def _list_deepest_position_files(self, run_id: str) -> list[VerifiableFile]:
        """The files of ``positions`` of the greatest extent that all games have: one of several would be a part.

        Raises ``NotIndexedError`` if there is none.
        """
        least = format_extent(END_PLY)
        extents = [extent for extent in list_extents(self.archive, run_id, POSITIONS_TABLE) if extent >= least]
        for extent in extents:
            found, lacking = self.list_derived_files_and_gaps(POSITIONS_TABLE, run_id, extent.__eq__)
            if not lacking:
                return found
        _, short = self.list_derived_files_and_gaps(POSITIONS_TABLE, run_id, extents.__contains__)
        if not short and not extents:  # there are no games
            return []
        needed = least if short else extents[0]
        lacking = short or self.list_derived_files_and_gaps(POSITIONS_TABLE, run_id, needed.__eq__)[1]
        ranges = len(self.archive.list_effective_ranges(run_id))
        raise NotIndexedError(
            f"{len(lacking)} of {ranges} ranges of games of run {run_id} are not indexed to ply {int(needed)}: run "
            f"{self.archive.format_command('archive index')} first (in Python runners.index, then refresh)"
        )

    def list_range_files(self, table: str, run_id: str, ranges: Iterable[StoredRange]) -> list[VerifiableFile]:
        """The files of ``games`` or ``plies`` of some ranges. Raises ``MissingFileError`` for one that is lost."""
        return [self._build_range_file(table, run_id, stored) for stored in ranges]

    def list_derived_files_and_gaps(
        self, table: RangeTable, run_id: str, extent_filter: ExtentFilter | None = None
    ) -> tuple[list[VerifiableFile], list[StoredRange]]:
        """The files of a derived table of a run, and the ranges of games that are in none of them.

        Without ``extent_filter`` those of the extent that most games have.
        """
        archive, folder = self.archive, self.archive.folder(table.name, run_id)
        if extent_filter is None and self._check:
            self._check_lost_units(table, run_id)
        known = (
            select_best_ranges(archive, run_id, table)
            if extent_filter is None
            else archive.list_effective_ranges(run_id, table.name, extent_filter)
        )
        found = [self._build_verifiable_file(run_id, folder / each.name, each.checksum) for each in known]
        return found, archive.list_effective_ranges(run_id).select_outside(known)

    def _check_lost_units(self, table: RangeTable, run_id: str) -> None:
        """Raise ``FailureError`` if a derived table has fewer units of a run than when the run's record was written.

        Tables whose rows are made from games where they are missing have lost nothing.
        """
        record = self.archive.find_run(run_id) if table in IRREPLACEABLE_TABLES else None
        lost = count_lost_units(self.archive, record, table) if record else 0
        if record and lost:
            raise FailureError(f"{self.archive.folder(table.name, run_id)} {describe_loss(record, table, lost)}")

    def list_first_ply_files_and_rest(self) -> tuple[list[VerifiableFile], list[VerifiableFile]]:
        """The files that count first plies, and the files of plies of the games in none of these.

        Raises ``FailureError`` if one is not as it was written.
        """
        counted, rest = list[VerifiableFile](), list[VerifiableFile]()
        for run_id in self.archive.list_run_ids():
            found, lacking = self.list_derived_files_and_gaps(FIRST_PLIES_TABLE, run_id)
            counted += found
            rest += self.list_range_files("plies", run_id, lacking)
        self.check_files([*counted, *rest])
        return counted, rest

    def _build_range_file(self, table: str, run_id: str, stored: StoredRange) -> VerifiableFile:
        try:
            path = self.archive.find_path(table, run_id, stored)
        except FileNotFoundError as error:
            raise MissingFileError(self._describe_damage(str(error))) from error
        file = self._build_verifiable_file(run_id, path, path.name.split(".")[-2])
        if stored.is_file:
            return file
        return file._replace(
            condition=unit_condition_sql(self.archive.load_run(run_id).unit_line, stored.first, stored.end)
        )

    def _build_verifiable_file(
        self, run_id: str, path: PurePath, checksum: str, rows: int | None = None
    ) -> VerifiableFile:
        backend = self.archive.backend
        return VerifiableFile(run_id, backend.absolute(path), checksum, backend, rows)

    def _build_damage_error(self, file: VerifiableFile) -> FailureError:
        """The error for a file that is not as it was written."""
        kind = MissingFileError if self._current_backend.status(file.path) is None else FailureError
        return kind(self._describe_damage(str(file.path)))

    def _describe_damage(self, path: str) -> str:
        return f"{path} is missing or damaged: run {self.archive.format_command('archive verify')}"

    def check_files(self, files: Iterable[VerifiableFile]) -> None:
        """Raise ``FailureError`` if one of the files is not as it was written; each is looked at once."""
        new = {file.path: file for file in files if file.path not in self._checked_files}
        if self._check:
            damaged = find_damaged_file(self.archive.root, [*new.values()])
        else:  # of a link, or a pipe, there is no file
            damaged = next((file for file in new.values() if not file.is_there), None)
        if damaged is not None:
            raise self._build_damage_error(damaged)
        self._checked_files |= new

    def find_damage_error(self, message: str, format_path: Callable[[PurePath], str]) -> FailureError | None:
        """The error for the damaged file behind a message that is about one; None if no file is damaged.

        ``format_path`` gives the name of a file in messages. Files that no question has read are not looked at.
        """
        files = list(self._checked_files.values())
        named = [file for file in files if format_path(file.path) in message] or files
        gone = (file for file in named if self._current_backend.status(file.path) is None)
        damaged = next(gone, None) or next((file for file in named if not file.is_sound), None)
        return None if damaged is None else self._build_damage_error(damaged)

    def check_run_exists(self, run_id: str) -> None:
        """Raise ``RequestError`` unless a run is in the archive."""
        if run_id not in self.archive.list_run_ids() and self.archive.find_run(run_id) is None:
            raise unknown_run_error(self.archive, run_id, self.archive.list_run_ids())

    def find_policy_card(self, name_or_id: str) -> PolicyCard:
        """The card of a policy by its id or name. Raises ``RequestError`` if there is none."""
        cards = self.archive.load_cards()
        found = [card for card in cards if name_or_id in (card.policy_id, card.name)]
        if not found:
            known = {card.name for card in cards}
            raise RequestError(
                f"policy {name_or_id!r} is not in archive {self.archive.root}{describe_valid_names(name_or_id, known)}"
            )
        return found[-1]  # the newest card of a name

    def find_policy_file(self, card: PolicyCard) -> VerifiableFile | None:
        """The table of a policy; None: it is a genome and has none. Raises ``FailureError`` for a damaged one."""
        if TABLE not in card.files:
            return None
        path = policy_folder(self.archive, card.policy_id) / card.stored_name(TABLE)
        said = card.files[TABLE]
        file = self._build_verifiable_file("", path, said.sha256, said.rows)
        self.check_files([file])
        return file
