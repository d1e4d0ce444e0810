from __future__ import annotations

import pytest
from hypothesis import given

from quarto.jit import uint64
from quarto.position import board, from_plies, piece_at
from tests.naive_quarto import lanes_of, occupied_of, plies_and_hand


@given(plies_and_hand(16))
def test_a_position_holds_what_was_played(drawn: tuple[list[tuple[int, int]], int]) -> None:
    plies, hand = drawn
    position = from_plies(plies, hand)
    expected = [-1] * 16
    for piece, cell in plies:
        expected[cell] = piece
    assert board(position) == expected
    assert (position.lanes, position.occupied) == (lanes_of(expected), occupied_of(expected))
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
        from_plies(plies, hand)
