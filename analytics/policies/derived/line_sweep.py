"""One backward sweep over the numbers of pieces: each stage is fitted to the best replies by the next stage."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_values import HEADS, Weights
from analytics.perfect.tablebase import base_for
from analytics.policies.derived.dataset import GameSource
from analytics.policies.derived.line_boards import Boards, ChosenGames, boards_of, chosen_games
from analytics.policies.derived.line_fit import Examples, StageFit, fresh, learn, rounded, write_features
from analytics.policies.derived.line_targets import back_up, back_up_two, exact
from quarto.rules import CELLS
from quarto.solver.solver import Solver

BLOCK = 1000  # boards that a thread takes at a time
MEGABYTES = 256.0  # of the table of solved boards
MEASURED_FROM = 7  # pieces on boards held out from which the error is that against exact values, whatever was learned
SEARCHED_FROM = 6  # pieces on the board from which exact values are searched for with any rules: a millisecond a board
EARLY, EARLY_SHARE = 5, 5  # with up to so many pieces, where boards are few, a fifth of the boards are enough
LAST_PASSES, LAST_RATE = 2, 0.3  # the last passes take smaller steps

CURVE = {
    **dict.fromkeys(("pieces", "pass", "boards"), pl.Int64()),
    **dict.fromkeys(("not_lost", "won", "held_out_not_lost", "held_out_won"), pl.Float64()),
}
Stages = dict[int, NDArray[np.float64]]  # the weights of both heads by number of pieces


class LearningPlan(NamedTuple):
    """The parameters of a sweep: see ``conf/kind/line_values.yaml``."""

    exact_from: int
    solved_from: int
    boards: int
    passes: int
    rate: float
    seed: int
    breadth: int = 0
    deep: tuple[int, int] = (1, 0)  # pieces on the boards whose best replies are looked at a turn deeper
    judged: bool = False  # learn exact values alone

    def rate_of(self, number: int) -> float:
        """The step size of a pass, from 0."""
        return self.rate * (LAST_RATE if number >= max(self.passes - LAST_PASSES, 1) else 1.0)

    def boards_of(self, stage: int) -> int:
        """The number of boards to learn from, at most."""
        return max(self.boards // EARLY_SHARE, 1) if stage <= EARLY else self.boards


class Sweep:
    """A sweep in progress."""

    def __init__(
        self, dataset: GameSource, words: NDArray[np.uint64], units: int, plan: LearningPlan, threads: int
    ) -> None:
        self._plan, self._words, self._units, self._threads = plan, words, units, threads
        self._rules = dataset.rules.tables
        games = chosen_games(dataset, plan.seed, plan.judged)
        self._learned, self._held_out = games.part(held_out=False), games.part(held_out=True)
        self._solver = Solver(dataset.rules, MEGABYTES, base_for(dataset.rules) if plan.judged else None)
        self._stages: Stages = {}
        self._curve: list[tuple[float | None, ...]] = []

    def run(self) -> tuple[Stages, pl.DataFrame]:
        """The weights of each stage that has boards, and the errors after each pass."""
        for stage in range(CELLS - 1, 0, -1):
            boards = self._boards(self._learned, stage, self._plan.boards_of(stage))
            if len(boards.lanes):
                held_out = self._boards(self._held_out, stage, self._plan.boards_of(stage) // 8)
                self._stages[stage] = self._fitted(
                    stage, self.examples(boards, stage), self.examples(held_out, stage, measured=True)
                )
        return self._stages, pl.DataFrame(self._curve, schema=CURVE, orient="row")

    def _boards(self, games: ChosenGames, stage: int, most: int) -> Boards:
        boards = boards_of(games, stage, most, self._rules)
        base = self._solver.base
        searched = stage >= SEARCHED_FROM or (base is not None and stage < base.pieces)
        return boards if searched or not self._plan.judged else boards.known()

    def examples(self, boards: Boards, stage: int, measured: bool = False) -> Examples:
        """The features of boards and the chances to learn, or to measure the error against."""
        examples, plan = Examples.empty(len(boards.lanes), self._words), self._plan
        alone = plan.judged or stage >= plan.exact_from or stage + 1 not in self._stages
        alone |= measured and stage >= MEASURED_FROM

        def fill(span: tuple[int, int], solver: Solver) -> None:
            write_features(boards, self._words, examples, span)
            rows = examples.targets[slice(*span)]
            if alone:
                rows[:] = exact(boards, span, solver)
                return
            self._back_up(boards, stage, examples.targets, span)
            if stage >= plan.solved_from:
                rows[:] = (rows + exact(boards, span, solver)) / 2

        self._over_blocks(len(boards.lanes), fill)
        return examples

    def _back_up(self, boards: Boards, stage: int, targets: NDArray[np.float64], span: tuple[int, int]) -> None:
        """The chances by the best replies, of chosen stages by the best turns after them too."""
        (first, last), breadth = self._plan.deep, self._plan.breadth
        replies = self._weights(stage + 1)
        if breadth and first <= stage <= last and stage + 2 in self._stages:
            back_up_two(boards, self._words, replies, self._weights(stage + 2), breadth, targets, span)
        else:
            back_up(boards, self._words, replies, targets, span)

    def _weights(self, stage: int) -> Weights:
        return Weights(self._stages[stage], 0, HEADS, self._units)

    def _fitted(self, stage: int, examples: Examples, held_out: Examples) -> NDArray[np.float64]:
        """The weights of a stage; its errors are added to the curve."""
        fit, squared = fresh(self._words, self._units, self._plan.seed * CELLS + stage), np.zeros(HEADS)
        size = len(examples.counts)
        for number in range(self._plan.passes):
            learn(examples, self._plan.rate_of(number), fit, squared)
            errors = (*(squared / size).tolist(), *error_of(held_out, fit).tolist())
            self._curve.append((stage, number + 1, size, *errors))
        return rounded(fit)

    def _over_blocks(self, size: int, do: Callable[[tuple[int, int], Solver], None]) -> None:
        """``do(span, solver)`` of blocks of boards on all threads, each of which has a solver of its own."""
        spans = queue.SimpleQueue[tuple[int, int]]()
        for first in range(0, size, BLOCK):
            spans.put((first, min(first + BLOCK, size)))

        def work(solver: Solver) -> None:
            while True:
                try:
                    span = spans.get_nowait()
                except queue.Empty:
                    return
                do(span, solver)

        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(work, [self._solver.fork() for _ in range(self._threads)]))


def error_of(examples: Examples, fit: StageFit) -> NDArray[np.float64]:
    """The mean squared error of each head (Brier's score); NaN without examples."""
    squared = np.zeros(HEADS)
    learn(examples, 0.0, fit, squared)
    with np.errstate(invalid="ignore"):
        return squared / np.float64(len(examples.counts))
