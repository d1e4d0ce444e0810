"""Indexes positions: the command ``qarena archive index``, and the same for a command that needs the index."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

import typer

from analytics.derived_tables import digest_making, digests
from analytics.derived_tables.position_index import INDEXES, IndexSummary, NotIndexedError, index_jobs
from analytics.files.backends import backend_of
from analytics.sql.database import OpenArchive
from analytics.sql.limits import Limits
from analytics.store.archive import Archive, chosen_runs
from runners.archive.indexing import Indexing
from runners.contestants.interruption import INTERRUPTED
from runners.executors.base import Executor
from runners.executors.machine import available_cores
from runners.executors.threads import THREADS
from runners.terminal import console
from runners.terminal.progress import progress_bar
from runners.terminal.tables import STREAMED, TableOutput, show_first, write, write_parts

INDEX_FOLDERS = ("indexes", "positions", digests.FOLDER, *digests.TABLES)


class IndexOutcome(NamedTuple):
    """The shards that were asked about, and what was made for them."""

    shards: int
    indexed: IndexSummary
    digests: int
    digested_games: int  # of the shards that these digests are about


def index(
    root: PurePath, wanted: Sequence[str], end_ply: int | None, threads: int | None, executor: Executor = THREADS
) -> None:
    """Index the chosen runs, or all, and print totals. Raises ``RequestError`` for a run that is not in the archive."""
    archive = Archive.open(root)
    runs = chosen_runs(archive, wanted)
    started = time.perf_counter()
    try:
        done = bring_up_to_date(archive, runs, end_ply, threads, executor)
    except KeyboardInterrupt:
        console.print_note(
            "interrupted: the shards indexed so far are kept; run the same command again to index the rest"
        )
        raise typer.Exit(INTERRUPTED) from None
    console.print_line(_summary(done, time.perf_counter() - started, root))


def bring_up_to_date(
    archive: Archive,
    runs: Sequence[str],
    end_ply: int | None = None,
    threads: int | None = None,
    executor: Executor = THREADS,
) -> IndexOutcome:
    """Index the shards of some runs that are not indexed yet, then make digests; with a progress bar on a terminal.

    Digests are made on threads of this process, whatever the executor.
    """
    shards = INDEXES.shards(archive, runs)
    jobs = index_jobs(archive, shards, end_ply)
    with progress_bar("indexing", "plies", wanted=bool(jobs)) as bar:
        bar.start(sum(job.plies for job in jobs))
        indexing = Indexing(archive, jobs, bar.advance)
        if jobs:
            executor.carry_out(indexing, threads or available_cores(), threading.Event())
    left = [*digest_making.digest_jobs(archive, runs)]
    with progress_bar("adding up", "games", wanted=bool(left)) as bar:
        bar.start(sum(job.games for job in left))
        made = digest_making.make_all(archive, left, threads or available_cores(), bar.advance)
    return IndexOutcome(len(shards), indexing.done, made, sum(job.games for job in left))


def _summary(done: IndexOutcome, seconds: float, root: PurePath) -> str:
    """A line about what was made, or that everything was there."""
    indexed, made = done.indexed, f"{done.digests:,} digest{'' if done.digests == 1 else 's'} made"
    added = f"{made}, of {done.digested_games:,} games" if done.digests else ""
    if indexed.shards:
        shards, speed = "shard" if indexed.shards == 1 else "shards", f"{indexed.plies / seconds:,.0f} a second"
        return (
            f"{indexed.plies:,} plies of {indexed.shards} {shards} in {seconds:.1f} s, {speed}: "
            f"{indexed.rows:,} rows, {indexed.bytes / 1e6:.1f} MB{f'; {added}' if added else ''}; "
            "use 'qarena openings', or the view positions in SQL"
        )
    complete = f"{done.shards:,} shard{' is' if done.shards == 1 else 's are'} indexed in {root}."
    return f"{added} in {seconds:.1f} s; {complete}" if added else f"Nothing to index: {complete}"


def bring_all_up_to_date(root: PurePath) -> None:
    """Index all shards of an archive that are not indexed yet, if its index is writable."""
    archive = Archive.open(root)
    if is_writable(root):
        bring_up_to_date(archive, archive.run_ids())


def answer(root: PurePath, text: str, limits: Limits, output: TableOutput, check: bool = True) -> None:
    """Print or write the answer to a question in SQL. If it needs positions that are not indexed, that is done first.

    Only the first rows are printed. What is written in parts needs no more memory than ``limits`` allow, however
    many rows it has.
    """
    try:
        _answer(root, text, limits, output, check)
    except NotIndexedError:
        if not is_writable(root):
            raise
        bring_all_up_to_date(root)
        _answer(root, text, limits, output, check)


def _answer(root: PurePath, text: str, limits: Limits, output: TableOutput, check: bool) -> None:
    with OpenArchive(root, limits, check) as opened:
        if output.is_printed:
            opened.stream(text, partial(show_first, wide=output.wide), exact=False)
        elif output.form in STREAMED:
            opened.stream(text, partial(write_parts, output=output))
        else:
            write(opened.sql(text), output)


def is_writable(root: PurePath) -> bool:
    """Whether files can be added to the index of an archive."""
    backend = backend_of(root)
    kinds = [root / kind for kind in INDEX_FOLDERS if backend.exists(root / kind)]
    return all(map(backend.may_write, (root, *kinds, *(run for kind in kinds for run in backend.folders(kind)))))
