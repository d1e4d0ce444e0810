"""Indexing the games of runs with an executor: the position index gets no gaps and few files."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from analytics.store.archive import ArchiveStore
from analytics.store.files.backend import parse_location
from analytics.store.files.local_files import find_backend
from analytics.store.ranges import Ranges
from analytics.tables.derived.definitions import INDEX_TABLES
from analytics.tables.derived.indexing import IndexExtent, IndexSummary, index_chunks_as_sum, list_index_chunks
from analytics.tables.derived.range_table import Chunk, record_increased_derived_units
from analytics.tables.derived.threads import StoppedError
from analytics.tables.upkeep.compaction import compact_positions_and_first_plies, list_compaction_groups
from runners.arena.executors.base import THREADS, Executor, Task, Worker, available_cores
from runners.arena.heap import keep_freed_memory
from runners.terminal.console import show_progress_bar_or_notes

# The index gets one file for so many neighbouring files of games, at most. With more, a task would need more memory.
SUMMED_FILES = 8
SUMMED_TURNS = 1 << 24  # of all these files, at most: a turn takes 64 bytes at worst

IndexChunks = tuple[Chunk[IndexExtent], ...]


@dataclass(frozen=True)
class IndexTask(Task[IndexChunks, IndexSummary]):
    """The task that indexes ranges of games, of which each group gets one file of each table."""

    root: str

    def build_worker(self) -> Worker[IndexChunks, IndexSummary]:
        archive = ArchiveStore.open(parse_location(self.root))
        keep_freed_memory()
        return lambda chunks, _stop: index_chunks_as_sum(archive, chunks)  # a range takes a fifth of a second


def group_index_chunks(archive: ArchiveStore, chunks: Sequence[Chunk[IndexExtent]], workers: int) -> list[IndexChunks]:
    """Group chunks so that each group can be written as one file: see ``index_chunks_as_sum``.

    A group is a range that compaction could make. It has at most ``SUMMED_FILES`` files, and fewer if some of the
    ``workers`` would otherwise have nothing to do. ``chunks`` come run by run.
    """
    groups, most_files = list[IndexChunks](), max(1, min(SUMMED_FILES, len(chunks) // workers))
    for (run_id, extent), alike in itertools.groupby(chunks, lambda chunk: (chunk.run_id, chunk.extent)):
        record, ranges = archive.load_run(run_id), {chunk.games.file: chunk for chunk in alike}
        most_units = SUMMED_TURNS // (max(1, extent.end_ply) * record.unit_line.games_a_pair)
        summed = {
            group.children[0]: group.children
            for group in list_compaction_groups(
                Ranges(ranges), record.end_unit, partial(_are_within_units, most_units), most_files
            )
        }
        inner = {stored for children in summed.values() for stored in children[1:]}
        groups += [
            tuple(ranges[stored] for stored in summed.get(first, (first,))) for first in ranges if first not in inner
        ]
    return groups


def _are_within_units(most_units: int, children: Ranges) -> bool:
    return children.units <= most_units


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
    groups = group_index_chunks(archive, chunks, cores)
    games_a_pair = {run_id: archive.load_run(run_id).unit_line.games_a_pair for run_id in runs}
    total, compacted_files = IndexSummary(), 0
    with show_progress_bar_or_notes("indexing", "games", visible=bool(chunks)) as bar:
        bar.start(sum(chunk.games.units * games_a_pair[chunk.run_id] for chunk in chunks))
        for summary in executor.map(IndexTask(str(archive.root)), groups, cores, stop):
            total = total.add(summary)
            bar.advance(summary.games)

    def raise_if_stopped() -> None:
        if stop.is_set():
            raise StoppedError

    with suppress(StoppedError), show_progress_bar_or_notes("adding up", "files") as bar:
        bar.start(None)  # files that were added up are added up again
        for run_id in runs:
            raise_if_stopped()
            compacted_files += compact_positions_and_first_plies(
                archive, run_id, cores, raise_if_stopped, lambda group: bar.advance(len(group.children))
            )
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
