"""The files of an archive that are not needed: files that others have replaced, and files that killed writers left.

A listing is no snapshot. A reader may list a folder before a new file is written, and later look for the files that the
new file replaced. Therefore replaced files are removed only when the new file is older than any listing takes.

A file of games is removed only if fingerprints prove that effective files hold the same games: see
``replacement_proof``. A file with other games of the same units therefore stays, with everything derived from it, until
a user decides which of the two files is right. Files with names that no archive gives are listed but never removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import GAMES_FOLDER, ArchiveStore
from analytics.store.files.backend import TEMPORARY_PREFIX, FileStatus, explain_errors
from analytics.store.marker import MARKER_NAME
from analytics.store.policy_cards import POLICY_ID, STORED_POLICY_FILE
from analytics.store.ranges import (
    FILE_NAME,
    StoredRange,
    parse_file_names,
    select_disjoint_ranges,
    select_effective_derived,
)
from analytics.store.records import RUN_ID
from analytics.tables.derived.definitions import DERIVED_TABLES, TABLE_FOLDERS
from analytics.tables.derived.range_table import RangeTable
from analytics.tables.upkeep.replacement_proof import select_replaced_files
from quarto.errors import RequestError

# Table files.

GRACE_SECONDS = 600.0  # time after which replaced files are removed: longer than any listing takes
PLIES_FOLDER = "plies"


class RunTableFiles(NamedTuple):
    """The table files of a run that are needed, and those that were replaced.

    A file may be needed although no reader uses it, because it holds something found nowhere else. For the files that
    readers use, see ``analytics.questions.sql.archive_files.ArchiveFiles``.
    """

    needed: set[PurePath]
    replaced: dict[PurePath, float]  # with the time of the youngest file that replaced it; files of games come first


class _TableListing(NamedTuple):
    """The files of one table of a run, with their sizes and times."""

    folder: PurePath
    status: Mapping[str, FileStatus]

    @property
    def ranges(self) -> list[StoredRange]:
        return parse_file_names(self.status)

    def path(self, stored: StoredRange) -> PurePath:
        return self.folder / stored.name

    def youngest_time(self, files: Iterable[StoredRange]) -> float:
        """Return the time at which the youngest of ``files`` was written."""
        return max(self.status[file.name].modified for file in files)


class _GameFiles:
    """A run's files of games in three classes: files that readers use, other files that must stay, and replaced files.

    The class of the run's other table files follows from these.
    """

    def __init__(self, archive: ArchiveStore, run_id: str, listing: _TableListing) -> None:
        """Classify a run's files of games. Raise ``FailureError`` if a file that overlaps another file is damaged."""
        self._archive, self._run_id, self._listed = archive, run_id, listing
        self.effective = archive.select_effective(run_id, GAMES_FOLDER, frozenset([""]), listing.ranges)
        self.replaced = select_replaced_files(archive, run_id, listing.ranges, self.effective)
        self.needed = [file for file in listing.ranges if file not in self.replaced]
        counted = {archive.resolve_slice_to_file(run_id, stored) for stored in self.effective}
        self.hidden = [file for file in self.needed if file not in counted]  # readers use other games of the same units

    def find_replacement_time(self, file: StoredRange) -> float:
        """Return the time at which the youngest of the files that replaced ``file`` was written."""
        covering = self.effective.select_overlapping(file.first, file.end)
        return self._listed.youngest_time(
            self._archive.resolve_slice_to_file(self._run_id, stored) for stored in covering
        )

    def select_derived_files_of_hidden_games(self, files: Iterable[StoredRange]) -> set[StoredRange]:
        """Select those files of a derived table that belong to hidden games.

        A game is hidden if readers use another game of the same unit instead, but the file with the game must stay.
        """
        files, names = [*files], {file[:3] for file in self.hidden}
        return {
            *select_effective_derived(files, select_disjoint_ranges(self.hidden)),
            *(file for file in files if file[:3] in names),
        }


def list_needed_and_replaced_files(archive: ArchiveStore, run_id: str) -> RunTableFiles:
    """List the table files of a run that are needed, and those that were replaced. Some files are neither.

    A file of games is needed unless fingerprints prove that other files hold its games; see ``replacement_proof``.
    Raises ``FailureError`` if files cannot be listed.
    """
    listed = {}
    for table in (
        PLIES_FOLDER,
        *DERIVED_TABLES,
        GAMES_FOLDER,
    ):  # games last, so that files listed before have their games
        folder = archive.folder(table, run_id)
        with explain_errors("list", folder):
            listed[table] = _TableListing(folder, archive.list_file_statuses(table, run_id))
    files = RunTableFiles(set(), {})
    games = _GameFiles(archive, run_id, listed[GAMES_FOLDER])
    _classify_game_files(listed, games, files)
    for name, derived_table in DERIVED_TABLES.items():
        _classify_derived_files(derived_table, listed[name], games, files)
    return files


def _classify_game_files(listings: Mapping[str, _TableListing], games: _GameFiles, files: RunTableFiles) -> None:
    """Classify a run's files of games and of plies as needed or replaced, and add them to ``files``.

    A file of plies is needed as long as the file of its games is. If several files hold the same plies, only the one
    that readers use is needed.
    """
    mine, plies = listings[GAMES_FOLDER], listings[PLIES_FOLDER]
    files.needed.update(map(mine.path, games.needed))
    files.replaced.update(
        {mine.path(file): games.find_replacement_time(file) for file in mine.ranges if file in games.replaced}
    )
    stay = {file[:3] for file in games.needed}
    gone = {file[:3]: games.find_replacement_time(file) for file in games.replaced}
    chosen = {file[:3]: file for file in sorted(plies.ranges, reverse=True)}  # of equal ones the smallest check is read
    for file in plies.ranges:
        if file[:3] in stay and chosen[file[:3]] == file:
            files.needed.add(plies.path(file))
        elif file[:3] in stay:
            files.replaced[plies.path(file)] = plies.youngest_time([chosen[file[:3]]])
        elif file[:3] in gone:
            files.replaced[plies.path(file)] = gone[file[:3]]
        elif games.effective.has_all_units(file.first, file.end):  # young ones' games may be about to be written
            files.replaced[plies.path(file)] = max(games.find_replacement_time(file), plies.youngest_time([file]))


def _classify_derived_files(table: RangeTable, listing: _TableListing, games: _GameFiles, files: RunTableFiles) -> None:
    """Add the needed and the replaced files of a derived table to ``files``.

    Files for parts of a range of games are needed, because files for the other parts may follow.
    """
    listed = [file for file in listing.ranges if table.is_extent(file.extent)]
    files.needed.update(map(listing.path, games.select_derived_files_of_hidden_games(listed)))
    for extent in {file.extent for file in listed}:
        ranges = select_effective_derived(
            (file for file in listed if table.includes(file.extent, extent)), games.effective
        )
        counted = set(ranges)
        for file in listed:
            if file in counted:
                files.needed.add(listing.path(file))
            elif file.extent != extent or listing.path(file) in files.needed:
                continue
            elif ranges.has_all_units(file.first, file.end):
                files.replaced[listing.path(file)] = listing.youngest_time(
                    ranges.select_overlapping(file.first, file.end)
                )
            elif (of := games.effective.find_range(file.first)) and file.end <= of.end and file[:2] != of[:2]:
                files.needed.add(listing.path(file))  # a part of it


def remove_replaced_files(archive: ArchiveStore, run_id: str, min_age: float = GRACE_SECONDS) -> int:
    """Remove a run's files that were replaced at least ``min_age`` seconds ago, and return the number of files removed.

    Raises ``FailureError`` if a file cannot be removed.
    """
    files = list_needed_and_replaced_files(archive, run_id)
    with explain_errors("remove files from", archive.root):
        latest = archive.backend.read_clock(archive.root) - min_age if files.replaced else 0.0
        old = [path for path, since in files.replaced.items() if since <= latest and path not in files.needed]
        for path in old:
            archive.backend.remove(path)
    return len(old)


# All files of an archive.

AGE_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
SECONDS_BY_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

FOLDERS = (*TABLE_FOLDERS, "runs", "sweeps", policy_cards.FOLDER, sprt_verdicts.FOLDER)

# Paths inside an archive, of the records of runs, tests and sweeps, and of locks.
RUN_FOLDER_PATTERN = rf"run={RUN_ID.pattern}"
RECORD_PATH = re.compile(
    rf"{re.escape(MARKER_NAME)}|runs/{RUN_ID.pattern}\.(json|writer|note\.json)"
    rf"|{sprt_verdicts.FOLDER}/{RUN_FOLDER_PATTERN}/{sprt_verdicts.VERDICT_ID.pattern}\.json"
    r"|sweeps/[^/]+/\d+\.json"
)
# Of what writers leave: files that are not finished, tables, files of policies.
TABLE_FILE = rf"({'|'.join(TABLE_FOLDERS)})/{RUN_FOLDER_PATTERN}/({FILE_NAME.pattern})"
OWN_FILE_PATH = re.compile(
    rf"([^/]+/)*{re.escape(TEMPORARY_PREFIX)}[0-9a-f]{{32}}|{TABLE_FILE}"
    rf"|{policy_cards.FOLDER}/{POLICY_ID.pattern}/{STORED_POLICY_FILE.pattern}"
)


@dataclass(frozen=True)
class UnneededFile:
    """A file that no reader uses."""

    path: PurePath
    bytes: int
    age_seconds: float  # by the clock of the file system, at least 0; for a replaced file, the time since then
    ours: bool  # named as the archive names its files; other files are listed, but never removed
    replaced: bool = False  # readers use other files instead; otherwise, a writer that was killed left the file

    def is_own_and_old_enough(self, least_age: float) -> bool:
        """Return whether the file is named as the archive names files, and is at least ``least_age`` seconds old."""
        return self.ours and self.age_seconds >= least_age


def parse_age(age: str) -> float:
    """Parse an age such as ``30m``, ``1h``, ``2d`` or ``0`` into seconds. Raises ``RequestError`` for anything else."""
    match = AGE_PATTERN.fullmatch(age)
    if not match:
        raise RequestError(f"--age {age} is not a time: write a number and s, m, h or d, as in 30m, 1h or 2d")
    return float(match[1]) * SECONDS_BY_UNIT[match[2]]


def list_unneeded_files(archive: ArchiveStore) -> list[UnneededFile]:
    """List those files in the folders of the archive that no reader uses.

    The replaced files come first, then all others by path. Raises ``FailureError`` if a policy's card is damaged,
    because the files that it names are then unknown.
    """
    needed = set(_list_policy_files(archive))
    replaced: dict[PurePath, float] = {}
    with explain_errors("list", archive.root):
        files = _list_archive_files(archive)
        for run_id in _list_run_ids_with_table_files(archive):
            sorted_out = list_needed_and_replaced_files(
                archive, run_id
            )  # after the listing, so that files written meanwhile count as needed
            needed |= sorted_out.needed
            replaced |= sorted_out.replaced
        moment = archive.backend.read_clock(archive.root)
    order = {path: number for number, path in enumerate(replaced)}  # games come before the tables that belong to them
    unneeded = []
    for path in sorted(files, key=lambda path: (order.get(path, len(order)), path)):
        name, status = archive.relative_name(path), files[path]
        if path not in needed and not RECORD_PATH.fullmatch(name):
            age = max(0.0, moment - replaced.get(path, status.modified))
            ours = OWN_FILE_PATH.fullmatch(name) is not None
            unneeded.append(UnneededFile(path, status.bytes, age, ours, path in replaced))
    return unneeded


def _list_archive_files(archive: ArchiveStore) -> Mapping[PurePath, FileStatus]:
    """Return, by path, the status of each file that is in one of the archive's folders or directly in its root."""
    backend = archive.backend
    files = {
        path: status for folder in FOLDERS for path, status in backend.list_files_below(archive.root / folder).items()
    }
    loose = {path: backend.status(path) for path in (archive.root / name for name in backend.list_names(archive.root))}
    return files | {path: status for path, status in loose.items() if status is not None}


def _list_run_ids_with_table_files(archive: ArchiveStore) -> Iterator[str]:
    """Yield the ids of the runs that have table files."""
    names = {name for table in TABLE_FOLDERS for name in archive.backend.list_names(archive.root / table)}
    return (name.removeprefix("run=") for name in sorted(names) if re.fullmatch(RUN_FOLDER_PATTERN, name))


def _list_policy_files(archive: ArchiveStore) -> Iterator[PurePath]:
    """Yield the paths of all policies' cards, and of the files that the cards name."""
    for policy_id in policy_cards.list_policy_ids(archive):
        folder = policy_cards.policy_folder(archive, policy_id)
        yield folder / policy_cards.CARD
        card = policy_cards.load_card(archive, policy_id)
        yield from (folder / card.stored_name(name) for name in card.files)


def remove_unneeded_files(archive: ArchiveStore, files: Sequence[UnneededFile], least_age: float) -> list[UnneededFile]:
    """Remove those of ``files`` that are named as the archive names files and are old enough; return the removed files.

    A file is old enough if its age is at least ``least_age`` seconds. Files that have become needed meanwhile stay.
    Raises ``FailureError`` if a file cannot be removed.
    """
    able = [file for file in files if file.is_own_and_old_enough(least_age)]
    needed = set(_list_policy_files(archive)) if able else set[PurePath]()
    for run_id in _list_run_ids_with_table_files(archive) if able else ():
        needed |= list_needed_and_replaced_files(archive, run_id).needed
    removed = [file for file in able if file.path not in needed]
    for file in removed:
        with explain_errors("remove", file.path):
            archive.backend.remove(file.path)
    return removed
