"""`qarena archive index`, and the same before a command that needs the index."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import typer

from analytics import open_archive
from analytics.store.archive import Archive, chosen_runs
from analytics.store.position_index import Done, NotIndexedError, index_shards, plies_before, shards_of, stale
from runners.arena.machine import available_cores
from runners.terminal import console

INTERRUPTED = 130  # the shell's convention: 128 + SIGINT


def index(root: Path, wanted: Sequence[str], end_ply: int | None, threads: int | None) -> None:
    """Index what is not indexed yet and say what that came to. Raises ``RequestError`` for a run that is not there."""
    archive = Archive.open(root)
    runs = chosen_runs(archive, wanted)
    started = time.perf_counter()
    try:
        done = bring_up_to_date(archive, runs, end_ply, threads)
    except KeyboardInterrupt:
        console.say("interrupted; what is indexed is kept, and the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    console.out().print(_sentence(done, time.perf_counter() - started, root), markup=False, soft_wrap=True)


def bring_up_to_date(
    archive: Archive, runs: Sequence[str], end_ply: int | None = None, threads: int | None = None
) -> Done:
    """Index what is not indexed yet of some runs, with a bar on a terminal."""
    left = stale(archive, shards_of(archive, runs), end_ply)
    with console.progress(bool(left), doing="indexing", unit="plies") as bar:
        if bar:
            bar.start(sum(plies_before(shard.commit, depth) for shard, depth in left))
        return index_shards(archive, left, threads or available_cores(), bar.advance if bar else lambda _plies: None)


def _sentence(done: Done, seconds: float, root: Path) -> str:
    if not done.shards:
        return f"Nothing to index: all shards in {root} are."
    shards = "shard" if done.shards == 1 else "shards"
    return (
        f"{done.plies:,} plies of {done.shards} {shards} in {seconds:.1f} s, {done.plies / seconds:,.0f} a second: "
        f"{done.rows:,} rows, {done.bytes / 1e6:.1f} MB; ask 'qarena openings', or in SQL the view positions"
    )


def bring_all_up_to_date(root: Path) -> None:
    """Index what is not indexed yet of an archive; one whose index is not writable stays as it is."""
    archive = Archive.open(root)
    if is_writable(root):
        bring_up_to_date(archive, archive.run_ids())


def ask(root: Path, text: str, memory: str) -> pl.DataFrame:
    """The answer to a question in SQL; one about positions that are not indexed is asked again once they are."""
    try:
        with open_archive(root, memory) as opened:
            return opened.sql(text)
    except NotIndexedError:
        if not is_writable(root):
            raise
    bring_all_up_to_date(root)
    with open_archive(root, memory) as opened:
        return opened.sql(text)


def is_writable(root: Path) -> bool:
    """Whether files can be added to the index of an archive: to its folders, where they are there already."""
    kinds = [root / kind for kind in ("indexes", "positions")]
    folders = [root, *kinds, *(run for kind in kinds for run in kind.glob("run=*"))]
    return all(os.access(folder, os.W_OK | os.X_OK) for folder in folders if folder.exists())
