"""Merges the contents of several archives into one. The sources are only read.

The games of all archives are compared before anything is written, and so is everything else that may conflict. Then
files are copied byte for byte, and records are joined. Every step may be repeated, so a merge that was stopped leaves a
sound archive, and the same merge again goes on where it stopped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import PurePath
from typing import Any, NamedTuple

from msgspec import UNSET, structs

from analytics.store import policy_cards, policy_store, run_notes, sprt_verdicts
from analytics.store.archive import GAMES_FOLDER, ArchiveStore, has_requested_units
from analytics.store.files.backend import explain_errors
from analytics.store.policy_cards import PolicyCard
from analytics.store.range_files import RunFingerprints, list_contradictions_by_file_of_one, read_games, write_range
from analytics.store.ranges import (
    StoredRange,
    compute_checksum,
    list_gaps,
    merge_ranges,
    select_effective_derived,
    split_aligned,
)
from analytics.store.records import RunRecord, compute_run_id, encode_record, merge_code
from analytics.store.texts import format_count_with_noun
from analytics.tables.derived.decisions import record_annotated_units
from analytics.tables.derived.definitions import DERIVED_TABLES, TABLES_NOTED_IN_RECORDS
from analytics.tables.derived.range_table import record_increased_derived_units
from quarto.errors import FailureError, RequestError

COPIED_TABLES = ("plies", "tallies", GAMES_FOLDER)  # in the order of writing


class MergeOptions(NamedTuple):
    """The user's options for resolving conflicts between archives."""

    prefix: str = ""  # put before the names of policies that the target has with other content
    other_code: bool = False  # add games to a run of the target that other code played


@dataclass
class MergeSummary:
    """The counts of what a merge added to the target archive."""

    runs: int = 0  # runs that the target lacked
    games: int = 0
    policies: int = 0
    verdicts: int = 0
    notes: int = 0  # names and notes of runs
    jobs: int = 0  # of sweeps
    tables: int = 0  # files of derived tables


def merge_archives(
    sources: Sequence[ArchiveStore],
    target: ArchiveStore,
    options: MergeOptions,
    progress: Callable[[int], None] = lambda _games: None,
) -> MergeSummary:
    """Add to ``target`` everything in ``sources`` that ``target`` lacks, and return the counts of what was added.

    After each file, ``progress`` is called with the number of games in the file. Raises ``RequestError`` if the
    archives conflict, and ``FailureError`` if a file is damaged or cannot be written.
    """
    conflicts = [*list_conflicts(sources, target, options)]
    if conflicts:
        more = f" (and {format_count_with_noun(len(conflicts) - 1, 'more conflict')})" if len(conflicts) > 1 else ""
        raise RequestError(conflicts[0] + more)
    done = MergeSummary()
    with_records = [[(record, source) for record in source.load_runs()] for source in sources]
    for record, source in heapq.merge(*with_records, key=lambda entry: beginning_key(entry[0])):
        _merge_run(source, target, record, done, progress)
    for source in sources:
        for job in source.load_sweep_jobs():
            if target.backend.status(target.root / "sweeps" / job.sweep_id / f"{job.job}.json") is None:
                target.write_sweep_job(job)
                done.jobs += 1
    for source, card, new in [*list_policies_to_copy(sources, target, options)]:  # no name is refused later
        policy_store.copy(source, card, target, new)
        done.policies += 1
    return done


def _merge_run(
    source: ArchiveStore,
    target: ArchiveStore,
    record: RunRecord,
    summary: MergeSummary,
    progress: Callable[[int], None],
) -> None:
    """Add a run of ``source`` to ``target``, with its verdicts and derived tables.

    The counts of what is new are added to ``summary``, and ``progress`` is called with the number of games in each
    file. The record is written first, so that games are never without a record.
    """
    run_id, target_ranges = record.run_id, target.list_effective_ranges(record.run_id)
    new = structs.replace(record, units=0, annotated=0, verdicts=(), derived=UNSET, status="running")
    if target.find_run(run_id) is None:
        new = structs.replace(new, number=target.compute_next_run_number())
        summary.runs += 1
    if any(target_ranges.list_gaps(end, first) for first, end in source.list_effective_ranges(run_id).covered_ranges):
        target.update_run_and_unit_count(
            run_id, lambda there: structs.replace(there or new, code=merge_code((there or new).code, record.code))
        )
    else:
        target.update_run_and_unit_count(run_id, lambda there: there or new)
    for stored in source.list_effective_ranges(run_id):
        units = _merge_range_and_count_units(source, target, record, stored)
        summary.games += units * record.unit_line.games_a_pair
        progress(stored.units * record.unit_line.games_a_pair)
    for table in DERIVED_TABLES:
        summary.tables += _copy_and_count_derived_files(source, target, run_id, table)
    record_annotated_units(target, run_id)
    record_increased_derived_units(
        target, run_id, [table for table in TABLES_NOTED_IN_RECORDS if record.recorded_units(table.name)]
    )
    for path in sprt_verdicts.list_verdict_files(source):
        verdict = sprt_verdicts.load_verdict(source, path)
        there = sprt_verdicts.verdict_path(target, run_id, verdict.verdict_id)
        if verdict.run_id == run_id and target.backend.status(there) is None:
            sprt_verdicts.write_verdict_and_list_in_run(target, verdict)
            summary.verdicts += 1
    target.update_run_and_unit_count(run_id, lambda there: there and _compute_merged_record(there, record, target))
    summary.notes += run_notes.copy_later_note(source, target, run_id)


def _compute_merged_record(target_record: RunRecord, record: RunRecord, target: ArchiveStore) -> RunRecord:
    """Compute the target's record of a run after the games of ``record`` have been merged into ``target``.

    Nothing is written. Merging again gives the same record.
    """
    merged = structs.replace(target_record, games=max(target_record.games, record.games))
    is_complete = (
        has_requested_units(merged, target.list_effective_ranges(target_record.run_id))
        or "imported" in target_record.spec
    )
    return structs.replace(
        merged,
        status="complete" if is_complete else "interrupted",
        seconds=max(target_record.seconds, record.seconds),
        created=min(target_record.created, record.created, key=datetime.fromisoformat),
    )


# Games.


def _merge_range_and_count_units(
    source: ArchiveStore, target: ArchiveStore, record: RunRecord, stored: StoredRange
) -> int:
    """Add to the target the games of a stored range that the target lacks, and return how many units were added.

    If a file partly overlaps a file of the target, it is not copied as a whole, because readers would then have to cut
    one of the two files. Instead, only the units that the target lacks are written.
    """
    inside = target.list_effective_ranges(record.run_id).select_overlapping(stored.first, stored.end)
    lacking = inside.list_gaps(stored.end, stored.first)
    if lacking and stored.is_file and all(stored.first <= held.first and held.end <= stored.end for held in inside):
        _copy_game_ply_and_tally_files(source, target, record.run_id, stored)
    elif lacking:
        games = read_games(source, record.run_id, stored)
        for span in (piece for gap in lacking for piece in split_aligned(*gap)):
            write_range(target, record, span, games.select_units(record.unit_line, *span))
    return sum(end - first for first, end in lacking)


def _copy_game_ply_and_tally_files(
    source: ArchiveStore, target: ArchiveStore, run_id: str, stored: StoredRange
) -> None:
    for table in COPIED_TABLES:
        try:
            path = source.find_path_of_containing_file(table, run_id, stored)
        except FileNotFoundError as error:
            if table == "tallies":  # a file of a larger range, copied later, has them; or they are counted from games
                continue
            raise FailureError(f"{error} is missing: see 'qarena archive verify'") from error
        _copy_undamaged_table_file(source, path, target, target.folder(table, run_id))


def _copy_undamaged_table_file(source: ArchiveStore, path: PurePath, target: ArchiveStore, folder: PurePath) -> None:
    """Copy the table file at ``path`` in ``source`` unchanged to ``folder`` in ``target``.

    Raises ``FailureError`` if the bytes of the file do not match the checksum in its name.
    """
    with explain_errors("read", path):
        content = source.backend.read(path)
    if path.suffixes[-2] != f".{compute_checksum(content)}":
        raise FailureError(f"{path} has other bytes than its name says: see 'qarena archive verify'")
    target.write_file(folder / path.name, content)


def _copy_and_count_derived_files(source: ArchiveStore, target: ArchiveStore, run_id: str, table: str) -> int:
    """Copy the files of a derived table that the target lacks, and return their number.

    Only files for games that the target has are copied.
    """
    games, count = target.list_effective_ranges(run_id), 0
    for extent in sorted({file.extent for file in source.list_files(table, run_id)}):
        target_ranges = target.list_effective_ranges(run_id, table, extent.__eq__)
        lacking = [
            file
            for file in source.list_effective_ranges(run_id, table, extent.__eq__)
            if target_ranges.select_overlapping(file.first, file.end).list_gaps(file.end, file.first)
        ]
        there = [file for file in target.list_files(table, run_id) if file.extent == extent]
        effective = set(select_effective_derived([*there, *lacking], games))
        for file in lacking:
            if file in effective:
                _copy_undamaged_table_file(
                    source, source.folder(table, run_id) / file.name, target, target.folder(table, run_id)
                )
                count += 1
    return count


# Conflicts: all archives are compared with each other, in any order.


class _RunHolder(NamedTuple):
    """A run's record and the archive that holds it."""

    record: RunRecord
    archive: ArchiveStore


def beginning_key(record: RunRecord) -> tuple[datetime, str, str]:
    """Return a key that sorts the records of several archives by the time at which the runs began."""
    return datetime.fromisoformat(record.created), record.run_id, str(record.code.get("fingerprint"))


def list_conflicts(sources: Sequence[ArchiveStore], target: ArchiveStore, options: MergeOptions) -> Iterator[str]:
    """Yield a sentence for each conflict between archives.

    If a source has games of a run but not the run's record, only the missing records are reported.
    """
    without = [
        (source, run_id)
        for source in sources
        for run_id in source.list_ids_of_runs_with_games()
        if source.find_run(run_id) is None
    ]
    if without:
        yield from (f"run {run_id} of {source.root} has no record: restore it" for source, run_id in without)
        return
    for held in _group_records_by_run([*sources, target]):
        yield from _list_run_conflicts(held, target, options)
    archives = [target, *sources]
    yield from _list_record_conflicts(archives, _list_job_contents, "rename the folder of one")
    yield from _list_record_conflicts(archives, _list_verdict_contents, "run 'qarena archive verify' on both")
    yield from _list_policy_conflicts(sources, target, options)


def _group_records_by_run(archives: Sequence[ArchiveStore]) -> Iterator[list[_RunHolder]]:
    """Yield, for each run, the archives that hold it, each with its record of the run.

    The order depends only on the records, not on the order of ``archives``.
    """
    held: dict[str, list[_RunHolder]] = {}
    for archive in archives:
        for record in archive.load_runs():
            held.setdefault(record.run_id, []).append(_RunHolder(record, archive))
    for run_id in sorted(held):
        yield sorted(held[run_id], key=lambda holder: beginning_key(holder.record))


def _list_run_conflicts(holders: Sequence[_RunHolder], target: ArchiveStore, options: MergeOptions) -> Iterator[str]:
    for record, archive in holders:
        if archive is not target and compute_run_id(record.spec) != record.run_id:
            of_spec = compute_run_id(record.spec)
            yield f"run {record.run_id} of {archive.root} has the spec of run {of_spec}: it was changed"
    for one, other in combinations(holders, 2):
        if one.record.spec != other.record.spec:
            yield f"run {one.record.run_id} has another spec in {one.archive.root} than in {other.archive.root}"
            continue
        yield from _list_game_conflicts(one, other)
    if not options.other_code:
        yield from _list_code_conflicts(holders, target)


def _list_game_conflicts(one: _RunHolder, other: _RunHolder) -> Iterator[str]:
    """Yield one sentence about the units for which two archives hold different games, or nothing if there are none."""
    record = one.record
    mine, theirs = (
        RunFingerprints(holder.archive, record.run_id, holder.archive.list_effective_ranges(record.run_id))
        for holder in (one, other)
    )
    spans = merge_ranges(span for span, _ in list_contradictions_by_file_of_one(mine, theirs))
    if spans:
        first, end = spans[0]
        more = f", and of {format_count_with_noun(len(spans) - 1, 'more range')}" if len(spans) > 1 else ""
        pairing = first % record.unit_line.pairings
        pair, labels = first // record.unit_line.pairings, " and ".join(record.pairings[pairing])
        yield (
            f"run {record.run_id} has different games of units {first} to {end - 1} (from pair {pair} of {labels} on)"
            f"{more} in {one.archive.root} and {other.archive.root}: leave one archive out"
        )


def _list_code_conflicts(holders: Sequence[_RunHolder], target: ArchiveStore) -> Iterator[str]:
    """Yield a sentence for each archive that would add games to a run begun by a different version of the code.

    Archives are merged in order, the target first, so each adds the games that all archives before it lack. Versions
    that are known to play the same games do not conflict.
    """
    before = [holder for holder in holders if holder.archive is target]
    for holder in (holder for holder in holders if holder.archive is not target):
        ranges = holder.archive.list_effective_ranges(holder.record.run_id)
        held_ranges = merge_ranges(
            span for one in before for span in one.archive.list_effective_ranges(holder.record.run_id).covered_ranges
        )
        lacking = any(list_gaps(held_ranges, end, first) for first, end in ranges.covered_ranges)
        if (
            before
            and lacking
            and not any(_is_part_or_plays_same_games(holder.record.code, one.record.code) for one in before)
        ):
            code, there = (str(held.record.code.get("fingerprint"))[:12] for held in (holder, before[0]))
            yield (
                f"run {holder.record.run_id} was played by code {code} in {holder.archive.root}, by code {there} in "
                f"{before[0].archive.root}: leave one out, or unite their games with --other-code"
            )
        before.append(holder)


def _is_part_or_plays_same_games(code: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether ``code`` is one of the versions of ``other``, or plays the same games as one of them.

    ``other`` is what one archive records of a run's code: the versions that played the run. ``code`` is what another
    archive records. Two versions are known to play the same games if one of them replayed a sample of a run's games
    with equal results.
    """
    fingerprints = {code.get("fingerprint"), *code.get("same_games", ())}
    return not fingerprints.isdisjoint(
        {other.get("fingerprint"), *other.get("extended_by", ()), *other.get("same_games", ())}
    )


# Records.


def _list_record_conflicts(
    archives: Sequence[ArchiveStore], list_contents: Callable[[ArchiveStore], Iterable[tuple[str, object]]], remedy: str
) -> Iterator[str]:
    """Yield a sentence for each record that has the same name but different contents in two archives.

    ``list_contents`` lists the name and the content of each record in an archive. Each sentence ends with ``remedy``,
    the advice to the user.
    """
    contents: dict[str, tuple[object, ArchiveStore]] = {}
    for archive in archives:
        for name, content in list_contents(archive):
            first, where = contents.setdefault(name, (content, archive))
            if first != content:
                yield f"{name} is another one in {archive.root} than in {where.root}: {remedy}"


def _list_job_contents(archive: ArchiveStore) -> Iterator[tuple[str, object]]:
    for job in archive.load_sweep_jobs():
        yield f"job {job.job} of sweep {job.sweep_id}", encode_record(job)


def _list_verdict_contents(archive: ArchiveStore) -> Iterator[tuple[str, object]]:
    for path in sprt_verdicts.list_verdict_files(archive):
        verdict = sprt_verdicts.load_verdict(archive, path)
        yield f"verdict {verdict.verdict_id} of run {verdict.run_id}", (verdict.accepted, verdict.counts)


# Policies.


class PolicyCopy(NamedTuple):
    """A policy that is to be copied to another archive, perhaps under a new name."""

    source: ArchiveStore
    card: PolicyCard  # in the source
    target_card: PolicyCard


def list_policies_to_copy(
    sources: Sequence[ArchiveStore], target: ArchiveStore, options: MergeOptions
) -> Iterator[PolicyCopy]:
    """Yield the policies that a source has but the target lacks, one source after the other, oldest policies first.

    Raises ``RequestError`` if the prefix in ``options`` makes a policy's name invalid.
    """
    there = policy_cards.load_cards(target)
    for source in sources:
        cards, before = policy_cards.load_cards(source), {target_card.policy_id for target_card in there}
        clashing = {clash.name for clash in _list_name_clashes(cards, there)}
        for card in cards:
            name = options.prefix + card.name if card.name in clashing else card.name
            policy_store.check_name(name, "--prefix")
            new = structs.replace(card, name=name, policy_id=policy_cards.compute_policy_id(name, card.knowledge))
            if not {card.policy_id, new.policy_id} & before:
                there.append(new)
                yield PolicyCopy(source, card, new)


class NameClash(NamedTuple):
    """A name that two archives use for different policies.

    It holds, for each archive, the newest policy with that name that the other archive lacks.
    """

    name: str
    theirs: PolicyCard  # the newest
    ours: PolicyCard  # the newest


def _list_name_clashes(theirs: Sequence[PolicyCard], ours: Sequence[PolicyCard]) -> Iterator[NameClash]:
    """Yield a clash for each name under which both archives have a policy that the other archive lacks.

    ``theirs`` and ``ours`` are the cards of all policies in the two archives.
    """
    own_ids, new = {card.policy_id for card in ours}, {card.policy_id for card in theirs}
    for name in dict.fromkeys(card.name for card in theirs):
        added = [card for card in theirs if card.name == name and card.policy_id not in own_ids]
        kept = [card for card in ours if card.name == name and card.policy_id not in new]
        if added and kept:
            yield NameClash(name, added[-1], kept[-1])


def _list_policy_conflicts(
    sources: Sequence[ArchiveStore], target: ArchiveStore, options: MergeOptions
) -> Iterator[str]:
    for one, other in [] if options.prefix else combinations([target, *sources], 2):
        for name, theirs, ours in _list_name_clashes(policy_cards.load_cards(other), policy_cards.load_cards(one)):
            yield (
                f"policy {name!r} is {theirs.policy_id} in {other.root} and {ours.policy_id} in {one.root}: give "
                f"--prefix, which renames that of {other.root}"
            )
