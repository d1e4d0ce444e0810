"""The end of the game without boards, held against playing out every game."""

from __future__ import annotations

import pytest

from quarto.jit import uint64
from quarto.position import Position, board
from quarto.rules import CELLS, NONE, Rules
from quarto.solver.late import LATE_CELLS, can_give_late, can_place_late
from quarto.solver.table import DRAW, WIN
from tests.marks import seldom
from tests.naive import PRESETS, winning_cells
from tests.naive_solver import solve_position
from tests.quarto.solver.test_solver import live_positions

NAMES = ("classic", *seldom("square", "torus"))  # with 32 lines hardly any random board has a safe gift so late


@pytest.mark.parametrize("name", NAMES)
def test_positions_with_at_most_six_empty_cells(name: str) -> None:
    rules, asked = PRESETS[name], 0
    for pieces, count in ((10, 8), (11, 20), (12, 40), (13, 60), (14, 60), (15, 20)):
        for position in live_positions(rules, pieces, count, 7):
            if position.hand == NONE or wins_at_once(position, position.hand, rules):
                continue
            value, asked = solve_position(position, rules).value, asked + 1
            words = uint64(position.lanes), position.occupied, position.available, position.hand
            assert can_place_late(*words, WIN, rules.tables) == (value == 1), position
            assert can_place_late(*words, DRAW, rules.tables) == (value >= 0), position
    assert asked > 5


def gifts(position: Position) -> set[int]:
    return {piece for piece in range(16) if position.available >> piece & 1}


def wins_at_once(position: Position, piece: int, rules: Rules) -> bool:
    return winning_cells(board(position), piece, rules) != []


@pytest.mark.parametrize("boards", [6, *seldom(16)])
@pytest.mark.parametrize("name", NAMES)
def test_boards_before_a_gift_with_six_empty_cells(name: str, boards: int) -> None:
    rules, asked = PRESETS[name], 0
    for position in live_positions(rules, CELLS - LATE_CELLS, boards, 8):
        if position.hand != NONE:
            position = position._replace(hand=NONE, available=position.available | 1 << position.hand)  # noqa: PLW2901
        safe = [piece for piece in gifts(position) if not wins_at_once(position, piece, rules)]
        if not safe:
            continue
        value, asked = solve_position(position, rules).value, asked + 1
        words = uint64(position.lanes), position.occupied, position.available, sum(1 << piece for piece in safe)
        assert can_give_late(*words, WIN, rules.tables) == (value == 1), position
        assert can_give_late(*words, DRAW, rules.tables) == (value >= 0), position
    assert asked >= boards // 5
