"""The commands that change an archive's files and leave its games as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

import typer

from analytics.files.local import backend_of
from analytics.store.archive import Archive, chosen_runs
from analytics.store.marker import note_if_unknown
from analytics.store.schema import TABLES
from analytics.upkeep import merging
from analytics.upkeep.merging import MergeOptions
from analytics.upkeep.rolling import Compacted, files_to_compact
from analytics.upkeep.rolling import compact as compact_run
from quarto.errors import RequestError
from runners.hosting.interruption import INTERRUPTED
from runners.terminal import console
from runners.terminal.console import progress_bar

LEAST, MOST = 1 << 10, 4 << 30  # bytes of a file: it is made in memory


def compact(root: PurePath, wanted: Sequence[str], most: int) -> None:
    """Compact the chosen runs, or all, and print totals. Raises ``RequestError`` for a run that is not there."""
    if not LEAST <= most <= MOST:
        raise RequestError(f"--size {most:,} bytes is not the size of a file: write 1KiB to 4GiB, such as 128MiB")
    archive = Archive.open(root)
    runs, total = chosen_runs(archive, wanted), Compacted()
    try:
        with progress_bar("compacting", "files") as bar:
            bar.start(sum(files_to_compact(archive, run_id, most) for run_id in runs))
            for run_id in runs:
                done = compact_run(archive, run_id, most, bar.advance)
                total = Compacted(*(a + b for a, b in zip(total, done, strict=True)))
    except KeyboardInterrupt:
        console.print_note("interrupted: the files made so far count; run the same command again to go on")
        raise typer.Exit(INTERRUPTED) from None
    console.print_line(_summary(total, root))


def merge(roots: Sequence[PurePath], prefix: str, other_code: bool) -> None:
    """Add all but the last of some archives to the last, which is made if need be, and print totals.

    Raises ``RequestError`` for fewer than two archives, one that is named twice, and for what conflicts.
    """
    if len(roots) < 2:
        raise RequestError("name at least two archives: qarena archive merge SOURCE... DESTINATION")
    names = [backend_of(root).identity(root) for root in roots]
    if len(set(names)) < len(names):
        raise RequestError("an archive is named twice: the destination, which comes last, is not one of the sources")
    sources = [Archive.open(root) for root in roots[:-1]]
    for root in roots[:-1]:
        note_if_unknown(root)
    target = Archive.open(roots[-1], create=True)
    with progress_bar("merging", "games") as bar:
        bar.start(sum(source.games_held(record.run_id) for source in sources for record in source.runs()))
        done = merging.merge(sources, target, MergeOptions(prefix, other_code), bar.advance)
    counts = (
        *((done.games, "game", ""), (done.runs, "new run", ""), (done.policies, "policy", "policies")),
        *((done.jobs, "job of a sweep", "jobs of sweeps"), (done.verdicts, "verdict", "")),
        (done.tables, "file of derived tables", "files of derived tables"),
    )
    added = ", ".join(console.number_of(*each) for each in counts if each[0])
    console.print_line(f"Added to {roots[-1]}: {added}." if added else f"Nothing to add: {roots[-1]} has all.")


def delta(root: PurePath, folder: Path, games_only: bool) -> None:
    """Write or update Delta tables, and print what was added."""
    from analytics.exchange.to_delta import to_delta  # an extra

    archive, tables = Archive.open(root), tuple(TABLES)[: 1 if games_only else None]
    with progress_bar("writing", "games") as bar:
        games = sum(map(archive.games_held, archive.run_ids()))
        bar.start(games * len(tables))
        added = to_delta(archive, folder, tables, bar.advance)
    what = f"Added to {folder}: {added.games:,} games" + ("" if games_only else f", {added.plies:,} plies")
    read = f"""read with polars.scan_delta("{folder / "games"}")"""
    console.print_line(f"{what}; {read}" if any(added) else f"Nothing to add: {folder} has all games.")


def _summary(done: Compacted, root: PurePath) -> str:
    removed = f"; {console.number_of(done.removed, 'old file')} removed" if done.removed else ""
    if not done.files:
        return f"Nothing to compact in {root}: all files are large, or alone in their run{removed}."
    later = "'qarena archive gc --remove' removes the old files ten minutes after they were replaced"
    were = "1 file of games is" if done.files == 1 else f"{done.files} files of games are"
    return f"{were} now {done.by}; {later}{removed}"
