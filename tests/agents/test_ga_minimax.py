"""ga_minimax plays study B's text, or its code, whatever its genes and depth."""

from __future__ import annotations

from itertools import product

import pytest

from agents.ga_minimax import GaMinimax, phantom_value
from agents.search.alpha_beta import UNBOUNDED
from quarto.jit import uint64
from quarto.position import Position
from quarto.rules import CLASSIC, NONE, Rules
from tests.naive import PRESETS
from tests.naive_players import ga_minimax as naive_ga_minimax
from tests.naive_players.agreement import LONG_GAMES, OPPONENT_CHOOSES, assert_same_games, assert_same_turns, endgames
from tests.positions import asked, view_of

GENOMES = [(0.1, 0.3), (1.0, 1.0), (0.5, 0.5)]
MOST_EMPTY = {2: 6, 3: 5, 4: 5}  # by depth: what the slow twin can look through


@pytest.mark.parametrize("rules", OPPONENT_CHOOSES, ids=lambda rules: rules.name)
@pytest.mark.parametrize("faithful", [False, True])
def test_turns_at_depth_one_are_those_of_the_slow_twin(faithful: bool, rules: Rules) -> None:
    for alpha, beta in GENOMES:
        agent = GaMinimax(alpha, beta, faithful=faithful)
        twin = naive_ga_minimax.GaMinimax(alpha, beta, faithful=faithful)
        assert_same_turns(agent, twin, rules, endgames(rules, 12, 150))


@pytest.mark.parametrize("rules", LONG_GAMES, ids=lambda rules: rules.name)
@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("depth", MOST_EMPTY)
def test_turns_at_any_depth_are_those_of_the_slow_twin(depth: int, faithful: bool, rules: Rules) -> None:
    agent, twin = GaMinimax(depth=depth, faithful=faithful), naive_ga_minimax.GaMinimax(depth=depth, faithful=faithful)
    assert_same_turns(agent, twin, rules, endgames(rules, MOST_EMPTY[depth] - (faithful and depth == 4), 60))


def test_values_by_the_code_are_those_of_the_slow_twin() -> None:
    """Where a line comes sooner or later, or a full board ends the search, of either side's."""
    twin, infinity, values = naive_ga_minimax.GaMinimax(), UNBOUNDED, []
    for position in endgames(CLASSIC, 3, 100):
        if position.hand == NONE:
            continue
        view = view_of(position, CLASSIC)
        unplaced = position.available | 1 << position.hand
        after = Position(uint64(position.lanes), position.occupied, unplaced, position.hand, NONE)
        for depth, maximising in product((1, 2, 3, 4), (False, True)):
            expected = twin.phantom(view, view.board, view.hand, depth, maximising, False)
            value = phantom_value(after, depth, -infinity, infinity, maximising, CLASSIC.tables)
            assert value == max(-infinity, min(infinity, expected)), position
            values.append(value)
    assert {-infinity, 0, 1, 2, 3, infinity} <= {*values}


def test_whole_games_are_those_of_the_slow_twin() -> None:
    assert_same_games(GaMinimax(), naive_ga_minimax.GaMinimax(), CLASSIC, pairs=20)
    assert_same_games(GaMinimax(), naive_ga_minimax.GaMinimax(), PRESETS["square"], pairs=10, opening_plies=4)
    faithful = GaMinimax(depth=2, faithful=True)
    assert_same_games(faithful, naive_ga_minimax.GaMinimax(depth=2, faithful=True), CLASSIC, pairs=4, opening_plies=10)


def test_two_placements_ahead_are_as_good_as_one() -> None:
    """The opponent's reply can prove no win, so the text's depth 2 differs from depth 1 in nothing."""
    positions = asked(CLASSIC, 30)
    assert assert_same_turns(GaMinimax(depth=2), naive_ga_minimax.GaMinimax(depth=1), CLASSIC, positions) > 400
