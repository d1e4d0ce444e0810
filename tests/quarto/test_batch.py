from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quarto.batch import (
    ENDINGS,
    FORFEIT_ERROR,
    FORFEIT_ILLEGAL,
    FORFEIT_RESIGNED,
    FULL_BOARD,
    LINE,
    Batch,
)
from quarto.position import Position
from tests.naive_quarto import positions

TYPES = ["uint64", "uint16", "uint16", "int8", "int8"]


@given(st.lists(positions(16), max_size=4))
def test_a_batch_holds_the_positions_it_was_made_of(wanted: list[Position]) -> None:
    batch = Batch.of(wanted)
    assert [batch.position(i) for i in range(len(wanted))] == wanted
    assert [str(field.dtype) for field in batch] == TYPES
    head = batch.part(0, 2)
    assert [head.position(i) for i in range(len(head.hand))] == wanted[:2]


def test_endings_are_numbered_as_they_are_listed() -> None:
    names = [ENDINGS[ending] for ending in (LINE, FULL_BOARD, FORFEIT_ILLEGAL, FORFEIT_ERROR, FORFEIT_RESIGNED)]
    assert names == ["line", "full_board", "forfeit_illegal", "forfeit_error", "forfeit_resigned"]
