"""The distance to the forced end of a decided game, found by allowing one placement more until the answer is yes.

The unit is again a board before a gift. The receiver places next, so the giver forces a win within an even number of
placements and is lost within an odd one. Where the mover chooses the piece, it is the other way round. There the mover
wins within an odd number and is lost within an even one.
"""

from __future__ import annotations

from typing import Any

from numba import types

from quarto.bits import lowest_bit, popcount
from quarto.jit import inline_function, int64, kernel, to_kernel_called_by_address, uint64
from quarto.position import ALL_CELLS, place_piece
from quarto.solver.search import can_giver_win_or_draw, can_mover_win_or_draw, can_win_at_once
from quarto.solver.table import BUCKET_WORDS, DRAW, RULES_TYPE, SEARCH_TYPE, WIN, find_bucket, proof_key
from quarto.threats import SAFE_PIECES, danger_byte

TABLE_PIECES = 8  # boards with more have keys that leave no room for four bounds
VALUED_PIECES = 10  # up to here the value is found first, because an undecided game is forced within no number
BOUND_BITS = 16  # for each of two kinds of question: the least number of steps that is enough, the greatest that is not
KEY_SHIFT = 12  # with the four bits that every key leaves free, room for the bounds

# (lanes, occupied, available, placements, rules, search) -> 1 or 0
WITHIN_SIGNATURE = types.int64(types.uint64, types.int64, types.int64, types.int64, RULES_TYPE, SEARCH_TYPE)


@inline_function
def recall_outcome_within(key: int, placements: int, search: Any) -> int:
    """Return whether the game is known to end by force within ``placements`` placements: 1 yes, 0 no, -1 unknown.

    ``key`` is the ``proof_key`` of the board, shifted by ``KEY_SHIFT``. Whether the forced end is a win or a loss
    depends on whether ``placements`` is even or odd: see ``_giver_wins_or_loses_within`` and
    ``_mover_wins_or_loses_within``.
    """
    bucket, step = find_bucket(key, search.distances, search.distances_shift), (placements + 1) >> 1
    for i in range(BUCKET_WORDS):
        bounds = bucket[i] ^ key
        if bounds < uint64(1 << BOUND_BITS):
            byte = int64(bounds >> uint64(8 * (placements & 1)))
            enough, too_few = byte & 15, (byte >> 4) & 15
            if enough != 0 and step >= enough:
                return 1
            return 0 if step <= too_few else -1
    return -1


@inline_function
def remember_outcome_within(key: int, placements: int, answer: int, search: Any) -> None:
    """Store whether ``placements`` placements are enough for a forced end (``answer`` 1) or too few (0).

    The table keeps, for each board, the smallest number known to be enough and the largest known to be too few. If the
    bucket is full, the numbers of another board in it are overwritten.
    """
    bucket, step = find_bucket(key, search.distances, search.distances_shift), (placements + 1) >> 1
    at = uint64(8 * (placements & 1) + 4 * (1 - answer))
    slot = int64((key >> uint64(BOUND_BITS)) & uint64(BUCKET_WORDS - 1))
    for i in range(BUCKET_WORDS):
        word = bucket[i]
        if (word ^ key) < uint64(1 << BOUND_BITS):
            bound = int64((word >> at) & uint64(15))
            better = min(bound, step) if answer and bound else max(bound, step)
            bucket[i] = (word & ~(uint64(15) << at)) | uint64(better) << at
            return
        if word == uint64(0):
            slot = i
    bucket[slot] = key | uint64(step) << at


@kernel(WITHIN_SIGNATURE)
def _giver_wins_or_loses_within(
    lanes: int, occupied: int, available: int, placements: int, rules: Any, search: Any
) -> int:
    """Return 1 if the game ends by force within ``placements`` placements, else 0.

    If ``placements`` is even, the forced end is a win of the player who gives next. If it is odd, it is a win of that
    player's opponent. The answer has no meaning once ``search.stopped`` is 1.
    """
    losing = placements & 1
    safe = available & SAFE_PIECES[danger_byte(lanes, occupied, rules)]
    if available == 0 or safe == 0:
        return int64(available != 0) & losing
    if placements < 2:
        return 0
    pieces = int64(popcount(occupied))
    key = proof_key(lanes, occupied, search) << uint64(KEY_SHIFT) if pieces <= TABLE_PIECES else uint64(0)
    stored_answer = recall_outcome_within(key, placements, search) if pieces <= TABLE_PIECES else int64(-1)
    if stored_answer >= 0:
        return stored_answer
    if pieces <= VALUED_PIECES:
        question = DRAW if losing else WIN
        if can_giver_win_or_draw(lanes, occupied, available, safe, question, rules, search) == losing:
            return 0
    answer = losing
    while safe and answer == losing:
        gift = lowest_bit(safe)
        safe &= safe - 1
        rest, empty, decided = available & ~(int64(1) << gift), ~occupied & ALL_CELLS, False
        while empty and not decided:  # a cell that saves the opponent from a win, or that wins for them
            cell = lowest_bit(empty)
            empty &= empty - 1
            board, filled = place_piece(lanes, gift, cell), occupied | int64(1) << cell
            decided = _giver_wins_or_loses_within(board, filled, rest, placements - 1, rules, search) == losing
        if not decided:
            answer = 1 - losing
    if pieces <= TABLE_PIECES and search.stopped == 0:
        remember_outcome_within(key, placements, answer, search)
    return answer


giver_wins_or_loses_within = to_kernel_called_by_address(_giver_wins_or_loses_within)


@kernel(WITHIN_SIGNATURE)
def _mover_wins_or_loses_within(
    lanes: int, occupied: int, available: int, placements: int, rules: Any, search: Any
) -> int:
    """Return 1 if the game ends by force within ``placements`` placements, else 0.

    This is the function for rules by which the mover chooses the piece. If ``placements`` is odd, the forced end is a
    win of the mover. If it is even, it is a win of the opponent. The answer has no meaning once ``search.stopped`` is
    1.
    """
    winning = placements & 1
    if available == 0:
        return 0
    if can_win_at_once(lanes, occupied, available, rules):
        return winning
    if placements < 2:
        return 0
    pieces = int64(popcount(occupied))
    key = proof_key(lanes, occupied, search) << uint64(KEY_SHIFT) if pieces <= TABLE_PIECES else uint64(0)
    stored_answer = recall_outcome_within(key, placements, search) if pieces <= TABLE_PIECES else int64(-1)
    if stored_answer >= 0:
        return stored_answer
    if pieces <= VALUED_PIECES:
        question = WIN if winning else DRAW
        if can_mover_win_or_draw(lanes, occupied, available, question, rules, search) != winning:
            return 0
    answer, gifts = 1 - winning, available
    while gifts and answer != winning:
        piece = lowest_bit(gifts)
        gifts &= gifts - 1
        rest, empty = available & ~(int64(1) << piece), ~occupied & ALL_CELLS
        while empty and answer != winning:
            cell = lowest_bit(empty)
            empty &= empty - 1
            board, filled = place_piece(lanes, piece, cell), occupied | int64(1) << cell
            if _mover_wins_or_loses_within(board, filled, rest, placements - 1, rules, search) == winning:
                answer = winning
    if pieces <= TABLE_PIECES and search.stopped == 0:
        remember_outcome_within(key, placements, answer, search)
    return answer


mover_wins_or_loses_within = to_kernel_called_by_address(_mover_wins_or_loses_within)
