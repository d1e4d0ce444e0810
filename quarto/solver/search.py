"""Two yes-or-no questions that together give a value: can the player to act win or at least draw.

The search runs over boards before a gift. A gift is safe if the opponent cannot finish a line with it at once. The
giver succeeds if the opponent fails after some safe gift, wherever they place it. If the giver is to win, the opponent
fails by not even drawing. If the giver is to draw, the opponent fails by not winning.

Three things help, measured in a C++ prototype. All children are looked up before any is searched. Gifts and cells that
leave the fewest replies come first. Late in the game nothing is sorted or looked up.

Where the mover chooses the piece as well as the cell (``own_piece``), a position is a board alone. A turn loses at once
if the opponent can then finish a line with a piece that is left. So only boards on which every piece left is safe are
searched.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types

from quarto.bits import array_pointer, lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel, to_kernel_called_by_address, uint64
from quarto.position import ALL_CELLS, place_piece
from quarto.rules import CELLS
from quarto.solver.endgame import ENDGAME_CELLS, can_giver_achieve_with_six_cells, can_placer_achieve_in_endgame
from quarto.solver.table import (
    CHILD_FIELDS,
    DRAW,
    RULES_TYPE,
    SEARCH_TYPE,
    prefetch_table_or_base_bucket,
    proof_key,
    recall_answer,
    remember_answer,
)
from quarto.threats import SAFE_PIECES, VALUES, danger_byte, occupied_cells_with_value

TABLE_PIECES = 9  # boards with more are not looked up: finding the canonical form costs more than it saves
ENDGAME_PIECES = CELLS - ENDGAME_CELLS  # boards from here on are searched as they come
DISTINCT_PIECES = 6  # up to here children that are the same board up to symmetry are searched once

LANES, SAFE, KEY, ORDER = range(
    CHILD_FIELDS
)  # of a child: its board, its safe gifts, its key, 256 * rank + its cell; the least rank is the most promising
# (lanes, occupied, available, safe gifts or piece in hand, question, rules, search) -> yes or no
QUESTION_SIGNATURE = types.int64(
    types.uint64, types.int64, types.int64, types.int64, types.int64, RULES_TYPE, SEARCH_TYPE
)


@inline_function
def pack_safe_reply_counts(lanes: int, occupied: int, available: int, rules: Any) -> tuple[int, int]:
    """Count, for each gift, the opponent's replies that place it without winning at once and then give a safe piece.

    Returns two words with a byte for each gift: gifts 0 to 7 in the first word, gifts 8 to 15 in the second.
    """
    low, high, open_cells = uint64(0), uint64(0), ~occupied & ALL_CELLS
    empty = open_cells
    while empty:
        cell = lowest_bit(empty)
        empty &= empty - 1
        other_cells, here = open_cells & ~(int64(1) << cell), int64(1) << cell
        without, having = int64(0), int64(0)  # the values that finish a line elsewhere if this cell lacks, or has, them
        for value in range(VALUES):
            mask = occupied_cells_with_value(lanes, occupied, value)
            without |= int64((int64(rules.completes[mask]) & other_cells) != 0) << value
            having |= int64((int64(rules.completes[mask | here]) & other_cells) != 0) << value
        gifts = available
        while gifts:
            gift = lowest_bit(gifts)
            gifts &= gifts - 1
            byte = without | (having & (gift | (~gift & 15) << 4))
            count = popcount(uint64(available & ~(int64(1) << gift) & SAFE_PIECES[byte]))
            count <<= uint64(8 * (gift & 7))
            low += count if gift < 8 else uint64(0)
            high += count if gift >= 8 else uint64(0)
    return low, high


@inline_function
def pack_fewest_replies_and_gift(counts: tuple[int, int], gifts: int) -> int:
    """Return the gift in the mask ``gifts`` to which there are the fewest replies, packed with their number.

    The result is ``(number << 8) + gift``. ``counts`` is what ``pack_safe_reply_counts`` returns.
    """
    least = int64(1 << 30)
    while gifts:
        gift = lowest_bit(gifts)
        gifts &= gifts - 1
        count = int64(((counts[0] if gift < 8 else counts[1]) >> uint64(8 * (gift & 7))) & uint64(255))
        least = min(least, count << 8 | gift)
    return least


@inline_function
def child_buffer(search: Any, pieces: int) -> Any:
    """Return the buffer of the child boards with ``pieces`` pieces: [CELLS, CHILD_FIELDS] uint64."""
    at = search.children + uint64(pieces * CELLS * CHILD_FIELDS * 8)
    return numba.carray(array_pointer(at), (CELLS, CHILD_FIELDS), np.uint64)


@inline_function
def fill_unsolved_children(
    lanes: int, occupied: int, available: int, piece: int, question: int, rules: Any, search: Any
) -> int:
    """Place ``piece``, which is not in ``available``, on every empty cell, and keep the boards that must be searched.

    The boards are written to their ``child_buffer``. Returns the number of boards, or -1 if one placement is already
    known to achieve what ``question`` asks for. Three kinds of boards are left out: boards without a safe gift, boards
    for which ``question`` is known to be answered with no and, early in the game, boards that equal another one up to
    symmetry.
    """
    pieces = int64(popcount(occupied)) + 1
    children, count, empty = child_buffer(search, pieces), int64(0), ~occupied & ALL_CELLS
    while empty:
        cell = lowest_bit(empty)
        empty &= empty - 1
        board, filled = place_piece(lanes, piece, cell), occupied | int64(1) << cell
        safe = available & SAFE_PIECES[danger_byte(board, filled, rules)]
        if safe == 0:
            continue
        if pieces <= TABLE_PIECES:
            children[count, KEY] = proof_key(board, filled, search)
            prefetch_table_or_base_bucket(children[count, KEY], pieces, search)
        children[count, LANES], children[count, SAFE] = board, uint64(safe)
        children[count, ORDER] = uint64(int64(popcount(safe)) << 8 | cell)
        count += 1
    return (
        count
        if pieces > TABLE_PIECES
        else compact_unsolved_children(children, count, occupied, available, question, rules, search)
    )


@inline_function
def compact_unsolved_children(
    children: Any, count: int, occupied: int, available: int, question: int, rules: Any, search: Any
) -> int:
    """Keep the children that must be searched, and write the number by which each of them is sorted.

    This number is smaller for a child with fewer replies: see ``bring_best_child_to``. ``count`` is the number of
    children before this call, and ``occupied`` is the mask of occupied cells of the parent. Returns the number of
    children kept, or -1 if one child is known to answer ``question`` with yes for the player who placed. See
    ``fill_unsolved_children``.
    """
    pieces, kept = int64(popcount(occupied)) + 1, int64(0)
    for i in range(count):
        board, safe, key, order = children[i]
        answer = recall_answer(key, pieces, question, search)
        if answer == 1:
            return -1
        repeated = False
        if pieces <= DISTINCT_PIECES:
            for j in range(kept):
                repeated |= children[j, KEY] == key
        if answer == 0 or repeated:
            continue
        cell = int64(order & uint64(255))
        counts = pack_safe_reply_counts(board, occupied | int64(1) << cell, available, rules)
        children[kept, LANES], children[kept, SAFE], children[kept, KEY] = board, safe, key
        children[kept, ORDER] = uint64(pack_fewest_replies_and_gift(counts, int64(safe)) >> 8 << 8 | cell)
        kept += 1
    return kept


@inline_function
def bring_best_child_to(children: Any, i: int, count: int) -> None:
    """Exchange child ``i`` with the one of children ``i`` to ``count - 1`` that should be searched first.

    That is the child with the smallest number in its field ``ORDER``.
    """
    best = i
    for j in range(i + 1, count):
        if children[j, ORDER] < children[best, ORDER]:
            best = j
    if best != i:
        for field in range(CHILD_FIELDS):
            children[i, field], children[best, field] = children[best, field], children[i, field]


@kernel(QUESTION_SIGNATURE)
def _can_placer_win_or_draw(
    lanes: int, occupied: int, available: int, hand: int, question: int, rules: Any, search: Any
) -> int:
    """Return 1 if the mover can win (if ``question`` is ``WIN``) or at least draw (if it is ``DRAW``), else 0.

    The piece in ``hand`` must not be able to win at once. The answer has no meaning once ``search.stopped`` is 1.
    """
    pieces = int64(popcount(occupied)) + 1
    search.nodes += 1
    if pieces > ENDGAME_PIECES:
        return can_placer_achieve_in_endgame(lanes, occupied, available, hand, question, rules)
    search.stopped |= numba.carray(array_pointer(search.stop), 1, np.int64)[0]
    count = fill_unsolved_children(lanes, occupied, available, hand, question, rules, search)
    children, answer, i = child_buffer(search, pieces), int64(count < 0), int64(0)
    while i < count and answer == 0 and search.stopped == 0:
        bring_best_child_to(children, i, count)
        board, safe, key, order = children[i]
        filled = occupied | int64(1) << int64(order & uint64(255))
        stored_answer = recall_answer(key, pieces, question, search) if i > 0 and pieces <= TABLE_PIECES else int64(-1)
        answer = max(stored_answer, 0)
        if pieces == ENDGAME_PIECES:
            search.nodes += 1
            answer = can_giver_achieve_with_six_cells(board, filled, available, int64(safe), question, rules)
        gifts = int64(safe) if stored_answer < 0 and pieces < ENDGAME_PIECES else int64(0)
        counts = uint64(0), uint64(0)
        if gifts and pieces <= TABLE_PIECES:
            counts = pack_safe_reply_counts(board, filled, available, rules)
        while gifts and answer == 0 and search.stopped == 0:
            gift = lowest_bit(gifts)
            if pieces <= TABLE_PIECES:
                gift = pack_fewest_replies_and_gift(counts, gifts) & 255
            gifts &= ~(int64(1) << gift)
            rest = available & ~(int64(1) << gift)
            answer = 1 - _can_placer_win_or_draw(board, filled, rest, gift, 1 - question, rules, search)
        if stored_answer < 0 and pieces <= TABLE_PIECES and search.stopped == 0:
            remember_answer(key, question, answer, search)
        i += 1
    return answer


can_placer_win_or_draw = to_kernel_called_by_address(_can_placer_win_or_draw)


@kernel(QUESTION_SIGNATURE)
def _can_giver_win_or_draw(
    lanes: int, occupied: int, available: int, safe: int, question: int, rules: Any, search: Any
) -> int:
    """Return 1 if the giver can win (if ``question`` is ``WIN``) or at least draw (if it is ``DRAW``), else 0.

    The giver gives one of the ``safe`` pieces, which are among the ``available`` pieces. The answer has no meaning once
    ``search.stopped`` is 1.
    """
    while safe:
        gift = lowest_bit(safe)
        safe &= safe - 1
        if (
            can_placer_win_or_draw(lanes, occupied, available & ~(int64(1) << gift), gift, 1 - question, rules, search)
            == 0
        ):
            return 1
    return 0


can_giver_win_or_draw = to_kernel_called_by_address(_can_giver_win_or_draw)


MOVER_TABLE_PIECES = 11  # boards with more have no key of one word

# (lanes, occupied, available, question, rules, search) -> 1 or 0
MOVER_QUESTION_SIGNATURE = types.int64(types.uint64, types.int64, types.int64, types.int64, RULES_TYPE, SEARCH_TYPE)


@inline_function
def can_win_at_once(lanes: int, occupied: int, available: int, rules: Any) -> bool:
    """Return whether some available piece finishes a line if it is placed next."""
    return bool((available & ~SAFE_PIECES[danger_byte(lanes, occupied, rules)]) != 0)


@kernel(MOVER_QUESTION_SIGNATURE)
def _can_mover_win_or_draw(lanes: int, occupied: int, available: int, question: int, rules: Any, search: Any) -> int:
    """Return 1 if the mover can win (if ``question`` is ``WIN``) or at least draw (if it is ``DRAW``), else 0.

    This is the function for rules by which the mover chooses the piece. The answer has no meaning once
    ``search.stopped`` is 1.
    """
    if available == 0:
        return int64(question == DRAW)
    if can_win_at_once(lanes, occupied, available, rules):
        return 1
    search.nodes += 1
    search.stopped |= numba.carray(array_pointer(search.stop), 1, np.int64)[0]
    pieces = int64(popcount(occupied)) + 1
    gifts, answer = available, int64(0)
    while gifts and answer == 0 and search.stopped == 0:
        piece = lowest_bit(gifts)
        gifts &= gifts - 1
        rest, empty = available & ~(int64(1) << piece), ~occupied & ALL_CELLS
        while empty and answer == 0 and search.stopped == 0:
            cell = lowest_bit(empty)
            empty &= empty - 1
            board, filled = place_piece(lanes, piece, cell), occupied | int64(1) << cell
            if can_win_at_once(board, filled, rest, rules):
                continue
            key = proof_key(board, filled, search) if pieces <= MOVER_TABLE_PIECES else uint64(0)
            stored_answer = (
                recall_answer(key, pieces, 1 - question, search) if pieces <= MOVER_TABLE_PIECES else int64(-1)
            )
            opponent_answer = (
                stored_answer
                if stored_answer >= 0
                else _can_mover_win_or_draw(board, filled, rest, 1 - question, rules, search)
            )
            if stored_answer < 0 and pieces <= MOVER_TABLE_PIECES and search.stopped == 0:
                remember_answer(key, 1 - question, opponent_answer, search)
            answer = 1 - opponent_answer
    return answer


can_mover_win_or_draw = to_kernel_called_by_address(_can_mover_win_or_draw)
