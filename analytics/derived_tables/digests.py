"""Digests: what many shards of a run hold together, so that a question need not open the files of each.

The digest of consecutive shards, some sixteen million games, has two tables: their indexed positions, added up, and
their first plies by piece and cell. Eight digests of one level become one of the next, so that there are few: an LSM
tree (O'Neil et al., The log-structured merge-tree, Acta Informatica 33, 1996). The positions are sorted and cut into
files, and the manifest says from which position to which each goes. So whoever asks for a position reads one file of
each digest, and the files of the shards in none. A digest is never needed: its tables follow from the games. It counts
as long as the shards that count among its numbers are those that it was made from.

``analytics.derived_tables.digest_making`` makes them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath

import numpy as np

from analytics.derived_tables.merged_positions import Key
from analytics.derived_tables.position_index import VERSION
from analytics.files.atomic import explained
from analytics.store.archive import Archive
from analytics.store.json_records import Count, StoredRecord
from analytics.store.records import Commit, Sha256, StoredFile
from analytics.store.schema import FIRST_PLIES, POSITIONS

FOLDER = "digests"  # of the manifests
TABLES = {"summed_positions": POSITIONS, "first_plies": FIRST_PLIES}  # the folders of the files, and their columns
NAME = re.compile(r"([0-9]{6,12})-([0-9]{6,12})\.json")
COMMAND = "qarena archive index"
REMEDY = f"remove it and run '{COMMAND}'"


class PositionsPart(StoredFile, frozen=True):
    """A file with consecutive rows of the positions of a digest: ply, occupied and board of its first and last row."""

    first: tuple[Count, Count, Count]
    last: tuple[Count, Count, Count]


class Digest(StoredRecord, frozen=True):
    """The manifest of a digest."""

    first: Count  # it is of the shards with numbers from this one
    end: Count  # to before this one
    shards: Count  # their number
    source: Sha256  # of their numbers and the SHA-256 of their files of plies: see ``source_of``
    level: (
        Count  # 0: of fewer games than a digest is to have; 1: made from shards; else from digests of the level below
    )
    end_ply: Count  # it has the positions of the plies before this one
    version: int  # of what the columns of ``positions`` mean
    summed_positions: tuple[PositionsPart, ...]  # in order
    first_plies: StoredFile
    created: str  # ISO 8601, UTC

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.first:06d}-{self.end:06d}.json"


def source_of(commits: Sequence[Commit]) -> str:
    """The SHA-256 of the JSON list of the numbers of shards and the SHA-256 of their files of plies."""
    listed = [[commit.shard, commit.plies.sha256] for commit in commits]
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


def manifest_files(archive: Archive, run_id: str) -> list[PurePath]:
    """The manifests of a run's digests, damaged or not, by the numbers of their shards."""
    folder = archive.folder(FOLDER, run_id)
    with explained("list", folder):
        return [folder / name for name in sorted(filter(NAME.fullmatch, archive.backend.names(folder)))]


def counting(archive: Archive, run_id: str) -> list[Digest]:
    """The digests of a run that count, by number; of two that hold a shard, the one of more plies, then the larger one.

    Raises ``FailureError`` for a damaged one.
    """
    paths = manifest_files(archive, run_id)
    if not paths:
        return []
    commits = archive.commits(run_id)
    numbers = np.array([commit.shard for commit in commits], np.int64)
    found: list[Digest] = []
    every = archive.load_all(paths, Digest, lambda _path, each: each)
    for digest in sorted(every, key=lambda each: (-each.end_ply, each.first - each.end, each.first)):
        low, high = np.searchsorted(numbers, (digest.first, digest.end)).tolist()
        free = all(digest.end <= other.first or other.end <= digest.first for other in found)
        if free and digest.version == VERSION and digest.source == source_of(commits[low:high]):
            found.append(digest)
    return sorted(found, key=lambda digest: digest.first)


def files_of(archive: Archive, run_id: str, digest: Digest) -> list[tuple[PurePath, StoredFile]]:
    """The files of a digest: first those of its positions, in order, then that of its first plies."""
    positions = [(archive.file("summed_positions", run_id, part), part) for part in digest.summed_positions]
    return [*positions, (archive.file("first_plies", run_id, digest.first_plies), digest.first_plies)]


def positions_at(digest: Digest, first: Key, last: Key) -> list[PositionsPart]:
    """The parts of a digest in which there may be rows from ``first`` to ``last``."""
    return [part for part in digest.summed_positions if part.first <= last and first <= part.last]


def outside(commits: Sequence[Commit], digests: Sequence[Digest]) -> list[Commit]:
    """The commits that are in none of the digests, both by number."""
    inside = [(digest.first, digest.end) for digest in digests]
    return [commit for commit in commits if not any(first <= commit.shard < end for first, end in inside)]
