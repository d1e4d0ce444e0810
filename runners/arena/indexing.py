"""Indexing the games of runs by an executor: a position index without gaps, of few files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.files.local_files import find_backend
from analytics.tables.derived.definitions import INDEX_TABLES
from analytics.tables.derived.indexing import IndexExtent, IndexSummary, index_chunk, list_index_chunks
from analytics.tables.derived.range_table import Chunk, record_derived_units
from analytics.tables.derived.threads import StoppedError
from analytics.tables.upkeep.compaction import compact_positions_and_first_plies
from runners.arena.executors.base import THREADS, Executor, Task, Worker, available_cores
from runners.terminal.console import show_progress_bar


@dataclass(frozen=True)
class IndexTask(Task[Chunk[IndexExtent], IndexSummary]):
    """Indexes ranges of games."""

    root: str

    def build_worker(self) -> Worker[Chunk[IndexExtent], IndexSummary]:
        archive = ArchiveStore.open(parse_location(self.root))
        return lambda chunk, _stop: index_chunk(archive, chunk)  # a range takes a second


def index_and_compact_sums(
    archive: ArchiveStore,
    runs: Sequence[str],
    end_ply: int | None = None,
    threads: int | None = None,
    executor: Executor = THREADS,
    stop: threading.Event | None = None,
) -> tuple[IndexSummary, int]:
    """Index the games of some runs that are not indexed yet, then add up; with a progress bar on a terminal.

    Returns what was indexed, and how many files were made of smaller ones.
    """
    chunks, stop, cores = (
        list_index_chunks(archive, runs, end_ply),
        stop or threading.Event(),
        threads or available_cores(),
    )
    games_a_pair = {run_id: archive.load_run(run_id).unit_line.games_a_pair for run_id in runs}
    total, added_up = IndexSummary(), 0
    with show_progress_bar("indexing", "games", visible=bool(chunks)) as bar:
        bar.start(sum(chunk.games.units * games_a_pair[chunk.run_id] for chunk in chunks))
        for done in executor.map(IndexTask(str(archive.root)), chunks, cores, stop):
            total = total.add(done)
            bar.advance(done.games)

    def raise_if_stopped() -> None:
        if stop.is_set():
            raise StoppedError

    with suppress(StoppedError):
        for run_id in runs:
            raise_if_stopped()
            added_up += compact_positions_and_first_plies(archive, run_id, cores, raise_if_stopped)
    for run_id in runs:
        record_derived_units(archive, run_id, INDEX_TABLES)
    return total, added_up


def index_new_games_if_writable(root: PurePath) -> None:
    """Index all games of an archive that are not indexed yet, if its index is writable."""
    archive = ArchiveStore.open(root)
    if is_index_writable(root):
        index_and_compact_sums(archive, archive.list_run_ids())


def is_index_writable(root: PurePath) -> bool:
    """Return whether files can be added to the index of an archive, and records can say so."""
    backend = find_backend(root)
    there = {*backend.list_names(root)}
    kinds = [root / table.name for table in INDEX_TABLES if table.name in there]
    return all(
        map(
            backend.can_write,
            (root, root / "runs", *kinds, *(kind / run for kind in kinds for run in backend.list_names(kind))),
        )
    )
