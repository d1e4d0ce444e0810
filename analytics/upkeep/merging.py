"""Merging: the content of several archives in one. The sources are only read.

What conflicts is found before anything is written. Every step is one that a run, a training or a sweep takes too, so a
merge that was stopped leaves a sound archive, and the same merge again goes on where it stopped.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from analytics.derived_tables.decisions import ANNOTATIONS, note_annotations
from analytics.derived_tables.derived_table import DerivedTable, Shard
from analytics.derived_tables.position_index import INDEXES
from analytics.files.atomic import explained
from analytics.policies import policy_store
from analytics.store import policy_cards, sprt_verdicts
from analytics.store.archive import Archive
from analytics.store.blocks import read_table
from analytics.store.commit_log import publish
from analytics.store.inventory import has_all
from analytics.store.json_records import dump
from analytics.store.ranges import Range, overlaps
from analytics.store.records import Commit, PolicyCard, RunRecord, StoredFile, run_id_of
from analytics.store.run_numbers import next_number
from analytics.store.schema import TABLES
from analytics.store.range_files import RangeGames, games_at, read_games
from quarto.batch import Block
from quarto.errors import FailureError, RequestError

PARTS = (ANNOTATIONS, INDEXES)


class Merged(NamedTuple):
    """Counts of what a merge added."""

    runs: int = 0  # that were not there
    shards: int = 0
    games: int = 0
    policies: int = 0
    verdicts: int = 0
    jobs: int = 0  # of sweeps
    tables: int = 0  # derived

    def plus(self, **counts: int) -> Merged:
        """The same with more of some of them."""
        return self._replace(**{name: getattr(self, name) + count for name, count in counts.items()})


class MergeOptions(NamedTuple):
    """The user's choices for conflicts."""

    prefix: str = ""  # of the names of policies that the destination knows with other content
    other_code: bool = False  # add games of other code to a run that is there


def opened(root: PurePath) -> Archive:
    """A source. Nothing is written to it."""
    archive = Archive.open(root)
    archive.may_checkpoint = False
    return archive


# Conflicts.


def conflicts(source: Archive, target: Archive, options: MergeOptions) -> Iterator[str]:
    """The conflicts of two archives, as sentences."""
    for run_id in source.run_ids():
        if source.run(run_id) is None:
            yield f"run {run_id} of {source.root} has no record: restore it"
    for record in source.runs():
        yield from _of_runs(record, target.run(record.run_id), source, target, options)
    for path in sprt_verdicts.files(source):
        yield from _of_verdicts(sprt_verdicts.read(source, path), target, path)
    for job in source.sweep_jobs():
        path = target.root / "sweeps" / job.sweep_id / f"{job.job}.json"
        if target.backend.status(path) and dump(job) != target.backend.read(path):
            yield f"job {job.job} of sweep {job.sweep_id} is another one in {target.root}: rename the folder of one"
    yield from _of_policies(source, target, options)


def _of_runs(
    record: RunRecord, known: RunRecord | None, source: Archive, target: Archive, options: MergeOptions
) -> Iterator[str]:
    if run_id_of(record.spec) != record.run_id:
        yield f"run {record.run_id} of {source.root} has the spec of run {run_id_of(record.spec)}: it was changed"
    if known is None:
        return
    if known.spec != record.spec:
        yield f"run {record.run_id} has another spec in {source.root} than in {target.root}"
    codes = record.code.get("fingerprint"), known.code.get("fingerprint")
    missing = any(_lacking(target.covered(record.run_id), commit) for commit in source.commits(record.run_id))
    if (
        codes[0] != codes[1]
        and codes[0] not in known.code.get("extended_by", ())
        and missing
        and not options.other_code
    ):
        yield (
            f"run {record.run_id} was played by code {str(codes[0])[:12]} in {source.root}, by code "
            f"{str(codes[1])[:12]} in {target.root}: leave one out, or unite their games with --other-code"
        )


def _of_verdicts(verdict: sprt_verdicts.Verdict, target: Archive, path: PurePath) -> Iterator[str]:
    place = sprt_verdicts.path_of(target, verdict.run_id, verdict.verdict_id)
    if target.backend.status(place):
        known = sprt_verdicts.read(target, place)
        if (known.accepted, known.counts) != (verdict.accepted, verdict.counts):
            yield f"{path} and {place} are different results of one test: run 'qarena archive verify' on both"


def _of_policies(source: Archive, target: Archive, options: MergeOptions) -> Iterator[str]:
    for name, (theirs, ours) in _names(source, target).items():
        if not options.prefix:
            yield (
                f"policy {name!r} is {theirs[-1].policy_id} in {source.root} and {ours[-1].policy_id} in "
                f"{target.root}: give --prefix, which renames that of {source.root}"
            )


def _names(source: Archive, target: Archive) -> dict[str, tuple[list[PolicyCard], list[PolicyCard]]]:
    """The names of policies with other content on either side, and those policies, oldest first."""
    theirs, ours = policy_cards.cards(source), policy_cards.cards(target)
    known, new = {card.policy_id for card in ours}, {card.policy_id for card in theirs}
    found = {}
    for name in dict.fromkeys(card.name for card in theirs):
        added = [card for card in theirs if card.name == name and card.policy_id not in known]
        others = [card for card in ours if card.name == name and card.policy_id not in new]
        if added and others:
            found[name] = added, others
    return found


# Adding.


def merge(
    sources: Sequence[Archive],
    target: Archive,
    options: MergeOptions,
    progress: Callable[[int], None] = lambda _games: None,
) -> Merged:
    """Add to ``target`` what it lacks; ``progress`` is called with the games of each shard that was dealt with.

    Raises ``RequestError`` for what cannot be in one archive, ``FailureError`` for what is damaged, or cannot be
    written.
    """
    found = [each for source in sources for each in conflicts(source, target, options)]
    if found:
        more = f" (and {len(found) - 1} more conflicts)" if len(found) > 1 else ""
        raise RequestError(found[0] + more)
    done = Merged()
    for source in sources:
        for each in conflicts(source, target, options):  # with what an earlier source has added
            raise RequestError(each)
        for record in source.runs():
            done = _run(source, target, record, done, progress)
        for job in source.sweep_jobs():
            if target.backend.status(target.root / "sweeps" / job.sweep_id / f"{job.job}.json") is None:
                target.save_sweep_job(job)
                done = done.plus(jobs=1)
        done = done.plus(policies=sum(_policies(source, target, options)))
    return done


def _run(source: Archive, target: Archive, record: RunRecord, done: Merged, progress: Callable[[int], None]) -> Merged:
    """Add a run, with its verdicts and derived tables: first the record, so that no games are without one."""
    run_id, known = record.run_id, target.run(record.run_id)
    lacking = [commit for commit in source.commits(run_id) if _lacking(target.covered(run_id), commit)]
    if known is None:
        new = structs.replace(record, number=next_number(target), commits=0, annotations=0, verdicts=())
        target.update_run(run_id, lambda there: there or structs.replace(new, status="running"))
        done = done.plus(runs=1)
    for commit in source.commits(run_id):
        games = _add(source, target, record, commit) if commit in lacking else 0
        done = done.plus(shards=games > 0, games=games)
        progress(commit.games.rows)
    for table in PARTS:
        done = done.plus(tables=sum(_derived(source, target, record, table)))
    note_annotations(target, run_id)
    for path in sprt_verdicts.files(source):
        verdict = sprt_verdicts.read(source, path)
        place = sprt_verdicts.path_of(target, run_id, verdict.verdict_id)
        if verdict.run_id == run_id and target.backend.status(place) is None:
            sprt_verdicts.save(target, verdict)
            done = done.plus(verdicts=1)
    target.update_run(run_id, lambda there: there and _united(there, record, target))
    return done


def _united(known: RunRecord, record: RunRecord, target: Archive) -> RunRecord:
    """The record of a run that has the games of both. Merging again changes nothing."""
    games = max(known.games, record.games)
    code, mine, theirs = dict(known.code), known.code.get("fingerprint"), record.code.get("fingerprint")
    extended = [*known.code.get("extended_by", ()), theirs, *record.code.get("extended_by", ())]
    extended = [each for each in dict.fromkeys(extended) if each and each != mine]
    if extended:
        code["extended_by"] = extended
    asked = structs.replace(known, games=games, code=code)
    whole = has_all(asked, target.covered(known.run_id)) or "imported" in known.spec
    return structs.replace(
        asked,
        status="complete" if whole else "interrupted",
        seconds=max(known.seconds, record.seconds),
        created=min(known.created, record.created),
    )


def _lacking(covered: dict[int, list[Range]], commit: Commit) -> bool:
    """Whether some pairs of a commit are not in ``covered``."""
    return not all(
        any(first <= part.first_pair and part.end_pair <= end for first, end in covered.get(part.pairing, ()))
        for part in commit.slices
    )


def _add(source: Archive, target: Archive, record: RunRecord, commit: Commit) -> int:
    """Add the games of a shard that the target lacks; returns their number."""
    covered = target.covered(record.run_id)
    if not any(overlaps(covered.get(part.pairing, []), part.first_pair, part.end_pair) for part in commit.slices):
        return commit.games.rows if _copied(source, target, record, commit) else 0
    shard = read_games(source, record.run_id, commit)
    added = target.commit(record.run_id, list(_blocks(shard, commit, covered, record.swapped)), record.pairings)
    return added.games.rows if added else 0


def _copied(source: Archive, target: Archive, record: RunRecord, commit: Commit) -> Commit | None:
    """Add a whole shard: its files, byte for byte, and a commit with the next number."""
    run_id, ledger = record.run_id, target.ledger(record.run_id)
    contents = {table: _bytes(source, run_id, getattr(commit, table), table) for table in TABLES}
    with ledger.lock:
        ledger.refresh()
        if ledger.holds_any(commit.slices):
            return None
        name = f"part-{ledger.next_number:06d}-{uuid.uuid4().hex}.parquet"
    with explained("write to", target.root), target.backend.pending() as pending:
        for table, content in contents.items():
            pending.add(target.folder(table, run_id) / name, content)
        files = [structs.replace(getattr(commit, table), file=name) for table in TABLES]
        with ledger.lock:
            return publish(ledger, commit.slices, files[0], files[1], pending)


def _bytes(source: Archive, run_id: str, stored: StoredFile, table: str) -> bytes:
    path = source.file(table, run_id, stored)
    try:
        read_table(source.backend, path, stored, TABLES[table])
        return source.backend.read(path)
    except (ValueError, OSError) as error:
        raise FailureError(f"{path} {error}: see 'qarena archive verify'") from error


def _blocks(shard: RangeGames, commit: Commit, covered: dict[int, list[Range]], swapped: bool) -> Iterator[Block]:
    """The games of a shard whose pairs are not in ``covered``, each block of one pairing and one length of opening."""
    number = (shard.game_id & 0xFFFFFFFF) >> 1
    for part in commit.slices:
        mine = (shard.pairing == part.pairing) & (number >= part.first_pair) & (number < part.end_pair)
        for first, end in covered.get(part.pairing, ()):
            mine &= (number < first) | (number >= end)
        rows = np.flatnonzero(mine)
        # A new block where a pair is left out, and where the openings differ.
        ends = np.flatnonzero((np.diff(number[rows]) > 1) | (np.diff(shard.opening[rows]) != 0)) + 1
        for each in np.split(rows, ends):
            if len(each):
                first = int(number[each[0]])
                yield Block(part.pairing, first, int(shard.opening[each[0]]), games_at(shard.games, each), swapped)


def _derived(source: Archive, target: Archive, record: RunRecord, table: DerivedTable[Any]) -> Iterator[int]:
    """Add the derived tables of shards that both have: 1 for each that was added."""
    own = {commit.plies.sha256: commit for commit in source.commits(record.run_id)}
    manifests = table.counting(source, record.run_id)
    if not manifests:
        return
    for shard in table.shards(target, [record.run_id]):
        commit = own.get(shard.commit.plies.sha256)
        manifest = manifests.get(commit.shard) if commit else None
        if shard.manifest is None and manifest is not None:
            yield _store_derived(source, target, shard, table, manifest)


def _store_derived(source: Archive, target: Archive, shard: Shard[Any], table: DerivedTable[Any], manifest: Any) -> int:
    path = table.file(source, shard.record.run_id, manifest)
    try:
        frame = read_table(source.backend, path, table.stored(manifest), table.schema)
    except ValueError as error:
        raise FailureError(f"{path} {error}; {table.remedy}") from error
    fields = {name: value for name, value in table.fields(manifest).items() if name not in (table.name, "created")}
    return table.store(target, shard, frame, fields, lambda _known: True) is not None


def _policies(source: Archive, target: Archive, options: MergeOptions) -> Iterator[int]:
    """Add the policies that the target lacks, oldest first: 1 for each that was added."""
    conflicting = _names(source, target)
    for card in policy_cards.cards(source):
        name = options.prefix + card.name if card.name in conflicting else card.name
        policy_store.check_name(name, "--prefix")
        policy_id = policy_cards.policy_id_of(name, card.knowledge)
        known = set(policy_cards.policy_ids(target))
        if policy_id not in known and card.policy_id not in known:
            policy_store.copy(source, card, target, structs.replace(card, name=name, policy_id=policy_id))
            yield 1
