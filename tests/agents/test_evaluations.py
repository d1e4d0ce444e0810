"""The evaluations of jitted players are those of their slow twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.alpha_beta import AlphaBeta
from agents.base.agent import Agent, KernelAgent
from agents.base.player import build_player
from agents.ga_minimax import GaMinimax
from agents.line_values import LineValues
from agents.mcts import Mcts
from agents.oracle import Oracle
from agents.random import Random
from quarto.batch import NO_TURN, NO_VALUE, NO_VISITS, VALUE_UNITS, Batch, Evaluations, Turns
from quarto.position import PackedPosition
from quarto.position import board as naive_board
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, Rules
from tests import naive
from tests.agents.test_line_values import random_policy, value_of
from tests.agents.test_mcts import twin
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players import minimax
from tests.naive_players.agreement import list_endgames
from tests.naive_policies import lines
from tests.naive_solver import solve_position
from tests.positions import build_view, list_positions


def evaluate(agent: Agent, rules: Rules, positions: list[PackedPosition]) -> tuple[Turns, Evaluations]:
    """Return the turns of an agent in some positions, with seeds 0, 1, ..., and its evaluations of them."""
    if isinstance(agent, KernelAgent):
        agent.evaluates = True
    player, evaluations = build_player(agent, rules, "it"), Evaluations.blank(len(positions))
    seeds = np.array([naive.mix(i) for i in range(len(positions))], np.uint64)
    turns = player.play(Batch.from_positions(positions), Streams(seeds), None, evaluations)
    plain = player.play(Batch.from_positions(positions), Streams(seeds))
    assert all((one == other).all() for one, other in zip(turns, plain, strict=True))
    assert (evaluations.microseconds > NO_TURN).all()
    return turns, evaluations


def in_units(value: float) -> int:
    return round(value * VALUE_UNITS)


@pytest.mark.parametrize("settings", [{"draw_reward": 0.5}, {"solver": True}, {"faithful": True}], ids=str)
def test_mcts_thinks_the_mean_reward_of_its_search_and_counts_the_visits_of_its_turn(settings: dict[str, Any]) -> None:
    positions = [position for position in list_positions(CLASSIC, 6) if position.available.bit_count() < 8]
    _, evaluations = evaluate(Mcts(iterations=60, **settings), CLASSIC, positions)
    for i, position in enumerate(positions):
        slow = twin(iterations=60, **settings)
        root = slow.root(build_view(position, CLASSIC))
        slow.root = lambda _view, root=root: root  # type: ignore[method-assign, misc]
        slow.turn(root.view, naive.mix(i))
        assert slow.played
        mean = sum(child.total for child in root.children) / sum(child.visits for child in root.children)
        proven = 1.0 if slow.played.proven or slow.played.ending == "line" else None
        if slow.played.proven is False:
            proven = -1.0
        expected = 2 * mean - 1 if proven is None else proven
        assert evaluations.value[i] == pytest.approx(in_units(expected), abs=1)
        assert evaluations.visits[i] == slow.played.visits
    assert len({*evaluations.value.tolist()}) > 5


def sign(value: float) -> int:
    return VALUE_UNITS * (int(value > 0) - int(value < 0))


def test_alpha_beta_thinks_what_is_proven() -> None:
    positions, slow = list_endgames(CLASSIC, 5, 60), minimax.AlphaBeta(3)
    _, evaluations = evaluate(AlphaBeta(3), CLASSIC, positions)
    for position, value in zip(positions, evaluations.value.tolist(), strict=True):
        view = build_view(position, CLASSIC)
        if position.hand == NONE:
            expected = max(-slow.value(minimax.given(view, piece), 3) for piece in view.available)
        else:
            expected = slow.best(view, 3)[0]
        assert value == sign(expected)
    assert {*evaluations.value.tolist()} == {-VALUE_UNITS, 0, VALUE_UNITS}
    assert (evaluations.visits == NO_VISITS).all()


def test_ga_minimax_thinks_what_its_search_found_and_else_nothing() -> None:
    positions, slow = (
        [position for position in list_endgames(CLASSIC, 5, 60) if position.hand != NONE],
        minimax.AlphaBeta(2),
    )
    _, evaluations = evaluate(GaMinimax(depth=2), CLASSIC, positions)
    reported = [i for i, value in enumerate(evaluations.value.tolist()) if value != NO_VALUE]
    for i in reported:
        assert evaluations.value[i] == sign(slow.best(build_view(positions[i], CLASSIC), 2)[0])
    assert len(reported) > 10
    assert (evaluate(GaMinimax(), CLASSIC, list_positions(CLASSIC, 1)[:3])[1].value == NO_VALUE).all()


@pytest.mark.parametrize("name", PRESETS)
def test_oracle_thinks_the_exact_value(name: str) -> None:
    rules = PRESETS[name]
    positions = list_endgames(rules, 5, 60)[::2]
    values = evaluate(Oracle(), rules, positions)[1].value.tolist()
    assert values == [VALUE_UNITS * solve_position(position, rules).value for position in positions]
    assert {*values} >= {-VALUE_UNITS, VALUE_UNITS}


@pytest.mark.parametrize("units", [*seldom(0), 3])
def test_line_values_thinks_its_chance_to_win_less_its_chance_to_lose(units: int) -> None:
    policy, stages = random_policy(CLASSIC, units)
    positions = [position for position in list_positions(CLASSIC, 3) if position.hand != NONE and position.available]
    turns, evaluations = evaluate(LineValues(policy, 0.3), CLASSIC, positions)
    counted = 0
    for i, position in enumerate(positions):
        view, pieces = build_view(position, CLASSIC), [piece for piece in range(16) if position.available >> piece & 1]
        every = lines.safe_turns(naive_board(position), position.hand, pieces, CLASSIC)
        afterstates = [after for cell, gift, after in every if (cell, gift) == (turns.cells[i], turns.gifts[i])]
        if any(naive.finishes_line(view.board, view.hand, cell, CLASSIC) for cell in naive.empty_cells(view.board)):
            assert evaluations.value[i] == VALUE_UNITS
        elif not afterstates:
            assert evaluations.value[i] == -VALUE_UNITS
        else:
            expected = 2 * value_of(afterstates[0], stages, units, 0.5) - 1
            assert evaluations.value[i] == pytest.approx(in_units(expected), abs=1)
            counted += 1
    assert counted > 15


def test_a_player_without_evaluations_is_timed_and_reports_nothing() -> None:
    _, evaluations = evaluate(Random(), CLASSIC, list_positions(CLASSIC, 2))
    assert (evaluations.value == NO_VALUE).all()
    assert (evaluations.visits == NO_VISITS).all()
