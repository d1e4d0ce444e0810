from __future__ import annotations

from hypothesis import given

from quarto.jit import uint64
from quarto.position import Position, board
from quarto.rules import Rules
from quarto.threats import danger, safe_pieces, winning_cells
from tests import naive
from tests.naive_quarto import positions, preset_rules


def bits(mask: int) -> list[int]:
    return [bit for bit in range(16) if int(mask) >> bit & 1]


@given(positions(), preset_rules)
def test_winning_cells_equal_those_found_by_trying(position: Position, rules: Rules) -> None:
    lanes = uint64(position.lanes)
    for piece in bits(position.available):
        fast = winning_cells(lanes, position.occupied, piece, rules.tables)
        assert bits(fast) == naive.winning_cells(board(position), piece, rules)


@given(positions(), preset_rules)
def test_safe_pieces_are_those_that_win_on_no_cell(position: Position, rules: Rules) -> None:
    fast = safe_pieces(uint64(position.lanes), position.occupied, rules.tables)
    left = bits(position.available)
    assert [piece for piece in left if int(fast) >> piece & 1] == naive.safe_pieces(board(position), left, rules)


@given(positions(), preset_rules)
def test_danger_names_the_values_that_three_pieces_on_a_line_wait_for(position: Position, rules: Rules) -> None:
    pieces = board(position)
    expected = 0
    for line in naive.lines(rules):
        on_line = [pieces[cell] for cell in line if pieces[cell] != naive.NONE]
        if len(on_line) == 3:
            for value in range(8):
                if all((piece >> (value & 3) & 1) == (value < 4) for piece in on_line):
                    expected |= 1 << value
    assert danger(uint64(position.lanes), position.occupied, rules.tables) == expected
