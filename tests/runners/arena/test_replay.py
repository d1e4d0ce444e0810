"""Stored games are played again: which games a sample has, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_games
from analytics.store.ranges import Ranges, StoredRange
from runners.arena import replay
from runners.arena.batch_engine import BatchEngine
from runners.arena.experiment import build_engine
from runners.arena.replay import replay_sample, select_sample_units
from tests.runners.experiments import build_run_request, play

TOURNAMENT = ("agents=[random,semi_random,rule_based]", "games=24")
ROUND_ROBIN = [(0, 1), (0, 2), (1, 2)]
RUN_ID = "0123456789ab"


def build_files(*spans: tuple[int, int]) -> Ranges:
    return Ranges(StoredRange(first, end, 0) for first, end in spans)


@pytest.mark.parametrize(
    "spans", [[(0, 8), (8, 16), (16, 18)], [(0, 1), (4, 5), (8, 9)], [(5, 6)], [(0, 4096)], [(8, 16), (32, 40)]]
)
def test_a_sample_has_stored_units_once_and_each_pairing_first(spans: list[tuple[int, int]]) -> None:
    stored_units = {unit for first, end in spans for unit in range(first, end)}
    units = select_sample_units(build_files(*spans), ROUND_ROBIN, RUN_ID)
    assert len(set(units)) == len(units)
    assert set(units) <= stored_units
    pairings = {unit % 3 for unit in stored_units}
    assert {unit % 3 for unit in units[: len(pairings)]} == pairings
    assert {min(stored_units), max(stored_units)} <= set(units)
    assert units == select_sample_units(build_files(*spans), ROUND_ROBIN, RUN_ID)
    if len(stored_units) <= 18:
        assert set(units) == stored_units
    else:
        assert units != select_sample_units(build_files(*spans), ROUND_ROBIN, "f" * 12)
        assert len(units) > 200


def test_a_sample_of_many_pairings_has_two_units_of_each_and_new_agents_come_first() -> None:
    pairings = [(one, other) for one in range(30) for other in range(one)]  # 435
    units = select_sample_units(build_files((0, 8 * len(pairings))), pairings, RUN_ID)
    assert len(units) == 2 * len(pairings)
    assert {*range(len(pairings)), *range(7 * len(pairings), 8 * len(pairings))} == set(units)
    assert {agent for unit in units[:29] for agent in pairings[unit]} == {*range(30)}


def test_a_sample_of_a_run_without_games_is_empty() -> None:
    assert select_sample_units(Ranges(), ROUND_ROBIN, RUN_ID) == []


@pytest.fixture(scope="module")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArchiveStore, str]:
    root = tmp_path_factory.mktemp("stored_run")
    run_id = play(root, *TOURNAMENT).run_id
    return ArchiveStore.open(root), run_id


def build_engine_for(run_id: str) -> BatchEngine:
    spec = build_run_request(*TOURNAMENT).spec
    assert spec.run_id == run_id
    return build_engine(spec)


def build_clock(times: Sequence[float]) -> Callable[[], float]:
    remaining_times: Iterator[float] = iter([0.0, *times])
    return lambda: next(remaining_times, times[-1])


@pytest.mark.parametrize(
    ("times", "games", "pairings"),
    [
        ([0.0], 72, 3),  # all: the run has no more
        ([0.5, 0.9, 1.1, 1.2], 6, 3),  # a second is over, and each pairing was played
        ([0.5, 0.9, 0.95, 1.0, 1.1], 8, 3),
        ([9.0, 19.0, 21.0], 4, 2),  # far too slow: each agent was played
        ([21.0, 22.0, 23.0], 4, 2),
    ],
)
def test_a_sample_ends_in_time(
    times: Sequence[float],
    games: int,
    pairings: int,
    stored_run: tuple[ArchiveStore, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive, run_id = stored_run
    monkeypatch.setattr(replay, "SAMPLE_FILES", 1000)  # a busy machine writes many small files
    line = archive.load_run(run_id).unit_line
    sample = replay_sample(archive, run_id, build_engine_for(run_id), line, build_clock(times))
    assert sample == (games, pairings, None, False)


def test_a_sample_finds_the_first_game_that_differs_and_reads_no_other(
    stored_run: tuple[ArchiveStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, run_id = stored_run
    engine, line = build_engine_for(run_id), archive.load_run(run_id).unit_line

    def change(archive: ArchiveStore, run_id: str, stored_range: StoredRange, game_ids: object = None) -> object:
        games = read_games(archive, run_id, stored_range, game_ids)  # type: ignore[arg-type]
        assert game_ids is None or len(games.game_id) == len(game_ids)  # type: ignore[arg-type]
        column = games.pairing == 2
        games.games.cells[3, column] ^= 1
        return games

    monkeypatch.setattr(replay, "read_games", change)
    difference = replay_sample(archive, run_id, engine, line).difference
    assert difference is not None
    assert (difference.pairing, difference.ply, difference.game_id) == (2, 3, 2 << 32)
    was, is_now = difference.first_change_text.removeprefix("ply 3 was ").split(" and is now ")
    assert was[:2] == is_now[:2]
    assert was != is_now
    assert difference.played.endswith(")")
