"""Every missing unit is played once, however fast agents are, and becomes part of few files."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_games
from analytics.store.ranges import Range, StoredRange, UnitLine
from quarto.batch import Block
from quarto.errors import FailureError
from runners.arena.batch_engine import MAX_BLOCK_PAIRS, ROUNDING_TOLERANCE, Pace
from runners.arena.execution import ChunkQueue
from runners.arena.experiment import Experiment, RangeWriter, open_experiment
from runners.arena.play_task import ChunkResult, list_pair_ranges
from runners.hosting.guarded_agent import StuckError
from tests.runners.experiments import build_run_request, store_at


def group_into_ranges(numbers: set[int]) -> list[Range]:
    """Return the sorted ranges that hold some numbers and do not touch."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda item: item[1] - item[0])
    starts = [[number for _, number in run] for _, run in runs]
    return [(run[0], run[-1] + 1) for run in starts]


def list_numbers(ranges: Sequence[Range]) -> list[int]:
    return [number for first, end in ranges for number in range(first, end)]


RANGES = st.sets(st.integers(0, 60)).map(group_into_ranges)


@given(st.integers(1, 7), st.integers(0, 50), st.integers(1, 50))
def test_the_pairs_of_a_range_are_its_units(pairings: int, first: int, size: int) -> None:
    line = UnitLine(pairings, 2)
    units = [
        pair * pairings + pair_range.pairing
        for pair_range in list_pair_ranges(line, first, first + size)
        for pair in range(pair_range.first_pair, pair_range.first_pair + pair_range.pairs)
    ]
    assert sorted(units) == list(range(first, first + size))
    sizes = [pair_range.pairs for pair_range in list_pair_ranges(UnitLine(1, 2), 5, 5 + 2 * MAX_BLOCK_PAIRS + size)]
    assert sizes == [MAX_BLOCK_PAIRS, MAX_BLOCK_PAIRS, size]


@given(RANGES, st.integers(1, 64), st.integers(1, 5), st.data())
def test_chunks_are_all_that_is_missing_whatever_comes_back(
    missing_ranges: list[Range], max_units: int, workers: int, data: st.DataObject
) -> None:
    total = max((end for _, end in missing_ranges), default=0)
    queue, played = ChunkQueue(missing_ranges, total, max_units, workers, 30.0), list[int]()
    while (chunk := next(queue, None)) is not None:
        first, end = chunk
        size = 1 << (end - first - 1).bit_length()
        assert first % size == 0  # a file's range: aligned, or the beginning of such a one at the end of the run
        assert end - first == size or end == total
        assert end - first <= max_units
        reached = data.draw(st.sampled_from([end, end, (first + end + 1) // 2]))
        played += range(first, reached)
        queue.put_back_rest_and_update_pace(
            ChunkResult(chunk, reached, (), data.draw(st.sampled_from([0.0, 0.1, 1.0, 100.0])))
        )
        assert queue.unit_count == len(list_numbers(missing_ranges)) - len(played)
    assert sorted(played) == list_numbers(missing_ranges)


def test_a_small_run_is_a_chunk_for_each_thread() -> None:
    assert [*ChunkQueue([(0, 500)], 500, 131072, 2, 30.0)] == [(0, 256), (256, 500)]
    assert [*ChunkQueue([(0, 500)], 500, 131072, 1, 30.0)] == [(0, 500)]
    assert len([*ChunkQueue([(0, 10_000_000)], 10_000_000, 131072, 2, 30.0)]) == 77


def test_once_the_pace_is_known_a_chunk_takes_no_longer_than_a_shard() -> None:
    queue = ChunkQueue([(0, 100_000)], 100_000, 131072, 2, 30.0)
    chunk = next(queue)
    queue.put_back_rest_and_update_pace(
        ChunkResult(chunk, 4, (), 12.0)
    )  # three seconds a unit: ten are as many as fit, eight a file
    assert [next(queue) for _ in range(3)] == [(4, 8), (8, 16), (16, 24)]
    assert next(ChunkQueue([(0, 20)], 20, 131072, 2, 30.0)) == (0, 16)
    small_queue = ChunkQueue([(0, 40)], 40, 131072, 2, 30.0)
    small_queue.put_back_rest_and_update_pace(ChunkResult(next(small_queue), 8, (), 24.0))
    assert next(small_queue) == (8, 16)


@pytest.mark.parametrize(
    ("seconds_a_pair", "settled"),
    [(1e-9, MAX_BLOCK_PAIRS), (Pace.TARGET_SECONDS / 100, 100), (Pace.TARGET_SECONDS * 3, 1)],
)
def test_a_pace_settles_at_blocks_of_its_time(seconds_a_pair: float, settled: int) -> None:
    pace = Pace()
    for _ in range(10):
        pairs = pace.next_pair_count(0)
        pace.add_block_time(0, pairs, pairs * seconds_a_pair)
    assert pace.next_pair_count(0) == pytest.approx(settled, abs=1)
    assert pace.next_unit_count(1) == pace.next_pair_count(0)
    assert pace.next_unit_count(2) <= 2  # the other pairing may take a second


def test_the_units_of_a_chunk_follow_from_the_pace_of_every_pairing() -> None:
    pace, dice = Pace(), random.Random(1)
    for _ in range(300):
        pairing = dice.randrange(7)
        pairs = pace.next_pair_count(pairing)
        pace.add_block_time(pairing, pairs, pairs * Pace.TARGET_SECONDS * dice.choice((0.01, 0.3, 0.5, 2)))
        share = sum(1 / pace.next_pair_count(pairing) for pairing in range(7)) / 7
        assert pace.next_unit_count(7) == max(1, min(int(1 / share + ROUNDING_TOLERANCE), 7 * MAX_BLOCK_PAIRS))


# Ranges of games become files.


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Open a tournament of three pairings."""
    run_request = build_run_request(
        "agents=[random,semi_random,dumb]", "archive.shard_games=32", "archive.shard_seconds=1000"
    )
    return open_experiment(store_at(tmp_path, run_request))


def play_units(experiment: Experiment, first: int, end: int) -> list[Block]:
    return [
        experiment.engine.play_block(pair_range) for pair_range in list_pair_ranges(experiment.unit_line, first, end)
    ]


def list_files(experiment: Experiment) -> list[Range]:
    return [(file.first, file.end) for file in experiment.archive.list_effective_ranges(experiment.run_id)]


def test_full_files_are_written_as_soon_as_there_are_enough_games(experiment: Experiment) -> None:
    with RangeWriter(experiment, 5, total_units=60) as writer:
        writer.add(20, play_units(experiment, 5, 20))
        assert list_files(experiment) == []
        writer.add(39, play_units(experiment, 20, 39))
        assert list_files(experiment) == [(5, 6), (6, 8), (8, 16), (16, 32)]  # the rest waits for more
        writer.add(60, play_units(experiment, 39, 60))
    assert list_files(experiment) == [(5, 6), (6, 8), (8, 16), (16, 32), (32, 48), (48, 60)]
    assert writer.games_written == 2 * 55
    writer.add(64, play_units(experiment, 60, 64))  # what comes after the end is ignored
    archive = ArchiveStore.open(experiment.archive.root)
    games = [
        read_games(archive, experiment.run_id, file).game_id.tolist()
        for file in archive.list_effective_ranges(experiment.run_id)
    ]
    assert len({game for file_games in games for game in file_games}) == 2 * 55


def test_writers_that_store_evaluations_list_the_run_once(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, listings = replace(experiment.request.storage, evaluations=True), list[str]()
    with_evaluations = replace(experiment, request=replace(experiment.request, storage=storage))
    list_files_of_run = ArchiveStore.list_files

    def count_and_list(archive: ArchiveStore, table: str, run_id: str) -> list[StoredRange]:
        listings.append(table)
        return list_files_of_run(archive, table, run_id)

    monkeypatch.setattr(ArchiveStore, "list_files", count_and_list)
    for first in (0, 32, 64):
        with RangeWriter(with_evaluations, first, total_units=96) as writer:
            writer.add(first + 32, play_units(experiment, first, first + 32))
    assert listings == ["games"]
    assert len(list_files(experiment)) == 6


def test_after_some_time_what_is_there_is_written_even_if_nothing_comes(
    experiment: Experiment,
) -> None:
    run_request = replace(experiment.request, storage=replace(experiment.request.storage, shard_seconds=0.05))
    with RangeWriter(replace(experiment, request=run_request), 0) as writer:
        writer.add(9, play_units(experiment, 0, 9))
        threading.Event().wait(0.06)
        writer.write_if_full_or_overdue()
        assert list_files(experiment) == [(0, 8)]  # a single unit waits
        writer.skip_to(12)
        assert list_files(experiment) == [(0, 8), (8, 9)]
        writer.add(13, play_units(experiment, 12, 13))
    assert list_files(experiment) == [(0, 8), (8, 9), (12, 13)]


@pytest.mark.parametrize(
    ("error", "file_count"), [(StuckError("it hangs"), 1), (FailureError("no"), 0), (KeyboardInterrupt(), 0)]
)
def test_what_is_left_is_written_unless_something_failed(
    error: BaseException, file_count: int, experiment: Experiment
) -> None:
    def fail(writer: RangeWriter) -> None:
        with writer:
            writer.add(4, play_units(experiment, 0, 4))
            raise error

    with pytest.raises(type(error)):
        fail(RangeWriter(experiment, 0))
    assert len(list_files(experiment)) == file_count


def test_first_games_are_written_early_and_later_ones_at_doubling_intervals(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("runners.arena.experiment.time.monotonic", lambda: now[0])
    writer = RangeWriter(experiment, 0, begun=100.0)
    patience = []
    for seconds in (0.0, 1.0, 4.0, 20.0, 5000.0):
        now[0] = writer._held_since = 100.0 + seconds
        patience.append(writer._find_patience())
    assert patience == [1.0, 1.0, 4.0, 20.0, experiment.request.storage.shard_seconds]
    assert RangeWriter(experiment, 0)._find_patience() == experiment.request.storage.shard_seconds
