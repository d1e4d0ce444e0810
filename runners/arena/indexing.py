"""Indexing the games of runs by an executor: a position index without gaps, of few files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from analytics.store.archive import Archive
from analytics.store.files.backend import location_of
from analytics.store.files.local import backend_of
from analytics.tables.derived.derived_table import note_derived
from analytics.tables.derived.jobs import StoppedError
from analytics.tables.derived.tables import (
    INDEX_TABLES,
    Indexed,
    IndexPart,
    index_parts,
)
from analytics.tables.derived.tables import index as index_part
from analytics.tables.upkeep.rolling import add_up
from runners.arena.executors.base import THREADS, Executor, Stop, Task, available_cores
from runners.terminal.console import progress_bar


@dataclass(frozen=True)
class IndexTask(Task):
    """Indexes ranges of games."""

    root: str

    def __call__(self, part: IndexPart, stop: Stop) -> Indexed:  # noqa: ARG002  (a range takes a second)
        return index_part(self.once("archive", lambda: Archive.open(location_of(self.root))), part)


def bring_up_to_date(
    archive: Archive,
    runs: Sequence[str],
    end_ply: int | None = None,
    threads: int | None = None,
    executor: Executor = THREADS,
    stop: threading.Event | None = None,
) -> tuple[Indexed, int]:
    """Index the games of some runs that are not indexed yet, then add up; with a progress bar on a terminal.

    Returns what was indexed, and how many files were made of smaller ones.
    """
    parts, stop, cores = index_parts(archive, runs, end_ply), stop or threading.Event(), threads or available_cores()
    games_a_pair = {run_id: archive.known_run(run_id).line.games_a_pair for run_id in runs}
    total, added_up = Indexed(), 0
    with progress_bar("indexing", "games", wanted=bool(parts)) as bar:
        bar.start(sum(part.games.units * games_a_pair[part.run_id] for part in parts))
        for done in executor.map(IndexTask(str(archive.root)), parts, cores, stop):
            total = total.plus(done)
            bar.advance(done.games)

    def end_if_asked() -> None:
        if stop.is_set():
            raise StoppedError

    with suppress(StoppedError):
        for run_id in runs:
            end_if_asked()
            added_up += add_up(archive, run_id, cores, end_if_asked)
    for run_id in runs:
        note_derived(archive, run_id, INDEX_TABLES)
    return total, added_up


def bring_all_up_to_date(root: PurePath) -> None:
    """Index all games of an archive that are not indexed yet, if its index is writable."""
    archive = Archive.open(root)
    if is_writable(root):
        bring_up_to_date(archive, archive.run_ids())


def is_writable(root: PurePath) -> bool:
    """Return whether files can be added to the index of an archive, and records can say so."""
    backend = backend_of(root)
    there = {*backend.names(root)}
    kinds = [root / table.name for table in INDEX_TABLES if table.name in there]
    return all(
        map(
            backend.may_write,
            (root, root / "runs", *kinds, *(kind / run for kind in kinds for run in backend.names(kind))),
        )
    )
