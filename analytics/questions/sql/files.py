"""The files of an open archive: which ones count, and whether they are sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import PurePath

from analytics.questions.sql.views import is_in_units, values_of
from analytics.store.archive import GAMES, Archive, Extent, require_whole, unknown_run
from analytics.store.files.local import backend_of
from analytics.store.marker import CheckedFile, first_damaged
from analytics.store.policy_cards import FOLDER, TABLE, PolicyCard, folder_of
from analytics.store.ranges import StoredRange
from analytics.store.records import RunRecord
from analytics.store.schema import TABLES
from analytics.store.snapshot import Snapshot
from analytics.tables.derived.decisions import DECISIONS_TABLE
from analytics.tables.derived.derived_table import (
    RangeTable,
    count_lost_units,
    describe_loss,
    extents_found,
    known_ranges,
)
from analytics.tables.derived.tables import (
    DERIVED,
    END_PLY,
    FIRST_PLIES_TABLE,
    FOLDERS,
    POSITIONS_TABLE,
    THOUGHTS_TABLE,
    NotIndexedError,
    extent_of,
)
from quarto.errors import FailureError, RequestError, nearest

KEPT = (DECISIONS_TABLE, THOUGHTS_TABLE)  # their rows are in no other table


class MissingFileError(FailureError):
    """A file that counts is not there: others may have replaced it since the archive was listed."""


class ArchiveFiles:
    """The files of an archive that count, as it was at one moment. Any number of threads may use it."""

    def __init__(self, root: PurePath, check: bool = True) -> None:
        """See ``OpenArchive``."""
        self.archive = Snapshot(Archive.open(root).root)
        self._now = backend_of(self.archive.root)  # what is there now, not as the archive was listed
        self._check = check
        self.record_failures: dict[str, FailureError] = {}  # by run: questions to its games may meet them
        self._read: dict[PurePath, CheckedFile] = {}  # files that questions read, sound when they first did
        for run_id in sorted({*self.archive.run_ids(), *self.archive.recorded()}) if check else ():
            record = None
            with suppress(FailureError):  # a damaged record spoils the views that need it
                record = self.archive.run(run_id)
            require_whole(self.archive, run_id, record)

    @property
    def folders(self) -> list[PurePath]:
        """The folders of all tables."""
        return [self.archive.root / name for name in (*FOLDERS, FOLDER)]

    def sound(self, table: str, run_id: str | None = None) -> list[CheckedFile]:
        """The files of a table that count, of one run or of all.

        Raises ``FailureError`` if a file is not as it was written, and ``MissingFileError`` if it is not there. Raises
        ``NotIndexedError`` for positions that are not counted in all games.
        """
        found = list[CheckedFile]()
        for run in self.archive.run_ids() if run_id is None else [run_id]:
            if table in TABLES:
                found += self.of_games(table, run, self.archive.ranges(run))
            else:
                found += self._positions(run) if table == POSITIONS_TABLE.name else self.derived(DERIVED[table], run)[0]
        self.require_sound(found)
        return found

    def _record(self, run_id: str) -> RunRecord | FailureError:
        """Return the record of a run that has games, or the error that it is damaged or lost."""
        try:
            return self.archive.known_run(run_id)
        except FailureError as error:
            self.record_failures[run_id] = error
            return error

    def group_files(self, table: str, found: Iterable[CheckedFile]) -> list[tuple[list[CheckedFile], dict[str, str]]]:
        """Files of a table in groups that have one condition, each with the columns that follow from records.

        Only ``games`` has such columns. To read one of a run whose record is damaged or lost is an error.
        """
        groups: dict[tuple[str, ...], tuple[list[CheckedFile], dict[str, str]]] = {}
        for file in found:
            values = values_of(self._record(file.run_id)) if table == GAMES else {}
            groups.setdefault((file.condition, *values.values()), ([], values))[0].append(file)
        return [*groups.values()]

    def _positions(self, run_id: str) -> list[CheckedFile]:
        """The files of ``positions`` of the greatest extent that all games have: one of several would be a part.

        Raises ``NotIndexedError`` if there is none.
        """
        least = extent_of(END_PLY)
        extents = [extent for extent in extents_found(self.archive, run_id, POSITIONS_TABLE) if extent >= least]
        for extent in extents:
            found, lacking = self.derived(POSITIONS_TABLE, run_id, extent.__eq__)
            if not lacking:
                return found
        _, short = self.derived(POSITIONS_TABLE, run_id, extents.__contains__)
        if not short and not extents:  # there are no games
            return []
        needed = least if short else extents[0]
        lacking = short or self.derived(POSITIONS_TABLE, run_id, needed.__eq__)[1]
        raise NotIndexedError(
            f"{len(lacking)} of {len(self.archive.ranges(run_id))} ranges of games of run {run_id} are not indexed to "
            f"ply {int(needed)}: run {self.archive.hint('archive index')} first"
        )

    def of_games(self, table: str, run_id: str, ranges: Iterable[StoredRange]) -> list[CheckedFile]:
        """The files of ``games`` or ``plies`` of some ranges. Raises ``MissingFileError`` for one that is lost."""
        return [self._file(table, run_id, stored) for stored in ranges]

    def derived(
        self, table: RangeTable, run_id: str, enough: Extent | None = None
    ) -> tuple[list[CheckedFile], list[StoredRange]]:
        """The files of a derived table of a run, and the ranges of games that are in none of them.

        Without ``enough`` those of the extent that most games have.
        """
        archive, folder = self.archive, self.archive.folder(table.name, run_id)
        if enough is None and self._check:
            self._require_kept(table, run_id)
        known = known_ranges(archive, run_id, table) if enough is None else archive.ranges(run_id, table.name, enough)
        found = [self._checked(run_id, folder / each.name, each.check) for each in known]
        return found, archive.ranges(run_id).not_in(known)

    def _require_kept(self, table: RangeTable, run_id: str) -> None:
        """Raise ``FailureError`` if a derived table has fewer units of a run than when the run's record was written.

        Tables whose rows are made from games where they are missing have lost nothing.
        """
        record = self.archive.run(run_id) if table in KEPT else None
        lost = count_lost_units(self.archive, record, table) if record else 0
        if record and lost:
            raise FailureError(f"{self.archive.folder(table.name, run_id)} {describe_loss(record, table, lost)}")

    def first_plies(self) -> tuple[list[CheckedFile], list[CheckedFile]]:
        """The files that count first plies, and the files of plies of the games in none of these.

        Raises ``FailureError`` if one is not as it was written.
        """
        counted, rest = list[CheckedFile](), list[CheckedFile]()
        for run_id in self.archive.run_ids():
            found, lacking = self.derived(FIRST_PLIES_TABLE, run_id)
            counted += found
            rest += self.of_games("plies", run_id, lacking)
        self.require_sound([*counted, *rest])
        return counted, rest

    def _file(self, table: str, run_id: str, stored: StoredRange) -> CheckedFile:
        try:
            path = self.archive.path(table, run_id, stored)
        except FileNotFoundError as error:
            raise MissingFileError(f"{error} is missing or damaged: run 'qarena archive verify'") from error
        file = self._checked(run_id, path, path.name.split(".")[-2])
        if stored.is_file:
            return file
        return file._replace(condition=is_in_units(self.archive.known_run(run_id).line, stored.first, stored.end))

    def _checked(self, run_id: str, path: PurePath, check: str, rows: int | None = None) -> CheckedFile:
        backend = self.archive.backend
        return CheckedFile(run_id, backend.absolute(path), check, backend, rows)

    def _damage(self, file: CheckedFile) -> FailureError:
        """The error for a file that is not as it was written."""
        kind = MissingFileError if self._now.status(file.path) is None else FailureError
        return kind(f"{file.path} is missing or damaged: run 'qarena archive verify'")

    def require_sound(self, files: Iterable[CheckedFile]) -> None:
        """Raise ``FailureError`` if one of the files is not as it was written; each is looked at once."""
        new = {file.path: file for file in files if file.path not in self._read}
        if self._check:
            damaged = first_damaged(self.archive.root, [*new.values()])
        else:  # of a link, or a pipe, there is no file
            damaged = next((file for file in new.values() if not file.is_there), None)
        if damaged is not None:
            raise self._damage(damaged)
        self._read |= new

    def failure(self, complaint: str, name_of: Callable[[PurePath], str]) -> FailureError | None:
        """The error for the damaged file behind a message that is about one; None if no file is damaged.

        ``name_of`` gives the name of a file in messages. Files that no question has read are not looked at.
        """
        files = list(self._read.values())
        named = [file for file in files if name_of(file.path) in complaint] or files
        gone = (file for file in named if self._now.status(file.path) is None)
        damaged = next(gone, None) or next((file for file in named if not file.is_sound), None)
        return None if damaged is None else self._damage(damaged)

    def require_run(self, run_id: str) -> None:
        """Raise ``RequestError`` unless a run is in the archive."""
        if run_id not in self.archive.run_ids() and self.archive.run(run_id) is None:
            raise unknown_run(self.archive, run_id, self.archive.run_ids())

    def policy_card(self, wanted: str) -> PolicyCard:
        """The card of a policy by its id or name. Raises ``RequestError`` if there is none."""
        cards = self.archive.cards()
        found = [card for card in cards if wanted in (card.policy_id, card.name)]
        if not found:
            known = {card.name for card in cards}
            raise RequestError(f"policy {wanted!r} is not in archive {self.archive.root}{nearest(wanted, known)}")
        return found[-1]  # the newest card of a name

    def policy_file(self, card: PolicyCard) -> CheckedFile | None:
        """The table of a policy; None: it is a genome and has none. Raises ``FailureError`` for a damaged one."""
        if TABLE not in card.files:
            return None
        path = folder_of(self.archive, card.policy_id) / card.stored_name(TABLE)
        said = card.files[TABLE]
        file = self._checked("", path, said.sha256, said.rows)
        self.require_sound([file])
        return file
