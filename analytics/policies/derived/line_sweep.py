"""One backward sweep over the numbers of pieces: each stage is fitted to what the best replies leave of the next."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_values import HEADS, Weights
from analytics.policies.derived.dataset import GameSource
from analytics.policies.derived.line_boards import Boards, ChosenGames, boards_of, chosen_games
from analytics.policies.derived.line_fit import Examples, Fit, fresh, learn, rounded, write_features
from analytics.policies.derived.line_targets import back_up, exact, write
from quarto.rules import CELLS
from quarto.solver.solver import Solver

BLOCK = 1000  # boards that a thread takes at a time
MEGABYTES = 256.0  # of the table of solved boards
EARLY, EARLY_SHARE = 5, 5  # with up to so many pieces, where boards are few, a fifth of the boards are enough
LAST_PASSES, LAST_RATE = 2, 0.3  # the last passes take smaller steps

CURVE = {
    **dict.fromkeys(("pieces", "pass", "boards"), pl.Int64()),
    **dict.fromkeys(("not_lost", "won", "held_out_not_lost", "held_out_won"), pl.Float64()),
}
Stages = dict[int, NDArray[np.float64]]  # the weights of both heads by number of pieces


class Plan(NamedTuple):
    """The parameters of a sweep: see ``conf/kind/line_values.yaml``."""

    exact_from: int
    boards: int
    passes: int
    rate: float
    seed: int
    judged: bool = False  # learn the exact values of annotated gifts, and of no other boards

    def rate_of(self, number: int) -> float:
        """The step size of a pass, from 0."""
        return self.rate * (LAST_RATE if number >= max(self.passes - LAST_PASSES, 1) else 1.0)

    def boards_of(self, stage: int) -> int:
        """The number of boards to learn from, at most."""
        return max(self.boards // EARLY_SHARE, 1) if stage <= EARLY else self.boards


class Sweep:
    """A sweep in progress."""

    def __init__(self, dataset: GameSource, words: NDArray[np.uint64], units: int, plan: Plan, threads: int) -> None:
        self._plan, self._words, self._units, self._threads = plan, words, units, threads
        self._rules = dataset.rules.tables
        games = chosen_games(dataset, plan.seed, plan.judged)
        self._learned, self._held_out = games.part(held_out=False), games.part(held_out=True)
        self._solver = Solver(dataset.rules, MEGABYTES)
        self._stages: Stages = {}
        self._curve: list[tuple[float | None, ...]] = []

    def run(self) -> tuple[Stages, pl.DataFrame]:
        """The weights of each stage that has boards, and the errors after each pass."""
        for stage in range(CELLS - 1, 0, -1):
            boards = self._boards(self._learned, stage, self._plan.boards_of(stage))
            if len(boards.lanes):
                held_out = self._boards(self._held_out, stage, self._plan.boards_of(stage) // 8)
                self._stages[stage] = self._fitted(
                    stage, self._examples(boards, stage), self._examples(held_out, stage)
                )
        return self._stages, pl.DataFrame(self._curve, schema=CURVE, orient="row")

    def _boards(self, games: ChosenGames, stage: int, most: int) -> Boards:
        return boards_of(games, stage, most, self._rules)

    def _examples(self, boards: Boards, stage: int) -> Examples:
        """The features of boards and the chances to learn."""
        examples = Examples.empty(len(boards.lanes), self._words)
        following = self._stages.get(stage + 1)

        def fill(span: tuple[int, int], solver: Solver) -> None:
            write_features(boards, self._words, examples, span)
            if self._plan.judged:
                write(boards.value[slice(*span)], examples.targets[slice(*span)])
            elif following is None or stage >= self._plan.exact_from:
                exact(boards, examples.targets, span, solver)
            else:
                back_up(boards, self._words, Weights(following, 0, HEADS, self._units), examples.targets, span)

        self._over_blocks(len(boards.lanes), fill)
        return examples

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


def error_of(examples: Examples, fit: Fit) -> NDArray[np.float64]:
    """The mean squared error of each head (Brier's score); NaN without examples."""
    squared = np.zeros(HEADS)
    learn(examples, 0.0, fit, squared)
    with np.errstate(invalid="ignore"):
        return squared / np.float64(len(examples.counts))
