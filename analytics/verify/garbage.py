"""Finds and removes garbage: leftovers of killed writers, replaced files, and policies' files that no card names.

A file that counts is no garbage, nor is a file whose games are nowhere else. Files with names that no archive gives are
listed and never removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from analytics.derived_tables.replaced import table_files
from analytics.derived_tables.tables import FOLDERS as TABLE_FOLDERS
from analytics.files.backend import TEMPORARY, FileStatus, explained
from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.marker import MARKER
from analytics.store.policy_cards import POLICY_ID, STORED_POLICY_FILE
from analytics.store.ranges import NAME
from analytics.store.records import RUN_ID
from quarto.errors import RequestError

AGES = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

FOLDERS = (*TABLE_FOLDERS, "runs", "sweeps", policy_cards.FOLDER, sprt_verdicts.FOLDER)

# Paths inside an archive, of the records of runs, tests and sweeps, and of locks.
RUN = rf"run={RUN_ID.pattern}"
RECORDS = re.compile(
    rf"{re.escape(MARKER)}|runs/{RUN_ID.pattern}\.(json|writer)"
    rf"|{sprt_verdicts.FOLDER}/{RUN}/{sprt_verdicts.VERDICT_ID.pattern}\.json"
    r"|sweeps/[^/]+/\d+\.json"
)
# Of what writers leave: files that are not finished, tables, files of policies.
TABLE_FILE = rf"({'|'.join(TABLE_FOLDERS)})/{RUN}/({NAME.pattern})"
OURS = re.compile(
    rf"([^/]+/)*{re.escape(TEMPORARY)}[0-9a-f]{{32}}|{TABLE_FILE}"
    rf"|{policy_cards.FOLDER}/{POLICY_ID.pattern}/{STORED_POLICY_FILE.pattern}"
)


@dataclass(frozen=True)
class UnneededFile:
    """A file that does not count."""

    path: PurePath
    bytes: int
    age_seconds: float  # by the clock of the file system, at least 0; if others replaced it, since they did
    ours: bool  # named as the archive names its files; others are listed, and never removed

    def is_removable(self, least_age: float) -> bool:
        """Whether it is ours, and old enough."""
        return self.ours and self.age_seconds >= least_age


def seconds_of(age: str) -> float:
    """The seconds of an age such as ``30m``, ``1h``, ``2d`` or ``0``. Raises ``RequestError`` for anything else."""
    found = AGES.fullmatch(age)
    if not found:
        raise RequestError(f"--age {age} is not a time: write a number and s, m, h or d, as in 30m, 1h or 2d")
    return float(found[1]) * SECONDS[found[2]]


def unneeded_files(archive: Archive) -> list[UnneededFile]:
    """All files in the archive's folders that do not count: the replaced ones, then the others, each sorted.

    Raises ``FailureError`` for a damaged card of a policy: the files that it named cannot be known.
    """
    needed = set(_of_policies(archive))
    replaced: dict[PurePath, float] = {}
    with explained("list", archive.root):
        files = _files(archive)
        for run_id in _runs(archive):
            sorted_out = table_files(archive, run_id)  # after the list: what was written meanwhile is needed
            needed |= sorted_out.needed
            replaced |= sorted_out.replaced
        moment = archive.backend.clock(archive.root)
    order = {path: number for number, path in enumerate(replaced)}  # of games before the tables that are read with them
    found = []
    for path in sorted(files, key=lambda path: (order.get(path, len(order)), path)):
        name, status = archive.name_of(path), files[path]
        if path not in needed and not RECORDS.fullmatch(name):
            age = max(0.0, moment - replaced.get(path, status.modified))
            found.append(UnneededFile(path, status.bytes, age, OURS.fullmatch(name) is not None))
    return found


def _files(archive: Archive) -> Mapping[PurePath, FileStatus]:
    """The files in the archive's folders, and those that lie beside them."""
    backend = archive.backend
    files = {path: status for folder in FOLDERS for path, status in backend.below(archive.root / folder).items()}
    loose = {path: backend.status(path) for path in (archive.root / name for name in backend.names(archive.root))}
    return files | {path: status for path, status in loose.items() if status is not None}


def _runs(archive: Archive) -> Iterator[str]:
    """The runs that have table files."""
    names = {name for table in TABLE_FOLDERS for name in archive.backend.names(archive.root / table)}
    return (name.removeprefix("run=") for name in sorted(names) if re.fullmatch(RUN, name))


def _of_policies(archive: Archive) -> Iterator[PurePath]:
    """The cards of policies and the files that they name."""
    for policy_id in policy_cards.policy_ids(archive):
        folder = policy_cards.folder_of(archive, policy_id)
        yield folder / policy_cards.CARD
        card = policy_cards.read_card(archive, policy_id)
        yield from (folder / card.stored_name(name) for name in card.files)


def remove(archive: Archive, found: Sequence[UnneededFile], least_age: float) -> list[UnneededFile]:
    """Remove the files that are ours and at least so many seconds old, unless they count by now, and return them.

    Raises ``FailureError`` when a file cannot be removed.
    """
    able = [file for file in found if file.is_removable(least_age)]
    needed = set(_of_policies(archive)) if able else set[PurePath]()
    for run_id in _runs(archive) if able else ():
        needed |= table_files(archive, run_id).needed
    removed = [file for file in able if file.path not in needed]
    for file in removed:
        with explained("remove", file.path):
            archive.backend.remove(file.path)
    return removed
