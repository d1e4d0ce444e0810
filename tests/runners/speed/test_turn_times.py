"""Turns are timed in the positions of random games, inside a kernel, and summed up as a statistician would."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agents.lift import lift
from agents.mcts import Mcts
from quarto.batch import Batch
from quarto.position import EMPTY, Position, from_plies
from quarto.rng import Streams
from quarto.rules import CLASSIC, Rules
from runners.arena.config import agent_named
from runners.speed.turn_times import TurnTimes, random_positions, turn_nanoseconds, turn_times
from tests import naive
from tests.naive import NONE, PRESETS
from tests.runners.conftest import Qarena
from tests.runners.experiments import Watcher

SEED = 3


def measured(name: str, rules: Rules = CLASSIC, positions: int = 6, stop: threading.Event | None = None) -> TurnTimes:
    return turn_times(agent_named(name), rules, positions, SEED, stop or threading.Event())


def naive_positions(rules: Rules, pieces: int, count: int) -> list[Position]:
    """The first positions with so many pieces of naive random games in which another one was placed."""
    found: list[Position] = []
    for number in range(100 * count):
        game = naive.play_game(rules, (naive.Random(), naive.Random()), SEED, number // 2, number % 2)
        plies = list(zip(game.pieces, game.cells, strict=True))
        if len(plies) > pieces and len(found) < count:
            found.append(from_plies(plies[:pieces], NONE if rules.mover_chooses else plies[pieces][0]))
    return found


@pytest.mark.parametrize("rules", [CLASSIC, PRESETS["own_piece"]], ids=lambda rules: rules.name)
def test_positions_are_those_of_random_games_that_go_on(rules: Rules) -> None:
    reached = random_positions(rules, 2, SEED)
    assert list(reached) == list(range(16))
    for pieces, row in reached.items():
        assert row == naive_positions(rules, pieces, 2)


def quantile(values: Sequence[float], share: float) -> float:
    """Hyndman and Fan's type 7, from its definition."""
    ordered = sorted(values)
    rank = share * (len(values) - 1)
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (rank - math.floor(rank)) * (high - low)


def test_the_six_figures_are_what_their_names_say() -> None:
    values = [5.0, 1.0, 4.0, 9.5, 2.0, 2.5]
    (row,) = TurnTimes(agent_named("random"), CLASSIC, SEED, {7: np.array(values)}).rows().values()
    assert row == pytest.approx(
        {
            "min": 1.0,
            "lower_quartile": quantile(values, 0.25),
            "mean": sum(values) / 6,
            "median": quantile(values, 0.5),
            "upper_quartile": quantile(values, 0.75),
            "max": 9.5,
        }
    )


def test_every_row_has_its_samples_and_they_add_up_to_no_more_than_the_wall_clock_saw() -> None:
    started = time.perf_counter()
    times = measured("mcts(iterations=2000)")
    seconds = time.perf_counter() - started
    assert {pieces: len(row) for pieces, row in times.samples.items()} == dict.fromkeys(range(16), 6)
    assert 0 < sum(row.sum() for row in times.samples.values()) < 1e6 * seconds
    assert times.rows()[2]["median"] > 20 * measured("mcts(iterations=20)").rows()[2]["median"]


@pytest.mark.slow  # not for its length: on a busy machine a clock proves nothing
def test_a_kernel_agrees_with_a_clock_around_many_calls() -> None:
    hands = [EMPTY._replace(hand=hand, available=EMPTY.available & ~(1 << hand)) for hand in range(16)]
    for iterations, copies in ((20, 50), (2000, 1)):  # turns that are repeated, turns that are not
        batch, rng = Batch.of(copies * hands), Streams(np.arange(copies * 16, dtype=np.uint64))
        player = lift(Mcts(iterations=iterations), CLASSIC, "mcts")
        inside, around = [], []
        for _ in range(20):  # in turn, because other work comes and goes
            inside.append(turn_nanoseconds(player, batch, rng).mean())
            for _ in range(4):
                started = time.thread_time_ns()
                player.play(batch, rng)
                around.append((time.thread_time_ns() - started) / len(rng.seeds))  # and a call has a cost of its own
        assert min(inside) == pytest.approx(min(around), rel=0.5)


def test_whoever_stops_early_has_what_was_measured() -> None:
    stop = threading.Event()
    watcher = Watcher(stop, 20)
    times = turn_times(agent_named("mcts"), CLASSIC, 40, SEED, stop, watcher)
    assert watcher.started == [640]
    assert sum(map(len, times.samples.values())) == watcher.games < 40
    assert set(times.rows()) == set(range(16))


def test_the_times_of_turns_are_printed_and_written(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena("bench", "--turn", "own_piece_alpha_beta", "--positions", "3", "--json", "turns.json")
    assert (found.code, found.err) == (0, "")
    assert "upper quartile" in found.out
    figures = json.loads((tmp_path / "turns.json").read_text())
    assert figures["rules"] == "own_piece"
    assert [figures["by_pieces_on_the_board"][f"{pieces}"]["positions"] for pieces in range(16)] == [3] * 16
