"""What crashes left in an archive: files that no commit names. They never count; this finds and removes them."""

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
from analytics.store.decisions import decision_files
from analytics.store.position_index import position_files
from analytics.store.records import COMMIT, PART, POLICY_FILE, POLICY_ID, RUN_ID
from analytics.store.schema import TABLES

GRACE_SECONDS = 3600.0  # a younger file may belong to a writer that has not committed yet

DERIVED = ("decisions", "positions")  # tables that were made from games
RECORDS = ("commits", "annotations", "indexes")  # of runs, a file a shard
FOLDERS = (*TABLES, *DERIVED, *RECORDS, "runs", "sweeps", policy_store.FOLDER, sprt_verdicts.FOLDER)

_TEMPORARY = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{32}")


@dataclass(frozen=True)
class Leftover:
    """A file that does not count."""

    path: Path
    bytes: int
    age_seconds: float
    ours: bool  # named as the archive names its files; a foreign file is only reported, never removed


def leftovers(archive: Archive) -> list[Leftover]:
    """All files in the archive's own folders that are not part of it, sorted.

    Raises ``FailureError`` for a damaged commit or card: what it named cannot be known, so nothing may be called a
    leftover.
    """
    named = {archive.root / MARKER, *_of_policies(archive)}
    for table in TABLES:
        named.update(archive.committed_files(table))
    named.update(decision_files(archive))
    named.update(position_files(archive))
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
                continue  # a writer was faster
            found.append(Leftover(path, status.st_size, moment - status.st_mtime, _is_ours(archive.root, path)))
    return found


def _of_policies(archive: Archive) -> Iterator[Path]:
    """The files that cards of policies name, and the cards."""
    for policy_id in policy_store.policy_ids(archive):
        folder = policy_store.folder_of(archive, policy_id)
        yield folder / policy_store.CARD
        for name in policy_store.read_card(archive, policy_id).files:
            yield folder / name


def remove(found: Sequence[Leftover], older_than_seconds: float = GRACE_SECONDS) -> list[Leftover]:
    """Remove those that are ours and old enough; the ones removed. Raises ``FailureError`` when the disk refuses."""
    removed = [leftover for leftover in found if leftover.ours and leftover.age_seconds >= older_than_seconds]
    for leftover in removed:
        with explained("remove", leftover.path):
            leftover.path.unlink(missing_ok=True)
    return removed


def _is_record(root: Path, path: Path) -> bool:
    """Whether a file is a record of a run, of one of its shards or tests, or of a sweep by its place and name."""
    match path.relative_to(root).parts:
        case ("runs", name):
            return name.endswith(".json") and bool(RUN_ID.fullmatch(name[:-5]))
        case (records, folder, name) if records in RECORDS:
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
    if _TEMPORARY.fullmatch(path.name):
        return True
    match path.relative_to(root).parts:
        case (table, folder, name) if table in (*TABLES, *DERIVED):
            return _is_run_folder(folder) and bool(PART.fullmatch(name))
        case (policy_store.FOLDER, folder, name):
            return bool(POLICY_ID.fullmatch(folder) and POLICY_FILE.fullmatch(name))
    return False


def _is_run_folder(name: str) -> bool:
    return name.startswith("run=") and bool(RUN_ID.fullmatch(name[4:]))
