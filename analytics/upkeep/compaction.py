"""Compaction: the games of many small shards as few large ones, while others read and write.

A new commit names the commits that it replaces, and appears in one step. So a reader sees either these or the new one,
and each game once. The tables that were derived from the shards come with the commit, so that they never are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from analytics.derived_tables.decisions import ANNOTATIONS, Annotation, note_annotations
from analytics.derived_tables.derived_table import DerivedTable
from analytics.derived_tables.position_index import INDEXES, Index
from analytics.derived_tables.positions import positions_of
from analytics.files.atomic import explained
from analytics.store.archive import Archive, store
from analytics.store.blocks import Table, read_table, shard_tables, table_of
from analytics.store.commit_log import overlapping, write_checkpoint
from analytics.store.ranges import Range, merged
from analytics.store.records import Commit, RunRecord, StoredFile, joined, now
from analytics.store.schema import PLIES
from analytics.store.shard_arrays import ShardGames, games_at, read_shard
from quarto.batch import Games
from quarto.errors import FailureError

SIZE = 128 << 20  # bytes of the files of a shard
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
        if known is not None and known.bytes + size_of(commit) > size:
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
    done = Compacted()
    for group in groups_of(archive, run_id, size):
        commit = replace(archive, record, group)
        if commit is None:
            done = done._replace(lost=done.lost + 1)
            continue
        done = done._replace(shards=done.shards + len(group.commits), by=done.by + 1)
        progress(len(group.commits))
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
    tables = _merged(archive, record, group)
    name = f"part-{number:06d}-{uuid.uuid4().hex}.parquet"
    with explained("write to", archive.root), archive.backend.pending() as pending:
        stored = {table: store(pending, archive.folder(table, run_id) / name, each) for table, each in tables.items()}
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


def _merged(archive: Archive, record: RunRecord, group: Group) -> Mapping[str, Table]:
    """The tables of all games of a group."""
    shard = _joined([read_shard(archive, record.run_id, commit) for commit in group.commits])
    games, plies = shard_tables(shard.game_id, shard.opening, shard.games, record.pairings)
    tables = {"games": games, "plies": plies}
    first = group.derived[0]
    if first.annotation is not None:
        tables[ANNOTATIONS.name] = table_of(_decisions(archive, record.run_id, group))
    if first.positions is not None:  # counted again: positions of several shards become one row
        rows = pl.read_parquet(plies.content, hive_partitioning=False).match_to_schema(PLIES)
        imposed = record.spec["opening_plies"]
        tables[INDEXES.name] = table_of(positions_of(rows, record.rules, imposed, range(first.positions.end_ply)))
    return tables


def _joined(shards: Sequence[ShardGames]) -> ShardGames:
    """The games of several shards, ascending by id."""
    game_id = np.concatenate([shard.game_id for shard in shards])
    fields = zip(*(shard.games for shard in shards), strict=True)
    games = Games(*(np.concatenate(each, axis=-1) for each in fields))
    opening = np.concatenate([shard.opening for shard in shards])
    if (game_id[:-1] < game_id[1:]).all():
        return ShardGames(game_id, opening, games)
    order = np.argsort(game_id, kind="stable")
    return ShardGames(game_id[order], opening[order], games_at(games, order))


def _decisions(archive: Archive, run_id: str, group: Group) -> pl.DataFrame:
    """The decisions of a group's games: their values took long to find."""
    frames = []
    for annotation in (each.annotation for each in group.derived if each.annotation is not None):
        path: PurePath = ANNOTATIONS.file(archive, run_id, annotation)
        try:
            frames.append(read_table(archive.backend, path, annotation.decisions, ANNOTATIONS.schema))
        except ValueError as error:
            raise FailureError(f"{path} {error}; {ANNOTATIONS.remedy}") from error
    return pl.concat(frames).sort("ply", "kind", "game_id")
