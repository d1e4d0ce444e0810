from __future__ import annotations

import pytest
from hypothesis import given

from quarto.jit import uint64
from quarto.position import Position, board
from quarto.rules import Rules
from quarto.threats import SAFE_PIECES, cells_with, danger, safe_gifts, safe_pieces, winning_cells, wins_and_safe_gifts
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


@pytest.mark.slow
@given(positions(), preset_rules)
def test_a_look_at_a_piece_finds_what_trying_every_cell_finds(position: Position, rules: Rules) -> None:
    pieces, left = board(position), bits(position.available)
    assert bits(safe_gifts(position, rules)) == naive.safe_pieces(pieces, left, rules)
    for piece in left:
        wins, safe = wins_and_safe_gifts(position, piece, rules)
        assert bits(wins) == naive.winning_cells(pieces, piece, rules)
        others = [other for other in left if other != piece]
        for cell in range(16):
            after = naive.with_piece(pieces, piece, cell)
            expected = naive.safe_pieces(after, others, rules) if pieces[cell] == naive.NONE else []
            assert bits(safe[cell]) == expected


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


@given(positions(16))
def test_cells_with_a_value_are_those_whose_piece_has_it(position: Position) -> None:
    for value in range(8):
        expected = [
            cell
            for cell, piece in enumerate(board(position))
            if piece != naive.NONE and (piece >> (value & 3) & 1) == (value < 4)
        ]
        assert bits(cells_with(uint64(position.lanes), position.occupied, value)) == expected


def test_every_danger_byte_rules_out_the_pieces_that_have_one_of_its_values() -> None:
    for byte in range(256):
        expected = [
            piece
            for piece in range(16)
            if not any(byte >> value & 1 and (piece >> (value & 3) & 1) == (value < 4) for value in range(8))
        ]
        assert bits(int(SAFE_PIECES[byte])) == expected
