"""Moves inside a search, and random play to the end of a game.

A move is one decision of a player, (cell, gift) as one integer above 0; see ``encode_move``. The cell is NONE when only
a gift is asked for, the gift is NONE when no piece is left to give. Where the mover chooses, the gift is the piece that
is placed. Every move passes the turn to the other player.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from agents.random import random_cell, random_piece
from quarto.bits import lowest_bit, piece_to_lanes
from quarto.jit import inline_function, int64, uint64
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rng import draw
from quarto.rules import NONE, has_finished_line_at
from quarto.threats import safe_pieces

NO_MOVE = 0
LONGEST_GAME = 17  # moves from the empty board: the first gift and sixteen placements

NOT_OVER, LINE, FULL_BOARD = 0, 1, 2  # outcomes of a move


class MoveResult(NamedTuple):
    """The position after a move, with whether and how the game ended."""

    position: PackedPosition
    outcome: int  # NOT_OVER, LINE or FULL_BOARD


class Playout(NamedTuple):
    """The result of a game that was played at random from a given position."""

    result: int  # 1 if the player to move there wins, -1 if the other does, 0 for a draw
    next_word: int  # index of the next unused word of the stream


@inline_function
def encode_move(cell: int, gift: int) -> int:
    """Encode a move as one integer. The cell and the gift may each be NONE."""
    return ((int64(cell) + 1) << 5) | (int64(gift) + 1)


@inline_function
def move_cell(move: int) -> int:
    """Return the cell of an encoded move, or NONE if it has no cell."""
    return (int64(move) >> 5) - 1


@inline_function
def move_gift(move: int) -> int:
    """Return the gift of an encoded move, or NONE if it has no gift.

    Under rules where the mover chooses the piece, this is the piece that is placed.
    """
    return (int64(move) & 31) - 1


@inline_function
def play_move(position: PackedPosition, move: int, rules: Any) -> MoveResult:
    """Play a legal move, and return the position after it with the outcome of the move."""
    cell, gift = move_cell(move), move_gift(move)
    available = position.available & ~(int64(1) << gift) if gift != NONE else position.available
    if cell == NONE:
        after_gift = PackedPosition(position.lanes, position.occupied, available, gift, position.last_cell)
        return MoveResult(after_gift, int64(NOT_OVER))
    mover_chooses = rules.mover_chooses != 0
    piece = gift if mover_chooses else position.hand
    lanes = position.lanes | (piece_to_lanes(piece) << uint64(cell))
    occupied = position.occupied | (int64(1) << cell)
    outcome = int64(NOT_OVER)
    if has_finished_line_at(lanes, occupied, piece, cell, rules):
        outcome = int64(LINE)
    elif occupied == ALL_CELLS:
        outcome = int64(FULL_BOARD)
    return MoveResult(PackedPosition(lanes, occupied, available, int64(NONE) if mover_chooses else gift, cell), outcome)


@inline_function
def is_gift_only(position: PackedPosition, rules: Any) -> bool:
    """Return whether the player to move gives a piece without placing one."""
    return position.hand == NONE and rules.mover_chooses == 0


@inline_function
def random_move(position: PackedPosition, word: int, rules: Any) -> int:
    """Return a move drawn uniformly with one random word.

    The upper half of ``word`` selects the cell, and the lower half the gift.
    """
    cell = int64(NONE)
    if not is_gift_only(position, rules):
        cell = random_cell(word, ~position.occupied & ALL_CELLS)
    return encode_move(cell, random_piece(word, position.available))


@inline_function
def play_out(position: PackedPosition, seed: int, index: int, rules: Any) -> Playout:
    """Play at random to the end of the game, and return the result with the index of the next unused word.

    Each move takes one word of the stream of ``seed``, from word ``index`` on.
    """
    winner, outcome = int64(-1), int64(NOT_OVER)
    while outcome == NOT_OVER:
        winner = -winner
        position, outcome = play_move(position, random_move(position, draw(seed, index), rules), rules)
        index += 1
    return Playout(winner if outcome == LINE else int64(0), index)


@inline_function
def allowed_gifts(position: PackedPosition, cell: int, safe_gifts: bool, rules: Any) -> int:
    """Return, as 16 bits, the pieces that may be given after the piece in hand is placed on ``cell``.

    If ``cell`` is NONE, nothing is placed. With ``safe_gifts``, only safe pieces are allowed, unless no piece is safe
    or the placement finishes a line.
    """
    if not safe_gifts:
        return position.available
    lanes, occupied = position.lanes, position.occupied
    if cell != NONE:
        lanes |= piece_to_lanes(position.hand) << uint64(cell)
        occupied |= int64(1) << cell
        if has_finished_line_at(lanes, occupied, position.hand, cell, rules):
            return position.available
    safe = position.available & safe_pieces(lanes, occupied, rules)
    return safe if safe != 0 else position.available


@inline_function
def set_untried_move_returning_next_word(
    node: Any, position: PackedPosition, seed: int, index: int, safe_gifts: bool, rules: Any
) -> int:
    """Draw the move with which a node will be expanded next, and return the index of the next unused word.

    The move, or NO_MOVE if no move is left, is written into ``node.untried``. Moves come gift by gift: a random gift
    with all cells in random order, then another random gift. The order is random so that low numbers have no advantage,
    and goes gift by gift so that every cell is tried within few moves. A move that ``safe_gifts`` forbids is skipped,
    and another move is drawn.
    """
    alone, first = is_gift_only(position, rules), node.child_count == 0
    gift, cells, gifts = move_gift(node.untried), int64(node.cells), int64(node.gifts)
    if first:
        cells, gifts = int64(0), position.available
    node.untried = NO_MOVE
    while first or cells != 0 or gifts != 0:
        word = draw(seed, index)
        index += 1
        if cells == 0:
            gift = random_piece(word, gifts)
            gifts &= ~(int64(1) << (gift & 15))
            cells = int64(1) if alone else ~position.occupied & ALL_CELLS
        bit = random_cell(word, cells)
        cells &= ~(int64(1) << bit)
        cell = int64(NONE) if alone else bit
        first = False
        if gift == NONE or (allowed_gifts(position, cell, safe_gifts, rules) >> gift) & 1 != 0:
            node.untried = encode_move(cell, gift)
            break
    node.cells, node.gifts = cells, gifts
    return index


@inline_function
def next_move(position: PackedPosition, move: int, safe_gifts: bool, rules: Any) -> int:
    """Return the move after ``move`` in ascending order of cells and, for each cell, of gifts.

    For NO_MOVE, return the first move; for the last move, return NO_MOVE.
    """
    cell, cells = int64(NONE), int64(0)
    if not is_gift_only(position, rules):
        cells = ~position.occupied & ALL_CELLS
    if move != NO_MOVE:
        cell = move_cell(move)
        later = allowed_gifts(position, cell, safe_gifts, rules) & (int64(-1) << (move_gift(move) + 1))
        if later != 0:
            return encode_move(cell, lowest_bit(later))
        cells &= int64(-1) << (cell + 1)
        if cells == 0:
            return int64(NO_MOVE)
    if cells != 0:
        cell = lowest_bit(cells)
    gifts = allowed_gifts(position, cell, safe_gifts, rules)
    return encode_move(cell, lowest_bit(gifts) if gifts != 0 else int64(NONE))
