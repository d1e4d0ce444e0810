"""Compaction: the same games and the same answers, whoever reads, writes, races or is killed meanwhile."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePath
from threading import Event
from typing import Any

import polars as pl
import pytest
from analytics.store.commit_log import write_checkpoint
from msgspec import structs

from analytics.derived_tables import merged_positions
from analytics.derived_tables.decisions import ANNOTATIONS, AnnotationExtent, decisions_of, first_plies
from analytics.derived_tables.derived_table import DerivedTable
from analytics.derived_tables.exact_values import ExactValues
from analytics.derived_tables.position_index import INDEXES, index_jobs, index_shards
from analytics.files.local import LocalBackend
from analytics.sql.database import OpenArchive
from analytics.store import checkpoints
from analytics.store.archive import Archive
from analytics.store.json_records import dump
from analytics.store.range_files import read_games
from analytics.store.snapshot import Snapshot
from analytics.upkeep import compaction
from analytics.upkeep.compaction import compact, groups_of, replace
from analytics.verify.archive import verify
from analytics.verify.garbage import remove, unreferenced_files
from quarto.errors import FailureError
from tests.analytics.naive_games import PAIRINGS, RUN_ID, random_block, record
from tests.marks import seldom
from tests.object_storage import BOTH

TABLES = ("games", "plies")
GRACE_SECONDS = 10.0  # an hour by default; longer than a reader takes from opening the archive to its question


def rows(root: PurePath) -> dict[str, pl.DataFrame]:
    with OpenArchive(root) as opened:
        return {table: opened.sql(f"FROM {table} ORDER BY ALL") for table in TABLES}


def same(first: dict[str, pl.DataFrame], second: dict[str, pl.DataFrame]) -> bool:
    return all(first[table].equals(second[table]) for table in TABLES)


def grown(archive: Archive, shards: int = 4) -> Archive:
    """The archive with some more shards, not in the order of their games."""
    places = [(pairing, 100 + 4 * i) for pairing in (1, 0) for i in range(shards)]
    random.Random(1).shuffle(places)
    for pairing, pair in places:
        assert archive.commit(RUN_ID, [random_block(3, pairing, pair, 4)], PAIRINGS)
    archive.update_run(RUN_ID, lambda known: known)
    return archive


def annotate(archive: Archive, numbers: set[int]) -> None:
    """Store decisions whose values are all 0: no solver is needed to test where they go."""
    for shard in ANNOTATIONS.shards(archive, [RUN_ID]):
        if shard.commit.shard in numbers:
            games = read_games(archive, RUN_ID, shard.commit)
            first = first_plies(games, AnnotationExtent())
            frame = decisions_of(games, first, ExactValues.empty(len(first)), shard.record.rules)
            fields = {"choices": False, "from_pieces": 0}
            assert ANNOTATIONS.store(archive, shard, frame, fields, AnnotationExtent().is_in)


@BOTH
def test_one_shard_takes_the_place_of_many_and_the_rows_are_the_same(archive: Archive) -> None:
    before = rows(grown(archive).root)
    tallies, covered = archive.tallies(RUN_ID), archive.covered(RUN_ID)
    assert compact(archive, RUN_ID) == (10, 1, 0)
    (commit,) = archive.commits(RUN_ID)
    assert (commit.shard, commit.replaces) == (10, ((0, 10),))
    assert same(rows(archive.root), before)
    assert (archive.tallies(RUN_ID), archive.covered(RUN_ID)) == (tallies, covered)
    assert not verify(archive).problems
    assert compact(archive, RUN_ID) == (0, 0, 0)
    # Its pairs are taken, and the numbers that it replaced are never free again.
    assert archive.commit(RUN_ID, [random_block(1, 0, 0)], PAIRINGS) is None
    assert Archive(archive.root).commit(RUN_ID, [random_block(1, 0, 0)], PAIRINGS) is None
    found = remove(archive, unreferenced_files(archive), 0)
    assert len(found) == 30
    assert archive.numbers(RUN_ID) == [10]
    assert same(rows(archive.root), before)
    assert not verify(archive).problems
    later = Archive(archive.root).commit(RUN_ID, [random_block(1, 0, 500)], PAIRINGS)
    assert later is not None
    assert later.shard == 11
    assert compact(archive, RUN_ID) == (2, 1, 0)
    assert archive.commits(RUN_ID)[0].replaces == ((0, 12),)
    assert not verify(archive).problems


def test_a_merged_shard_has_the_bytes_of_one_that_was_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [random_block(3, pairing, pair, 5) for pairing in (0, 2, 1) for pair in (10, 0, 5, 15)]
    random.Random(2).shuffle(blocks)
    made = [Archive.open(tmp_path / name, create=True) for name in ("parts", "whole")]
    for archive, shards in zip(made, ([blocks[:4], blocks[4:5], blocks[5:8], blocks[8:]], [blocks]), strict=True):
        archive.save_run(record())
        for shard in shards:
            archive.commit(RUN_ID, shard, PAIRINGS)
        numbers = {commit.shard for commit in archive.commits(RUN_ID)}
        annotate(archive, numbers)
        index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)
    monkeypatch.setattr(merged_positions, "ROWS_IN_MEMORY", 28)  # so tables come in parts of seven rows
    assert compact(made[0], RUN_ID) == (4, 1, 0)
    (parts,), (whole,) = (archive.commits(RUN_ID) for archive in made)
    assert [parts.games.sha256, parts.plies.sha256] == [whole.games.sha256, whole.plies.sha256]
    tables: list[DerivedTable[Any]] = [ANNOTATIONS, INDEXES]
    for table in tables:
        stored = [table.stored(manifest) for each in made for manifest in table.counting(each, RUN_ID).values()]
        assert len({file.sha256 for file in stored}) == 1
        assert stored[0].rows == stored[1].rows > 100


@pytest.mark.slow
def test_very_many_shards_are_put_together_in_steps(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(grown(archive).root)
    monkeypatch.setattr(compaction, "MOST", 3)
    told: list[int] = []
    assert compact(archive, RUN_ID, progress=told.append) == (10, 1, 0)
    assert sum(told) == 10
    assert same(rows(archive.root), before)
    assert not verify(archive).problems


def test_shards_of_half_the_size_stay_and_others_are_filled_up_to_it(archive: Archive) -> None:
    sizes = [commit.games.bytes + commit.plies.bytes for commit in grown(archive).commits(RUN_ID)]
    groups = groups_of(archive, RUN_ID, 3 * min(sizes))
    assert all(group.bytes <= 3 * min(sizes) and len(group.commits) > 1 for group in groups)
    assert groups_of(archive, RUN_ID, 2 * min(sizes)) == []


@BOTH
def test_derived_tables_come_with_the_shard(archive: Archive) -> None:
    grown(archive, 1)
    annotate(archive, {0, 1, 2})
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID])), 1)
    questions = [
        "FROM decisions ORDER BY ALL",
        "SELECT sum(games), sum(wins) FROM positions GROUP BY position ORDER BY ALL",
    ]

    def answers() -> list[pl.DataFrame]:
        with OpenArchive(archive.root) as opened:
            return [opened.sql(question) for question in questions]

    before = answers()
    assert before[0].height > 100
    assert compact(archive, RUN_ID) == (3, 1, 0)  # the shard that is not annotated stays alone
    for again, known in zip(answers(), before, strict=True):
        assert again.equals(known)
    problems = [problem for problem in verify(archive).problems if "value" not in problem.what]
    assert problems == []
    remove(archive, unreferenced_files(archive), 0)
    for again, known in zip(answers(), before, strict=True):
        assert again.equals(known)
    assert [problem for problem in verify(archive).problems if "value" not in problem.what] == []
    # A deeper index takes the place of the one that came with the commit.
    index_shards(archive, index_jobs(archive, INDEXES.shards(archive, [RUN_ID]), 9), 1)
    assert {shard.manifest.end_ply for shard in INDEXES.shards(archive, [RUN_ID]) if shard.manifest} == {9}


@BOTH
def test_of_two_compactors_one_loses_and_leaves_nothing(archive: Archive) -> None:
    (group,) = groups_of(grown(archive), RUN_ID)
    run = archive.run(RUN_ID)
    assert run is not None
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: replace(Archive(archive.root), run, group), range(4)))
    assert sum(commit is not None for commit in made) == 1
    assert len(archive.commits(RUN_ID)) == 1
    assert all(file.replaced for file in unreferenced_files(archive))
    assert not verify(archive).problems


def test_a_writer_between_takes_the_number_and_the_compactor_the_next(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = groups_of(archive, RUN_ID)
    create = LocalBackend.create

    def other_first(backend: LocalBackend, path: PurePath, *arguments: Any) -> bool:
        monkeypatch.undo()
        assert Archive(archive.root).commit(RUN_ID, [random_block(1, 0, 90)], PAIRINGS)
        return create(backend, path, *arguments)

    monkeypatch.setattr(LocalBackend, "create", other_first)
    commit = replace(archive, record(), group)
    assert commit is not None
    assert (commit.shard, [each.shard for each in archive.commits(RUN_ID)]) == (3, [2, 3])
    assert not verify(archive).problems


def test_an_annotation_made_meanwhile_is_not_lost(archive: Archive) -> None:
    (group,) = groups_of(archive, RUN_ID)
    annotate(archive, {0})
    assert replace(archive, record(), group) is None
    assert unreferenced_files(archive) == []


class KilledError(BaseException):
    """The end of a process."""


@pytest.mark.parametrize(
    "step",
    [8, *seldom(*({*range(1, 16)} - {8}))],
)
def test_killed_at_any_write_it_loses_nothing_and_counts_nothing_twice(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """A killed process removes nothing: neither do we from the moment on at which it is killed."""
    before, steps = rows(grown(archive, 1).root), iter(range(1, 1000))
    archive.update_run(RUN_ID, lambda known: known)

    def killed(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if next(steps) >= step:
                raise KilledError
            return real(*arguments, **options)

        return call

    for name in ("fsync", "link", "replace"):
        monkeypatch.setattr(os, name, killed(name))
    monkeypatch.setattr(Path, "unlink", lambda *_arguments, **_options: None)
    with suppress(KilledError):
        compact(Archive(archive.root), RUN_ID)
    assert next(steps) > step
    monkeypatch.undo()
    again = Archive(archive.root)
    assert same(rows(archive.root), before)
    assert not verify(again).problems
    compact(again, RUN_ID)
    remove(again, unreferenced_files(again), 0)
    assert len(again.commits(RUN_ID)) == 1
    assert same(rows(archive.root), before)
    assert not verify(again).problems
    assert unreferenced_files(again) == []


def test_who_opened_the_archive_before_asks_on_when_the_old_files_are_gone(archive: Archive) -> None:
    with OpenArchive(archive.root) as opened:
        before = opened.sql("FROM games ORDER BY ALL")
        compact(archive, RUN_ID)
        assert opened.sql("FROM games ORDER BY ALL").equals(before)
        remove(archive, unreferenced_files(archive), 0)
        assert opened.sql("FROM games ORDER BY ALL").equals(before)


def test_replaced_files_stay_for_a_while(archive: Archive) -> None:
    compact(archive, RUN_ID)
    assert remove(archive, unreferenced_files(archive), 3600) == []
    assert len(unreferenced_files(archive)) == 6


@pytest.mark.parametrize("late", [False, True])
def test_when_the_commit_that_replaced_others_is_lost(archive: Archive, late: bool) -> None:
    """As long as the others are there they count again; when they are not, the loss is noticed, and played again."""
    archive.save_run(record(games=500))
    before = rows(archive.root)
    compact(archive, RUN_ID)
    if late:
        remove(archive, unreferenced_files(archive), 0)
    archive.backend.remove(archive.log_place(RUN_ID).path(2))
    assert any("missing, and its games with it" in problem.what for problem in verify(archive).problems)
    with pytest.raises(FailureError, match="missing, and its games with it"):
        OpenArchive(archive.root)
    again = Archive(archive.root)
    assert (again.covered(RUN_ID) == {}) == late
    if late:
        assert again.commit(RUN_ID, [random_block(1, 0, 0), random_block(1, 1, 0)], PAIRINGS)
        assert again.commit(RUN_ID, [random_block(1, 0, 8, 4), random_block(1, 2, 0)], PAIRINGS)
        assert again.commit(RUN_ID, [random_block(1, 2, 8)], PAIRINGS)
        assert not verify(again).problems
    else:
        with OpenArchive(archive.root, check=False) as opened:
            assert opened.sql("FROM games ORDER BY ALL").equals(before["games"])


def test_a_forged_commit_that_replaces_what_it_does_not_hold_is_found(archive: Archive) -> None:
    (group,) = groups_of(archive, RUN_ID)
    commit = replace(archive, record(), group)
    assert commit is not None
    path = archive.log_place(RUN_ID).path(2)
    archive.backend.replace(path, dump(structs.replace(commit, slices=commit.slices[1:])))
    assert sum("it was replaced, and no commit has all of its" in each.what for each in verify(archive).problems) == 2


def read(root: Path, in_full: bool) -> int:
    """The number of games that a reader sees; each is there once."""
    if in_full:
        with OpenArchive(root) as opened:
            games, distinct = opened.sql("SELECT count(*), count(DISTINCT game_id) FROM games").row(0)
            assert opened.sql("SELECT sum(games)::BIGINT FROM runs").item() == games
            assert games == distinct
            return int(games)
    log = Snapshot(root).log(RUN_ID)
    assert log.is_sound
    covered = sum(2 * (end - first) for _, ranges in log.summary.covered for first, end in ranges)
    assert covered == log.summary.games == sum(commit.games.rows for commit in log.commits)
    return covered


def read_beside(root: Path, reads: int, in_full: int, pause: float) -> None:
    """Compaction, new games and gc in one thread, questions in another: every answer is one that was right.

    The thread that writes rests for ``pause`` seconds a round: else the archive outgrows the reads.
    """
    stop, sizes = Event(), [read(root, True)]

    def write() -> None:
        other, pair = Archive(root), 1000
        while not stop.wait(pause):
            for _ in range(3):
                sizes.append(sizes[-1] + 8)
                assert other.commit(RUN_ID, [random_block(5, 0, pair, 4)], PAIRINGS)
                pair += 4
            compact(other, RUN_ID, 1 << 14)
            remove(other, unreferenced_files(other), GRACE_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(write)
        try:
            for i in range(reads):
                before = sizes[-2:][0]
                games = read(root, i % in_full == 0)
                assert games in sizes
                assert games >= before
                assert not writer.done()
        finally:
            stop.set()
        writer.result()
    assert not verify(Archive.open(root)).problems


def test_a_hundred_reads_beside_compaction_are_right(archive: Archive) -> None:
    read_beside(Path(archive.root), 100, in_full=50, pause=0.01)


@pytest.mark.slow
def test_ten_thousand_reads_beside_compaction_are_right(archive: Archive) -> None:
    read_beside(Path(archive.root), 10_000, in_full=10, pause=0.5)


def test_a_checkpoint_of_replaced_commits_is_not_counted_twice(archive: Archive) -> None:
    grown(archive)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "COMMITS", 2)
        assert write_checkpoint(archive.log(RUN_ID), 2)
        games = Archive(archive.root).log(RUN_ID).summary.games
        (group,) = groups_of(archive, RUN_ID)
        replace(archive, record(), group)
        log = Archive(archive.root).log(RUN_ID)
        assert log.whole
        assert (log.summary.games, log.summary.shards) == (games, 1)
