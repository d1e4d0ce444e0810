from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given

from quarto.jit import uint64
from quarto.position import from_plies
from quarto.rules import CLASSIC, DIAGONALS, SQUARES, Rules, finishes_line
from tests import naive
from tests.naive_quarto import ORACLES, plies_and_hand, preset_rules, sharing_sets

ALL_FAMILIES = [
    (straight, diagonals, squares)
    for straight, diagonals, squares in product((True, False), DIAGONALS, SQUARES)
    if straight or diagonals != "none" or squares != "none"
]


@pytest.mark.parametrize("families", ALL_FAMILIES)
def test_lines_of_every_combination_of_families_equal_those_of_the_naive_twin(
    families: tuple[bool, str, str],
) -> None:
    rules = Rules("any", *families)
    assert sorted(rules.lines) == sorted(naive.lines(rules))
    assert len(set(rules.lines)) == len(rules.lines)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"diagonals": "both"}, "diagonals='both' is not one of none, main, broken"),
        ({"squares": "all"}, "squares='all' is not one of none, plain, wrapped"),
        ({"chooser": "nobody"}, "chooser='nobody' is not one of opponent, mover"),
        ({"rows_and_columns": False, "diagonals": "none"}, "no game could be won"),
    ],
)
def test_wrong_rules_are_refused_by_field_and_value(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rules("wrong", **fields)  # type: ignore[arg-type]


@given(plies_and_hand(16), preset_rules)
def test_finishes_line_equals_the_naive_twin(drawn: tuple[list[tuple[int, int]], int], rules: Rules) -> None:
    plies, _ = drawn
    position = from_plies(plies)
    board = [naive.NONE] * 16
    for piece, cell in plies:
        board[cell] = piece
    for piece, cell in plies:
        without = naive.with_piece(board, naive.NONE, cell)
        fast = finishes_line(uint64(position.lanes), position.occupied, piece, cell, rules.tables)
        assert fast == naive.finishes_line(without, piece, cell, rules)


def test_four_pieces_on_a_line_win_for_exactly_the_published_number_of_sets() -> None:
    sets = ORACLES["four_piece_sets"]
    winning = 0
    for four in combinations(range(16), 4):
        position = from_plies(zip(four, CLASSIC.lines[0], strict=True))
        winning += finishes_line(uint64(position.lanes), position.occupied, four[3], 3, CLASSIC.tables)
    assert winning == sets["sharing_an_attribute"] == len(sharing_sets())
    assert len(list(combinations(range(16), 4))) == sets["all"]
