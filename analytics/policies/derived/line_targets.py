"""The chances that values of lines are fitted to: backed up from the next stages, or exact by the rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.learning.line_values import HEADS, NOT_LOST, WON, Weights, Work, judge_turns, work_memory
from analytics.derived_tables.exact_values import UNKNOWN
from analytics.policies.derived.line_boards import Boards
from analytics.policies.derived.line_fit import chance_of
from quarto.bits import spread
from quarto.jit import float64, inlined, int64, kernel, uint64
from quarto.rules import NONE
from quarto.solver.solver import Solver


@inlined
def chances_left(
    lanes: int, occupied: int, left: int, hand: int, words: NDArray[np.uint64], weights: Weights, work: Work
) -> tuple[float, float]:
    """The giver's chances not to lose and to win by the opponent's best turns with ``hand``, as ``weights`` value them.

    P(not lost) = 1 - the greatest P(won) of a turn, P(won) = 1 - the greatest P(not lost). Where every turn gives a win
    away both are 1; where the turn fills the board, the game is drawn.
    """
    if left == 0:
        return float64(1.0), float64(0.0)
    judge_turns(lanes, occupied, left, hand, words, weights, work)
    if work.gifts[0, 0] == NONE:
        return float64(1.0), float64(1.0)
    return 1.0 - chance_of(work.top[WON, 0]), 1.0 - chance_of(work.top[NOT_LOST, 0])


@kernel()
def back_up(
    boards: Boards, words: NDArray[np.uint64], weights: Weights, targets: NDArray[np.float64], span: tuple[int, int]
) -> None:
    """The chances of some boards by the best replies, as ``weights`` of the next stage value them."""
    work = work_memory(1)
    for i in range(span[0], span[1]):
        targets[i, NOT_LOST], targets[i, WON] = chances_left(
            boards.lanes[i], boards.occupied[i], boards.left[i], boards.gift[i], words, weights, work
        )


@inlined
def is_among(cell: int, gift: int, head: int, work: Work) -> bool:
    """Whether a turn is one of the best of a head."""
    found = False
    for k in range(work.top.shape[1]):
        found |= work.cells[head, k] == cell and work.gifts[head, k] == gift
    return found


@kernel()
def back_up_two(
    boards: Boards,
    words: NDArray[np.uint64],
    replies: Weights,
    turns: Weights,
    breadth: int,
    targets: NDArray[np.float64],
    span: tuple[int, int],
) -> None:
    """The same by two turns: the best replies, and the best turns after them.

    ``replies`` are the weights of the next stage, ``turns`` those of the stage after it. The ``breadth`` best replies
    of each head by ``replies`` are valued anew, by the best turns after them by ``turns``. All other replies are left
    out.
    """
    first, second = work_memory(breadth), work_memory(1)
    for i in range(span[0], span[1]):
        lanes, occupied, left, hand = boards.lanes[i], boards.occupied[i], boards.left[i], boards.gift[i]
        targets[i, NOT_LOST], targets[i, WON] = chances_left(lanes, occupied, left, hand, words, replies, first)
        if left == 0 or first.gifts[0, 0] == NONE:
            continue
        not_lost, won = float64(0.0), float64(0.0)  # of the best reply
        for head in range(HEADS):
            for k in range(breadth):
                cell, gift = first.cells[head, k], first.gifts[head, k]
                if gift == NONE or (head == WON and is_among(cell, gift, NOT_LOST, first)):
                    continue
                board, filled = lanes | spread(hand) << uint64(cell), occupied | int64(1) << cell
                rest = left & ~(int64(1) << gift)
                chances = chances_left(board, filled, rest, gift, words, turns, second)
                not_lost, won = max(not_lost, chances[NOT_LOST]), max(won, chances[WON])
        targets[i, NOT_LOST], targets[i, WON] = 1.0 - won, 1.0 - not_lost


def exact(boards: Boards, span: tuple[int, int], solver: Solver) -> NDArray[np.float64]:
    """The exact values of some boards as chances of 0 or 1, [N, HEADS]. Boards that have a value are not searched."""
    values = boards.value[slice(*span)].astype(np.int8)
    missing = np.flatnonzero(values == UNKNOWN)
    rows = missing + span[0]
    occupied, hands = boards.occupied[rows].astype(np.uint16), boards.gift[rows].astype(np.int8)
    values[missing] = -solver.values(boards.lanes[rows], occupied, hands)
    return np.stack([values >= 0, values > 0], axis=-1).astype(np.float64)
