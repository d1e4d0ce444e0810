"""Digests: what many shards of a run hold together, so that a question need not open the files of each.

The digest of consecutive shards, some sixteen million games, has two tables: the positions of their first plies, added
up, and their first plies by piece and cell. Eight digests of one level become one of the next, so that there are few.
Whoever asks reads the digests, and the files of the shards in none. A digest is never needed: its tables follow from
the games. It counts as long as the shards that count among its numbers are those that it was made from.

Later positions are in no digest: nearly each is met in one shard only, and a sum would be as large as its parts.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.derived_table import Shard
from analytics.derived_tables.jobs import run_jobs
from analytics.derived_tables.position_index import END_PLY, INDEXES, VERSION, Index
from analytics.derived_tables.summed_positions import summed_positions
from analytics.files.atomic import explained
from analytics.store.archive import Archive, store
from analytics.store.blocks import read_table, table_of
from analytics.store.json_records import Count, StoredRecord, dump
from analytics.store.records import Commit, RunRecord, Sha256, StoredFile, now
from analytics.store.schema import FIRST_PLIES, POSITIONS
from analytics.store.shard_arrays import damaged, read_shard_table
from quarto.batch import GAME_BITS
from quarto.errors import FailureError
from quarto.rules import PIECES

FOLDER = "digests"  # of the manifests
TABLES = {"summed_positions": POSITIONS, "first_plies": FIRST_PLIES}  # the folders of the files, and their columns
NAME = re.compile(r"([0-9]{6,12})-([0-9]{6,12})\.json")
GAMES = 1 << 24  # of the shards of a digest, at least
LEVEL = 8  # as many digests of one level become one of the next
PLIES = 4  # of which positions are added up
COMMAND = "qarena archive index"
REMEDY = f"remove it and run '{COMMAND}'"


class Digest(StoredRecord, frozen=True):
    """The manifest of a digest."""

    first: Count  # it is of the shards with numbers from this one
    end: Count  # to before this one
    shards: Count  # their number
    source: Sha256  # of their numbers and the SHA-256 of their files of plies: see ``source_of``
    level: Count  # 0: it was made from shards; else from digests of the level below
    end_ply: Count  # up to which all of them are indexed, at least
    version: int  # of what the columns of ``positions`` mean
    summed_positions: StoredFile
    first_plies: StoredFile
    created: str  # ISO 8601, UTC

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.first:06d}-{self.end:06d}.json"


class DigestJob(NamedTuple):
    """Consecutive shards of one run that are to have a digest: all indexed, or all in digests of one level."""

    record: RunRecord
    shards: tuple[Shard[Index], ...]
    digests: tuple[Digest, ...] = ()

    @property
    def games(self) -> int:
        return sum(shard.commit.games.rows for shard in self.shards)

    @property
    def end_ply(self) -> int:
        """Up to which all shards are indexed."""
        of_shards = (shard.manifest.end_ply for shard in self.shards if shard.manifest)
        return min((digest.end_ply for digest in self.digests), default=0) or min(of_shards)


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
    """The digests of a run that count, by number; of two that hold a shard, the larger one.

    Raises ``FailureError`` for a damaged one.
    """
    paths = manifest_files(archive, run_id)
    if not paths:
        return []
    commits = archive.commits(run_id)
    numbers = np.array([commit.shard for commit in commits], np.int64)
    found: list[Digest] = []
    every = archive.load_all(paths, Digest, lambda _path, each: each)
    for digest in sorted(every, key=lambda each: (each.first - each.end, each.first)):
        low, high = np.searchsorted(numbers, (digest.first, digest.end)).tolist()
        free = all(digest.end <= other.first or other.end <= digest.first for other in found)
        if free and digest.version == VERSION and digest.source == source_of(commits[low:high]):
            found.append(digest)
    return sorted(found, key=lambda digest: digest.first)


def file_of(archive: Archive, run_id: str, digest: Digest, table: str) -> PurePath:
    """The file of one of a digest's ``TABLES``."""
    return archive.file(table, run_id, getattr(digest, table))


def outside(commits: Sequence[Commit], digests: Sequence[Digest]) -> list[Commit]:
    """The commits that are in none of the digests, both by number."""
    inside = [(digest.first, digest.end) for digest in digests]
    return [commit for commit in commits if not any(first <= commit.shard < end for first, end in inside)]


def digest_jobs(archive: Archive, run_ids: Sequence[str], games: int = GAMES) -> Iterator[DigestJob]:
    """The shards of runs that are to have a digest: those that follow one another, in none yet, and all indexed.

    What is left at the end, fewer than ``games`` games, waits for more. Raises ``FailureError`` for a damaged file.
    """
    for run_id in run_ids:
        digests = counting(archive, run_id)
        loose = outside(archive.commits(run_id), digests)
        if sum(commit.games.rows for commit in loose) < games:
            continue
        shards = {shard.commit.shard: shard for shard in INDEXES.shards(archive, [run_id])}
        group: list[Shard[Index]] = []
        ends = {digest.first for digest in digests}  # a group may not go on behind a digest
        for commit in loose:
            shard = shards[commit.shard]
            if group and any(group[-1].commit.shard < end < commit.shard for end in ends):
                group = []
            group = [*group, shard] if shard.manifest and shard.manifest.end_ply >= END_PLY else []
            if sum(each.commit.games.rows for each in group) >= games:
                if len(group) > 1:
                    yield DigestJob(shard.record, tuple(group))
                group = []


def joining_jobs(archive: Archive, run_ids: Sequence[str]) -> Iterator[DigestJob]:
    """The digests of runs that are to become one of the next level: they follow one another, no shard between them.

    Raises ``FailureError`` for a damaged file.
    """
    for run_id in run_ids:
        record, digests = archive.run(run_id), counting(archive, run_id)
        if record is None or len(digests) < LEVEL:
            continue
        commits = archive.commits(run_id)
        loose = [commit.shard for commit in outside(commits, digests)]
        group: list[Digest] = []
        for digest in digests:
            follows = group and group[-1].level == digest.level
            if not follows or any(group[-1].end <= number < digest.first for number in loose):
                group = []
            group.append(digest)
            if len(group) == LEVEL:
                own = (each for each in commits if group[0].first <= each.shard < group[-1].end)
                yield DigestJob(record, tuple(Shard(record, each, None) for each in own), tuple(group))
                group = []


def make(archive: Archive, job: DigestJob) -> Digest | None:
    """Make and store a digest; None: another process was faster. Raises ``FailureError`` for a damaged file."""
    run_id, commits = job.record.run_id, [shard.commit for shard in job.shards]
    first, end = commits[0].shard, commits[-1].shard + 1
    tables = {table: make_table(archive, job) for table, make_table in MAKERS.items()}
    name = f"part-{first:06d}-{uuid.uuid4().hex}.parquet"
    with explained("write to", archive.root), archive.backend.pending() as pending:
        stored = {
            table: store(pending, archive.folder(table, run_id) / name, table_of(frame))
            for table, frame in tables.items()
        }
        level = job.digests[0].level + 1 if job.digests else 0
        source = source_of(commits)
        digest = Digest(first, end, len(commits), source, level, job.end_ply, VERSION, **stored, created=now())
        target = archive.folder(FOLDER, run_id) / digest.name
        if archive.backend.create(target, dump(digest), pending.check):
            return digest
        pending.refused()
        if digest.name not in {each.name for each in counting(archive, run_id)}:  # of shards that were replaced since
            archive.backend.replace(target, dump(digest), pending.check)
            return digest
        pending.drop()
    return None


def make_all(
    archive: Archive, jobs: Sequence[DigestJob], threads: int, progress: Callable[[int], None] = lambda _games: None
) -> None:
    """Make digests on several threads, then join them; ``progress`` is called with the games of each of ``jobs``."""
    run_jobs((partial(_made, archive, job) for job in jobs), threads, progress)
    run_ids = sorted({job.record.run_id for job in jobs})
    while joining := [*joining_jobs(archive, run_ids)]:
        for job in joining:
            make(archive, job)


def _made(archive: Archive, job: DigestJob) -> int:
    make(archive, job)
    return job.games


def _positions(archive: Archive, job: DigestJob) -> pl.DataFrame:
    of_shards = (_index_of(archive, shard) for shard in job.shards)
    tables = _tables_of(archive, job, "summed_positions") if job.digests else of_shards
    return summed_positions(tables, job.record.rules, job.record.spec["opening_plies"], PLIES)


def _tables_of(archive: Archive, job: DigestJob, table: str) -> Iterator[pl.DataFrame]:
    """A table of each of the digests that are to become one."""
    for digest in job.digests:
        path = file_of(archive, job.record.run_id, digest, table)
        try:
            yield read_table(archive.backend, path, getattr(digest, table), TABLES[table])
        except ValueError as error:
            raise FailureError(f"{path} {error}; {REMEDY}") from error


def _index_of(archive: Archive, shard: Shard[Index]) -> pl.DataFrame:
    if shard.manifest is None:
        raise FailureError(f"shard {shard.commit.shard} of run {shard.record.run_id} is not indexed: run '{COMMAND}'")
    path = INDEXES.file(archive, shard.record.run_id, shard.manifest)
    try:
        return read_table(archive.backend, path, shard.manifest.positions, POSITIONS)
    except ValueError as error:
        raise FailureError(f"{path} {error}; {INDEXES.remedy}") from error


def _first_plies(archive: Archive, job: DigestJob) -> pl.DataFrame:
    """The first plies of a job's games, counted."""
    if job.digests:
        key = ["pairing", "second", "piece", "cell"]
        return (
            pl.concat(_tables_of(archive, job, "first_plies"))
            .group_by(key)
            .agg(pl.sum("games", "wins", "draws"))
            .sort(key)
        )
    counts = np.zeros((len(job.record.pairings), 2, PIECES, PIECES, 3), np.int64)
    for shard in job.shards:
        rows = read_shard_table(archive, shard.record.run_id, shard.commit, "plies")
        first = rows.filter(pl.col("ply") == 0)
        try:
            counts += _counted(first, counts.shape)
        except ValueError as error:
            raise damaged(archive, shard.record.run_id, shard.commit.plies, "plies", error) from error
    return first_plies_frame(counts)


def _counted(rows: pl.DataFrame, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Counts of first plies: [pairing, second, piece, cell, outcome + 1]."""
    game_id = rows["game_id"].to_numpy()
    indices = (
        game_id >> GAME_BITS,
        1 ^ (game_id & 1),  # the placer of ply 0 has seat 1: in game 0 of a pair the pairing's second agent
        rows["piece"].to_numpy().astype(np.int64),
        rows["cell"].to_numpy().astype(np.int64),
        rows["outcome"].to_numpy().astype(np.int64) + 1,
    )
    return np.bincount(np.ravel_multi_index(indices, shape), minlength=int(np.prod(shape))).reshape(shape)


def first_plies_frame(counts: NDArray[np.int64]) -> pl.DataFrame:
    """Counts [pairing, second, piece, cell, outcome + 1] as a table by the schema ``FIRST_PLIES``."""
    games = counts.sum(axis=-1)
    met = np.nonzero(games)
    columns: Mapping[str, NDArray[np.int64]] = {
        **dict(zip(("pairing", "second", "piece", "cell"), met, strict=True)),
        "games": games[met],
        "wins": counts[..., 2][met],
        "draws": counts[..., 1][met],
    }
    return pl.DataFrame(columns).cast(FIRST_PLIES)


MAKERS: Mapping[str, Callable[[Archive, DigestJob], pl.DataFrame]] = {
    "summed_positions": _positions,
    "first_plies": _first_plies,
}
