"""Writers that race one another while others compact and read, are refused by the disk, or are killed."""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from analytics.statistics.tally import tally_by_pairing
from analytics.store.archive import ArchiveStore
from analytics.store.files import local_files
from analytics.store.files.backend import TEMPORARY_PREFIX, parse_location
from analytics.store.range_files import read_games, read_tallies, write_slices
from analytics.store.ranges import split_into_files
from analytics.tables.derived.definitions import TALLIES_TABLE
from analytics.tables.upkeep.compaction import GAMES_TABLE, PLIES_TABLE, compact_tables
from analytics.tables.upkeep.garbage import list_unneeded_files, remove_replaced_files, remove_unneeded_files
from analytics.tables.verification.archive import verify_archive
from quarto.batch import Block
from quarto.errors import FailureError
from tests.analytics.folders import snapshot
from tests.analytics.naive_games import RUN_ID, build_random_blocks, build_spec, random_block, record, store, store_span
from tests.marks import seldom

OTHER = record(build_spec(seed=8), games=64)  # a run that the archive does not hold yet
UNITS = OTHER.end_unit  # 96
TABLES = (PLIES_TABLE, TALLIES_TABLE, GAMES_TABLE)
LISTING_SECONDS = 1.0  # a listing takes less here
GC_SECONDS = 10.0  # so does a writer between two steps, however busy the machine is


def games_of(luck: int = 0) -> list[Block]:
    """Draw all games of the run; another ``luck`` gives others, like those of players that cannot be repeated."""
    return build_random_blocks(9 + luck, UNITS // 3)


def write(root: str, seed: int, threads: int, luck: int = 0) -> None:
    """Store what is missing of the run, in parts of random sizes at random places, on several threads.

    As if each part were of a command that asks for another number of games, so that files overlap. Games that cannot be
    repeated have one such command.
    """
    archive, blocks = ArchiveStore.open(parse_location(root)), games_of(luck)

    def play(number: int) -> None:
        dice = random.Random(f"{seed} {number}")
        while archive.list_effective_ranges(OTHER.run_id).list_gaps(UNITS):
            total = UNITS if luck else dice.choice((UNITS, dice.randrange(1, UNITS)))
            for gap in dice.sample(
                gaps := archive.list_effective_ranges(OTHER.run_id).list_gaps(total), min(1, len(gaps))
            ):
                span = dice.choice([*split_into_files(*gap, total, dice.choice((1, 2, 4, 8)))])
                store_span(archive, span, blocks, OTHER.run_id)
        write_slices(archive, OTHER.run_id)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(play, range(threads)))


def compact(root: str, seed: int, threads: int = 1, luck: int = 0, ended: Event | None = None) -> None:
    """Compact files at random, and remove what was replaced, until this process is killed or ``ended`` is set."""
    del threads, luck
    archive, dice = ArchiveStore.open(parse_location(root)), random.Random(seed)
    while ended is None or not ended.is_set():
        with suppress(FileNotFoundError):  # another one rolled up the same, and removed its parts
            write_slices(archive, OTHER.run_id)
            compact_tables(archive, OTHER, TABLES, lambda _children: dice.random() < 0.3)
        remove_replaced_files(archive, OTHER.run_id, LISTING_SECONDS)
        with suppress(FileNotFoundError):
            remove_unneeded_files(archive, list_unneeded_files(archive), GC_SECONDS)
        time.sleep(0.02)


def process(work: Callable[..., None], archive: ArchiveStore, seed: int, threads: int = 2, luck: int = 0) -> Any:
    started = get_context("spawn").Process(target=work, args=(str(archive.root), seed, threads, luck), daemon=True)
    started.start()
    return started


@contextmanager
def ended(processes: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for running in processes:
            running.kill()
            running.join()


def look(archive: ArchiveStore, least: int) -> int:
    """Check what a reader sees at any moment, never less than before, and return the number of units."""
    ranges = archive.list_effective_ranges(OTHER.run_id)
    assert ranges.units >= least
    for stored in random.Random(least).sample([*ranges], min(2, len(ranges))):
        read = read_games(archive, OTHER.run_id, stored)
        assert read.fingerprint == stored.fingerprint
        assert len(read.game_id) == 2 * stored.units
    return ranges.units


def assert_whole(archive: ArchiveStore, same: bool = True) -> None:
    """Check that each unit is there once, whoever wrote it, and that what was replaced can be removed."""
    ranges = archive.list_effective_ranges(OTHER.run_id)
    assert (ranges.covered_ranges, ranges.units) == ([(0, UNITS)], UNITS)
    assert verify_archive(archive).problems == []
    if same:
        assert ranges.fingerprint == sum(one_thread().values()) % (1 << 64)
        assert read_tallies(archive, [OTHER.run_id])[OTHER.run_id] == tally_by_pairing(games_of())
    remove_replaced_files(archive, OTHER.run_id, 0.0)
    assert archive.list_effective_ranges(OTHER.run_id).fingerprint == ranges.fingerprint
    unneeded = [file for file in list_unneeded_files(archive) if TEMPORARY_PREFIX not in file.path.name]
    assert unneeded == []
    assert verify_archive(archive).problems == []


def one_thread() -> dict[int, int]:
    """Compute the fingerprint of each pairing's games."""
    from tests.analytics.store.test_game_tables import slow_fingerprint

    return {block.pairing: slow_fingerprint(block) for block in games_of()}


@pytest.mark.parametrize("process_count", [1, *seldom(6)])
def test_processes_with_threads_store_each_pair_once_while_others_compact_and_read(
    archive: ArchiveStore, process_count: int
) -> None:
    """Check writers among which this process writes, too, as soon as another one has begun."""
    archive.write_run_and_unit_count(OTHER)
    racing, done = [process(write, archive, seed) for seed in range(process_count)], Event()
    with ended(racing), ThreadPoolExecutor(2) as beside:
        while not archive.list_effective_ranges(OTHER.run_id) and racing[0].is_alive():
            time.sleep(0.01)
        writing = beside.submit(write, str(archive.root), process_count, 2)
        compacting, units = beside.submit(compact, str(archive.root), 0, ended=done), 0
        while not writing.done() or any(task.is_alive() for task in racing):
            units = look(archive, units)
            time.sleep(0.05)
        done.set()
        for task in (writing, compacting):
            task.result()
        assert [task.exitcode for task in racing] == [0] * process_count
        assert look(archive, units) == UNITS
    assert_whole(archive)


@pytest.mark.slow
@pytest.mark.parametrize("luck", [False, True], ids=["repeatable", "other games each time"])
def test_whoever_is_killed_at_any_moment_no_unit_is_lost_or_counted_twice(archive: ArchiveStore, luck: bool) -> None:
    """Check that, if games cannot be repeated and two writers write different ones, tables still belong together."""
    archive.write_run_and_unit_count(OTHER)
    dice, end, kills, seeds = random.Random(5), time.monotonic() + 60, 0, iter(range(10**6))

    def begin(number: int) -> Any:
        return process(compact if number < 2 else write, archive, next(seeds), 2, next(seeds) if luck else 0)

    live = [begin(number) for number in range(5)]
    with ended(live):
        units = 0
        while kills <= 5 or (time.monotonic() < end and units < UNITS):
            time.sleep(2 * dice.random())
            units = look(archive, units)
            number = dice.randrange(5)
            kills += live[number].is_alive()
            live[number].kill()
            live[number].join()
            live[number] = begin(number)
    write(str(archive.root), 0, 1)
    write_slices(archive, OTHER.run_id)
    if luck:
        settle(archive)
    assert_whole(archive, same=not luck)


def settle(archive: ArchiveStore) -> None:
    """Remove the games that contradict those that count, as ``verify`` advises, and what came with them."""
    for problem in verify_archive(archive).problems:
        assert "which counts: only one of the two can be of this run, 'qarena archive replay " in problem.fault
        archive.backend.remove(problem.file)
    remove_unneeded_files(archive, list_unneeded_files(archive), 0.0)


# A disk that refuses.


@pytest.mark.parametrize(
    ("failing", "code", "cause"),
    [
        ("fsync", errno.ENOSPC, "disk is full"),
        ("fsync", errno.EDQUOT, "quota"),
        ("rename", errno.EACCES, "permission"),
        ("rename", errno.EIO, "Input"),
    ],
)
def test_when_the_disk_refuses_nothing_is_lost_or_left(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch, failing: str, code: int, cause: str
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    before = snapshot(Path(archive.root))
    of, name = (os, "fsync") if failing == "fsync" else (Path, "replace")
    monkeypatch.setattr(of, name, refuse)
    with pytest.raises(FailureError, match=f"{re.escape(str(archive.root))}.*{cause}") as caught:
        store(archive, RUN_ID, [random_block(1, 0, 90)])
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert snapshot(Path(archive.root)) == before
    assert store(archive, RUN_ID, [random_block(1, 0, 90)])


@pytest.mark.parametrize(
    ("inodes", "free", "cause"),
    [(60, 0, "no inode left (see 'df -i')"), (60, 1, "the disk is full"), (0, 0, "the disk is full")],
)
def test_a_file_system_without_inodes_is_not_called_full(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch, inodes: int, free: int, cause: str
) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=inodes, f_favail=free))
    with pytest.raises(FailureError, match=re.escape(cause)):
        store(archive, RUN_ID, [random_block(1, 0, 90)])


@pytest.mark.parametrize("sync", range(1, 8))
def test_at_whichever_step_it_stops_the_archive_is_whole(
    archive: ArchiveStore, monkeypatch: pytest.MonkeyPatch, sync: int
) -> None:
    """Let each sync fail in turn: either the range does not count, or all of it is there."""
    steps, real = iter(range(1, 100)), os.fsync
    span, blocks = (24, 32), [random_block(1, pairing, 8) for pairing in range(3)]

    def stop(descriptor: int) -> None:
        if next(steps) == sync:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", stop)
    with suppress(FailureError):
        store_span(archive, span, blocks)
    assert next(steps) == min(sync, 6) + 1  # two syncs a file: its bytes, and its name
    monkeypatch.undo()
    assert archive.list_effective_ranges(RUN_ID).units == (24 if sync <= 5 else 32)
    assert not verify_archive(archive).problems
    store_span(archive, span, blocks)
    assert archive.list_effective_ranges(RUN_ID).units == 32
    assert not verify_archive(archive).problems
    assert list_unneeded_files(archive) == []


def test_every_new_folder_is_synced_into_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    real = local_files.sync_folder

    def note(folder: Path) -> None:
        synced.append(folder)
        real(folder)

    monkeypatch.setattr(local_files, "sync_folder", note)
    archive = ArchiveStore.open(tmp_path / "deep" / "archive", create=True)
    archive.write_run_and_unit_count(OTHER)
    archive.write_run_and_unit_count(record())
    store_span(archive, (0, 24))
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {path.parent for path in folders} <= set(synced)


def test_two_may_make_one_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process make it between our look at the marker and our look at what else is in the folder."""
    root = tmp_path / "archive"
    root.mkdir()
    list_folder = os.listdir

    def other_first(folder: Path) -> list[str]:
        monkeypatch.undo()
        ArchiveStore.open(root, create=True).write_run_and_unit_count(OTHER)
        return list_folder(folder)

    monkeypatch.setattr(os, "listdir", other_first)
    assert [run.run_id for run in ArchiveStore.open(root, create=True).load_runs()] == [OTHER.run_id]
