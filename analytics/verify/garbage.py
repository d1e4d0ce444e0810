"""Finds and removes garbage: files in an archive that no commit, manifest or card names.

A writer that is killed or loses a race leaves such files. They never count.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analytics.policies import policy_store
from analytics.store import sprt_verdicts
from analytics.store.archive import MARKER, Archive
from analytics.store.atomic import TEMPORARY, explained
from analytics.store.decisions import ANNOTATIONS
from analytics.store.position_index import INDEXES
from analytics.store.records import COMMIT, PART, POLICY_FILE, POLICY_ID, RUN_ID
from analytics.store.schema import TABLES

GRACE_SECONDS = 3600.0  # a younger file may belong to a writer that has not committed yet

DERIVED = (ANNOTATIONS, INDEXES)
PART_FOLDERS = (*TABLES, *(table.name for table in DERIVED))  # of runs, table files
RECORD_FOLDERS = ("commits", *(table.manifests for table in DERIVED))  # of runs, a JSON file a shard
FOLDERS = (*PART_FOLDERS, *RECORD_FOLDERS, "runs", "sweeps", policy_store.FOLDER, sprt_verdicts.FOLDER)

_TEMPORARY = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{32}")


@dataclass(frozen=True)
class UnreferencedFile:
    """A file that nothing names."""

    path: Path
    bytes: int
    age_seconds: float
    ours: bool  # named as the archive names its files; others are listed, and never removed


def unreferenced_files(archive: Archive) -> list[UnreferencedFile]:
    """All files in the archive's own folders that nothing names, sorted.

    Raises ``FailureError`` for a damaged commit, manifest or card: the files that it named cannot be known.
    """
    named = {archive.root / MARKER, *_of_policies(archive)}
    for table in TABLES:
        named.update(archive.committed_files(table))
    for derived in DERIVED:
        named.update(derived.files(archive))
    found = []
    moment = time.time()
    with explained("list", archive.root):
        paths = [path for folder in FOLDERS for path in (archive.root / folder).rglob("*")]
        for path in sorted([*paths, *archive.root.glob("*")]):
            if path in named or not path.is_file() or _is_record(archive.root, path):
                continue
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # a writer has removed or renamed it meanwhile
            age = moment - status.st_mtime
            found.append(UnreferencedFile(path, status.st_size, age, _is_ours(archive.root, path)))
    return found


def _of_policies(archive: Archive) -> Iterator[Path]:
    """The cards of policies and the files that they name."""
    for policy_id in policy_store.policy_ids(archive):
        folder = policy_store.folder_of(archive, policy_id)
        yield folder / policy_store.CARD
        for name in policy_store.read_card(archive, policy_id).files:
            yield folder / name


def remove(found: Sequence[UnreferencedFile], older_than_seconds: float = GRACE_SECONDS) -> list[UnreferencedFile]:
    """Remove the files that are ours and old enough, and return them.

    Raises ``FailureError`` when a file cannot be removed.
    """
    removed = [file for file in found if file.ours and file.age_seconds >= older_than_seconds]
    for file in removed:
        with explained("remove", file.path):
            file.path.unlink(missing_ok=True)
    return removed


def _is_record(root: Path, path: Path) -> bool:
    """Whether the place and name of a file are those of a record of a run, shard, test or sweep."""
    match path.relative_to(root).parts:
        case ("runs", name):
            return name.endswith(".json") and bool(RUN_ID.fullmatch(name[:-5]))
        case (records, folder, name) if records in RECORD_FOLDERS:
            return _is_run_folder(folder) and bool(COMMIT.fullmatch(name))
        case (sprt_verdicts.FOLDER, folder, name):
            return (
                _is_run_folder(folder)
                and name.endswith(".json")
                and bool(sprt_verdicts.VERDICT_ID.fullmatch(name[:-5]))
            )
        case ("sweeps", _, name):
            return name.endswith(".json") and name[:-5].isdecimal()
    return False


def _is_ours(root: Path, path: Path) -> bool:
    """Whether the place and name of a file are those of a table, or of a file that is not finished."""
    if _TEMPORARY.fullmatch(path.name):
        return True
    match path.relative_to(root).parts:
        case (table, folder, name) if table in PART_FOLDERS:
            return _is_run_folder(folder) and bool(PART.fullmatch(name))
        case (policy_store.FOLDER, folder, name):
            return bool(POLICY_ID.fullmatch(folder) and POLICY_FILE.fullmatch(name))
    return False


def _is_run_folder(name: str) -> bool:
    return name.startswith("run=") and bool(RUN_ID.fullmatch(name[4:]))
