from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given

from quarto.jit import uint64
from quarto.position import EMPTY, PackedPosition, board, position_from_plies
from quarto.rules import CELLS, CLASSIC, DIAGONALS, NONE, SQUARES, Rules, has_finished_line_at
from quarto.threats import danger_byte, safe_pieces, winning_cells
from tests import naive
from tests.naive_quarto import ORACLES, plies_and_hand, positions, preset_rules, sharing_sets

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
    position = position_from_plies(plies)
    board = [naive.NONE] * 16
    for piece, cell in plies:
        board[cell] = piece
    for piece, cell in plies:
        without = naive.with_piece(board, naive.NONE, cell)
        fast = has_finished_line_at(uint64(position.lanes), position.occupied, piece, cell, rules.tables)
        assert fast == naive.finishes_line(without, piece, cell, rules)


def test_four_pieces_on_a_line_win_for_exactly_the_published_number_of_sets() -> None:
    sets = ORACLES["four_piece_sets"]
    winning = 0
    for four in combinations(range(16), 4):
        position = position_from_plies(zip(four, CLASSIC.lines[0], strict=True))
        winning += has_finished_line_at(uint64(position.lanes), position.occupied, four[3], 3, CLASSIC.tables)
    assert winning == sets["sharing_an_attribute"] == len(sharing_sets())
    assert len(list(combinations(range(16), 4))) == sets["all"]


def test_a_game_begins_without_a_piece_on_the_board_or_in_hand() -> None:
    assert position_from_plies([]) == EMPTY
    assert board(EMPTY) == [NONE] * CELLS


def bits(mask: int) -> list[int]:
    return [bit for bit in range(16) if int(mask) >> bit & 1]


@given(positions(), preset_rules)
def test_winning_cells_equal_those_found_by_trying(position: PackedPosition, rules: Rules) -> None:
    lanes = uint64(position.lanes)
    for piece in bits(position.available):
        fast = winning_cells(lanes, position.occupied, piece, rules.tables)
        assert bits(fast) == naive.winning_cells(board(position), piece, rules)


@given(positions(), preset_rules)
def test_safe_pieces_are_those_that_win_on_no_cell(position: PackedPosition, rules: Rules) -> None:
    fast = safe_pieces(uint64(position.lanes), position.occupied, rules.tables)
    available = bits(position.available)
    safe = [piece for piece in available if int(fast) >> piece & 1]
    assert safe == naive.safe_pieces(board(position), available, rules)


@given(positions(), preset_rules)
def test_danger_names_the_values_that_three_pieces_on_a_line_wait_for(position: PackedPosition, rules: Rules) -> None:
    pieces = board(position)
    expected = 0
    for line in naive.lines(rules):
        on_line = [pieces[cell] for cell in line if pieces[cell] != naive.NONE]
        if len(on_line) == 3:
            for value in range(8):
                if all((piece >> (value & 3) & 1) == (value < 4) for piece in on_line):
                    expected |= 1 << value
    assert danger_byte(uint64(position.lanes), position.occupied, rules.tables) == expected
