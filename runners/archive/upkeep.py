"""The commands that change an archive's files and leave its games as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

import typer

from analytics.store.archive import Archive, chosen_runs
from analytics.upkeep.compaction import Compacted, groups_of
from analytics.upkeep.compaction import compact as compact_run
from quarto.errors import RequestError
from runners.contestants.interruption import INTERRUPTED
from runners.terminal import console
from runners.terminal.progress import progress_bar

SIZES = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([kMG]?)i?B?")
UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
LEAST, MOST = 1 << 10, 4 << 30  # bytes of a shard: it is made in memory


def bytes_of(size: str) -> int:
    """The bytes of a size such as ``128MB``. Raises ``RequestError`` for anything else, and for what is no shard."""
    found = SIZES.fullmatch(size)
    if not found or not LEAST <= float(found[1]) * UNITS[found[2]] <= MOST:
        raise RequestError(f"--size {size} is not the size of a shard: write 1kB to 4GB, such as 128MB")
    return int(float(found[1]) * UNITS[found[2]])


def compact(root: PurePath, wanted: Sequence[str], size: str) -> None:
    """Compact the chosen runs, or all, and print totals. Raises ``RequestError`` for a run that is not there."""
    least, archive = bytes_of(size), Archive.open(root)
    runs, total = chosen_runs(archive, wanted), Compacted()
    try:
        with progress_bar("compacting", "shards", wanted=True) as bar:
            bar.start(sum(len(group.commits) for run_id in runs for group in groups_of(archive, run_id, least)))
            for run_id in runs:
                done = compact_run(archive, run_id, least, bar.advance)
                total = Compacted(*(a + b for a, b in zip(total, done, strict=True)))
    except KeyboardInterrupt:
        console.print_note("interrupted: the shards made so far count; run the same command again to go on")
        raise typer.Exit(INTERRUPTED) from None
    console.print_line(_summary(total, root))


def _summary(done: Compacted, root: PurePath) -> str:
    lost = f"; {done.lost} groups were changed by another process meanwhile: run the same command again"
    if not done.shards:
        return f"Nothing to compact in {root}" + (
            lost if done.lost else ": all shards are large, or alone in their run."
        )
    files = "'qarena archive gc --remove' removes the old files an hour after they were replaced"
    return f"{done.shards} shards are now {done.by}; {files}" + (lost if done.lost else "")
