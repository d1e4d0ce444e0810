"""Study C's opponent: wins if it can, gives a safe piece if there is one, otherwise random."""

from __future__ import annotations

from typing import Any

from agents.base.agent import KernelAgent, encode_turn, turn
from agents.random import random_cell, random_piece
from quarto.bits import lowest_bit, piece_to_lanes
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rng import draw
from quarto.rules import NONE, PIECES
from quarto.threats import safe_pieces, winning_cells


@inline_function
def winning_piece(position: PackedPosition, rules: Any) -> int:
    """Return the lowest available piece that finishes a line somewhere, or NONE."""
    for piece in range(PIECES):
        if (position.available >> piece) & 1 and winning_cells(position.lanes, position.occupied, piece, rules) != 0:
            return piece
    return NONE


@inline_function
def turn_if_opponent_chooses(position: PackedPosition, word: int, rules: Any) -> int:
    """Return a turn under rules where the opponent chooses the pieces.

    It places the piece in hand on the first winning cell or else a random cell, and gives a random safe piece or, if
    no piece is safe, any random piece.
    """
    cell, lanes, occupied = int64(NONE), position.lanes, position.occupied
    if position.hand != NONE:
        wins = winning_cells(lanes, occupied, position.hand, rules)
        cell = lowest_bit(wins) if wins != 0 else random_cell(word, ~occupied & ALL_CELLS)
        lanes |= piece_to_lanes(position.hand) << uint64(cell)
        occupied |= int64(1) << cell
    safe = position.available & safe_pieces(lanes, occupied, rules)
    return encode_turn(cell, random_piece(word, safe if safe != 0 else position.available))


@inline_function
def turn_if_mover_chooses(position: PackedPosition, word: int, rules: Any) -> int:
    """Return a turn under rules where the mover chooses the piece: one that wins at once, otherwise a random turn."""
    piece = winning_piece(position, rules)
    if piece == NONE:
        return encode_turn(random_cell(word, ~position.occupied & ALL_CELLS), random_piece(word, position.available))
    return encode_turn(lowest_bit(winning_cells(position.lanes, position.occupied, piece, rules)), piece)


@turn
def semi_random_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    word = draw(seed, 0)
    if rules.mover_chooses != 0:
        return turn_if_mover_chooses(position, word, rules)
    return turn_if_opponent_chooses(position, word, rules)


class SemiRandom(KernelAgent):
    """Study C's SemiRandomPlayer, which wins if it can and gives safe pieces if there are any.

    It takes the first winning cell, otherwise a random cell. Its gift is drawn uniformly from the safe pieces, or from
    all pieces if none is safe. Where the mover chooses the piece, it takes the first piece that wins, otherwise a
    random one.
    """

    kernel = semi_random_turn
    choosers = ("opponent", "mover")
