from __future__ import annotations

import random

import numpy as np
import pytest

from analytics.tables.derived.positions import list_canonical_turns
from quarto.canonical import HAND_BITS
from quarto.position import PackedPosition, position_from_plies
from quarto.rules import NONE, Rules
from tests.naive import PRESETS
from tests.naive_turns import canonical_form, mask


def form_of(occupied: int, board: int, cell: int, piece: int, has_hand: bool) -> tuple[int, ...]:
    """Return the twin's form of a stored turn, unpacked by the text of data/README.md."""
    size = occupied.bit_count()
    cells = [at for at in range(16) if occupied >> at & 1]
    lanes = [mask(at for i, at in enumerate(cells) if board >> (4 + size * bit + i) & 1) for bit in (3, 2, 1, 0)]
    return (occupied, *lanes, board & 15 if has_hand else NONE, cell, piece)


def random_position(dice: random.Random, pieces: int, hand: bool) -> PackedPosition:
    order, cells = dice.sample(range(16), pieces + 1), dice.sample(range(16), pieces)
    return position_from_plies(zip(order[:-1], cells, strict=True), order[-1] if hand else NONE)


def board_of(position: PackedPosition) -> dict[int, int]:
    pieces = {}
    for cell in range(16):
        if position.occupied >> cell & 1:
            pieces[cell] = sum((position.lanes >> (16 * bit + cell) & 1) << bit for bit in range(4))
    return pieces


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 5, 8, 12, 15])
def test_a_turn_has_the_least_of_its_images(name: str, pieces: int) -> None:
    rules, dice = PRESETS[name], random.Random(f"{name} {pieces}")
    position = random_position(dice, pieces, hand=not rules.mover_chooses)
    turns = list_canonical_turns(position, rules)
    for row in turns.sample(min(3, len(turns)), seed=pieces).iter_rows(named=True):
        turn = row["own_hand"], row["own_cell"], row["own_piece"]
        form = form_of(row["occupied"], row["board"], row["cell"], row["piece"], not rules.mover_chooses)
        assert form == canonical_form(board_of(position), *turn, rules), (position, turn)


def test_positions_that_differ_in_the_hand_are_neighbours() -> None:
    dice = random.Random(5)
    for pieces in range(1, 16):
        boards = list_canonical_turns(random_position(dice, pieces, hand=False), Rules())["board"].to_numpy()
        assert len(np.unique(boards >> HAND_BITS)) == 1
        assert boards.min() >= 0
