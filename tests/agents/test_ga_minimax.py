"""ga_minimax plays study B's text, or its code, whatever its genes and depth."""

from __future__ import annotations

from itertools import product

from agents.alpha_beta import UNBOUNDED
from agents.ga_minimax import phantom_value
from quarto.jit import uint64
from quarto.position import Position
from quarto.rules import CLASSIC, NONE
from tests.naive_players import ga_minimax as naive_ga_minimax
from tests.naive_players.agreement import endgames
from tests.positions import view_of


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
