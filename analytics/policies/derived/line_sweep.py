"""One backward sweep over the numbers of pieces: each stage is fitted to the best replies by the next stage.

Or the chances to fit are the exact values. Games are read in the order of a hash of run and id. So the boards, and the
order in which they are learned from, depend on the chosen games alone. Half of the boards are as they were logged. In
the other half the last turn is drawn again, because the logged players seldom make the turns of a better one.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_features import (
    BOARD,
    MOST_FEATURES,
    features_of,
    read_lines,
    survey,
)
from agents.line_values import (
    ALL_TURNS,
    HEADS,
    NOT_LOST,
    WON,
    Weights,
    Work,
    judge_turns,
    work_memory,
)
from agents.random import random_cell, random_piece
from analytics.derived_tables.exact_values import UNKNOWN
from analytics.perfect.tablebase import base_for
from analytics.policies.derived.dataset import GameSource
from analytics.policies.derived.line_fit import (
    CURVE,
    Examples,
    LearningPlan,
    StageFit,
    Stages,
    chance_of,
    fresh,
    learn,
    rounded,
)
from analytics.store.blocks import games_at
from quarto.batch import Games
from quarto.bits import spread
from quarto.jit import float64, inlined, int64, kernel, uint64
from quarto.position import ALL_CELLS, ALL_PIECES
from quarto.rng import GAMMA, draw, mix, run_word
from quarto.rules import CELLS, NONE, PIECES
from quarto.solver.solver import Solver
from quarto.threats import safe_pieces, winning_cells

MOST_GAMES = 1 << 20  # that boards are taken from
LARGEST_WORD = 2.0**64 - 2.0**11  # as a float64
ONE_IN = 16  # games is not learned from, but measures the error


class Boards(NamedTuple):
    """``N`` afterstates of one stage whose gift finishes no line."""

    lanes: NDArray[np.uint64]  # [N]
    occupied: NDArray[np.int64]  # [N]
    left: NDArray[np.int64]  # [N] pieces neither on the board nor given
    gift: NDArray[np.int64]  # [N]
    value: NDArray[np.int64]  # [N] for the giver: 1 won, 0 drawn, -1 lost, UNKNOWN

    @staticmethod
    def empty(size: int) -> Boards:
        """``size`` uninitialised boards."""
        return Boards(np.empty(size, np.uint64), *(np.empty(size, np.int64) for _ in range(4)))

    def first(self, size: int) -> Boards:
        """The first ``size`` boards, as views."""
        lanes, *others = self
        return Boards(lanes[:size], *(field[:size] for field in others))

    def known(self) -> Boards:
        """The boards that have a value."""
        rows = np.flatnonzero(self.value != UNKNOWN)
        return Boards(self.lanes[rows], *(field[rows] for field in self[1:]))


class ChosenGames(NamedTuple):
    """Games in the order of their random words [G], ascending."""

    words: NDArray[np.uint64]
    games: Games
    values: NDArray[np.int8]  # [16, G] exact values of the gifts for their givers, or UNKNOWN; [16, 0]: not asked for

    def part(self, held_out: bool) -> ChosenGames:
        """The games that measure the error, or those that are learned from."""
        rows = np.flatnonzero((self.words % np.uint64(ONE_IN) == 0) == held_out)
        games = (np.ascontiguousarray(each[..., rows]) for each in self.games)
        values = np.ascontiguousarray(self.values[:, rows]) if self.values.size else self.values
        return ChosenGames(self.words[rows], Games(*games), values)


def chosen_games(dataset: GameSource, seed: int, judged: bool = False) -> ChosenGames:
    """About ``MOST_GAMES`` games at most, those with the least words: they depend on the dataset's games alone.

    With ``judged`` their gifts have exact values, where these are annotated.
    """
    limit = np.uint64(min(MOST_GAMES / dataset.size, 1.0) * LARGEST_WORD)
    words, parts, values = [], [], [np.zeros((PIECES, 0), np.int8)]
    for record, part in dataset.parts():
        drawn = words_of_games(run_word(record.run_id), part.game_id, seed)
        rows = np.flatnonzero(drawn <= limit)
        words.append(drawn[rows])
        parts.append(games_at(part.games, rows))
        if judged:
            values.append(dataset.gift_values(record.run_id, part)[:, rows])
    together = np.concatenate(words)
    order = np.argsort(together, kind="stable")
    games = (np.ascontiguousarray(np.concatenate(each, axis=-1)[..., order]) for each in zip(*parts, strict=True))
    worth = np.concatenate(values, axis=-1)
    return ChosenGames(together[order], Games(*games), np.ascontiguousarray(worth[:, order]) if judged else worth)


@kernel()
def words_of_games(run: int, game_id: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """A random word for each game of a run (its ``run_word``), the same whatever else was chosen: [G] uint64."""
    words = np.empty(game_id.shape[0], np.uint64)
    for i in range(game_id.shape[0]):
        words[i] = mix(mix(uint64(run) + uint64(seed) * GAMMA) ^ (uint64(game_id[i]) + GAMMA))
    return words


@kernel()
def board_of(games: Games, game: int, plies: int) -> tuple[int, int, int]:
    """The board of a logged game after some plies: its lanes, the cells occupied, and the pieces not placed."""
    lanes, occupied, left = uint64(0), int64(0), int64(ALL_PIECES)
    for ply in range(plies):
        piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
        left &= ~(int64(1) << piece)
        lanes |= spread(piece) << uint64(cell)
        occupied |= int64(1) << cell
    return lanes, occupied, left


@kernel()
def gather(
    games: Games, words: NDArray[np.uint64], values: NDArray[np.int8], stage: int, boards: Boards, rules: Any
) -> int:
    """Fill ``boards`` with afterstates of ``stage`` pieces from the games in their order; returns how many.

    From each game comes the board as it was logged, then one with another last turn. A placement is drawn again only if
    it could not finish a line, a gift from the safe ones. If ``values`` is [16, G], not [16, 0], logged boards have the
    values of their gifts.
    """
    count, size, judged = int64(0), boards.lanes.shape[0], values.shape[1] > 0
    for game in range(words.shape[0]):
        if games.plies[game] <= stage:
            continue
        lanes, occupied, left = board_of(games, game, stage - 1)
        piece = int64(games.pieces[stage - 1, game])
        left &= ~(int64(1) << piece)
        can_win = winning_cells(lanes, occupied, piece, rules) != 0
        for redrawn in range(2):
            cell, gift = int64(games.cells[stage - 1, game]), int64(games.pieces[stage, game])
            word = draw(words[game], stage)
            if redrawn:
                if can_win:
                    continue
                cell = random_cell(word, ~occupied & ALL_CELLS)
            board, filled = lanes | spread(piece) << uint64(cell), occupied | int64(1) << cell
            safe = left & safe_pieces(board, filled, rules)
            if redrawn and safe != 0:
                gift = random_piece(word, safe)
            if (safe >> gift) & 1 == 0:
                continue
            if count == size:
                return count
            boards.lanes[count], boards.occupied[count] = board, filled
            boards.left[count], boards.gift[count] = left & ~(int64(1) << gift), gift
            boards.value[count] = UNKNOWN
            if judged and not redrawn:
                boards.value[count] = int64(values[stage, game])
            count += 1
    return count


def boards_of(chosen: ChosenGames, stage: int, most: int, rules: np.void) -> Boards:
    """At most ``most`` afterstates with ``stage`` pieces."""
    boards = Boards.empty(most)
    return boards.first(gather(chosen.games, chosen.words, chosen.values, stage, boards, rules))


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
    judge_turns(lanes, occupied, left, hand, words, weights, work, ALL_TURNS)
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


BLOCK = 1000  # boards that a thread takes at a time
MEGABYTES = 256.0  # of the table of solved boards
MEASURED_FROM = 7  # pieces on boards held out from which the error is that against exact values, whatever was learned
SEARCHED_FROM = 6  # pieces on the board from which exact values are searched for with any rules: a millisecond a board


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


@kernel()
def write_features(boards: Boards, words: NDArray[np.uint64], examples: Examples, span: tuple[int, int]) -> None:
    """The features of some boards into ``examples``."""
    state, found = np.empty((2, BOARD), np.int64), np.empty(MOST_FEATURES, np.int64)
    for i in range(span[0], span[1]):
        occupied = boards.occupied[i]
        read_lines(boards.lanes[i], occupied, words, state[0])
        survey(occupied, words, state[0])
        count = features_of(occupied, boards.gift[i], boards.left[i], words, state[0], state[1], found)
        for k in range(count):
            examples.found[i, k] = found[k]
        examples.counts[i] = count
