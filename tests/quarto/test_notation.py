from __future__ import annotations

import pytest
from hypothesis import given

from quarto.errors import RequestError
from quarto.jit import uint64
from quarto.notation import (
    format_cell,
    format_game,
    format_piece,
    format_position,
    parse_cell,
    parse_game,
    parse_piece,
    parse_position,
)
from quarto.position import EMPTY, PackedPosition, board, piece_at, position_from_plies
from quarto.rules import NONE, Rules, find_finished_lines
from tests import naive
from tests.naive_quarto import build_lanes, build_occupied, plies_and_hand, positions, preset_rules

EXAMPLE = "...F/.3../..../.... 7"


def test_pieces_are_hex_digits_in_either_case_and_cells_column_letter_and_row_digit() -> None:
    assert [format_piece(piece) for piece in range(16)] == list("0123456789ABCDEF")
    assert [parse_piece(digit) for digit in "0123456789ABCDEF"] == list(range(16))
    assert [parse_piece(digit) for digit in "abcdef"] == list(range(10, 16))
    assert [format_cell(cell) for cell in (0, 3, 4, 15)] == ["a1", "d1", "a2", "d4"]
    assert [parse_cell(format_cell(cell)) for cell in range(16)] == list(range(16))
    assert parse_cell("C2") == 6


def test_the_documented_position_parses_and_prints() -> None:
    expected = position_from_plies([(15, 3), (3, 5)], hand=7)._replace(last_cell=NONE)
    assert parse_position(EXAMPLE) == (expected, "classic")
    assert format_position(expected) == EXAMPLE
    assert parse_position(f"  {EXAMPLE.lower()}   square\n") == (expected, "square")
    assert format_position(expected, "square") == f"{EXAMPLE} square"
    assert format_position(EMPTY) == "..../..../..../.... -"


@given(positions(16))
def test_positions_survive_printing_and_parsing(position: PackedPosition) -> None:
    for name in ("classic", "torus_square", "my-rules.2"):
        assert parse_position(format_position(position, name)) == (position._replace(last_cell=NONE), name)


@given(plies_and_hand(16))
def test_games_survive_printing_and_parsing(drawn: tuple[list[tuple[int, int]], int]) -> None:
    plies, _ = drawn
    assert parse_game(format_game(plies)) == plies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("...F/.3../..../.... G", "piece 'G' is not a hex digit 0-F (position '...F/.3../..../.... G', field 2)"),
        ("...F/.3../..../.... 3", "piece '3' is in hand and on b2 (position '...F/.3../..../.... 3', field 2)"),
        ("...3/.3../..../.... -", "piece '3' is on d1 and on b2 (position '...3/.3../..../.... -', field 1)"),
        ("...F/.3../.... 7", "rows with / between them: 3 instead of 4 (position '...F/.3../.... 7', field 1): write"),
        ("...F/.3../.../.... 7", "row 3 '...' has cells: 3 instead of 4 (position '...F/.3../.../.... 7', field 1)"),
        ("...F/.3../..../....", "position '...F/.3../..../....' must have 2 or 3 fields and has 1: write"),
        ("", "position '' must have 2 or 3 fields and has 0: write"),
        (EXAMPLE + " c/d", f"rules 'c/d' is not a name (position '{EXAMPLE} c/d', field 3)"),
        ("...\N{ARABIC-INDIC DIGIT THREE}/..../..../.... -", "is not a hex digit 0-F (position"),
    ],
)
def test_a_wrong_position_is_refused_with_the_value_and_its_place(text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_position(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("F@b1 3b2", "'3b2' is not piece@cell, such as F@b1 (game 'F@b1 3b2', ply 1)"),
        ("G@b1", "piece 'G' is not a hex digit 0-F (game 'G@b1', ply 0)"),
        ("F@e1", "cell 'e1' is not one of a1 to d4 (game 'F@e1', ply 0)"),
        ("F@b", "cell 'b' is not one of a1 to d4 (game 'F@b', ply 0)"),
        ("F@b1 f@b2", "piece 'f' was already placed at ply 0 (game 'F@b1 f@b2', ply 1)"),
        ("F@b1 3@B1", "cell 'B1' was already taken at ply 0 (game 'F@b1 3@B1', ply 1)"),
    ],
)
def test_a_wrong_game_is_refused_with_the_value_and_its_ply(text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_game(text)
    assert str(refused.value) == message


def test_what_has_no_text_form_is_refused_and_a_long_wrong_text_shortened() -> None:
    with pytest.raises(RequestError) as refused:
        parse_position("x" * 10_000)
    assert len(str(refused.value)) < 250
    for wrong in (-1, 16):
        with pytest.raises(ValueError, match=r"is not in 0\.\.15"):
            format_piece(wrong)
        with pytest.raises(ValueError, match=r"is not in 0\.\.15"):
            format_cell(wrong)
    with pytest.raises(ValueError, match="would not parse"):
        format_position(EMPTY, "two words")


@given(positions(16), preset_rules)
def test_has_line_equals_the_naive_twin(position: PackedPosition, rules: Rules) -> None:
    assert bool(find_finished_lines(board(position), rules)) == naive.has_line(board(position), rules)
    expected = [line for line in naive.lines(rules) if naive.is_finished(board(position), line)]
    assert sorted(find_finished_lines(board(position), rules)) == expected


@given(plies_and_hand(16))
def test_a_position_holds_what_was_played(drawn: tuple[list[tuple[int, int]], int]) -> None:
    plies, hand = drawn
    position = position_from_plies(plies, hand)
    expected = [-1] * 16
    for piece, cell in plies:
        expected[cell] = piece
    assert board(position) == expected
    assert (position.lanes, position.occupied) == (build_lanes(expected), build_occupied(expected))
    used = {hand, *(piece for piece, _ in plies)}
    assert position.available == sum(1 << piece for piece in range(16) if piece not in used)
    assert position.hand == hand
    assert position.last_cell == (plies[-1][1] if plies else -1)
    assert [int(piece_at(uint64(position.lanes), cell)) for _, cell in plies] == [piece for piece, _ in plies]


@pytest.mark.parametrize(
    ("plies", "hand", "message"),
    [
        ([(16, 0)], -1, "piece 16 is not among those left"),
        ([(-1, 0)], -1, "piece -1 is not among those left"),
        ([(3, 0), (3, 1)], -1, "piece 3 is not among those left"),
        ([(3, 16)], -1, "cell 16 is not empty"),
        ([(3, 5), (4, 5)], -1, "cell 5 is not empty"),
        ([(3, 5)], 3, "piece 3 in hand is not among those left"),
        ([], 16, "piece 16 in hand is not among those left"),
    ],
)
def test_what_cannot_be_played_is_refused(plies: list[tuple[int, int]], hand: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        position_from_plies(plies, hand)
