"""The chances that values of lines are fitted to: backed up from the next stage, or exact by the rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.learning.line_values import NOT_LOST, WON, Weights, judge_turns, work_memory
from analytics.policies.derived.line_boards import Boards
from analytics.policies.derived.line_fit import chance_of
from quarto.jit import kernel
from quarto.rules import NONE
from quarto.solver.solver import Solver


@kernel()
def back_up(
    boards: Boards, words: NDArray[np.uint64], weights: Weights, targets: NDArray[np.float64], span: tuple[int, int]
) -> None:
    """The chances of some boards by the best replies, as ``weights`` of the next stage value them.

    P(not lost) = 1 - the greatest P(won) of a reply, P(won) = 1 - the greatest P(not lost). Where every reply gives a
    win away both are 1; where the reply fills the board, the game is drawn.
    """
    work = work_memory()
    for i in range(span[0], span[1]):
        if boards.left[i] == 0:
            targets[i, NOT_LOST], targets[i, WON] = 1.0, 0.0
            continue
        judge_turns(boards.lanes[i], boards.occupied[i], boards.left[i], boards.gift[i], words, weights, work)
        if work.gifts[0] == NONE:
            targets[i, NOT_LOST] = targets[i, WON] = 1.0
            continue
        targets[i, NOT_LOST] = 1.0 - chance_of(work.top[WON])
        targets[i, WON] = 1.0 - chance_of(work.top[NOT_LOST])


def exact(boards: Boards, targets: NDArray[np.float64], span: tuple[int, int], solver: Solver) -> None:
    """The exact values of some boards, as chances of 0 or 1."""
    rows = slice(*span)
    occupied, gift = boards.occupied[rows].astype(np.uint16), boards.gift[rows].astype(np.int8)
    write(-solver.values(boards.lanes[rows], occupied, gift), targets[rows])


def write(values: NDArray[np.integer], targets: NDArray[np.float64]) -> None:
    """Exact values [N] for the giver as the chances [N, HEADS] not to lose and to win."""
    targets[:, NOT_LOST], targets[:, WON] = values >= 0, values > 0
