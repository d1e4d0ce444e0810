"""The commands that check, copy or change an archive's files: verify, gc, compact, merge, to-delta, export, import.

Games stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePath

import typer

from analytics import archive_option, open_archive
from analytics.exchange.export import Exported, ExportRequest, export, export_to
from analytics.exchange.importing import TARGET, ImportedRun, import_games
from analytics.exchange.text import BadLine, Tags, checked_text, read_text
from analytics.store.archive import Archive, chosen_runs
from analytics.store.files.local import backend_of
from analytics.store.marker import note_if_unknown, remember
from analytics.store.schema import SCHEMA_VERSION, TABLES
from analytics.store.texts import as_line
from analytics.tables.upkeep import garbage, merging, upgrading
from analytics.tables.upkeep.merging import MergeOptions
from analytics.tables.upkeep.rolling import Compacted, files_to_compact, roll_up_small
from analytics.tables.upkeep.rolling import compact as compact_run
from analytics.tables.verify import archive as verification
from quarto.errors import FailureError, RequestError
from runners.arena.code import code_by
from runners.config.options import load_rules
from runners.hosting.interruption import exit_code
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import STREAM, read_file

LEAST, MOST = 1 << 10, 4 << 30  # bytes of a file: it is made in memory

MOST_SHOWN = 1000  # characters of a problem or a path, in a line


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
        raise typer.Exit(exit_code()) from None
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
    try:
        with progress_bar("merging", "games") as bar:
            bar.start(sum(source.games_held(record.run_id) for source in sources for record in source.runs()))
            done = merging.merge(sources, target, MergeOptions(prefix, other_code), bar.advance)
    except KeyboardInterrupt:
        console.print_note("interrupted: what is merged is kept; run the same command again to go on")
        raise typer.Exit(exit_code()) from None
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
    what = f"Added to {folder}: {added['games']:,} games" + ("" if games_only else f", {added['plies']:,} plies")
    read = f"""read with polars.scan_delta("{folder / "games"}")"""
    console.print_line(f"{what}; {read}" if any(added.values()) else f"Nothing to add: {folder} has all games.")


def _summary(done: Compacted, root: PurePath) -> str:
    removed = f"; {console.number_of(done.removed, 'old file')} removed" if done.removed else ""
    if not done.files:
        return f"Nothing to compact in {root}: all files are large, or alone in their run{removed}."
    gc = f"'qarena archive gc --remove{archive_option(root)}'"
    later = f"{gc} removes the old files ten minutes after they were replaced"
    were = "1 file of games is" if done.files == 1 else f"{done.files} files of games are"
    return f"{were} now {done.by}; {later}{removed}"


def upgrade(root: PurePath) -> None:
    """Bring an archive of an older format to the present one, and print what was done."""
    steps = upgrading.upgrade(root)
    for step in steps:
        console.print_line(f"{root}: format {step.before} is now format {step.before + 1}: {step.summary}")
    if not steps:
        console.print_line(f"{root} has format {SCHEMA_VERSION} already.")


def verify(root: PurePath) -> int:
    """Check every file, record and game, and print the problems. Returns the exit code: 1 if there are any."""
    opened = Archive.open(root)
    with progress_bar("verifying", "games") as bar:
        bar.start(None)
        found = verification.verify(opened, bar.advance)
    remember(root)
    for problem in found.problems:
        typer.echo(as_line(str(problem), MOST_SHOWN), err=True)
    things = (
        *((found.runs, "run", ""), (found.ranges, "range", "")),
        *((found.games, "game", ""), (found.plies, "ply", "plies")),
        *((found.decisions, "decision", ""), (found.positions, "row of positions", "rows of positions")),
        *((found.policies, "policy", "policies"), (found.verdicts, "verdict", "")),
    )
    # The first ones are named also if there are none.
    counts = [console.number_of(*each) for at, each in enumerate(things) if each[0] or at < 4]
    console.print_line(f"{', '.join(counts)}: {console.number_of(len(found.problems), 'problem')}")
    return 1 if found.problems else 0


def collect_garbage(root: PurePath, age: str, remove: bool) -> None:
    """Print the files that are not needed; ``remove`` those that have not been needed for the ``age``, such as 10m."""
    least_age, opened = garbage.seconds_of(age), Archive.open(root)
    found = garbage.unneeded_files(opened)
    removed = set(garbage.remove(opened, found, least_age)) if remove else set()
    for file in found:
        fate = "not needed" if file.is_removable(least_age) else "young" if file.ours else "foreign"
        path = as_line(str(file.path), MOST_SHOWN)  # anybody may have named it
        typer.echo(f"{'removed' if file in removed else fate}  {file.bytes:,} bytes  {path}")
    known, count = f"{len(found)} file{'s' * (len(found) != 1)}", sum(file.is_removable(least_age) for file in found)
    typer.echo(f"{len(removed)} of {known} removed" if remove else f"{known}, {count} to remove with --remove")


def export_games(root: PurePath, request: ExportRequest, output: str, force: bool) -> None:
    """Write games to ``output`` and print how many; ``-`` is the standard output. Raises as ``export`` does."""
    with open_archive(root) as opened:
        if output == STREAM:
            export_to(opened, request, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with progress_bar("exporting", "games") as bar:
            bar.start(None)
            exported = export(opened, request, Path(output), force, bar.advance)
    typer.echo(_export_summary(exported, request, output))


def _export_summary(exported: Exported, request: ExportRequest, output: str) -> str:
    if exported.episodes is None:
        return f"{_games(exported.games)} written to {output}"
    left_out = exported.games - exported.episodes
    rest = f"; {_games(left_out)} left out, since no turn in them is known" if left_out else ""
    return (
        f"{exported.episodes:,} episodes, {exported.steps:,} steps written to {output}, rewards for "
        f"{request.perspective}, at the end only{rest}"
    )


def import_file(root: PurePath, file: str, rules: str, event: str | None, skip_bad: bool, command: str) -> int:
    """Import a file and print what was added. Returns the exit code: 1 if bad lines were skipped.

    Raises ``RequestError`` for a file that cannot be read, has no game, or has bad lines unless ``skip_bad``.
    """
    rules_of = cache(load_rules)
    rules_of(rules)
    defaults = Tags(rules=rules, event="" if event is None else checked_text("--name", event))
    text = read_text(read_file(file), defaults, rules_of)
    source = "stdin" if file == STREAM else file
    if text.bad and not skip_bad:
        hint = "--skip-bad imports the others" if len(text.tags) else "no other line is a game"
        raise RequestError(f"{_bad_line(source, text.bad[0], len(text.bad) - 1)} ({hint})")
    for bad in text.bad:
        typer.echo(as_line(_bad_line(source, bad), MOST_SHOWN), err=True)
    if not len(text.tags):
        if text.bad:
            raise FailureError(f"{source}: no line is a game, so nothing was imported")
        raise RequestError(f"{source} has no game: a line of it looks like F@b1 3@b2 7@c4")
    known = {name: rules_of(name) for name in {text.known[at].rules for at in set(text.tags.tolist())}}
    code = code_by([TARGET], learning=False)
    archive = Archive.open(root, create=True)
    imported = import_games(archive, text, known, code, command)
    for run in imported:
        roll_up_small(archive, run.run_id)  # a text that grows day by day leaves a file each day
        console.print_line(_import_summary(run))
    for lost in sorted({record.run_id for record in text.records} - {run.run_id for run in imported}):
        typer.echo(f"run {lost} is not whole in {source}: its games are single games, without pairs", err=True)
    return 1 if text.bad else 0


def _bad_line(source: str, bad: BadLine, others: int = 0) -> str:
    more = f"; {others:,} more bad line{'s' * (others > 1)}" if others else ""
    return f"{source}, line {bad.line}: {bad.reason}{more}"


def _import_summary(run: ImportedRun) -> str:
    heading = run.heading
    what = ", ".join([heading.rules, *filter(None, (heading.event, heading.date))])
    opening = f", {heading.opening} plies imposed" if heading.opening else ""
    known = run.games - run.added
    return f"run {run.run_id} ({what}{opening}): {_games(run.added)} added" + (
        f", {known:,} were in the archive already" if known else ""
    )


def _games(count: int) -> str:
    return f"{count:,} game{'s' * (count != 1)}"
