"""Finds and removes garbage: files in an archive that no commit, manifest or card names.

A writer that is killed leaves such files. They never count. One that lives, suspended or slow, has files that it will
still name: it keeps them locked, and they are left alone. Where the file system has no locks, their age has to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from analytics.derived_tables import digests
from analytics.derived_tables.decisions import ANNOTATIONS
from analytics.derived_tables.derived_table import DerivedTable
from analytics.derived_tables.position_index import INDEXES
from analytics.files.atomic import TEMPORARY, explained
from analytics.store import checkpoints, policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.marker import MARKER
from analytics.store.records import COMMIT, PART, POLICY_ID, RUN_ID, STORED_POLICY_FILE
from analytics.store.schema import TABLES
from quarto.errors import RequestError

AGES = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
LOCKED_AT_ONCE = 100  # files: each takes a descriptor

DERIVED = (ANNOTATIONS, INDEXES)
PART_FOLDERS = (*TABLES, *(table.name for table in DERIVED), *digests.TABLES)  # of runs, table files
RECORD_FOLDERS = ("commits", *(table.manifests for table in DERIVED))  # of runs, a JSON file a shard
FOLDERS = (
    *PART_FOLDERS,
    *RECORD_FOLDERS,
    checkpoints.FOLDER,
    digests.FOLDER,
    "runs",
    "sweeps",
    policy_cards.FOLDER,
    sprt_verdicts.FOLDER,
)

# Paths inside an archive, of the records of runs, shards, tests and sweeps: they name files and are named by none.
RUN = rf"run={RUN_ID.pattern}"
RECORDS = re.compile(
    rf"runs/{RUN_ID.pattern}\.json"
    rf"|({'|'.join(RECORD_FOLDERS)})/{RUN}/{COMMIT.pattern}"
    rf"|{sprt_verdicts.FOLDER}/{RUN}/{sprt_verdicts.VERDICT_ID.pattern}\.json"
    r"|sweeps/[^/]+/\d+\.json"
)
# Of what writers leave: files that are not finished, tables, files of policies.
OURS = re.compile(
    rf"([^/]+/)*{re.escape(TEMPORARY)}[0-9a-f]{{32}}"
    rf"|({'|'.join(PART_FOLDERS)})/{RUN}/{PART.pattern}"
    rf"|{checkpoints.FOLDER}/{RUN}/{checkpoints.NAME.pattern}"
    rf"|{digests.FOLDER}/{RUN}/{digests.NAME.pattern}"
    rf"|{policy_cards.FOLDER}/{POLICY_ID.pattern}/{STORED_POLICY_FILE.pattern}"
)


@dataclass(frozen=True)
class UnreferencedFile:
    """A file that nothing names."""

    path: PurePath
    bytes: int
    age_seconds: float  # by the clock of the file system, at least 0
    ours: bool  # named as the archive names its files; others are listed, and never removed
    in_use: bool  # locked by a writer that lives
    replaced: bool = False  # of a shard that another replaced; its age is the time since then


def seconds_of(age: str) -> float:
    """The seconds of an age such as ``30m``, ``1h``, ``2d`` or ``0``. Raises ``RequestError`` for anything else."""
    found = AGES.fullmatch(age)
    if not found:
        raise RequestError(f"--age {age} is not a time: write a number and s, m, h or d, as in 30m, 1h or 2d")
    return float(found[1]) * SECONDS[found[2]]


def named_files(archive: Archive) -> set[PurePath]:
    """All files that commits, manifests and cards name. Raises ``FailureError`` for a damaged one of these.

    What was replaced is named until it is removed, and is no longer needed: see ``_replaced``.
    """
    named = {archive.root / MARKER, *_of_policies(archive), *_of_digests(archive)}
    for table in TABLES:
        named.update(archive.committed_files(table))
    for derived in DERIVED:
        named.update(derived.files(archive))
    return named


def _replaced(archive: Archive) -> dict[PurePath, float]:
    """The files of commits that others replaced, with the commits themselves, and the moment when that was."""
    found: dict[PurePath, float] = {}
    for run_id in archive.run_ids():
        log = archive.log(run_id)
        since: dict[int, float] = {}
        for commit in log.all.values() if log.replaced else ():
            moment = log.listed[commit.shard].modified
            for number in (each for first, end in commit.replaces for each in range(first, end)):
                since[number] = min(moment, since.get(number, moment))
        for number, moment in since.items():
            if number in log.all:
                found[log.place.path(number)] = moment
                found |= {archive.file(table, run_id, getattr(log.all[number], table)): moment for table in TABLES}
        for derived in DERIVED:
            found |= _replaced_tables(archive, run_id, derived, since)
    return found


def _replaced_tables(
    archive: Archive, run_id: str, derived: DerivedTable[Any], since: Mapping[int, float]
) -> Iterator[tuple[PurePath, float]]:
    """The manifests of shards that were replaced, and their files."""
    for path in derived.manifest_files(archive, run_id) if since else ():
        if int(path.stem) in since:
            yield path, since[int(path.stem)]
            yield derived.file(archive, run_id, derived.load(archive, path)), since[int(path.stem)]
    for number, commit in archive.log(run_id).all.items() if since else ():
        own = derived.of_commit(commit)
        if number in since and own is not None:
            yield derived.file(archive, run_id, own), since[number]


def _used_checkpoints(archive: Archive) -> set[PurePath]:
    """The checkpoints that readers read: none is in another one."""
    return {
        folder / name
        for folder in archive.backend.folders(archive.root / checkpoints.FOLDER)
        for name in checkpoints.chosen(archive.backend.names(folder))
    }


def unreferenced_files(archive: Archive) -> list[UnreferencedFile]:
    """All files in the archive's own folders that nothing names, sorted.

    Raises ``FailureError`` for a damaged commit, manifest or card: the files that it named cannot be known.
    """
    named, replaced, backend = named_files(archive), _replaced(archive), archive.backend
    found = []
    with explained("list", archive.root):
        moment = backend.clock(archive.root)
        files = {path: status for folder in FOLDERS for path, status in backend.below(archive.root / folder).items()}
        loose = {path: backend.status(path) for path in backend.entries(archive.root) if path not in named}
        files |= {path: status for path, status in loose.items() if status is not None}
        named |= _used_checkpoints(archive)
        for path, status in sorted(files.items()):
            name = archive.name_of(path)
            if path in replaced:
                age = max(0.0, moment - replaced[path])
                found.append(UnreferencedFile(path, status.bytes, age, True, False, True))
                continue
            if path in named or RECORDS.fullmatch(name):
                continue
            age, ours = max(0.0, moment - status.modified), OURS.fullmatch(name) is not None
            found.append(UnreferencedFile(path, status.bytes, age, ours, backend.is_pending(path)))
    return found


def _of_policies(archive: Archive) -> Iterator[PurePath]:
    """The cards of policies and the files that they name."""
    for policy_id in policy_cards.policy_ids(archive):
        folder = policy_cards.folder_of(archive, policy_id)
        yield folder / policy_cards.CARD
        card = policy_cards.read_card(archive, policy_id)
        for name in card.files:
            yield folder / card.stored_name(name)


def _of_digests(archive: Archive) -> Iterator[PurePath]:
    """The manifests of the digests that count, and their files."""
    for run_id in archive.run_ids():
        for digest in digests.counting(archive, run_id):
            yield archive.folder(digests.FOLDER, run_id) / digest.name
            yield from (path for path, _ in digests.files_of(archive, run_id, digest))


def is_removable(file: UnreferencedFile, least_age: float) -> bool:
    """Whether a file is ours, old enough, and kept by no writer."""
    return file.ours and not file.in_use and file.age_seconds >= least_age


def remove(archive: Archive, found: Sequence[UnreferencedFile], least_age: float) -> list[UnreferencedFile]:
    """Remove the files that are ours, at least so many seconds old and not in use, and return them.

    Raises ``FailureError`` when a file cannot be removed.
    """
    able = [file for file in found if is_removable(file, least_age)]
    gone = {file.path for file in able if file.replaced} & set(_replaced(archive))
    for path in sorted(gone):  # commits before the tables that they name; nobody is going to name one of these again
        with explained("remove", path):
            archive.backend.remove(path)
    others = [file for file in able if not file.replaced]
    parts = (others[first : first + LOCKED_AT_ONCE] for first in range(0, len(others), LOCKED_AT_ONCE))
    removed = [file for part in parts for file in _remove(archive, part)]
    return [*(file for file in able if file.path in gone), *removed]


def _remove(archive: Archive, files: Sequence[UnreferencedFile]) -> Iterator[UnreferencedFile]:
    """Claim files, so that no writer will name them, look once more that none has, and remove them."""
    with ExitStack() as stack:
        claimed = []
        for file in files:
            with explained("remove", file.path):
                if stack.enter_context(archive.backend.claimed(file.path)):
                    claimed.append(file)
        named = named_files(archive) | _used_checkpoints(archive)
        for file in claimed:
            if file.path not in named:
                with explained("remove", file.path):
                    archive.backend.remove(file.path)
                yield file
