"""The canonical form of a turn: one form for a position and a decision in it, and for all their symmetric images.

The board comes first. It is made canonical as boards without a hand are (``quarto/canonical.py``). Of all symmetries
that do so, it takes the one that makes the hand, then the cell, then the chosen piece the least. So positions that
follow one board by different gifts are neighbours. Turns that a symmetry of the position exchanges have one form.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import types

from quarto.bits import LANE, LANE_ONES, popcount
from quarto.canonical import highest_cell
from quarto.jit import inlined, int64, uint64
from quarto.keys import board_word
from quarto.position import piece_at
from quarto.rules import NONE
from quarto.symmetry import Symmetries, move_lanes


class Turn(NamedTuple):
    """A position and the decision made in it. In kernels ``board`` is uint64 and everything else int64."""

    occupied: int  # 16 bits: cells that hold a piece
    board: int  # the pieces on them and the hand, see ``board_word``
    cell: int  # where the hand was placed or, where the mover chooses, ``piece``
    piece: int  # the gift that came with it or, where the mover chooses, what was placed; NONE: there was no gift


TURN_TYPE = types.NamedTuple((types.int64, types.uint64, types.int64, types.int64), Turn)


@inlined
def _with_choice(lane: int, hand: int, piece: int, attribute: int) -> int:
    """A lane and the same attribute of the hand and of the piece, as one number that sorts by the three."""
    return lane << 2 | ((hand >> attribute) & 1) << 1 | ((piece >> attribute) & 1)


@inlined
def first_turn(hand: int, choice: tuple[int, int], tables: Symmetries) -> Turn:
    """``canonical_turn`` on the empty board: which piece is 0 is free, and attributes may be exchanged at will."""
    cell, piece = choice
    least = cell
    for permutation in range(tables.cells.shape[0]):
        least = min(least, int64(tables.cells[permutation, cell]))
    differing = popcount(piece ^ hand) if hand >= 0 else int64(0)
    return Turn(int64(0), uint64(0), least, (int64(1) << differing) - 1 if piece >= 0 else int64(NONE))


@inlined
def canonical_turn(lanes: int, occupied: int, hand: int, choice: tuple[int, int], tables: Symmetries) -> Turn:
    """The canonical form of a turn: ``choice`` is (cell, piece), the piece or the hand may be NONE. About 40 ns."""
    cell, piece = choice
    minimal = int64(tables.minimal[occupied])
    top = highest_cell(minimal)
    least, decided = ~uint64(0), int64(1) << 12
    for i in range(tables.first[occupied], tables.first[occupied + 1]):
        permutation = int64(tables.attaining[i])
        moved = move_lanes(lanes, permutation, tables)
        flip = piece_at(moved, top)
        image = moved ^ (((moved >> top) & LANE_ONES) * uint64(minimal))
        in_hand = hand ^ flip if hand >= 0 else int64(0)
        chosen = piece ^ flip if piece >= 0 else int64(0)
        a = _with_choice(int64(image & LANE), in_hand, chosen, 0)
        b = _with_choice(int64((image >> uint64(16)) & LANE), in_hand, chosen, 1)
        c = _with_choice(int64((image >> uint64(32)) & LANE), in_hand, chosen, 2)
        d = _with_choice(int64(image >> uint64(48)), in_hand, chosen, 3)
        a, b, c, d = max(a, b), min(a, b), max(c, d), min(c, d)
        a, b, c, d = max(a, c), max(b, d), min(a, c), min(b, d)
        b, c = max(b, c), min(b, c)
        ordered = (
            uint64(a >> 2) | uint64(b >> 2) << uint64(16) | uint64(c >> 2) << uint64(32) | uint64(d >> 2) << uint64(48)
        )
        in_hand = ((a >> 1) & 1) | (b & 2) | ((c >> 1) & 1) << 2 | ((d >> 1) & 1) << 3
        chosen = (a & 1) | (b & 1) << 1 | (c & 1) << 2 | (d & 1) << 3
        decision = in_hand << 8 | int64(tables.cells[permutation, cell]) << 4 | chosen
        if ordered < least or (ordered == least and decision < decided):
            least, decided = ordered, decision
    word = board_word(least, minimal, decided >> 8, tables)
    return Turn(minimal, word, (decided >> 4) & 15, decided & 15 if piece >= 0 else int64(NONE))
