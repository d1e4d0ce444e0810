"""The commands that check, copy or change an archive's files: verify, compact, merge, upgrade, export, import.

None of them changes a game.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

import typer

from analytics import format_archive_option, open_archive
from analytics.exchange.export import ExportRequest, ExportSummary, write_export, write_export_to_stream
from analytics.exchange.importing import IMPORTED_PLAYER_TARGET, ImportedRun, import_games
from analytics.exchange.text import BadLine, Tags, check_label, parse_games
from analytics.store import run_notes
from analytics.store.archive import ArchiveStore, find_run_id, select_requested_or_all_run_ids
from analytics.store.files.local_files import find_backend
from analytics.store.marker import remember_archive, warn_at_first_use_of_foreign_archive
from analytics.store.schema import SCHEMA_VERSION
from analytics.store.texts import format_count_with_noun, to_line
from analytics.tables.upkeep import archive_merge, format_upgrade, garbage
from analytics.tables.upkeep.archive_merge import MergeOptions
from analytics.tables.upkeep.compaction import (
    CompactionSummary,
    compact_run,
    compact_small_files,
    count_compactable_files,
)
from analytics.tables.upkeep.garbage import UnneededFile
from analytics.tables.verification import archive as verification
from quarto.errors import FailureError, RequestError
from runners.arena.code_fingerprints import build_class_code_record
from runners.config.yaml_options import load_rules
from runners.hosting.interruption import exit_code
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import STANDARD_STREAM, read_file

MIN_FILE_BYTES, MAX_FILE_BYTES = 1 << 10, 4 << 30  # limited, because a file is built in memory

MAX_LINE_CHARACTERS = 1000  # of a line about a problem or a path


class CompactOptions(NamedTuple):
    """The options of a compaction."""

    max_file_bytes: int
    min_age: str = "10m"  # longer than a listing, or a writer between two steps, takes
    dry_run: bool = False  # change nothing, and list the files that would be removed


def compact_archive(root: PurePath, run_ids: Sequence[str], options: CompactOptions) -> None:
    """Compact the given runs, or all runs if none is given; remove files that are not needed, and print totals.

    If ``options.dry_run`` is true, only print what would be done. Raises ``RequestError`` for a run that does not
    exist, and for a file size out of range.
    """
    size, min_age = options.max_file_bytes, garbage.parse_age(options.min_age)
    if not MIN_FILE_BYTES <= size <= MAX_FILE_BYTES:
        raise RequestError(f"--size {size:,} bytes is not the size of a file: write 1KiB to 4GiB, such as 128MiB")
    archive = ArchiveStore.open(root)
    runs = select_requested_or_all_run_ids(archive, run_ids)
    filtered_runs = runs if run_ids else None
    if options.dry_run:
        count = sum(count_compactable_files(archive, run_id, size) for run_id in runs)
        _print_planned_removals(count, _list_unneeded_files(archive, filtered_runs), min_age)
        return
    total = CompactionSummary()
    try:
        with show_progress_bar_or_notes("compacting", "files") as bar:
            bar.start(sum(count_compactable_files(archive, run_id, size) for run_id in runs))
            for run_id in runs:
                run_total = compact_run(archive, run_id, size, bar.advance, min_age)
                total = CompactionSummary(*(a + b for a, b in zip(total, run_total, strict=True)))
        unneeded = _list_unneeded_files(archive, filtered_runs)
        removed = {*garbage.remove_unneeded_files(archive, unneeded, min_age)}
    except KeyboardInterrupt:
        console.print_note("interrupted: the files made so far count; run the same command again to go on")
        raise typer.Exit(exit_code()) from None
    remaining = [file for file in unneeded if file not in removed]
    total = total._replace(removed=total.removed + len(removed))
    console.print_line(_format_compaction_summary(total, root, remaining))


def _list_unneeded_files(archive: ArchiveStore, run_ids: Sequence[str] | None) -> list[UnneededFile]:
    """List the unneeded files of the given runs or, if ``run_ids`` is None, of the whole archive."""
    folders = None if run_ids is None else {f"run={run_id}" for run_id in run_ids}
    files = garbage.list_unneeded_files(archive)
    return [file for file in files if folders is None or file.path.parent.name in folders]


def _print_planned_removals(compactable: int, unneeded: Sequence[UnneededFile], min_age: float) -> None:
    """Print which unneeded files a compaction would remove or keep, and why, and how many files it would join.

    ``compactable`` is the number of files to join. A file must be at least ``min_age`` seconds old to be removed.
    """
    for file in unneeded:
        path = to_line(str(file.path), MAX_LINE_CHARACTERS)  # anybody may have named the file
        fate = "goes " if file.is_own_and_old_enough(min_age) else "stays"
        console.print_line(f"{fate}  {file.bytes:,} bytes  {path}: {_explain_why_removed_or_kept(file, min_age)}")
    removable_count = sum(file.is_own_and_old_enough(min_age) for file in unneeded)
    files = format_count_with_noun(compactable, "file")
    removals = format_count_with_noun(removable_count, "file")
    console.print_line(f"{files} of games would become fewer and larger; {removals} would be removed")


def _explain_why_removed_or_kept(file: UnneededFile, min_age: float) -> str:
    """Return the reason why a file that is not needed would be removed, or why it would stay."""
    if not file.ours:
        return "no archive names a file like this, so it is never removed"
    why = "other files hold the same" if file.replaced else "a writer that was killed left it"
    seconds = f"{file.age_seconds:,.0f} s"
    return (
        why if file.is_own_and_old_enough(min_age) else f"{why}, but only {seconds} ago, and somebody may still use it"
    )


def merge_archives(roots: Sequence[PurePath], policy_prefix: str, allow_other_code: bool) -> None:
    """Copy the runs of all archives but the last into the last one, and print totals.

    The last archive is created if it does not exist. ``policy_prefix`` is put before the name of a policy if the last
    archive has another policy with this name. If ``allow_other_code`` is true, games may be added to a run that other
    code played. Raises ``RequestError`` if fewer than two archives are given, if one is named twice, or if their
    contents conflict.
    """
    if len(roots) < 2:
        raise RequestError("name at least two archives: qarena archive merge SOURCE... DESTINATION")
    names = [find_backend(root).encode_absolute_location(root) for root in roots]
    if len(set(names)) < len(names):
        raise RequestError("an archive is named twice: the destination, which comes last, is not one of the sources")
    sources = [ArchiveStore.open(root) for root in roots[:-1]]
    for root in roots[:-1]:
        warn_at_first_use_of_foreign_archive(root)
    target = ArchiveStore.open(roots[-1], create=True)
    try:
        with show_progress_bar_or_notes("merging", "games") as bar:
            bar.start(sum(source.count_games(record.run_id) for source in sources for record in source.load_runs()))
            summary = archive_merge.merge_archives(
                sources, target, MergeOptions(policy_prefix, allow_other_code), bar.advance
            )
    except KeyboardInterrupt:
        console.print_note("interrupted: what is merged is kept; run the same command again to go on")
        raise typer.Exit(exit_code()) from None
    counts = (
        *((summary.games, "game", ""), (summary.runs, "new run", ""), (summary.policies, "policy", "policies")),
        *((summary.jobs, "job of a sweep", "jobs of sweeps"), (summary.verdicts, "verdict", "")),
        (summary.notes, "name or note of a run", "names or notes of runs"),
        (summary.tables, "file of derived tables", "files of derived tables"),
    )
    added = ", ".join(format_count_with_noun(*count) for count in counts if count[0])
    console.print_line(f"Added to {roots[-1]}: {added}." if added else f"Nothing to add: {roots[-1]} has all.")


def name_run_and_print(root: PurePath, run: str, name: str | None, note: str | None) -> None:
    """Give a run the name and the note that are not None, and print both as they are then.

    Raises ``RequestError`` for an unknown run, and for a text that is too long or has hidden characters.
    """
    archive = ArchiveStore.open(root)
    run_id = find_run_id(archive, run)
    if name is not None or note is not None:
        run_notes.update_note(archive, run_id, name, note)
    stored = run_notes.load_note(archive, run_id)
    console.print_line(f"Run {run_id}: {stored.name or 'no name'}")
    for line in stored.note.splitlines():
        console.print_line(f"  {line}")


def _format_compaction_summary(summary: CompactionSummary, root: PurePath, remaining: Sequence[UnneededFile]) -> str:
    removed = f"; {format_count_with_noun(summary.removed, 'old file')} removed" if summary.removed else ""
    young_count, foreign_count = sum(file.ours for file in remaining), sum(not file.ours for file in remaining)
    option = format_archive_option(root)
    if summary.files:
        subject = f"{format_count_with_noun(summary.files, 'file')} of games {'is' if summary.files == 1 else 'are'}"
        text = f"{subject} now {summary.larger_files}{removed}"
    else:
        text = f"Nothing to compact in {root}: all files are large, or alone in their run{removed}"
    if young_count:
        count = "the old file" if young_count == 1 else f"the {young_count:,} old files"
        text += f"; 'qarena archive compact{option}' removes {count} ten minutes after they were replaced"
    if foreign_count:
        count = format_count_with_noun(foreign_count, "file")
        text += f"; {count} with names that no archive gives: 'qarena archive compact --dry-run{option}'"
    return text if summary.files else f"{text}."


def upgrade_archive(root: PurePath) -> None:
    """Upgrade an archive of an older format to the current one, and print each step."""
    steps = format_upgrade.upgrade_archive(root)
    for step in steps:
        console.print_line(f"{root}: format {step.before} is now format {step.before + 1}: {step.summary}")
    if not steps:
        console.print_line(f"{root} has format {SCHEMA_VERSION} already.")


def verify_archive(root: PurePath) -> int:
    """Check every file, record and game of an archive, and print the problems and totals.

    Return the exit code: 1 if there are problems, else 0.
    """
    archive = ArchiveStore.open(root)
    with show_progress_bar_or_notes("verifying", "games") as bar:
        bar.start(None)
        report = verification.verify_archive(archive, bar.advance)
    remember_archive(root)
    for problem in report.problems:
        typer.echo(to_line(str(problem), MAX_LINE_CHARACTERS), err=True)
    counted_things = (
        *((report.runs, "run", ""), (report.ranges, "range", "")),
        *((report.games, "game", ""), (report.plies, "ply", "plies")),
        *((report.decisions, "decision", ""), (report.positions, "row of positions", "rows of positions")),
        *((report.policies, "policy", "policies"), (report.verdicts, "verdict", "")),
    )
    # The first four are named even if there are none.
    counts = [format_count_with_noun(*thing) for at, thing in enumerate(counted_things) if thing[0] or at < 4]
    console.print_line(f"{', '.join(counts)}: {format_count_with_noun(len(report.problems), 'problem')}")
    return 1 if report.problems else 0


def export_games(root: PurePath, request: ExportRequest, output: str, force: bool) -> None:
    """Write the requested games to ``output`` and print their number.

    If ``output`` is ``-``, the games go to standard output, and no number is printed. Raises as ``write_export`` does.
    """
    with open_archive(root) as archive:
        if output == STANDARD_STREAM:
            write_export_to_stream(archive, request, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with show_progress_bar_or_notes("exporting", "games") as bar:
            bar.start(None)
            summary = write_export(archive, request, Path(output), force, bar.advance)
    typer.echo(_format_export_summary(summary, request, output))


def _format_export_summary(summary: ExportSummary, request: ExportRequest, output: str) -> str:
    if summary.episodes is None:
        return f"{format_count_with_noun(summary.games, 'game')} written to {output}"
    left_out = summary.games - summary.episodes
    rest = f"; {format_count_with_noun(left_out, 'game')} left out, since no turn in them is known" if left_out else ""
    return (
        f"{format_count_with_noun(summary.episodes, 'episode')}, "
        f"{format_count_with_noun(summary.steps or 0, 'step')} written to {output}, rewards for "
        f"{request.perspective}, at the end only{rest}"
    )


def import_games_file(root: PurePath, file: str, rules: str, event: str | None, skip_bad: bool, command: str) -> int:
    """Import the games of a text file, print what was added, and return the exit code.

    The code is 1 if bad lines were skipped, else 0. ``rules`` and ``event`` apply to games whose tags do not name them,
    and ``command`` is recorded as the command of the runs. Raises ``RequestError`` for a file that cannot be read or
    has no game, and for bad lines unless ``skip_bad`` is set. Raises ``FailureError`` if all lines are bad and were
    skipped.
    """
    rules_of = cache(load_rules)
    rules_of(rules)
    defaults = Tags(rules=rules, event="" if event is None else check_label("--name", event))
    text = parse_games(read_file(file), defaults, rules_of)
    source = "stdin" if file == STANDARD_STREAM else file
    if text.bad_lines and not skip_bad:
        hint = "--skip-bad imports the others" if len(text.tags) else "no other line is a game"
        raise RequestError(f"{_describe_bad_line(source, text.bad_lines[0], len(text.bad_lines) - 1)} ({hint})")
    for bad_line in text.bad_lines:
        typer.echo(to_line(_describe_bad_line(source, bad_line), MAX_LINE_CHARACTERS), err=True)
    if not len(text.tags):
        if text.bad_lines:
            raise FailureError(f"{source}: no line is a game, so nothing was imported")
        raise RequestError(f"{source} has no game: a line of it looks like F@b1 3@b2 7@c4")
    rules_by_name = {name: rules_of(name) for name in {text.distinct_tags[at].rules for at in set(text.tags.tolist())}}
    code = build_class_code_record([IMPORTED_PLAYER_TARGET], learning=False)
    archive = ArchiveStore.open(root, create=True)
    imported = import_games(archive, text, rules_by_name, code, command)
    for run in imported:
        compact_small_files(archive, run.run_id)  # a text that grows day by day leaves a file each day
        console.print_line(_format_import_summary(run))
    # A run that is not complete in the file got another id.
    for run_id in sorted({record.run_id for record in text.records} - {run.run_id for run in imported}):
        typer.echo(f"run {run_id} is not whole in {source}: its games are single games, without pairs", err=True)
    return 1 if text.bad_lines else 0


def _describe_bad_line(source: str, bad_line: BadLine, other_count: int = 0) -> str:
    more = f"; {format_count_with_noun(other_count, 'more bad line')}" if other_count else ""
    return f"{source}, line {bad_line.line}: {bad_line.reason}{more}"


def _format_import_summary(run: ImportedRun) -> str:
    heading = run.heading
    description = ", ".join([heading.rules, *filter(None, (heading.event, heading.date))])
    opening = f", {format_count_with_noun(heading.opening, 'ply', 'plies')} imposed" if heading.opening else ""
    known_count = run.games - run.added
    kept = f", {known_count:,} were in the archive already" if known_count else ""
    note = "; its name and note added" if run.note_added else ""
    return f"run {run.run_id} ({description}{opening}): {format_count_with_noun(run.added, 'game')} added{kept}{note}"
