"""Behaviour cloning: weights by which the logged turn is preferred to other turns that the player could have made.

A turn is preferred to another with probability 1 / (1 + exp(-d)), where d is the difference of their afterstates'
values. This is the model of R. D. Luce, Individual Choice Behavior (1959), in which the probability of a turn is
proportional to the exponential of its value. The other turns are sampled, all with the same probability, which leaves
the estimate consistent: D. McFadden, Modelling the choice of residential location (1978).

A turn is learned only if the player of the policy would choose it by the weights: in the position the mover cannot win
at once, and the turn does not let the opponent win at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_boards import (
    BOARD,
    DANGERS,
    dangers_after,
    fill_board_survey,
    fill_dangers_now_and_after_placements,
    fill_line_states,
    fill_line_states_after,
    piece_byte,
)
from agents.learning.line_features import MAX_FEATURES, fill_features_returning_count_or_outcome
from agents.line_values import DECIDED_CHANCES, HEADS, STEEPEST, sigmoid
from analytics.policies.kinds.dataset import GameSource, check_agent_played, find_agent_seat_bits
from analytics.policies.kinds.line_fit import (
    BLOCK_GAMES,
    LearningPlan,
    StageFit,
    StageLearner,
    Stages,
    allocate_step_memory,
    fill_logits,
    learn_feature_weights,
    learn_in_passes,
    learn_output_weights_and_fill_slopes,
)
from analytics.policies.kinds.line_sweep import compute_game_words, is_held_out, replay_placements
from analytics.store.game_tables import RangeGames
from analytics.store.records import run_id_to_stream_key
from quarto.batch import Games
from quarto.bits import lowest_bit, popcount
from quarto.jit import float64, inline_function, int64, kernel, uint64
from quarto.position import ALL_CELLS
from quarto.rng import draw
from quarto.rules import CELLS
from quarto.threats import SAFE_PIECES

SAMPLED_TURNS = 8  # turns that are compared, the logged one first; all if there are no more


class TurnMemory(NamedTuple):
    """The work memory for comparing the turns of one position."""

    boards: NDArray[np.int64]  # [5, BOARD]: before the placement, after it, and three for the features
    gifts: NDArray[np.int64]  # [CELLS] the safe gifts after a placement on each cell, as bits
    features: NDArray[np.int64]  # [SAMPLED, MAX_FEATURES]
    counts: NDArray[np.int64]  # [SAMPLED] features
    sums: NDArray[np.float32]  # [SAMPLED, HEADS + units]
    errors: NDArray[np.float32]  # [SAMPLED, HEADS]
    slopes: NDArray[np.float32]  # [units]
    steps: NDArray[np.float32]  # work memory of ``learn_feature_weights``


@inline_function
def allocate_turn_memory(units: int) -> TurnMemory:
    """Allocate the work memory of one thread for a network with ``units`` hidden units."""
    return TurnMemory(
        np.empty((5, BOARD), np.int64),
        np.empty(CELLS, np.int64),
        np.empty((SAMPLED_TURNS, MAX_FEATURES), np.int64),
        np.empty(SAMPLED_TURNS, np.int64),
        np.empty((SAMPLED_TURNS, HEADS + units), np.float32),
        np.empty((SAMPLED_TURNS, HEADS), np.float32),
        np.empty(max(units, 1), np.float32),
        allocate_step_memory(),
    )


@inline_function
def fill_gifts_and_count_unless_win(
    lanes: int, occupied: int, cells: int, hand: int, available: int, words: Any, memory: TurnMemory
) -> int:
    """Fill ``memory.gifts`` with the safe gifts after a placement on each of ``cells`` (bits); return the turn count.

    A turn is a cell with one of its safe gifts. ``cells`` has only one cell if the placement was imposed. If it has
    more and the piece in hand can finish a line, return 0, so that no turns are compared: a player with this policy
    wins at once, without looking at the weights.
    """
    before, byte, turns = memory.boards[0], piece_byte(hand), int64(0)
    fill_line_states(lanes, occupied, words, before)
    fill_dangers_now_and_after_placements(occupied, words, before)
    if cells & (cells - 1) != 0 and (SAFE_PIECES[before[DANGERS]] >> hand) & 1 == 0:
        return turns
    for cell in range(CELLS):
        memory.gifts[cell] = 0
        if (cells >> cell) & 1:
            memory.gifts[cell] = available & SAFE_PIECES[dangers_after(cell, byte, before)]
            turns += int64(popcount(memory.gifts[cell]))
    return turns


@inline_function
def turn_number(cell: int, gift: int, memory: TurnMemory) -> int:
    """Return the index of a turn among the turns in ``memory``, which are sorted by cell and then by gift."""
    number = int64(popcount(memory.gifts[cell] & ((int64(1) << gift) - 1)))
    for other in range(cell):
        number += int64(popcount(memory.gifts[other]))
    return number


@inline_function
def turn_at(number: int, memory: TurnMemory) -> tuple[int, int]:
    """Return the cell and the gift of the turn with index ``number`` among the turns in ``memory``."""
    cell = int64(0)
    while number >= int64(popcount(memory.gifts[cell])):
        number -= int64(popcount(memory.gifts[cell]))
        cell += 1
    gifts = memory.gifts[cell]
    while number > 0:
        gifts &= gifts - 1
        number -= 1
    return cell, lowest_bit(gifts)


@inline_function
def fill_sampled_turn_numbers(logged: int, turns: int, word: int, numbers: Any) -> int:
    """Write the index of the logged turn, then those of random other turns, into ``numbers``; return their count.

    ``numbers`` is [SAMPLED_TURNS], and ``logged`` is the index of the logged turn. If ``numbers`` has room for all
    ``turns`` turns, all are taken. Otherwise, the remaining indices are drawn from 0 to ``turns`` - 1 with the random
    word ``word``; an index that is drawn again is left out.
    """
    numbers[0], count = logged, int64(1)
    if turns <= SAMPLED_TURNS:
        for other in range(turns):
            if other != logged:
                numbers[count] = other
                count += 1
        return count
    for i in range(SAMPLED_TURNS - 1):
        number = int64(((draw(word, i) >> uint64(32)) * uint64(turns)) >> uint64(32))
        drawn = False
        for k in range(count):
            drawn |= numbers[k] == number
        if not drawn:
            numbers[count] = number
            count += 1
    return count


@inline_function
def fill_turn_features_and_values(
    i: int, number: int, occupied: int, hand: int, available: int, words: Any, fit: StageFit, memory: TurnMemory
) -> None:
    """Fill row ``i`` of ``memory`` with the features and the values of the turn whose index is ``number``.

    If it is already decided how the game ends after the turn, the turn has no features, and its values are constants.
    """
    cell, gift = turn_at(number, memory)
    filled = occupied | int64(1) << cell
    fill_line_states_after(memory.boards[0], hand, cell, words, memory.boards[1])
    fill_board_survey(filled, words, memory.boards[1])
    rest = available & ~(int64(1) << gift)
    features = memory.features[i]
    count = fill_features_returning_count_or_outcome(
        filled, gift, rest, words, memory.boards[1], memory.boards[2:], features
    )
    memory.counts[i] = max(count, 0)
    fill_logits(features, memory.counts[i], fit, memory.sums[i])
    if count < 0:
        for head in range(HEADS):
            memory.sums[i, head] = np.float32((2.0 * DECIDED_CHANCES[count + 3, head] - 1.0) * STEEPEST)


@inline_function
def fill_pairwise_gradients_and_add_errors(count: int, memory: TurnMemory, squared_errors: Any) -> None:
    """Write the gradients of the values of ``count`` turns into ``memory.errors``; row 0 is the logged turn.

    The logged turn is compared with each of the other turns. The heads are the chances of not losing and of winning.
    For each head, the mean squared error of these comparisons is added to ``squared_errors`` [HEADS].
    """
    for head in range(HEADS):
        memory.errors[0, head] = np.float32(0.0)
        for i in range(1, count):
            # the probability that the logged turn is not preferred
            error = np.float32(1.0 - sigmoid(float64(memory.sums[0, head] - memory.sums[i, head])))
            memory.errors[0, head] += error / np.float32(count - 1)
            memory.errors[i, head] = -error / np.float32(count - 1)
            squared_errors[head] += error * error / np.float32(count - 1)


@kernel()
def learn_and_count_stage_turns(
    games: Games,
    imposed_and_seats: NDArray[np.int8],
    games_words: NDArray[np.uint64],
    stage: int,
    words: Any,
    rate: float,
    fit: StageFit,
    squared_errors: Any,
) -> int:
    """Learn from the turns that left ``stage`` pieces on the board; return the number of these turns.

    ``imposed_and_seats`` [2, G] has, for each game, the number of imposed plies, and the seats whose turns are learned,
    as bits. ``games_words`` [G] has the random words of the games, and ``words`` has the feature tables of the rules.
    The squared errors, taken before each turn is learned, are added to ``squared_errors`` [HEADS]. If ``rate`` is 0,
    the errors are measured but nothing is learned.
    """
    choice, numbers, rate32 = allocate_turn_memory(fit.units), np.empty(SAMPLED_TURNS, np.int64), np.float32(rate)
    learned = int64(0)
    for game in range(games_words.shape[0]):
        imposed = int64(imposed_and_seats[0, game])
        if games.plies[game] <= stage or imposed > stage or (imposed_and_seats[1, game] >> (stage & 1)) & 1 == 0:
            continue
        lanes, occupied, available = replay_placements(games, game, stage - 1)
        hand, cell = int64(games.pieces[stage - 1, game]), int64(games.cells[stage - 1, game])
        gift = int64(games.pieces[stage, game])
        available &= ~(int64(1) << hand)
        cells = (
            ~occupied & ALL_CELLS if imposed < stage else int64(1) << cell
        )  # an imposed placement is not compared with others
        turns = fill_gifts_and_count_unless_win(lanes, occupied, cells, hand, available, words, choice)
        if turns < 2 or (choice.gifts[cell] >> gift) & 1 == 0:
            continue
        count = fill_sampled_turn_numbers(
            turn_number(cell, gift, choice), turns, draw(games_words[game], stage), numbers
        )
        for i in range(count):
            fill_turn_features_and_values(i, numbers[i], occupied, hand, available, words, fit, choice)
        fill_pairwise_gradients_and_add_errors(count, choice, squared_errors)
        learned += 1
        if rate > 0.0:
            for i in range(count):
                mean = learn_output_weights_and_fill_slopes(
                    choice.errors[i], rate32, fit, choice.sums[i], choice.slopes
                )
                count_of, errors = choice.counts[i], choice.errors[i]
                learn_feature_weights(
                    choice.features[i], count_of, errors, rate32, fit, choice.slopes, mean, choice.steps
                )
    return learned


class CloningBlock(NamedTuple):
    """Games of one run, either to learn from or to measure the error with."""

    games: Games
    imposed_and_seats: NDArray[np.int8]  # [2, G] imposed plies, seats
    words: NDArray[np.uint64]  # [G] random words


def select_cloning_block(
    range_games: RangeGames, seats: NDArray[np.int8], words: NDArray[np.uint64], held_out: bool
) -> CloningBlock:
    """Select the held-out games if ``held_out`` is set, and otherwise the games to learn from.

    The error is measured with the held-out games. ``seats`` [G] and ``words`` [G] belong to the games of
    ``range_games``.
    """
    rows = np.flatnonzero(is_held_out(words) == held_out)
    taken = range_games.select_rows(rows)
    games = Games(*(np.ascontiguousarray(column) for column in taken.games))
    return CloningBlock(games, np.stack([taken.opening, seats[rows]]), words[rows])


def learn_stages_from_turns(
    dataset: GameSource, words: NDArray[np.uint64], plan: LearningPlan, agent: str | None, threads: int
) -> tuple[Stages, pl.DataFrame]:
    """Learn weights that prefer logged turns to the alternatives; return the weights by stage, and each pass's errors.

    The alternatives are random turns that the player could have made instead. A stage is a number of pieces on the
    board, and ``words`` has the feature tables of the rules. The turns are those of the agent with the label ``agent``,
    or all turns if it is None. Raises ``RequestError`` if this agent played none of the games.
    """

    def read_learners(number: int) -> Iterator[StageLearner]:
        """Yield a learner for each block of games in pass ``number``.

        Each pass draws different random turns to compare the logged turns with.
        """
        met = False
        for record, range_games in dataset.read_blocks():
            seats = find_agent_seat_bits(agent, record, range_games.game_id)
            met |= bool(seats.any())
            drawn = compute_game_words(run_id_to_stream_key(record.run_id), range_games.game_id, plan.seed)
            for first in range(0, len(seats), BLOCK_GAMES):
                span = slice(first, first + BLOCK_GAMES)
                block = range_games.select_as_contiguous_arrays(span), seats[span], drawn[span]
                learned, held_out = (
                    select_cloning_block(*block, held_out=False),
                    select_cloning_block(*block, held_out=True),
                )
                # Other turns are compared in each pass.
                learned = learned._replace(words=learned.words + np.uint64(number))

                def learn(
                    stage: int,
                    rate: float,
                    fit: StageFit,
                    sums: NDArray[np.float64],
                    parts: tuple[CloningBlock, CloningBlock] = (learned, held_out),
                ) -> None:
                    for row, part, step in zip(sums, parts, (rate, 0.0), strict=True):
                        row[0] += learn_and_count_stage_turns(*part, stage, words, step, fit, row[1:])

                yield learn
        check_agent_played(agent, met, dataset.runs)

    return learn_in_passes(words, plan, read_learners, threads)
