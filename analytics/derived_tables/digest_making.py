"""Makes digests: which shards are to have one, and its tables, which are merged and stored part by part."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.derived_table import Shard, parts_of_file
from analytics.derived_tables.digests import (
    COMMAND,
    FOLDER,
    REMEDY,
    Digest,
    PositionsPart,
    counting,
    outside,
    source_of,
)
from analytics.derived_tables.jobs import run_jobs
from analytics.derived_tables.merged_positions import SortedPart, merged, rows_at_once, sorted_parts
from analytics.derived_tables.position_index import END_PLY, INDEXES, VERSION, Index
from analytics.files.atomic import explained
from analytics.files.pending import PendingFiles
from analytics.store.archive import Archive, store
from analytics.store.blocks import ROW_GROUP_ROWS, table_of
from analytics.store.json_records import dump
from analytics.store.records import Commit, RunRecord, StoredFile, now
from analytics.store.schema import FIRST_PLIES, POSITIONS
from analytics.store.range_files import damaged, row_parts
from quarto.batch import GAME_BITS
from quarto.errors import FailureError
from quarto.rules import PIECES

GAMES = 1 << 24  # of the shards of a digest, at least
LEVEL = 8  # as many digests of one level become one of the next
SHARE = 8  # what is left gets a digest of its own whenever one part of so many of ``GAMES`` is new
PART_ROWS = 1 << 20  # of a file of positions, some six megabytes: where there are few, a question reads little
MOST_PARTS = 256  # of a digest: larger ones have larger parts


class DigestJob(NamedTuple):
    """Consecutive shards of one run that are to have a digest: all indexed, or all in digests of one level."""

    record: RunRecord
    shards: tuple[Shard[Index], ...]
    level: int
    digests: tuple[Digest, ...] = ()

    @property
    def games(self) -> int:
        return sum(shard.commit.games.rows for shard in self.shards)

    @property
    def end_ply(self) -> int:
        """Up to which all shards are indexed."""
        of_shards = (shard.manifest.end_ply for shard in self.shards if shard.manifest)
        return min((digest.end_ply for digest in self.digests), default=0) or min(of_shards)


def digest_jobs(archive: Archive, run_ids: Sequence[str], games: int = GAMES) -> Iterator[DigestJob]:
    """The shards of runs that are to have a digest: those that follow one another, all indexed, ``games`` or more.

    Where a run has digests, so have what is left, with fewer games, until more follow. A digest that has fewer plies
    than the indexes of its shards is made again. Raises ``FailureError`` for a damaged file.
    """
    for run_id in run_ids:
        commits, digests = archive.commits(run_id), counting(archive, run_id)
        if not digests and sum(commit.games.rows for commit in commits) < games:
            continue
        shards = {shard.commit.shard: shard for shard in INDEXES.shards(archive, [run_id])}
        kept = [each for each in digests if each.level and not _is_shallow(each, shards)]
        small = [each for each in digests if not each.level and not _is_shallow(each, shards)]
        known = {commit.shard for commit in commits} - {commit.shard for commit in outside(commits, small)}
        for group in _following([shards[commit.shard] for commit in outside(commits, kept)], kept):
            for shards_of_one in _filled(group, games):
                new = sum(each.commit.games.rows for each in shards_of_one if each.commit.shard not in known)
                job = DigestJob(shards_of_one[0].record, tuple(shards_of_one), 1)
                if job.games < games:
                    if new < games / SHARE or not (kept or len(shards_of_one) < len(group)):
                        continue
                    job = job._replace(level=0)
                if len(shards_of_one) > 1:
                    yield job


def _is_shallow(digest: Digest, shards: Mapping[int, Shard[Index]]) -> bool:
    """Whether all shards of a digest are indexed deeper than it is."""
    own = (shard.manifest for number, shard in shards.items() if digest.first <= number < digest.end)
    return all(index is not None and index.end_ply > digest.end_ply for index in own)


def _following(shards: Sequence[Shard[Index]], digests: Sequence[Digest]) -> Iterator[list[Shard[Index]]]:
    """Shards that are indexed and follow one another, with no digest between."""
    group: list[Shard[Index]] = []
    starts = np.array([digest.first for digest in digests], np.int64)
    for shard in shards:
        between = group and np.any((group[-1].commit.shard < starts) & (starts < shard.commit.shard))
        indexed = shard.manifest is not None and shard.manifest.end_ply >= END_PLY
        if group and (between or not indexed):
            yield group
            group = []
        if indexed:
            group.append(shard)
    if group:
        yield group


def _filled(shards: Sequence[Shard[Index]], games: int) -> Iterator[list[Shard[Index]]]:
    """Consecutive shards with ``games`` games or more, and then those that are left."""
    group: list[Shard[Index]] = []
    for shard in shards:
        group.append(shard)
        if sum(each.commit.games.rows for each in group) >= games:
            yield group
            group = []
    if group:
        yield group


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
            follows = group and (group[-1].level, group[-1].end_ply) == (digest.level, digest.end_ply)
            if not follows or any(group[-1].end <= number < digest.first for number in loose):
                group = []
            group = [*group, digest] if digest.level else []
            if len(group) == LEVEL:
                own = (each for each in commits if group[0].first <= each.shard < group[-1].end)
                shards = tuple(Shard[Index](record, each, None) for each in own)
                yield DigestJob(record, shards, digest.level + 1, tuple(group))
                group = []


def make(archive: Archive, job: DigestJob) -> Digest | None:
    """Make and store a digest; None: another process was faster. Raises ``FailureError`` for a damaged file."""
    run_id, commits = job.record.run_id, [shard.commit for shard in job.shards]
    first, end = commits[0].shard, commits[-1].shard + 1
    with explained("write to", archive.root), archive.backend.pending() as pending:
        parts = tuple(_store_part(archive, job, part, pending) for part in positions_of_job(archive, job, job.end_ply))
        path = _new_file(archive, job, "first_plies")
        first_plies = store(pending, path, table_of(first_plies_of_job(archive, job)))
        source, fields = source_of(commits), (job.level, job.end_ply, VERSION)
        digest = Digest(first, end, len(commits), source, *fields, parts, first_plies, now())
        target = archive.folder(FOLDER, run_id) / digest.name
        if archive.backend.create(target, dump(digest), pending.check):
            return digest
        pending.refused()
        there = {each.name: each for each in counting(archive, run_id)}.get(digest.name)
        if there is None or there.end_ply < digest.end_ply:  # of shards that were replaced, or indexed deeper since
            archive.backend.replace(target, dump(digest), pending.check)
            return digest
        pending.drop()
    return None


def _store_part(archive: Archive, job: DigestJob, part: SortedPart, pending: PendingFiles) -> PositionsPart:
    return named(part, store(pending, _new_file(archive, job, "summed_positions"), part.table))


def named(part: SortedPart, stored: StoredFile) -> PositionsPart:
    """The entry of a digest for a part that was stored."""
    return PositionsPart(stored.file, stored.rows, stored.bytes, stored.sha256, part.first, part.last)


def _new_file(archive: Archive, job: DigestJob, table: str) -> PurePath:
    name = f"part-{job.shards[0].commit.shard:06d}-{uuid.uuid4().hex}.parquet"
    return archive.folder(table, job.record.run_id) / name


def make_all(
    archive: Archive, jobs: Sequence[DigestJob], threads: int, progress: Callable[[int], None] = lambda _games: None
) -> int:
    """Make digests on several threads, then join them. Returns how many were made.

    ``progress`` is called with the games of each of ``jobs``.
    """
    run_jobs((partial(_made, archive, job) for job in jobs), threads, progress)
    run_ids, made = sorted({job.record.run_id for job in jobs}), len(jobs)
    while joining := [*joining_jobs(archive, run_ids)]:
        run_jobs((partial(_made, archive, job) for job in joining), threads, lambda _games: None)
        made += len(joining)
    return made


def _made(archive: Archive, job: DigestJob) -> int:
    make(archive, job)
    return job.games


def positions_of_job(
    archive: Archive, job: DigestJob, end_ply: int, part_rows: int | None = None
) -> Iterator[SortedPart]:
    """The positions of a job's games before a ply, in parts of so many rows, which usually follow from their number.

    Raises ``FailureError`` for a damaged file.
    """
    run_id = job.record.run_id
    rows = rows_at_once(len(job.digests or job.shards))
    tables: list[Iterator[pl.DataFrame]]
    if job.digests:
        tables = [_positions_of(archive, run_id, digest, rows) for digest in job.digests]
        of_all = sum(part.rows for digest in job.digests for part in digest.summed_positions)
    else:
        indexes = [_index_of(shard) for shard in job.shards]
        tables = [INDEXES.parts(archive, run_id, index, rows) for index in indexes]
        of_all = sum(index.positions.rows for index in indexes)
    sums = merged(tables, job.record.rules, job.record.spec["opening_plies"], end_ply)
    least = -(-of_all // MOST_PARTS // ROW_GROUP_ROWS) * ROW_GROUP_ROWS
    return sorted_parts(sums, part_rows or max(PART_ROWS, least))


def _positions_of(archive: Archive, run_id: str, digest: Digest, rows: int) -> Iterator[pl.DataFrame]:
    for part in digest.summed_positions:
        path = archive.file("summed_positions", run_id, part)
        yield from parts_of_file(archive, path, part, POSITIONS, rows, REMEDY)


def _index_of(shard: Shard[Index]) -> Index:
    if shard.manifest is None:
        raise FailureError(f"shard {shard.commit.shard} of run {shard.record.run_id} is not indexed: run '{COMMAND}'")
    return shard.manifest


def first_plies_of_job(archive: Archive, job: DigestJob) -> pl.DataFrame:
    """The first plies of a job's games, counted. Raises ``FailureError`` for a damaged file."""
    run_id = job.record.run_id
    if job.digests:
        key = ["pairing", "second", "piece", "cell"]
        stored = [(archive.file("first_plies", run_id, each.first_plies), each.first_plies) for each in job.digests]
        parts = (parts_of_file(archive, *each, FIRST_PLIES, ROW_GROUP_ROWS, REMEDY) for each in stored)
        rows = pl.concat(part for each in parts for part in each)
        return rows.group_by(key).agg(pl.sum("games", "wins", "draws")).sort(key)
    counts = np.zeros((len(job.record.pairings), 2, PIECES, PIECES, 3), np.int64)
    for shard in job.shards:
        try:
            counts += _counted_of(archive, run_id, shard.commit, counts.shape)
        except ValueError as error:
            raise damaged(archive, run_id, shard.commit.plies, "plies", error) from error
    return first_plies_frame(counts)


def _counted_of(archive: Archive, run_id: str, commit: Commit, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Counts of the first plies of a shard, which come first in its file. Raises ``ValueError`` for a damaged one."""
    counts = np.zeros(shape, np.int64)
    for part in row_parts(archive, run_id, commit, "plies", ROW_GROUP_ROWS):
        first = part.filter(pl.col("ply") == 0)
        counts += _counted(first, shape)
        if len(first) < len(part):
            break
    return counts


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
