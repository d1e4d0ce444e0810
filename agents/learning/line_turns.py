"""Turns on a board without a winning placement: how many there are, and which of them hold out two turns longer.

A turn is a placement and a gift that is safe after it. Two players make turns in alternation: the *giver* of an
afterstate, and the other player, who replies. Boards are those of ``line_boards.py``, after
``fill_dangers_now_and_after_placements``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from agents.learning.line_boards import COUNTS, fill_lines_and_dangers_after, piece_byte, safe_gifts_after
from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64
from quarto.position import ALL_CELLS

SHARP_TURNS = 6  # with at most so many turns of the giver after a reply, what follows each turn is examined


@inline_function
def count_safe_turns(piece: int, rest: int, cells: int, board: Any) -> int:
    """Count the turns that place ``piece`` on one of ``cells`` and give a piece of ``rest`` that is safe afterwards.

    A piece is safe if the opponent cannot finish a line with it at once. ``board`` has the dangers of the board
    (``fill_dangers_now_and_after_placements``).
    """
    byte, turns = piece_byte(piece), int64(0)
    while cells != 0:
        turns += int64(popcount(safe_gifts_after(lowest_bit(cells), byte, rest, board)))
        cells &= cells - 1
    return turns


@inline_function
def has_safe_turn(piece: int, rest: int, cells: int, board: Any) -> bool:
    """Return whether there is any turn that ``count_safe_turns`` would count."""
    byte = piece_byte(piece)
    while cells != 0:
        if safe_gifts_after(lowest_bit(cells), byte, rest, board) != 0:
            return True
        cells &= cells - 1
    return False


@inline_function
def all_safe_turns_leave_safe_reply(piece: int, rest: int, filled: int, words: Any, after: Any) -> bool:
    """Return whether every safe turn with ``piece`` and a gift from ``rest`` leaves the opponent a safe turn in reply.

    A safe turn is a placement and a gift that is safe after it. ``rest`` has at least two pieces. ``after[0]`` is the
    board before these turns, with pieces on the cells ``filled``; ``after[1]`` is overwritten.
    """
    byte, empty = piece_byte(piece), ~filled & ALL_CELLS
    cells = empty
    while cells != 0:
        cell = lowest_bit(cells)
        cells &= cells - 1
        gifts = safe_gifts_after(cell, byte, rest, after[0])
        if gifts == 0:
            continue
        other_cells = empty & ~(int64(1) << cell)
        fill_lines_and_dangers_after(after[0], piece, cell, filled | int64(1) << cell, words, after[1])
        while gifts != 0:
            gift = lowest_bit(gifts)
            gifts &= gifts - 1
            if not has_safe_turn(gift, rest & ~(int64(1) << gift), other_cells, after[1]):
                return False
    return True


class SurvivingTurns(NamedTuple):
    """The number of turns that survive, and the least number of replies that any of these turns leaves.

    ``count_unrefuted_turns_and_fewest_replies`` says which turns survive.
    """

    turn_count: int
    fewest_replies: int  # the least number of turns that one of them leaves to the other player, up to ``COUNTS - 1``


@inline_function
def count_unrefuted_turns_and_fewest_replies(
    piece: int, rest: int, filled: int, words: Any, after: Any
) -> SurvivingTurns:
    """Count the turns that survive, among those that place ``piece`` and give a piece of ``rest``.

    A turn is a placement and a gift that is safe after it. It survives if its player will have another turn whatever
    turn the other player makes in between. ``rest`` has at least two pieces. ``after[0]`` is the board before these
    turns, with pieces on the cells ``filled``; ``after[1:3]`` are overwritten.
    """
    byte, empty, survivors, fewest = piece_byte(piece), ~filled & ALL_CELLS, int64(0), int64(COUNTS - 1)
    cells = empty
    while cells != 0:
        cell = lowest_bit(cells)
        cells &= cells - 1
        gifts = safe_gifts_after(cell, byte, rest, after[0])
        if gifts == 0:
            continue
        other_cells, filled_after = empty & ~(int64(1) << cell), filled | int64(1) << cell
        fill_lines_and_dangers_after(after[0], piece, cell, filled_after, words, after[1])
        while gifts != 0:
            gift = lowest_bit(gifts)
            gifts &= gifts - 1
            last = rest & ~(int64(1) << gift)
            if last & (last - 1) == 0 or all_safe_turns_leave_safe_reply(gift, last, filled_after, words, after[1:]):
                survivors += 1
                fewest = min(fewest, count_safe_turns(gift, last, other_cells, after[1]))
    return SurvivingTurns(survivors, fewest)
