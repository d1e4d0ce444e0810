"""The index of positions: which file of ``positions`` counts for which shard of games, and making what is missing.

A shard's positions count once an index, a file with that shard's number, names them, is tied to that shard's plies and
is of the present version. Like a commit it appears whole; a deeper one takes the place of the one before. Nothing here
cannot be made again from the games.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import polars as pl

from analytics.store.archive import Archive, commit_files, now, store
from analytics.store.atomic import create, explained, make_folder, replace
from analytics.store.blocks import read_table
from analytics.store.json_records import Count, JsonRecord, dump, load
from analytics.store.positions import positions_of
from analytics.store.records import Commit, RunRecord, Sha256, StoredFile
from analytics.store.schema import PLIES
from quarto.errors import FailureError
from quarto.rules import PIECES
from quarto.symmetry import symmetries

VERSION = 1  # of what the columns of ``positions`` mean
END_PLY = 6  # unless somebody asks for more: from seven pieces on most random games are alone with their position
POLL_SECONDS = 0.1


class NotIndexedError(FailureError):
    """A question about positions some of which are not indexed."""


class Index(JsonRecord, frozen=True):
    """A shard of positions."""

    shard: Count  # of the games
    plies: Sha256  # of that shard's file of plies
    positions: StoredFile
    end_ply: Annotated[int, msgspec.Meta(ge=1, le=PIECES)]  # turns of plies 0 to before this one
    version: int
    created: str  # ISO 8601, UTC

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)


@dataclass(frozen=True)
class Shard:
    """A shard of games and the index that counts for it, if there is one."""

    record: RunRecord
    commit: Commit
    index: Index | None

    @property
    def end_ply(self) -> int:
        """How many plies are indexed."""
        return self.index.end_ply if self.index else 0


def position_files(archive: Archive) -> list[Path]:
    """All files of positions that count. Raises ``FailureError`` naming a damaged commit or index."""
    return [
        archive.file("positions", run_id, index.positions)
        for run_id in archive.run_ids()
        for index in indexes_of(archive, run_id, archive.commits(run_id)).values()
    ]


class Done(NamedTuple):
    """What indexing came to."""

    shards: int
    plies: int  # those whose turns were counted
    rows: int
    bytes: int


def index_files(archive: Archive, run_id: str) -> list[Path]:
    """The indexes of a run, damaged or not, by shard."""
    return commit_files(archive.folder("indexes", run_id))


def load_index(path: Path) -> Index:
    """The index in a file. Raises ``FailureError`` for a damaged one: it can be made again."""
    return load(path, Index, "remove it and run 'qarena archive index'")


def indexes_of(archive: Archive, run_id: str, commits: Sequence[Commit]) -> dict[int, Index]:
    """The indexes of a run that count, by shard; ``commits`` are its shards.

    Raises ``FailureError`` naming a damaged file.
    """
    plies = {commit.shard: commit.plies.sha256 for commit in commits}
    found = (load_index(path) for path in index_files(archive, run_id))
    return {each.shard: each for each in found if each.version == VERSION and plies.get(each.shard) == each.plies}


def shards_of(archive: Archive, run_ids: Sequence[str]) -> list[Shard]:
    """The shards of runs with their indexes.

    Raises ``FailureError`` for a damaged file, and for a run without a record: its rules are not known.
    """
    found = []
    for run_id in run_ids:
        record, commits = archive.run(run_id), archive.commits(run_id)
        if record is None:
            raise FailureError(f"run {run_id} has games and no record, so its rules are not known: restore its record")
        known = indexes_of(archive, run_id, commits)
        found += [Shard(record, commit, known.get(commit.shard)) for commit in commits]
    return found


def stale(archive: Archive, shards: Sequence[Shard], end_ply: int | None = None) -> list[tuple[Shard, int]]:
    """The shards that are not indexed as deep as wanted, or whose file is gone, each with how deep it should be.

    Without ``end_ply`` a run is to be as deep as its deepest shard, and at least ``END_PLY``.
    """
    depths: dict[str, int] = {}
    for shard in shards:
        run_id = shard.record.run_id
        depths[run_id] = end_ply or max(END_PLY, depths.get(run_id, 0), shard.end_ply)
    wanted = ((shard, depths[shard.record.run_id]) for shard in shards)
    return [(shard, depth) for shard, depth in wanted if shard.end_ply < depth or not is_there(archive, shard)]


def is_there(archive: Archive, shard: Shard) -> bool:
    """Whether a shard is indexed and its file there with all its bytes, whatever they are."""
    if shard.index is None:
        return False
    path = position_file(archive, shard)
    return path.is_file() and path.stat().st_size == shard.index.positions.bytes


def position_file(archive: Archive, shard: Shard) -> Path:
    """The file of positions of a shard that is indexed. Raises ``ValueError`` if it is not."""
    if shard.index is None:
        raise ValueError(f"shard {shard.commit.shard} of run {shard.record.run_id} is not indexed")
    return archive.file("positions", shard.record.run_id, shard.index.positions)


def table_of(archive: Archive, shard: Shard, of_plies: range) -> pl.DataFrame:
    """The positions of a shard, made from its games. Raises ``FailureError`` for a file of plies that is damaged."""
    run_id, stored = shard.record.run_id, shard.commit.plies
    path = archive.file("plies", run_id, stored)
    try:
        plies = read_table(path, stored, PLIES)
        return positions_of(plies, shard.record.rules, shard.record.spec["opening_plies"], of_plies)
    except ValueError as error:
        raise FailureError(f"{path} {error}: see 'qarena archive verify'") from error


def index_shard(archive: Archive, shard: Shard, end_ply: int) -> StoredFile:
    """Make and store the positions of one shard; the file that counts from then on.

    Raises ``FailureError`` when a file cannot be read or written.
    """
    run_id, number = shard.record.run_id, shard.commit.shard
    target = archive.folder("indexes", run_id) / f"{number:06d}.json"
    path = archive.folder("positions", run_id) / f"part-{number:06d}-{uuid.uuid4().hex}.parquet"
    table = table_of(archive, shard, range(end_ply))
    with explained("write to", archive.root):
        counts = False
        try:
            stored = store(path, table)
            make_folder(target.parent)
            content = dump(Index(number, shard.commit.plies.sha256, stored, end_ply, VERSION, now()))
            if not create(target, content):
                replace(target, content)  # what is there is shallower, of other games, or as good
            counts = True
        finally:
            if not counts:
                path.unlink(missing_ok=True)
    return stored


def index_shards(
    archive: Archive,
    wanted: Sequence[tuple[Shard, int]],
    threads: int,
    look: Callable[[int], None] = lambda _plies: None,
) -> Done:
    """Index shards, each as deep as it says, on several threads; ``look`` is told of plies as they are done.

    May be stopped at any time, by an exception in ``look`` such as Ctrl-C: what is stored stays. Raises
    ``FailureError`` for a file that cannot be read or written.
    """
    for shard, _ in wanted[:1]:
        symmetries(shard.record.rules)  # built here, once, and not by each thread
    done = Done(0, 0, 0, 0)
    with ThreadPoolExecutor(threads, thread_name_prefix="index") as pool:
        left = iter(wanted)

        def submit(count: int) -> dict[Future[StoredFile], int]:
            return {
                pool.submit(index_shard, archive, shard, end_ply): plies_before(shard.commit, end_ply)
                for shard, end_ply in islice(left, count)
            }

        pending = submit(threads)
        while pending:
            for future in _ended(pending):
                plies, stored = pending.pop(future), future.result()
                done = Done(done.shards + 1, done.plies + plies, done.rows + stored.rows, done.bytes + stored.bytes)
                look(plies)
                pending |= submit(1)
    return done


def _ended(pending: Mapping[Future[StoredFile], int]) -> Iterator[Future[StoredFile]]:
    """Those that have ended, waited for in short steps, between which Ctrl-C is noticed."""
    ended: set[Future[StoredFile]] = set()
    while not ended:
        ended, _ = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
    yield from ended


def plies_before(commit: Commit, end_ply: int) -> int:
    """At most how many plies of a shard come before ``end_ply``: few games end so early."""
    return min(commit.plies.rows, commit.games.rows * end_ply)
