"""Learning how logged games ended: one pass over the games in their order, each stage by one thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_features import ALL_DANGERS, BOARD, MOST_FEATURES, features_of, read_lines, survey
from agents.learning.line_values import HEADS, NOT_LOST, WON
from analytics.policies.derived.dataset import Dataset
from analytics.policies.derived.line_fit import Fit, chance_of, forward, fresh, learn_outputs, learn_row, rounded
from analytics.policies.derived.line_sweep import CURVE, Plan, Stages
from quarto.batch import Games
from quarto.jit import float64, int64, kernel, uint64
from quarto.lanes import spread
from quarto.position import ALL_PIECES
from quarto.rules import CELLS, NONE
from quarto.threats import SAFE_PIECES

BLOCK = 1 << 15  # games that all stages learn from before any learns from the next, so that they stay in the cache


@kernel()
def learn_games(
    games: Games,
    opening: NDArray[np.int8],
    span: tuple[int, int],
    stage: int,
    words: Any,
    rate: float,
    fit: Fit,
    sums: Any,
) -> int:
    """Learn one stage from some games, in their order; returns how many boards there were.

    A game counts if a player chose the gift and it finished no line at once: what a player does with such a gift says
    nothing about the board. The squared errors are added to ``sums`` [HEADS].
    """
    board, found, boards, rate32 = (
        np.empty((2, BOARD), np.int64),
        np.empty(MOST_FEATURES, np.int64),
        int64(0),
        np.float32(rate),
    )
    values, slopes = np.empty(HEADS + fit.units, np.float32), np.empty(max(fit.units, 1), np.float32)
    errors, targets = np.empty(HEADS, np.float32), np.empty(HEADS, np.float64)
    for game in range(span[0], span[1]):
        if games.plies[game] <= stage or opening[game] > stage:
            continue
        lanes, occupied, left = uint64(0), int64(0), int64(ALL_PIECES)
        for ply in range(stage):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            left &= ~(int64(1) << piece)
            lanes |= spread(piece) << uint64(cell)
            occupied |= int64(1) << cell
        gift = int64(games.pieces[stage, game])
        read_lines(lanes, occupied, words, board[0])
        survey(occupied, words, board[0])
        if (SAFE_PIECES[board[0, ALL_DANGERS]] >> gift) & 1 == 0:
            continue
        count = features_of(occupied, gift, left & ~(int64(1) << gift), words, board[0], board[1], found)
        winner = int64(games.winner[game])
        targets[NOT_LOST] = float64(int64(winner == NONE or winner == stage & 1))
        targets[WON] = float64(int64(winner == stage & 1))
        forward(found, count, fit, values)
        for head in range(HEADS):
            errors[head] = np.float32(targets[head] - chance_of(float64(values[head])))
            sums[head] += errors[head] * errors[head]
        mean = learn_outputs(errors, rate32, fit, values, slopes)
        for k in range(count):
            learn_row(found[k], errors, rate32, fit, slopes, mean)
        boards += 1
    return boards


def learn_from_outcomes(
    dataset: Dataset, words: NDArray[np.uint64], units: int, plan: Plan, threads: int
) -> tuple[Stages, pl.DataFrame]:
    """The weights of each stage that has boards, and its errors in each pass, before a board was learned from."""
    size, rows = len(dataset.game_id), list[tuple[float | None, ...]]()
    fits = {stage: fresh(words, units, plan.seed * CELLS + stage) for stage in range(1, CELLS)}
    with ThreadPoolExecutor(threads) as pool:
        for number in range(plan.passes):
            sums, counts = {stage: np.zeros(HEADS) for stage in fits}, dict.fromkeys(fits, 0)

            def learned(stage: int, first: int, rate: float = plan.rate_of(number), sums: Any = sums) -> int:
                span = first, min(first + BLOCK, size)
                return learn_games(dataset.games, dataset.opening, span, stage, words, rate, fits[stage], sums[stage])

            for first in range(0, size, BLOCK):
                for stage, count in zip(fits, pool.map(learned, fits, [first] * len(fits)), strict=True):
                    counts[stage] += count
            rows += [
                (stage, number + 1, counts[stage], *(sums[stage] / counts[stage]), None, None)
                for stage in reversed(fits)
                if counts[stage]
            ]
    known = {stage: rounded(fit) for stage, fit in fits.items() if counts[stage]}
    return known, pl.DataFrame(rows, schema=CURVE, orient="row")
