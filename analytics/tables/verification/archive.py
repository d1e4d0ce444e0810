"""Verifies an archive: its records and, of each range of games that readers use, the bytes, the rows and the rules.

A file that readers do not use is not read, unless it may contradict the files that they use: see
``analytics.tables.upkeep.garbage``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath

import polars as pl

from analytics.store import policy_cards, policy_store, run_notes, sprt_verdicts
from analytics.store.archive import (
    FORMAT_REMEDY,
    GAMES_FOLDER,
    REPLAY_REMEDY,
    ArchiveStore,
    list_lost_ranges,
    load_sweep_job,
)
from analytics.store.files.backend import explain_errors
from analytics.store.range_files import RunFingerprints, list_contradictions_by_file_of_one
from analytics.store.ranges import Ranges, StoredRange
from analytics.store.records import RunRecord, compute_run_id
from analytics.store.schema import SCHEMA_VERSION
from analytics.store.snapshot import MISSING_VERDICT
from analytics.store.table_files import select_units
from analytics.tables.derived.decisions import DECISIONS_TABLE
from analytics.tables.derived.definitions import DERIVED_TABLES, POSITIONS_TABLE, TABLES_NOTED_IN_RECORDS
from analytics.tables.derived.range_table import count_lost_units, describe_loss
from analytics.tables.verification.derived_tables import verify_table, verify_verdicts
from analytics.tables.verification.games import Problem, RangeFiles, read_sound_tables_and_problems, verify_rows
from quarto.errors import FailureError

GONE_REMEDY = "restore it from a copy, or remove what refers to it"
IRREGULAR_REMEDY = "an archive is a tree of regular files; remove it first, until then nothing else is verified"


@dataclass
class Verification:
    """The counts of what was checked, and the problems that were found."""

    runs: int = 0
    ranges: int = 0
    games: int = 0
    plies: int = 0
    decisions: int = 0
    positions: int = 0  # rows
    policies: int = 0
    verdicts: int = 0
    problems: list[Problem] = field(default_factory=list)


def verify_archive(archive: ArchiveStore, on_games: Callable[[int], None] = lambda _games: None) -> Verification:
    """Check all records of an archive, and all files that readers use, one range of games at a time.

    ``on_games`` is called with the number of games in each range. Problems are returned with the counts, never raised.
    """
    verification, archive = Verification(), ArchiveStore(archive.root)
    verification.problems += _verify_file_kinds(archive)
    if not verification.problems:
        _verify_runs_sweeps_and_policies(archive, verification, on_games)
    return verification


def _verify_file_kinds(archive: ArchiveStore) -> Iterator[Problem]:
    """Yield a problem for each entry that is neither a file nor a folder, and a problem if a folder cannot be listed.

    If there is such a problem, nothing else is verified.
    """
    try:
        with explain_errors("list", archive.root):
            for path, kind in archive.backend.list_irregular_files(archive.root):
                yield Problem(path, f"{kind}: {IRREGULAR_REMEDY}")
    except FailureError as error:
        yield Problem(archive.root, f"{error}; until then nothing else is verified")


def _verify_runs_sweeps_and_policies(
    archive: ArchiveStore, verification: Verification, on_games: Callable[[int], None]
) -> None:
    """Check all runs, sweeps, verdicts and policies of an archive whose files can be listed.

    The counts and the problems are added to ``verification``.
    """
    for run_id in sorted({*archive.list_ids_of_runs_with_games(), *archive.list_recorded_run_ids()}):
        verification.runs += 1
        record, problems = _verify_record(archive, run_id)
        verification.problems += problems
        if record is not None:
            try:
                ranges = archive.list_effective_ranges(run_id)
            except FailureError as error:  # of a file that overlaps another one: what counts is not known
                verification.problems.append(Problem(archive.folder(GAMES_FOLDER, run_id), str(error)))
            else:
                verification.ranges += len(ranges)
                _verify_run(archive, record, ranges, verification, on_games)
    verification.problems += _verify_notes(archive)
    verification.problems += _verify_sweep_jobs_are_complete(archive)
    verification.problems += _verify_runs_of_verdicts_and_jobs(archive)
    verification.problems += [Problem(path, fault) for path, fault in policy_store.list_folders_without_card(archive)]
    for policy_id in policy_cards.list_policy_ids(archive):
        verification.policies += 1
        verification.problems += [
            Problem(path, fault) for path, fault in policy_store.list_problems(archive, policy_id)
        ]


def _verify_record(archive: ArchiveStore, run_id: str) -> tuple[RunRecord | None, list[Problem]]:
    """Return the record of a run, or None if it is missing or cannot be read, and a list of its problems."""
    path = archive.run_record_path(run_id)
    try:
        record = archive.find_run(run_id)
    except FailureError as error:
        return None, [Problem(path, str(error))]
    fault = ""
    if record is None:
        fault = "missing: without it the games of this run cannot be checked; restore it from a copy"
    elif record.schema_version != SCHEMA_VERSION:
        fault = (
            f"it has format {record.schema_version}, and this program reads format {SCHEMA_VERSION}: {FORMAT_REMEDY}"
        )
    elif compute_run_id(record.spec) != run_id:
        fault = f"its spec is that of run {compute_run_id(record.spec)}: it was changed after the run was named"
    return record, [Problem(path, fault)] if fault else []


def _verify_run(
    archive: ArchiveStore,
    record: RunRecord,
    ranges: Ranges,
    verification: Verification,
    on_games: Callable[[int], None],
) -> None:
    """Check the files of a run, and add the counts and the problems to ``verification``.

    ``on_games`` is called with the number of games in each file.
    """
    unsound = set[StoredRange]()
    slices: dict[StoredRange, list[StoredRange]] = {}
    for stored in ranges:
        slices.setdefault(archive.resolve_slice_to_file(record.run_id, stored), []).append(stored)
    for file, counted in slices.items():
        files = RangeFiles(archive, record, file)
        frames, problems = read_sound_tables_and_problems(files)
        if not problems:
            verification.games += _count_effective_rows(frames["games"], record, file, counted)
            verification.plies += _count_effective_rows(frames["plies"], record, file, counted)
            problems = [*verify_rows(files, frames["games"], frames["plies"])]
        if problems:
            unsound.update(counted)
        verification.problems += problems
        on_games(record.unit_line.count_games(stored[:2] for stored in counted))
    verification.problems += _verify_ineffective_files(archive, record, ranges)
    verification.problems += _verify_nothing_lost(archive, record, ranges)
    rows = dict[str, int]()
    for table in DERIVED_TABLES.values():
        rows[table.name], problems = verify_table(archive, record, table, unsound)
        verification.problems += problems
    verification.decisions += rows[DECISIONS_TABLE.name]
    verification.positions += rows[POSITIONS_TABLE.name]
    verdicts, problems = verify_verdicts(archive, record)
    verification.verdicts += verdicts
    verification.problems += problems


def _count_effective_rows(
    rows: pl.DataFrame, record: RunRecord, file: StoredRange, effective_ranges: Sequence[StoredRange]
) -> int:
    """Count those rows of a file that readers use.

    ``rows`` are all rows of ``file``. Readers use the ranges ``effective_ranges``, which are the whole file or slices
    of it.
    """
    if [*effective_ranges] == [file]:
        return len(rows)
    return sum(len(select_units(rows, record.unit_line, stored.first, stored.end)) for stored in effective_ranges)


def _verify_ineffective_files(archive: ArchiveStore, record: RunRecord, ranges: Ranges) -> Iterator[Problem]:
    """Yield a problem for each file of games that readers do not use and that contradicts the files that they use.

    Such a file holds other games for the same units.
    """
    mine, effective = RunFingerprints(archive, record.run_id, ranges), {stored_range[:3] for stored_range in ranges}
    for other in sorted(archive.list_files(GAMES_FOLDER, record.run_id)):
        if other[:3] in effective:
            continue
        path = archive.folder(GAMES_FOLDER, record.run_id) / other.name
        try:
            theirs = RunFingerprints(archive, record.run_id, Ranges([other]))
            for (first, end), stored in list_contradictions_by_file_of_one(mine, theirs):
                name = archive.resolve_slice_to_file(record.run_id, stored).name
                fault = f"holds other games of units {first} to {end - 1} than {name}, which counts"
                replay = archive.format_command(f"archive replay {record.run_id}")
                yield Problem(
                    path, f"{fault}: only one of the two can be of this run, {replay} plays it again; remove the other"
                )
        except FailureError as error:
            yield Problem(path, f"cannot be compared with the games that count: {error}")


def _verify_nothing_lost(archive: ArchiveStore, record: RunRecord, ranges: Ranges) -> Iterator[Problem]:
    """Yield problems for the games, derived rows and verdicts that a run had according to its record but lacks now.

    There is one problem for each lost range of games, for each derived table with lost units, and for each lost
    verdict.
    """
    for first, end in list_lost_ranges(record, ranges):
        remedy = REPLAY_REMEDY.format(archive.format_command("archive ls"))
        fault = f"units {first} to {end - 1} are missing, and their games with them: {remedy}"
        yield Problem(archive.folder(GAMES_FOLDER, record.run_id), fault)
    for table in (DECISIONS_TABLE, *TABLES_NOTED_IN_RECORDS):
        gone = count_lost_units(archive, record, table)
        if gone:
            yield Problem(archive.folder(table.name, record.run_id), describe_loss(record, table, gone))
    for verdict_id in record.verdicts:
        path = sprt_verdicts.verdict_path(archive, record.run_id, verdict_id)
        if archive.backend.status(path) is None:
            yield Problem(path, MISSING_VERDICT)


def _verify_runs_of_verdicts_and_jobs(archive: ArchiveStore) -> Iterator[Problem]:
    """Yield a problem for each verdict and each job of a sweep whose run has no record.

    Other checks report damaged verdicts and jobs. Policies are not checked, because a policy does not need the runs
    that it was learned from.
    """
    recorded = {*archive.list_recorded_run_ids()}
    for path in sprt_verdicts.list_verdict_files(archive):
        if path.parent.name.removeprefix("run=") not in recorded:
            yield Problem(path, "its run has no record")
    for path in archive.list_job_files():
        with suppress(FailureError):
            run_id = load_sweep_job(archive, path).run_id
            if run_id is not None and run_id not in recorded:
                yield Problem(path, f"its run {run_id} is gone: {GONE_REMEDY}")


def _verify_notes(archive: ArchiveStore) -> Iterator[Problem]:
    """Yield a problem for each file with the name and the note of a run that is damaged, or whose run has no record."""
    recorded = {*archive.list_recorded_run_ids()}
    for run_id in run_notes.list_ids_of_runs_with_notes(archive):
        if run_id not in recorded:
            yield Problem(run_notes.note_path(archive, run_id), "its run has no record")
        try:
            run_notes.load_note(archive, run_id)
        except FailureError as error:
            yield Problem(run_notes.note_path(archive, run_id), str(error))


def _verify_sweep_jobs_are_complete(archive: ArchiveStore) -> Iterator[Problem]:
    files, jobs = archive.list_job_files(), dict[PurePath, int]()
    for path in files:
        numbers = max(jobs.get(path.parent, 0), int(path.stem) + 1)
        try:
            numbers = max(numbers, load_sweep_job(archive, path).jobs)
        except FailureError as error:
            yield Problem(path, str(error))
        jobs[path.parent] = numbers
    for folder, number in jobs.items():
        for lost in sorted({folder / f"{job}.json" for job in range(number)}.difference(files)):
            fault = "missing: the sweep was killed before this job ended, or the file was removed; sweep again"
            yield Problem(lost, fault)
