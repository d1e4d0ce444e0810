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
    rf"|{policy_store.FOLDER}/{POLICY_ID.pattern}/{POLICY_FILE.pattern}"
)


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
            name = path.relative_to(archive.root).as_posix()
            if path in named or not path.is_file() or RECORDS.fullmatch(name):
                continue
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # a writer has removed or renamed it meanwhile
            ours = OURS.fullmatch(name) is not None
            found.append(UnreferencedFile(path, status.st_size, moment - status.st_mtime, ours))
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
