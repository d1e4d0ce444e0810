"""The position index: the derived table ``positions``, which counts the turns of a shard's games by position.

``analytics.derived_tables.positions`` makes the table of one shard. A deeper index takes the place of a shallower one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
import polars as pl

from analytics.derived_tables.derived_table import DerivedTable, Manifest, Shard
from analytics.derived_tables.jobs import run_jobs
from analytics.derived_tables.positions import positions_of
from analytics.store.archive import Archive
from analytics.store.records import StoredFile
from analytics.store.schema import POSITIONS
from analytics.store.range_files import damaged, read_rows
from quarto.errors import FailureError
from quarto.rules import PIECES
from quarto.symmetry import symmetries

VERSION = 1  # of what the columns of ``positions`` mean
GROUP_ROWS = 16384  # of a row group: many tables are merged at once, and of each one group is in memory
END_PLY = 6  # the default: from seven pieces on, nearly every position of random games occurs in one game only


class NotIndexedError(FailureError):
    """The answer to a question needs positions that are not indexed."""


class Index(Manifest, frozen=True):
    """The manifest of a shard's positions."""

    positions: StoredFile
    end_ply: Annotated[int, msgspec.Meta(ge=1, le=PIECES)]  # turns of plies 0 to before this one
    version: int
    created: str  # ISO 8601, UTC

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.created)


INDEXES = DerivedTable(
    "positions",
    "indexes",
    POSITIONS,
    Index,
    command="qarena archive index",
    is_current=lambda index: index.version == VERSION,
    group_rows=GROUP_ROWS,
)


class IndexJob(NamedTuple):
    """A shard that is to be indexed."""

    shard: Shard[Index]
    end_ply: int  # turns of plies 0 to before this one are to be counted

    @property
    def plies(self) -> int:
        """An upper bound of the plies to be counted: few games end before ``end_ply``."""
        commit = self.shard.commit
        return min(commit.plies.rows, commit.games.rows * self.end_ply)

    def is_done_by(self, index: Index) -> bool:
        """Whether a stored index is as deep as this job makes it."""
        return index.end_ply >= self.end_ply


class IndexSummary(NamedTuple):
    """Totals of the shards that were indexed."""

    shards: int = 0
    plies: int = 0  # those whose turns were counted
    rows: int = 0
    bytes: int = 0


def end_ply_of(shard: Shard[Index]) -> int:
    """The number of plies of a shard that are indexed."""
    return shard.manifest.end_ply if shard.manifest else 0


def index_jobs(archive: Archive, shards: Sequence[Shard[Index]], end_ply: int | None = None) -> list[IndexJob]:
    """The shards that are not indexed up to ``end_ply``, or whose file is missing or cut off.

    Without ``end_ply`` a run is to be indexed as deep as its deepest shard, and at least to ``END_PLY``.
    """
    depths: dict[str, int] = {}
    for shard in shards:
        run_id = shard.record.run_id
        depths[run_id] = end_ply or max(END_PLY, depths.get(run_id, 0), end_ply_of(shard))
    jobs = [IndexJob(shard, depths[shard.record.run_id]) for shard in shards]
    return [job for job in jobs if INDEXES.lacks(archive, job.shard, job.is_done_by)]


def count_positions(archive: Archive, shard: Shard[Any], plies: range) -> pl.DataFrame:
    """The positions of some consecutive plies of a shard, from its games: a table by the schema ``POSITIONS``.

    Raises ``FailureError`` for a file of plies that is missing or damaged.
    """
    record, commit = shard.record, shard.commit
    rows = read_rows(archive, record.run_id, commit, "plies")
    try:
        return positions_of(rows, record.rules, record.spec["opening_plies"], plies)
    except ValueError as error:
        raise damaged(archive, record.run_id, commit.plies, "plies", error) from error


def _index_shard(archive: Archive, job: IndexJob) -> tuple[IndexJob, StoredFile | None]:
    """Count and store the positions of one shard; None: another writer was faster."""
    table = count_positions(archive, job.shard, range(job.end_ply))
    fields = {"end_ply": job.end_ply, "version": VERSION}
    return job, INDEXES.store(archive, job.shard, table, fields, job.is_done_by)


def index_shards(
    archive: Archive, jobs: Sequence[IndexJob], threads: int, progress: Callable[[int], None] = lambda _plies: None
) -> IndexSummary:
    """Index shards on several threads; ``progress`` is called with the number of plies of each shard that is done.

    It may be stopped at any time by an exception in ``progress`` or by Ctrl-C: shards that are stored stay. Raises
    ``FailureError`` for a file that cannot be read or written.
    """
    for job in jobs[:1]:
        symmetries(job.shard.record.rules)  # built here, once, and not by each thread
    total = IndexSummary()

    def done(result: tuple[IndexJob, StoredFile | None]) -> None:
        nonlocal total
        job, stored = result
        if stored is not None:
            total = IndexSummary(
                total.shards + 1, total.plies + job.plies, total.rows + stored.rows, total.bytes + stored.bytes
            )
        progress(job.plies)

    run_jobs((partial(_index_shard, archive, job) for job in jobs), threads, done)
    return total
