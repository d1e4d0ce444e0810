"""Learning from games in their order, pass by pass, each stage by one thread; and learning how the games ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_features import (
    BOARD,
    DANGERS,
    MOST_FEATURES,
    clear_lines,
    features_of,
    put_on_lines,
    survey,
)
from agents.learning.line_values import HEADS, NOT_LOST, WON
from analytics.policies.derived.dataset import GameSource
from analytics.policies.derived.line_fit import (
    StageFit,
    chance_of,
    forward,
    fresh,
    learn_outputs,
    learn_rows,
    rounded,
    step_memory,
)
from analytics.policies.derived.line_sweep import CURVE, LearningPlan, Stages
from analytics.store.blocks import RangeGames
from quarto.batch import Games
from quarto.jit import float64, int64, kernel
from quarto.position import ALL_PIECES
from quarto.rules import CELLS, NONE
from quarto.threats import SAFE_PIECES

BLOCK = 1 << 15  # games that all stages learn from before any learns from the next, so that they stay in the cache


@kernel()
def learn_games(
    games: Games,
    opening: NDArray[np.int8],
    stage: int,
    words: Any,
    rate: float,
    fit: StageFit,
    sums: Any,
) -> int:
    """Learn one stage from some games, in their order; returns how many boards there were.

    A game counts if a player chose the gift and it could finish no line at once. The answer to a gift that can finish a
    line says nothing about the board. The squared errors are added to ``sums`` [HEADS].
    """
    board, found = np.empty((2, BOARD), np.int64), np.empty(MOST_FEATURES, np.int64)
    values, slopes = np.empty(HEADS + fit.units, np.float32), np.empty(max(fit.units, 1), np.float32)
    boards, rate32, steps = int64(0), np.float32(rate), step_memory()
    errors, targets = np.empty(HEADS, np.float32), np.empty(HEADS, np.float64)
    for game in range(opening.shape[0]):
        if games.plies[game] <= stage or opening[game] > stage:
            continue
        occupied, left = int64(0), int64(ALL_PIECES)
        clear_lines(words, board[0])
        for ply in range(stage):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            left &= ~(int64(1) << piece)
            occupied |= int64(1) << cell
            put_on_lines(board[0], piece, cell, words)
        gift = int64(games.pieces[stage, game])
        survey(occupied, words, board[0])
        if (SAFE_PIECES[board[0, DANGERS]] >> gift) & 1 == 0:
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
        learn_rows(found, count, errors, rate32, fit, slopes, mean, steps)
        boards += 1
    return boards


class StageLearner(Protocol):
    """Learns one stage from a block of games."""

    def __call__(self, stage: int, rate: float, fit: StageFit, sums: NDArray[np.float64]) -> None:
        """``sums`` [2, 1 + HEADS] grows by the number of boards and their squared errors, learned and held out."""
        ...


def learn_in_passes(
    words: NDArray[np.uint64],
    units: int,
    plan: LearningPlan,
    blocks: Callable[[int], Iterator[StageLearner]],
    threads: int,
) -> tuple[Stages, pl.DataFrame]:
    """The weights of each stage that was met, and its mean errors in each pass, before anything was learned from.

    ``blocks`` gives the blocks of games of a pass, by its number from 0.
    """
    fits = {stage: fresh(words, units, plan.seed * CELLS + stage) for stage in range(1, CELLS)}
    rows, sums = list[tuple[float | None, ...]](), dict[int, NDArray[np.float64]]()
    with ThreadPoolExecutor(threads) as pool:
        for number in range(plan.passes):
            sums = {stage: np.zeros((2, 1 + HEADS)) for stage in fits}
            for learn in blocks(number):
                list(pool.map(learn, fits, repeat(plan.rate_of(number)), fits.values(), sums.values()))
            for stage in reversed(fits):
                means = [float(total / row[0]) if row[0] else None for row in sums[stage] for total in row[1:]]
                rows.append((stage, number + 1, int(sums[stage][0, 0]), *means))
    known = {stage: rounded(fit) for stage, fit in fits.items() if sums[stage][0, 0]}
    return known, pl.DataFrame([row for row in rows if row[2]], schema=CURVE, orient="row")


def learn_from_outcomes(
    dataset: GameSource, words: NDArray[np.uint64], units: int, plan: LearningPlan, threads: int
) -> tuple[Stages, pl.DataFrame]:
    """The weights by how the games ended, and the errors of each pass: see ``learn_in_passes``."""

    def blocks(_number: int) -> Iterator[StageLearner]:
        for _, part in dataset.parts():
            for first in range(0, len(part.game_id), BLOCK):
                block = part.part(slice(first, first + BLOCK))

                def learn(
                    stage: int, rate: float, fit: StageFit, sums: NDArray[np.float64], block: RangeGames = block
                ) -> None:
                    sums[0, 0] += learn_games(block.games, block.opening, stage, words, rate, fit, sums[0, 1:])

                yield learn

    return learn_in_passes(words, units, plan, blocks, threads)
