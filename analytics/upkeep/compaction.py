"""Compaction: the games of many small shards as few large ones, while others read and write.

A new commit names the commits that it replaces, and appears in one step. So a reader sees either these or the new one,
and each game once. The tables that were derived from the shards come with the commit, so that they never are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import polars as pl

from analytics.derived_tables.decisions import ANNOTATIONS, Annotation, note_annotations
from analytics.derived_tables.derived_table import DerivedTable
from analytics.derived_tables.merged_positions import merged as merged_positions
from analytics.derived_tables.merged_positions import row_groups, rows_at_once
from analytics.derived_tables.position_index import INDEXES, Index
from analytics.files.atomic import explained
from analytics.parquet.encoder import buffer_for
from analytics.store.archive import Archive, store
from analytics.store.blocks import ROW_GROUP_ROWS, GameRows, Table, games_table, integer_table
from analytics.store.commit_log import overlapping, write_checkpoint
from analytics.store.ranges import Range, merged
from analytics.store.records import Commit, RunRecord, StoredFile, joined, now
from analytics.store.schema import PLIES
from analytics.store.range_files import row_parts
from analytics.upkeep.sorted_rows import merged_rows
from quarto.errors import FailureError

SIZE = 128 << 20  # bytes of the files of a shard
MOST = 256  # shards that become one in one step: parts of all of them are in memory
CHECKPOINT = 2  # commits that are in no checkpoint: then compaction writes one


class Derived(NamedTuple):
    """The derived tables of a shard, as far as there are any."""

    annotation: Annotation | None
    positions: Index | None

    @property
    def extent(self) -> tuple[object, object]:
        """The tables that they hold. Only shards with tables of one extent become one, so that nothing is lost."""
        annotation, index = self.annotation, self.positions
        return annotation and (annotation.choices, annotation.from_pieces), index and (index.end_ply, index.version)


class Group(NamedTuple):
    """Shards that are to become one, by their first games."""

    commits: tuple[Commit, ...]
    derived: tuple[Derived, ...]

    @property
    def bytes(self) -> int:
        """The size of their files."""
        return sum(map(size_of, self.commits))


class Compacted(NamedTuple):
    """Counts of what a compaction did."""

    shards: int = 0  # that were replaced
    by: int = 0  # as many shards
    lost: int = 0  # groups that another process changed meanwhile: nothing was done


def size_of(commit: Commit) -> int:
    """The bytes of a shard's files."""
    return commit.games.bytes + commit.plies.bytes


def derived_of(archive: Archive, run_id: str, commits: Sequence[Commit]) -> list[Derived]:
    """The derived tables of shards. Raises ``FailureError`` for a damaged manifest."""
    annotations, indexes = ANNOTATIONS.counting(archive, run_id), INDEXES.counting(archive, run_id)
    return [Derived(annotations.get(commit.shard), indexes.get(commit.shard)) for commit in commits]


def groups_of(archive: Archive, run_id: str, size: int = SIZE) -> list[Group]:
    """The shards of a run that can become larger ones of about ``size`` bytes; one of half of that is large enough.

    Shards that follow one another in the order of their games come together. Raises ``FailureError`` for commits that
    hold the same pairs.
    """
    commits = [commit for commit in archive.commits(run_id) if 2 * size_of(commit) < size]
    commits.sort(key=lambda commit: min((part.pairing, part.first_pair) for part in commit.slices))
    _require_disjoint(archive, run_id, commits)
    groups: list[Group] = []
    open_groups: dict[object, Group] = {}  # by extent
    for commit, derived in zip(commits, derived_of(archive, run_id, commits), strict=True):
        known = open_groups.get(derived.extent)
        if known is not None and (len(known.commits) == MOST or known.bytes + size_of(commit) > size):
            groups.append(known)
            known = None
        before = known or Group((), ())
        open_groups[derived.extent] = Group((*before.commits, commit), (*before.derived, derived))
    return [group for group in [*groups, *open_groups.values()] if len(group.commits) > 1]


def _require_disjoint(archive: Archive, run_id: str, commits: Sequence[Commit]) -> None:
    held: dict[int, list[Range]] = {}
    for commit in commits:
        for what in overlapping(commit, held):
            path = archive.log_place(run_id).path(commit.shard)
            raise FailureError(f"{path} is wrong ({what}): run 'qarena archive verify'")


def compact(
    archive: Archive, run_id: str, size: int = SIZE, progress: Callable[[int], None] = lambda _shards: None
) -> Compacted:
    """Make large shards of the small ones of a run; ``progress`` is called with how many shards became one.

    May be stopped at any time. Raises ``FailureError`` for a run without a record, for a file that is damaged, and one
    that cannot be written.
    """
    record = archive.run(run_id)
    if record is None:
        raise FailureError(f"run {run_id} has games and no record, so its agents are not known: restore its record")
    done, made = Compacted(), set[int]()
    while groups := groups_of(archive, run_id, size):  # large ones of many are made in several steps
        before = done
        for group in groups:
            commit = replace(archive, record, group)
            if commit is None:
                done = done._replace(lost=done.lost + 1)
                continue
            old = {each.shard for each in group.commits}
            new = len(old - made)
            made = made - old | {commit.shard}
            done = done._replace(shards=done.shards + new, by=done.by + 1 - len(old) + new)
            progress(new)
        if done.lost > before.lost:
            break
    if done.by:
        archive.update_run(run_id, lambda known: known)  # which notes how many commits there are
        note_annotations(archive, run_id)
    with suppress(OSError):  # never needed
        write_checkpoint(archive.log(run_id), CHECKPOINT)
    return done


def replace(archive: Archive, record: RunRecord, group: Group) -> Commit | None:
    """Replace shards by one with the same games and derived tables.

    Returns None, and leaves nothing, if one of the shards was replaced by another process meanwhile, or has other
    derived tables by now. Raises ``FailureError`` as ``compact`` does.
    """
    run_id, ledger = record.run_id, archive.ledger(record.run_id)
    with ledger.lock:
        ledger.refresh()
        number = ledger.next_number
    slices = joined(
        sorted(
            (part for each in group.commits for part in each.slices), key=lambda part: (part.pairing, part.first_pair)
        )
    )
    name = f"part-{number:06d}-{uuid.uuid4().hex}.parquet"
    with explained("write to", archive.root), archive.backend.pending() as pending:
        stored = {}
        for table, content in _tables(archive, record, group):
            stored[table] = store(pending, archive.folder(table, run_id) / name, content)
            del content  # before the next one is made
        derived = {table.name: fields | {table.name: _plain(stored[table.name])} for table, fields in _fields(group)}
        replaces = tuple(merged(each for commit in group.commits for each in (_own(commit), *commit.replaces)))
        with ledger.lock:
            while _is_current(archive, run_id, group):
                files = stored["games"], stored["plies"]
                commit = Commit(ledger.next_number, *files, slices, now(), replaces, derived)
                if ledger.create(commit, pending):
                    return commit
        pending.drop()
    return None


def _own(commit: Commit) -> Range:
    return commit.shard, commit.shard + 1


def _plain(stored: StoredFile) -> dict[str, Any]:
    return {name: getattr(stored, name) for name in stored.__struct_fields__}


def _is_current(archive: Archive, run_id: str, group: Group) -> bool:
    """Whether the shards of a group still count, with the same derived tables."""
    log = archive.log(run_id)
    if any(commit.shard not in log.listed or not log.counts(commit) for commit in group.commits):
        return False
    return tuple(derived_of(archive, run_id, group.commits)) == group.derived


def _fields(group: Group) -> Iterator[tuple[DerivedTable[Any], dict[str, Any]]]:
    """The kinds of derived tables that a group has, each with the fields of its manifest but for the file."""
    first = group.derived[0]
    if first.annotation is not None:
        yield ANNOTATIONS, {**ANNOTATIONS.fields(first.annotation), "created": now()}
    if first.positions is not None:
        yield INDEXES, {**INDEXES.fields(first.positions), "created": now()}


def _tables(archive: Archive, record: RunRecord, group: Group) -> Iterator[tuple[str, Table]]:
    """The tables of all games of a group, one after the other: each is made in memory, from parts of the old ones."""
    run_id, rows = record.run_id, rows_at_once(len(group.commits))

    def merged_of(table: str, *columns: str) -> Iterator[pl.DataFrame]:
        parts = [row_parts(archive, run_id, commit, table, rows) for commit in group.commits]
        return merged_rows(parts, columns, ROW_GROUP_ROWS)

    used = sorted({part.pairing for commit in group.commits for part in commit.slices})
    games = (_game_rows(part) for part in merged_of("games"))
    yield "games", games_table(games, used, record.pairings, buffer_for(ROW_GROUP_ROWS))
    yield "plies", integer_table(merged_of("plies", "ply"), PLIES)
    annotations = [each.annotation for each in group.derived if each.annotation is not None]
    if annotations:
        decisions = [ANNOTATIONS.parts(archive, run_id, each, rows) for each in annotations]
        order = ("ply", "kind")
        yield ANNOTATIONS.name, integer_table(merged_rows(decisions, order, ROW_GROUP_ROWS), ANNOTATIONS.schema)
    indexes = [each.positions for each in group.derived if each.positions is not None]
    if indexes:
        positions = [INDEXES.parts(archive, run_id, each, rows) for each in indexes]
        sums = merged_positions(positions, record.rules, record.spec["opening_plies"])
        yield INDEXES.name, integer_table(row_groups(sums, INDEXES.group_rows), INDEXES.schema)


def _game_rows(frame: pl.DataFrame) -> GameRows:
    columns = (frame[name].to_physical().to_numpy().copy() for name in GameRows._fields)
    return GameRows(*columns)
