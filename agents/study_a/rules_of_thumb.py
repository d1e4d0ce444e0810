"""Study A's rules of thumb as its program (``lorenzobellino/quarto-player``) follows them.

The program compares the board with the one that it remembers of its own last turn. It takes the first cell that
differs, in the lowest row where one does, for the opponent's last. It plays the point reflection of that cell if this
was empty on the remembered board, else the first cell that was. (It means the farthest cell, but computes one distance
for all.) If the answer is occupied by now, the program is asked again. It then remembers a board on which its piece is
there all the same. After a turn that the search found, it remembers the placement alone, with row and column exchanged.

Its earlier version (until 15 February 2023) made the study's first tables of results. It takes a random cell where the
last version takes the first one. It always takes a random cell if it did not give the first piece of the game.

A gift is the first of one or two safe pieces, else the first of those most unlike the piece just placed. Before the
program's first placement it is random. Pieces are in ascending order here, in the order of Python's sets there.
"""

from __future__ import annotations

from typing import Any

from agents.base import memory
from agents.random import random_cell, random_piece
from quarto.bits import lowest_bit, popcount
from quarto.jit import inlined, int64, uint64
from quarto.position import ALL_CELLS, Position, piece_at, placed
from quarto.rng import draw
from quarto.rules import CELLS, NONE, SIDE
from quarto.threats import safe_pieces

LAST, EARLIER = "last", "earlier"
VERSIONS = (LAST, EARLIER)

FEW_SAFE_GIFTS = 2  # up to this many, the first of them is given; the study ignores safety beyond
PIECES_REMEMBERED, CELLS_REMEMBERED = range(2)  # words of a game: four bits a cell; occupied cells, and the flag below
GAME_WORDS = 2
GAVE_FIRST = 1 << CELLS  # whether it gave the first piece, by its rule for a mirror piece


@inlined
def packed_pieces(position: Position) -> int:
    """The pieces on the board, four bits a cell; 0 where there is none."""
    packed, rest = uint64(0), position.occupied
    while rest != 0:
        cell = lowest_bit(rest)
        packed |= uint64(piece_at(position.lanes, cell)) << uint64(4 * cell)
        rest &= rest - 1
    return packed


@inlined
def remember(cell: int, piece: int, own: Any) -> None:
    """Remember a piece on a cell, whatever was there."""
    remembered, shift = memory(own), uint64(4 * cell)
    others = remembered[PIECES_REMEMBERED] & ~(uint64(15) << shift)
    remembered[PIECES_REMEMBERED] = others | (uint64(piece) << shift)
    remembered[CELLS_REMEMBERED] |= uint64(1) << uint64(cell)


@inlined
def remember_found(position: Position, cell: int, own: Any) -> None:
    """Remember the placement of a turn that the search found, as the program does."""
    remember(SIDE * (cell % SIDE) + cell // SIDE, position.hand, own)


@inlined
def changed_cell(packed: int, occupied: int, own: Any) -> int:
    """The first cell that differs from the remembered board, in the lowest row where one does; NONE if none does."""
    remembered = memory(own)
    cells = int64(remembered[CELLS_REMEMBERED]) & ALL_CELLS
    changed, both, pieces = occupied ^ cells, occupied & cells, packed ^ remembered[PIECES_REMEMBERED]
    while both != 0:
        cell = lowest_bit(both)
        changed |= int64((pieces >> uint64(4 * cell)) & uint64(15) != 0) << cell
        both &= both - 1
    for row in range(SIDE - 1, -1, -1):
        in_row = (changed >> SIDE * row) & 0xF
        if in_row != 0:
            return int64(SIDE * row + lowest_bit(in_row))
    return int64(NONE)


@inlined
def mirroring_cell(changed: int, earlier: bool, word: int, own: Any) -> int:
    """The cell that the program answers the cell ``changed`` with; it may be occupied."""
    remembered = int64(memory(own)[CELLS_REMEMBERED])
    free, mirror = ~remembered & ALL_CELLS, CELLS - 1 - changed
    if changed == NONE:
        return random_cell(word, ALL_CELLS)
    if (free >> mirror) & 1 and (not earlier or remembered & GAVE_FIRST != 0):
        return int64(mirror)
    return random_cell(word, free) if earlier else int64(lowest_bit(free))


@inlined
def mirrored_cell(position: Position, earlier: bool, seed: int, own: Any) -> int:
    """The cell that the rules of thumb choose in the end, if none wins. Word n of the turn: its n-th answer's cell."""
    packed, asked = packed_pieces(position), int64(0)
    while True:
        changed = changed_cell(packed, position.occupied, own)
        cell = mirroring_cell(changed, earlier, draw(seed, asked), own)
        remembered = memory(own)
        remembered[PIECES_REMEMBERED] = packed
        remembered[CELLS_REMEMBERED] = (remembered[CELLS_REMEMBERED] & uint64(GAVE_FIRST)) | uint64(position.occupied)
        remember(cell, position.hand, own)
        if not (position.occupied >> cell) & 1:
            return cell
        asked += 1


@inlined
def mirror_gift(available: int, piece: int) -> int:
    """The first available piece of those that differ from ``piece`` in most attributes; NONE if there is none."""
    best, most, rest = int64(NONE), int64(-1), int64(available)
    while rest != 0:
        gift = lowest_bit(rest)
        rest &= rest - 1
        different = popcount(int64(gift ^ piece))
        if different > most:
            best, most = gift, different
    return best


@inlined
def few_safe_gift(lanes: int, occupied: int, available: int, rules: Any) -> int:
    """The first of one or two safe pieces; NONE if there are none or more."""
    safe = available & safe_pieces(lanes, occupied, rules)
    return lowest_bit(safe) if 0 < popcount(safe) <= FEW_SAFE_GIFTS else int64(NONE)


@inlined
def safe_or_mirror_gift(position: Position, cell: int, rules: Any) -> int:
    """The gift after the hand was placed on ``cell``."""
    lanes = placed(position.lanes, position.hand, cell)
    gift = few_safe_gift(lanes, position.occupied | (int64(1) << cell), position.available, rules)
    return gift if gift != NONE else mirror_gift(position.available, position.hand)


@inlined
def first_gift(position: Position, seed: int, rules: Any, own: Any) -> int:
    """The gift before its first placement. Word 0, lower half."""
    gift = few_safe_gift(position.lanes, position.occupied, position.available, rules)
    if gift != NONE:
        return gift
    memory(own)[CELLS_REMEMBERED] |= uint64(GAVE_FIRST)
    return random_piece(draw(seed, 0), position.available)
