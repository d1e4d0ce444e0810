"""One backward sweep over the stages: each stage is fitted to exact values, or to the best replies after it.

A stage is a number of pieces on the board. Games are read in the order of a hash of run and id, so the boards and the
order in which they are learned depend only on which games are read. Some boards are as they were logged. In the
remaining boards, the last turns are replaced with random ones, because the logged players seldom make the turns of a
better player. Boards whose replies show how the game ends are left out.

Each stage is learned by a single thread, so there are no races. Meanwhile, other threads prepare the next stages.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_boards import BOARD, STAGE_SIZE, fill_board_survey, fill_line_states
from agents.learning.line_features import MAX_FEATURES, fill_features_returning_count_or_outcome
from agents.line_values import (
    HEADS,
    MAX_UNITS,
    Weights,
    all_candidate_cells_and_pieces,
    allocate_work_memory,
    count_hidden_units,
    fill_best_safe_turns,
)
from agents.random import random_cell, random_piece
from analytics.policies.kinds.dataset import GameSource
from analytics.policies.kinds.line_fit import (
    CURVE_SCHEMA,
    Examples,
    LearningPlan,
    StageFit,
    Stages,
    build_stage_fit,
    learn_examples,
    round_weights_and_zero_unseen,
)
from analytics.store.game_tables import select_games
from analytics.store.records import run_id_to_stream_key
from quarto.batch import Games
from quarto.bits import piece_to_lanes, popcount
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS, ALL_PIECES
from quarto.rng import GAMMA, draw, mix
from quarto.rules import CELLS, NONE
from quarto.solver.solver import Solver
from quarto.threats import safe_pieces, winning_cells

MAX_GAMES = 1 << 20  # games that boards are taken from, at most
MAX_WORD = 2.0**64 - 2.0**11  # as a float64
HELD_OUT_ONE_IN = 16  # one game in so many measures the error and is not learned from


class StagePlan(NamedTuple):
    """The plan for learning one stage, that is, all afterstates with the same number of pieces on the board."""

    games: int  # at most so many games, whose boards are learned from
    turns: tuple[int, int] = (1, 2)  # second-last turns, and last turns after each; the first is as logged
    units: int = 0
    passes: int = 5
    exact_share: float = 0.0  # the share of the exact value; the rest is what the best reply leaves


PLANS = {  # by number of pieces; from 11 on, replies always show how a game ends
    10: StagePlan(700_000, (3, 6), MAX_UNITS, 2, exact_share=1.0),
    9: StagePlan(900_000, (1, 7), MAX_UNITS, 2, exact_share=1.0),
    8: StagePlan(400_000, (1, 5), MAX_UNITS, 2, exact_share=1.0),
    7: StagePlan(50_000, (1, 3), 96, 4, exact_share=0.5),
    **{stage: StagePlan(15_000) for stage in range(6, 0, -1)},
}
MIN_FOR_UNITS = 50_000  # games: with fewer, a hidden layer learns the boards by heart


def build_stage_plans(games: int, passes: int | None) -> dict[int, StagePlan]:
    """Build the plan of each stage; ``passes``, if given, replaces the number of passes in every plan.

    Each plan uses at most ``games`` games, and has no hidden units if there are fewer than ``MIN_FOR_UNITS`` games.
    """
    return {
        stage: plan._replace(
            games=min(plan.games, games),
            passes=passes or plan.passes,
            units=plan.units if games >= MIN_FOR_UNITS else 0,
        )
        for stage, plan in PLANS.items()
    }


class StageBoards(NamedTuple):
    """``N`` afterstates with the same number of pieces on the board.

    In none of them can the gift finish a line at once.
    """

    lanes: NDArray[np.uint64]  # [N]
    occupied: NDArray[np.int64]  # [N]
    available: NDArray[np.int64]  # [N] pieces neither on the board nor given
    gift: NDArray[np.int64]  # [N]

    @staticmethod
    def empty(size: int) -> StageBoards:
        """Allocate ``size`` uninitialised boards."""
        return StageBoards(np.empty(size, np.uint64), *(np.empty(size, np.int64) for _ in range(3)))

    def copy_first(self, size: int) -> StageBoards:
        """Return copies of the first ``size`` boards."""
        lanes, *fields = self
        return StageBoards(lanes[:size].copy(), *(field[:size].copy() for field in fields))


def is_held_out(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return, for each game, whether it is held out to measure the error; the game's random word decides this."""
    held_out: NDArray[np.bool_] = words % np.uint64(HELD_OUT_ONE_IN) == 0
    return held_out


class GameSample(NamedTuple):
    """Games with their random words [G], sorted by word."""

    words: NDArray[np.uint64]
    games: Games

    def select_games(self, held_out: bool) -> GameSample:
        """Select the held-out games if ``held_out`` is set, and otherwise the games to learn from.

        The error is measured with the held-out games.
        """
        rows = np.flatnonzero(is_held_out(self.words) == held_out)
        return GameSample(self.words[rows], Games(*(np.ascontiguousarray(column[..., rows]) for column in self.games)))


def sample_games(dataset: GameSource, seed: int) -> GameSample:
    """Return a random sample of games, sorted by random word; the sample has at most about ``MAX_GAMES`` games."""
    limit = np.uint64(min(MAX_GAMES / dataset.size, 1.0) * MAX_WORD)
    words, parts = [], []
    for record, part in dataset.read_blocks():
        drawn = compute_game_words(run_id_to_stream_key(record.run_id), part.game_id, seed)
        rows = np.flatnonzero(drawn <= limit)
        words.append(drawn[rows])
        parts.append(select_games(part.games, rows))
    together = np.concatenate(words)
    order = np.argsort(together, kind="stable")
    games = (np.ascontiguousarray(np.concatenate(columns, axis=-1)[..., order]) for columns in zip(*parts, strict=True))
    return GameSample(together[order], Games(*games))


@kernel()
def compute_game_words(run_key: int, game_id: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Compute a random word for each game of a run, [G] uint64, from the run, the game's id and ``seed`` alone.

    ``run_key`` is the number that ``run_id_to_stream_key`` returns for the run.
    """
    words = np.empty(game_id.shape[0], np.uint64)
    for i in range(game_id.shape[0]):
        words[i] = mix(mix(uint64(run_key) + uint64(seed) * GAMMA) ^ (uint64(game_id[i]) + GAMMA))
    return words


class ReplayedBoard(NamedTuple):
    """The board of a logged game after some plies."""

    lanes: int
    occupied: int
    available: int  # pieces not placed


@kernel()
def replay_placements(games: Games, game: int, plies: int) -> ReplayedBoard:
    """Replay the placements of the first ``plies`` plies of the game with index ``game``, and return the board."""
    lanes, occupied, available = uint64(0), int64(0), int64(ALL_PIECES)
    for ply in range(plies):
        piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
        available &= ~(int64(1) << piece)
        lanes |= piece_to_lanes(piece) << uint64(cell)
        occupied |= int64(1) << cell
    return ReplayedBoard(lanes, occupied, available)


class SampledTurn(NamedTuple):
    """A random turn: a cell, and a safe gift or NONE."""

    cell: int
    gift: int  # NONE if the piece can finish a line, or no gift is safe


@inline_function
def sample_cell_and_safe_gift(
    lanes: int, occupied: int, available: int, piece: int, word: int, rules: Any
) -> SampledTurn:
    """Draw a random cell for ``piece``, and a random gift that is safe after this placement.

    Both follow from the random word ``word``. The gift is NONE if no gift is safe, or if there is a cell on which
    ``piece`` finishes a line.
    """
    cell, gift = random_cell(word, ~occupied & ALL_CELLS), int64(NONE)
    safe = available & safe_pieces(lanes | piece_to_lanes(piece) << uint64(cell), occupied | int64(1) << cell, rules)
    if safe != 0 and winning_cells(lanes, occupied, piece, rules) == 0:
        gift = random_piece(word, safe)
    return SampledTurn(cell, gift)


SECOND_LAST_DRAWS = 512  # the first of the random words for second-last turns; those before are for last turns


@kernel()
def fill_stage_boards(
    chosen: GameSample, span: tuple[int, int], stage: int, turns: tuple[int, int], boards: StageBoards, rules: Any
) -> int:
    """Fill ``boards`` with afterstates that have ``stage`` pieces on the board; return the number of afterstates.

    They come from the games with the indices ``span[0]`` up to but not including ``span[1]``. Some are logged boards;
    in the others, the last turn or the last two turns are replaced with random ones (see
    ``sample_cell_and_safe_gift``). ``turns`` says how many second-last turns each game gets, and how many last turns
    follow each of them (see ``StagePlan``). The first second-last turn is the logged one, and the first last turn after
    it is the logged one, too; all others are random.

    The logged boards of all games come first, then the boards with only the last turn replaced, then those with both.
    """
    count = int64(0)
    for number in range(turns[0] * turns[1]):
        second_last, early = number // turns[1], max(stage - 2, 0)
        for game in range(span[0], span[1]):
            if chosen.games.plies[game] <= stage or (second_last > 0 and stage < 2):
                continue
            lanes, occupied, available = replay_placements(chosen.games, game, early)
            word, piece = mix(chosen.words[game] + uint64(stage)), int64(chosen.games.pieces[early, game])
            available &= ~(int64(1) << piece)
            for ply in range(early, stage):
                cell, gift = int64(chosen.games.cells[ply, game]), int64(chosen.games.pieces[ply + 1, game])
                again = number % turns[1] if ply == stage - 1 else second_last
                if again > 0 or (ply == stage - 1 and second_last > 0):
                    index = number if ply == stage - 1 else SECOND_LAST_DRAWS + second_last
                    cell, gift = sample_cell_and_safe_gift(lanes, occupied, available, piece, draw(word, index), rules)
                    if gift == NONE:
                        break
                lanes |= piece_to_lanes(piece) << uint64(cell)
                occupied |= int64(1) << cell
                available &= ~(int64(1) << gift)
                piece = gift
            if int64(popcount(occupied)) < stage or (safe_pieces(lanes, occupied, rules) >> piece) & 1 == 0:
                continue
            boards.lanes[count], boards.occupied[count] = lanes, occupied
            boards.available[count], boards.gift[count] = available, piece
            count += 1
    return count


@kernel()
def compact_undecided_boards_and_extract_features(
    boards: StageBoards, count: int, feature_words: Any, feature_numbers: NDArray[np.int32], begins: NDArray[np.int64]
) -> int:
    """Keep those of the first ``count`` boards that are undecided, and extract their features; return how many remain.

    A board is decided if its replies already show how the game ends. The kept boards move to the beginning of
    ``boards``, and their features are written to ``feature_numbers`` and ``begins``, in the form of ``Examples``.
    """
    state, board_features = np.empty((4, BOARD), np.int64), np.empty(MAX_FEATURES, np.int64)
    kept, begins[0] = int64(0), 0
    for i in range(count):
        occupied = boards.occupied[i]
        fill_line_states(boards.lanes[i], occupied, feature_words, state[0])
        fill_board_survey(occupied, feature_words, state[0])
        features = fill_features_returning_count_or_outcome(
            occupied, boards.gift[i], boards.available[i], feature_words, state[0], state[1:], board_features
        )
        if features < 0:
            continue
        for k in range(features):
            feature_numbers[begins[kept] + k] = board_features[k]
        begins[kept + 1] = begins[kept] + features
        boards.lanes[kept], boards.occupied[kept] = boards.lanes[i], occupied
        boards.available[kept], boards.gift[kept] = boards.available[i], boards.gift[i]
        kept += 1
    return kept


@kernel()
def mix_reply_values_into_targets(
    boards: StageBoards, words: NDArray[np.uint64], weights: Weights, share: float, targets: NDArray[np.float64]
) -> None:
    """Mix the chances after the best replies, with weight ``share``, into ``targets`` [N, HEADS].

    The replies are valued by ``weights``, the weights of the next stage. For the player whose turn led to the board,
    P(not lost) is 1 minus the opponent's greatest P(won) over all replies, and P(won) is 1 minus the opponent's
    greatest P(not lost). Both are 1 if no reply leaves the opponent a safe gift.
    """
    work = allocate_work_memory(np.array([0.0, 1.0]), 1)  # P(not lost) alone, and P(won)
    for i in range(boards.lanes.shape[0]):
        lanes, occupied, available, hand = boards.lanes[i], boards.occupied[i], boards.available[i], boards.gift[i]
        fill_best_safe_turns(lanes, occupied, available, hand, words, weights, work, all_candidate_cells_and_pieces())
        for head in range(HEADS):
            targets[i, head] = (1.0 - share) * targets[i, head] + share * (1.0 - max(work.top[1 - head, 0], 0.0))


def solve_not_lost_and_won(boards: StageBoards, solver: Solver) -> NDArray[np.float64]:
    """Solve boards exactly; return the chances of not losing and of winning, each 0 or 1: [N, HEADS]."""
    occupied, hands = boards.occupied.astype(np.uint16), boards.gift.astype(np.int8)
    values = -solver.values(boards.lanes, occupied, hands)
    return np.stack([values >= 0, values > 0], axis=-1).astype(np.float64)


class StageExamples(NamedTuple):
    """The boards of one stage from a block of games, and the examples that are learned from them."""

    boards: StageBoards
    examples: Examples


BLOCK_BOARDS = 8192  # boards that a thread prepares at a time, at most
MEGABYTES = 256.0  # size of the table of solved boards
EXACT_ERROR_FROM = 7  # pieces: from here on, the error on held-out boards is measured against exact values


class LineSweep:
    """A sweep over the stages, from the last to the first, which learns the weights of each stage.

    A stage is a number of pieces on the board.
    """

    def __init__(
        self,
        dataset: GameSource,
        words: NDArray[np.uint64],
        plans: Mapping[int, StagePlan],
        plan: LearningPlan,
        threads: int,
    ) -> None:
        self._words, self._plans, self._plan, self._threads = words, plans, plan, threads
        self._rules = dataset.rules.tables
        games = sample_games(dataset, plan.seed)
        self._learned, self._held_out = games.select_games(held_out=False), games.select_games(held_out=True)
        solver = Solver(dataset.rules, MEGABYTES)
        self._solvers = queue.SimpleQueue[Solver]()  # one for each thread
        for _ in range(threads):
            self._solvers.put(solver.fork())
        self._curve: dict[int, list[tuple[float | None, ...]]] = {}

    def run(self) -> tuple[Stages, pl.DataFrame]:
        """Fit each stage that has boards; return the weights of these stages, and their errors after each pass.

        A task waits only for tasks that were submitted earlier, so the threads cannot block each other.
        """
        fitted = dict[int, Future[NDArray[np.int16] | None]]()
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for stage in sorted(self._plans, reverse=True):
                    plan, after = self._plans[stage], fitted.get(stage + 1)
                    measured = StagePlan(plan.games // 8, exact_share=1.0 if stage >= EXACT_ERROR_FROM else 0.0)
                    parts, held_out = (
                        self._submit_example_blocks(pool, stage, games, stage_plan, after)
                        for games, stage_plan in ((self._learned, plan), (self._held_out, measured))
                    )
                    fitted[stage] = pool.submit(self._fit_stage, stage, parts, held_out)
                results = {stage: future.result() for stage, future in fitted.items()}
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        rows = [row for stage in sorted(self._curve, reverse=True) for row in self._curve[stage]]
        stages = {stage: weights for stage, weights in results.items() if weights is not None}
        return stages, pl.DataFrame(rows, schema=CURVE_SCHEMA, orient="row")

    def _submit_example_blocks(
        self,
        pool: ThreadPoolExecutor,
        stage: int,
        games: GameSample,
        plan: StagePlan,
        next_stage_weights: Future[NDArray[np.int16] | None] | None,
    ) -> list[Future[StageExamples]]:
        """Submit the tasks that prepare the examples of a stage, one for each block of games; return their futures."""
        size, step = min(plan.games, len(games.words)), max(BLOCK_BOARDS // (plan.turns[0] * plan.turns[1]), 1)
        spans = [(first, min(first + step, size)) for first in range(0, size, step)]
        prepared = [pool.submit(self.build_block_examples, games, span, stage, plan) for span in spans]
        if plan.exact_share == 1.0 or next_stage_weights is None:
            return prepared
        return [
            pool.submit(self.mix_in_replies_or_solve_block, part, 1.0 - plan.exact_share, next_stage_weights)
            for part in prepared
        ]

    def build_block_examples(
        self, games: GameSample, span: tuple[int, int], stage: int, plan: StagePlan
    ) -> StageExamples:
        """Build the examples of one stage from the games in ``span``, with exact values if the plan needs them."""
        boards = StageBoards.empty((span[1] - span[0]) * plan.turns[0] * plan.turns[1])
        count = fill_stage_boards(games, span, stage, plan.turns, boards, self._rules)
        feature_numbers, begins = np.empty(count * MAX_FEATURES, np.int32), np.empty(count + 1, np.int64)
        count = compact_undecided_boards_and_extract_features(boards, count, self._words, feature_numbers, begins)
        boards, begins = boards.copy_first(count), begins[: count + 1].copy()
        targets = self._solve_with_idle_solver(boards) if plan.exact_share > 0.0 else np.zeros((count, HEADS))
        return StageExamples(boards, Examples(feature_numbers[: begins[-1]].copy(), begins, targets))

    def _solve_with_idle_solver(self, boards: StageBoards) -> NDArray[np.float64]:
        """Solve boards with a solver that no other thread uses: see ``solve_not_lost_and_won``."""
        solver = self._solvers.get()
        try:
            return solve_not_lost_and_won(boards, solver)
        finally:
            self._solvers.put(solver)

    def mix_in_replies_or_solve_block(
        self, block: Future[StageExamples], share: float, next_stage_weights: Future[NDArray[np.int16] | None]
    ) -> StageExamples:
        """Return a block's examples with the values of the best replies mixed into the targets, with weight ``share``.

        The replies are valued by the weights of the next stage. If the next stage has no weights, the targets are exact
        values.
        """
        weights, (boards, examples) = next_stage_weights.result(), block.result()
        if weights is None:
            return StageExamples(boards, examples._replace(targets=self._solve_with_idle_solver(boards)))
        stages = np.zeros((CELLS, 2), np.uint64)
        stages[:, 1] = count_hidden_units(weights, int(self._words[STAGE_SIZE]))
        mix_reply_values_into_targets(
            boards, self._words, Weights(weights, stages.reshape(-1)), share, examples.targets
        )
        return StageExamples(boards, examples)

    def _fit_stage(
        self, stage: int, learned_blocks: list[Future[StageExamples]], held_out: list[Future[StageExamples]]
    ) -> NDArray[np.int16] | None:
        """Fit a stage, and record its errors for the learning curve.

        Returns the weights, or None if the stage has no boards.
        """
        learned, measured = ([block.result().examples for block in futures] for futures in (learned_blocks, held_out))
        learned_blocks.clear()  # their memory is needed for other stages
        size, plan = sum(len(block.targets) for block in learned), self._plans[stage]
        if size == 0:
            return None
        fit, rows = build_stage_fit(self._words, plan.units, self._plan.seed * CELLS + stage), []
        for number in range(plan.passes):
            rate = self._plan._replace(passes=plan.passes).rate_for_pass(number)
            errors = (
                *learn_and_return_mean_errors(learned, rate, fit).tolist(),
                *learn_and_return_mean_errors(measured, 0.0, fit).tolist(),
            )
            rows.append((stage, number + 1, size, *errors))
        self._curve[stage] = rows
        return round_weights_and_zero_unseen(fit)


def learn_and_return_mean_errors(examples: Sequence[Examples], rate: float, fit: StageFit) -> NDArray[np.float64]:
    """Learn from examples; return the mean squared error of each head before learning (the Brier score): [HEADS].

    The errors are NaN if there are no examples.
    """
    squared = np.zeros(HEADS)
    for block in examples:
        learn_examples(block, rate, fit, squared)
    with np.errstate(invalid="ignore"):
        return squared / np.float64(sum(len(block.targets) for block in examples))
