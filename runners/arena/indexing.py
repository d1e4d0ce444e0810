"""Indexing the games of runs with an executor: the position index gets no gaps and few files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.files.local_files import find_backend
from analytics.tables.derived.definitions import INDEX_TABLES
from analytics.tables.derived.indexing import IndexExtent, IndexSummary, index_chunk, list_index_chunks
from analytics.tables.derived.range_table import Chunk, record_increased_derived_units
from analytics.tables.derived.threads import StoppedError
from analytics.tables.upkeep.compaction import compact_positions_and_first_plies
from runners.arena.executors.base import THREADS, Executor, Task, Worker, available_cores
from runners.terminal.console import show_progress_bar_or_notes


@dataclass(frozen=True)
class IndexTask(Task[Chunk[IndexExtent], IndexSummary]):
    """The task that indexes ranges of games."""

    root: str

    def build_worker(self) -> Worker[Chunk[IndexExtent], IndexSummary]:
        archive = ArchiveStore.open(parse_location(self.root))
        return lambda chunk, _stop: index_chunk(archive, chunk)  # a range takes a second


class IndexOutcome(NamedTuple):
    """The counts of what was indexed, and the number of files that were built from smaller files."""

    summary: IndexSummary
    compacted_files: int


def index_and_compact_sums(
    archive: ArchiveStore,
    runs: Sequence[str],
    end_ply: int | None = None,
    threads: int | None = None,
    executor: Executor = THREADS,
    stop: threading.Event | None = None,
) -> IndexOutcome:
    """Index those games of ``runs`` that are not indexed yet, and compact the index.

    A progress bar is shown if the output is a terminal.

    Args:
        archive: Archive with the games.
        runs: Ids of the runs.
        end_ply: Positions are indexed up to but not including this ply; None means as deeply as each run is already
            indexed, and at least to the default.
        threads: Number of threads or processes; None means one for each core.
        executor: Executor that carries out the work.
        stop: Event that ends the work early.

    Returns:
        The numbers of games and rows that were indexed, and of files that were built from smaller files.

    Raises:
        FailureError: A file is damaged or could not be written, or workers were lost.

    """
    chunks = list_index_chunks(archive, runs, end_ply)
    stop, cores = stop or threading.Event(), threads or available_cores()
    games_a_pair = {run_id: archive.load_run(run_id).unit_line.games_a_pair for run_id in runs}
    total, compacted_files = IndexSummary(), 0
    with show_progress_bar_or_notes("indexing", "games", visible=bool(chunks)) as bar:
        bar.start(sum(chunk.games.units * games_a_pair[chunk.run_id] for chunk in chunks))
        for summary in executor.map(IndexTask(str(archive.root)), chunks, cores, stop):
            total = total.add(summary)
            bar.advance(summary.games)

    def raise_if_stopped() -> None:
        if stop.is_set():
            raise StoppedError

    with suppress(StoppedError):
        for run_id in runs:
            raise_if_stopped()
            compacted_files += compact_positions_and_first_plies(archive, run_id, cores, raise_if_stopped)
    for run_id in runs:
        record_increased_derived_units(archive, run_id, INDEX_TABLES)
    return IndexOutcome(total, compacted_files)


def index_new_games_if_writable(root: PurePath) -> None:
    """Index all games of an archive that are not indexed yet, unless the user lacks the permission to write."""
    archive = ArchiveStore.open(root)
    if is_index_writable(root):
        index_and_compact_sums(archive, archive.list_ids_of_runs_with_games())


def is_index_writable(root: PurePath) -> bool:
    """Return whether the user can add files to the index of the archive at ``root`` and update its records."""
    backend = find_backend(root)
    names = {*backend.list_names(root)}
    table_folders = [root / table.name for table in INDEX_TABLES if table.name in names]
    return all(
        map(
            backend.can_write_as_far_as_known,
            (
                root,
                root / "runs",
                *table_folders,
                *(kind / run for kind in table_folders for run in backend.list_names(kind)),
            ),
        )
    )
