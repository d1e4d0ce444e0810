"""Play by values of afterstates that generalise: weights of features of lines, learned from logged games.

There are two heads: the chance not to lose and the chance to win. A player mixes both. The logit of a head is the sum
of its weights over the features of an afterstate. A stage may have a hidden layer. This layer adds, for each of its
units, the head's output weight times the positive part of the unit. If the replies show how the game ends, the chances
are ``DECIDED_CHANCES``.

Weights are multiples of ``UNIT``. Sums are therefore exact in whatever order features come, and afterstates that a
symmetry exchanges have the same value to the last bit. The weights of a stage are [features, heads + units], a row for
each feature, followed by [heads, units], the output weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import KernelAgent, Knowledge, encode_turn, keys, params, report_evaluation, table, turn
from agents.base.parameters import check_probability
from agents.learning.line_boards import (
    BOARD,
    DANGERS,
    STAGE_SIZE,
    WORDS,
    fill_board_survey,
    fill_line_states,
    fill_line_states_after,
)
from agents.learning.line_features import (
    MAX_FEATURES,
    WON_AFTER,
    build_feature_words,
    compute_feature_hash,
    fill_features_returning_count_or_outcome,
)
from agents.learning.policy import Policy, check_ascending, check_no_wrong_row, check_range, load_checked_columns
from agents.semi_random import turn_if_opponent_chooses
from quarto.batch import NO_VISITS
from quarto.bits import lowest_bit, popcount
from quarto.jit import float64, inline_function, int64, kernel
from quarto.position import ALL_CELLS, ALL_PIECES, PackedPosition
from quarto.rng import draw, unit_float
from quarto.rules import CELLS, NONE, Rules
from quarto.threats import SAFE_PIECES, winning_cells

LINE_VALUES = "line_values"  # the kind of policy
NOT_LOST, WON = 0, 1  # the heads
HEADS = 2
DECIDED_CHANCES = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])  # [3, HEADS] chances if lost, drawn, won
STEEPEST = 20.0  # |logit| beyond which a chance no longer changes
STEPS = 32  # of the table of chances, for each unit of the logit
CHANCES = np.array(
    [
        round(2.0**30 / (1.0 + math.exp(-i / STEPS))) / 2.0**30
        for i in range(-int(STEEPEST) * STEPS, int(STEEPEST) * STEPS + 2)
    ]
)
UNIT = 2.0**-11
MAX_WEIGHT = 15.0  # |weight|: a multiple of UNIT is an int16
MAX_UNITS = 120
ALL_TURNS = (ALL_CELLS, ALL_PIECES)  # in Python; kernels take ``all_candidate_cells_and_pieces``
COLUMNS = {"pieces": np.int64, "feature": np.int64, "part": np.int64, "weight": np.float64}
FEATURE_HASH = "lines"  # the parameter of a policy


@inline_function
def sigmoid(logit: float) -> float:
    """Approximate 1 / (1 + exp(-logit)) by linear interpolation.

    The error is at most 4e-5, and the result is the same on every machine.
    """
    steps = (min(max(logit, -STEEPEST), STEEPEST) + STEEPEST) * STEPS
    index = int64(steps)
    part = steps - float64(index)
    return float64(CHANCES[index] * (1.0 - part) + CHANCES[index + 1] * part)


class WorkMemory(NamedTuple):
    """The arrays that one thread uses while it values turns."""

    risks: NDArray[np.float64]  # [R] the shares of the chance to win for which the best turns are looked for

    boards: NDArray[np.int64]  # [5, BOARD]: before the placement, after it, and after up to three further placements
    features: NDArray[np.int64]  # [MAX_FEATURES]
    sums: NDArray[np.int32]  # [HEADS + MAX_UNITS] of an afterstate, multiples of UNIT
    chances: NDArray[np.float64]  # [HEADS] of an afterstate
    top: NDArray[np.float64]  # [R, K] the greatest values, descending; -inf: there are fewer turns
    cells: NDArray[np.int64]  # [R, K] where they were found
    gifts: NDArray[np.int64]  # [R, K] NONE: there are fewer turns


@inline_function
def allocate_work_memory(risks: Any, max_turns: int) -> WorkMemory:
    """Allocate memory that holds, for each of ``risks`` [R], the best ``max_turns`` turns.

    A risk is the weight of winning in a turn's value, which is (1 - risk) P(not lost) + risk P(won).
    """
    return WorkMemory(
        risks,
        np.empty((5, BOARD), np.int64),
        np.empty(MAX_FEATURES, np.int64),
        np.empty(HEADS + MAX_UNITS, np.int32),
        np.empty(HEADS, np.float64),
        np.empty((risks.shape[0], max_turns), np.float64),
        np.empty((risks.shape[0], max_turns), np.int64),
        np.empty((risks.shape[0], max_turns), np.int64),
    )


class Weights(NamedTuple):
    """The weights of one or more stages.

    A stage comprises all afterstates with the same number of pieces on the board.
    """

    values: NDArray[np.int16]  # multiples of UNIT
    stages: NDArray[np.uint64]  # [32] for each number of pieces: where its weights begin, and the number of its units


@inline_function
def add_rows_to_sums(features: Any, count: int, base: int, values: Any, sums: Any) -> None:
    """Add the weights of each of ``count`` features to ``sums`` [width].

    Each feature has a row of weights; the rows begin at index ``base`` of ``values``. The rows are read as slices: if
    an index could be negative, numba would generate code that adds the numbers one by one. Four rows are added at a
    time, so that the sums are read and written less often.
    """
    width, last = sums.shape[0], count & 3
    for i in range(last):
        row = base + int64(features[i]) * width
        one = values[row : row + width]
        for k in range(width):
            sums[k] += one[k]
    for i in range(last, count, 4):
        first, second = base + int64(features[i]) * width, base + int64(features[i + 1]) * width
        third, fourth = base + int64(features[i + 2]) * width, base + int64(features[i + 3]) * width
        one, two = values[first : first + width], values[second : second + width]
        three, four = values[third : third + width], values[fourth : fourth + width]
        for k in range(width):
            sums[k] = sums[k] + one[k] + two[k] + three[k] + four[k]


@inline_function
def fill_not_lost_and_won_chances(work: WorkMemory, count: int, stage: int, features: int, weights: Weights) -> None:
    """Write the chances of not losing and of winning into ``work.chances``, by the weights of ``stage``.

    ``stage`` is the number of pieces on the board, and ``features`` the number of features that a stage has. ``count``
    is the result of ``fill_features_returning_count_or_outcome``: the number of features in ``work``, or an outcome.
    """
    values, sums = weights.values, work.sums
    if count < 0:
        for head in range(HEADS):  # numba takes seconds to compile the copying of a slice
            work.chances[head] = DECIDED_CHANCES[count + 3, head]
        return
    base, units = int64(weights.stages[2 * stage]), int64(weights.stages[2 * stage + 1])
    width = HEADS + units
    sums[:width] = 0
    add_rows_to_sums(work.features, count, base, values, sums[:width])
    for head in range(HEADS):
        output, total = base + features * width + head * units, int64(0)
        outputs, inner = values[output : output + units], sums[HEADS:width]
        for k in range(units):
            total += int64(outputs[k]) * max(int64(inner[k]), 0)
        work.chances[head] = sigmoid((float64(sums[head]) + float64(total) * UNIT) * UNIT)


@inline_function
def insert_turn(row: int, value: float, cell: int, gift: int, work: WorkMemory) -> None:
    """Insert a turn into row ``row`` of the best turns in ``work``, and drop the last turn of the row.

    The turn comes after turns of equal value. Each row belongs to one of ``work.risks``, the weights of winning
    (``allocate_work_memory``).
    """
    rank = work.top.shape[1] - 1
    while rank > 0 and work.top[row, rank - 1] < value:
        work.top[row, rank] = work.top[row, rank - 1]
        work.cells[row, rank], work.gifts[row, rank] = work.cells[row, rank - 1], work.gifts[row, rank - 1]
        rank -= 1
    work.top[row, rank], work.cells[row, rank], work.gifts[row, rank] = value, cell, gift


@inline_function
def all_candidate_cells_and_pieces() -> Any:
    """Return ``ALL_TURNS``, the masks of all cells and of all pieces, as typed integers.

    A kernel that is called with the plain constants would be compiled a second time, because numba would give them
    another type.
    """
    return int64(ALL_CELLS), int64(ALL_PIECES)


@kernel()
def fill_best_safe_turns(
    lanes: int,
    occupied: int,
    available: int,
    hand: int,
    words: Any,
    weights: Weights,
    work: WorkMemory,
    candidates: Any,
) -> None:
    """Write the best safe turns for each of ``work.risks`` into ``work``.

    A risk is the weight of winning in a turn's value, see ``allocate_work_memory``. On ties the turn with the lower
    cell comes first, then the one with the lower gift. ``candidates`` are the cells and the gifts to consider, each as
    16 bits; ``all_candidate_cells_and_pieces`` returns all of them. If ``hand`` is NONE, the turns are gifts alone;
    otherwise the caller must ensure that the piece in hand cannot finish a line.
    """
    last = work.top.shape[1] - 1
    work.top[:], work.cells[:], work.gifts[:] = -np.inf, NONE, NONE
    before, board = work.boards[0], work.boards[1]
    fill_line_states(lanes, occupied, words, before)
    features, empty, filled = int64(words[STAGE_SIZE]), ~occupied & ALL_CELLS & candidates[0], occupied
    if hand == NONE:
        empty, board = int64(1), before  # one round, without a placement
    while empty != 0:
        cell = lowest_bit(empty)
        empty &= empty - 1
        if hand == NONE:
            cell = int64(NONE)
        else:
            filled = occupied | int64(1) << cell
            fill_line_states_after(before, hand, cell, words, board)
        fill_board_survey(filled, words, board)
        stage, safe = int64(popcount(filled)), available & SAFE_PIECES[board[DANGERS]] & candidates[1]
        while safe != 0:
            gift = lowest_bit(safe)
            safe &= safe - 1
            pieces_left = available & ~(int64(1) << gift)
            count = fill_features_returning_count_or_outcome(
                filled, gift, pieces_left, words, board, work.boards[2:], work.features
            )
            fill_not_lost_and_won_chances(work, count, stage, features, weights)
            for row in range(work.risks.shape[0]):
                risk = work.risks[row]
                value = (1.0 - risk) * work.chances[NOT_LOST] + risk * work.chances[WON]
                if value > work.top[row, last]:
                    insert_turn(row, value, cell, gift, work)
            if count == WON_AFTER and last == 0:
                return  # no other turn is better


def stage_size(features: int, units: Any) -> Any:
    """Return the number of weights of a stage with ``units`` hidden units, or of each stage if ``units`` is an array.

    A stage has a row of weights for each of ``features`` features, and the output weights.
    """
    return features * (HEADS + units) + HEADS * units


def count_hidden_units(weights: NDArray[np.int16], features: int) -> int:
    """Return the number of hidden units of a stage, which follows from the number of its weights."""
    return (len(weights) - features * HEADS) // (features + HEADS)


def to_columns(stages: Mapping[int, NDArray[np.int16]], features: int) -> dict[str, NDArray[Any]]:
    """Build the table of a policy, with a row for each weight that is not 0.

    The rows ascend by ``pieces``, ``feature`` and ``part``. ``stages`` maps a number of pieces to the weights of its
    stage: the weights of each feature, then the output weights of the hidden layer. For a weight of a feature, ``part``
    is the sum to which it is added: 0 for not lost, 1 for won, and 2 + k for hidden unit k. For an output weight,
    ``feature`` is ``features`` plus the number of the output (0: not lost, 1: won), and ``part`` is the number of the
    hidden unit.
    """
    parts = []
    for pieces in sorted(stages):
        indices, units = np.flatnonzero(stages[pieces]), count_hidden_units(stages[pieces], features)
        width = HEADS + units
        late = indices >= features * width
        output = indices - features * width
        row = np.where(late, features + output // max(units, 1), indices // width)
        part_of = np.where(late, output % max(units, 1), indices % width)
        parts.append((np.full(len(indices), pieces), row, part_of, stages[pieces][indices] * UNIT))
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    types = (np.int8, np.int32, np.int8, np.float64)
    return {name: column.astype(type_) for name, column, type_ in zip(COLUMNS, columns, types, strict=True)}


class PackedWeights(NamedTuple):
    """The weights of a policy as the two arrays that a kernel can read, see ``unpack_weights``."""

    keys: NDArray[np.uint64]  # [WORDS + 32] the words of the features, then ``Weights.stages``
    table: NDArray[np.float64]  # ``Weights.values``, four in each number


@inline_function
def unpack_weights(reading_keys: Any, reading_table: Any) -> Weights:
    """Return the weights that a ``PackedWeights`` with these keys and this table contains."""
    return Weights(reading_table.view(np.int16), reading_keys[WORDS:])


def pack_weights(policy: Policy, rules: Rules) -> PackedWeights:
    """Pack the weights of a policy into the arrays that kernels read.

    Raises ``ValueError`` for weights that were learned under rules with other lines, or for another version of the
    features.
    """
    if policy.parameters[FEATURE_HASH] != compute_feature_hash(rules):
        raise ValueError(
            f"its weights are for other lines than those of rules '{rules.name}', or for features of another version: "
            "build it again"
        )
    words = build_feature_words(rules)
    features = int(words[STAGE_SIZE])
    pieces, feature, part = (np.asarray(policy.table[name], np.int64) for name in ("pieces", "feature", "part"))
    check_range("feature", feature, 0, features + HEADS - 1)
    late = feature >= features
    check_range("part", part[late], 0, MAX_UNITS - 1)
    units = np.zeros(CELLS, np.int64)
    np.maximum.at(units, pieces, np.where(late, part + 1, np.maximum(part - HEADS + 1, 0)))
    sizes = stage_size(features, units)
    begins, width = np.cumsum(sizes) - sizes, HEADS + units[pieces]
    output = features * width + (feature - features) * units[pieces]
    values = np.zeros(-(-sizes.sum() // 4) * 4, np.int16)
    values[begins[pieces] + np.where(late, output, feature * width) + part] = policy.table["weight"] / UNIT
    stages = np.stack([begins, units], axis=-1).astype(np.uint64)
    return PackedWeights(np.concatenate([words, stages.reshape(-1)]), values.view(np.float64))


def check_weights(policy: Policy, player: str) -> None:
    """Raise ``ValueError`` unless the policy is of kind 'line_values' and its table is valid.

    In a valid table all numbers are in the range that the kind allows, and the rows ascend. ``player`` is the name that
    messages use for the agent that plays the policy.
    """
    pieces, feature, part, weight = load_checked_columns(policy, LINE_VALUES, player, COLUMNS)
    if not policy.parameters.get(FEATURE_HASH, -1.0) >= 0.0:
        raise ValueError(f"policy of kind '{LINE_VALUES}' has no parameter '{FEATURE_HASH}' that is at least 0")
    check_range("pieces", pieces, 0, CELLS - 1)
    check_range("part", part, 0, HEADS + MAX_UNITS - 1)
    check_ascending({"pieces": pieces, "feature": feature, "part": part})
    check_no_wrong_row("weight", weight, np.abs(weight) > MAX_WEIGHT, f"is not from -{MAX_WEIGHT} to {MAX_WEIGHT}")
    check_no_wrong_row("weight", weight, weight / UNIT % 1.0 != 0.0, "is no multiple of 2^-11: build the policy again")


EXPLORATION, RISK, HAS_POLICY = range(3)  # indices of the parameters
COIN = 1  # index of the random word that decides whether to explore; word 0 is that of a turn without weights


@inline_function
def expected_result(position: PackedPosition, cell: int, gift: int, weights: Weights, agent: Any) -> float:
    """Estimate, with ``weights``, the mover's chance of winning after a turn minus the chance of losing."""
    among, work = (int64(1) << max(cell, 0), int64(1) << gift), allocate_work_memory(np.full(1, 0.5), 1)
    fill_best_safe_turns(
        position.lanes, position.occupied, position.available, position.hand, keys(agent), weights, work, among
    )
    return float64(2.0 * work.top[0, 0] - 1.0)


@turn
def line_values_turn(position: PackedPosition, seed: int, rules: Any, agent: Any) -> int:
    hand = position.hand
    won = hand != NONE and winning_cells(position.lanes, position.occupied, hand, rules) != 0
    settings = params(agent)
    if won:
        report_evaluation(agent, 1.0, NO_VISITS)
    explores = settings[EXPLORATION] > 0.0 and unit_float(draw(seed, COIN)) < settings[EXPLORATION]
    if not won and not explores and settings[HAS_POLICY] > 0.0:
        weights, work = unpack_weights(keys(agent), table(agent)), allocate_work_memory(np.full(1, settings[RISK]), 1)
        fill_best_safe_turns(
            position.lanes,
            position.occupied,
            position.available,
            hand,
            keys(agent),
            weights,
            work,
            all_candidate_cells_and_pieces(),
        )
        cell, gift = work.cells[0, 0], work.gifts[0, 0]
        if gift != NONE:
            if agent.evaluates != 0:
                report_evaluation(agent, expected_result(position, cell, gift, weights, agent), NO_VISITS)
            return encode_turn(cell, gift)
        report_evaluation(agent, 0.0 if position.available == 0 else -1.0, NO_VISITS)
    return turn_if_opponent_chooses(position, draw(seed, 0), rules)


class LineValues(KernelAgent):
    """A player that makes the turn whose afterstate has the greatest value, estimated with the weights of a policy.

    It does not search. It finishes a line if it can. Otherwise the value of a turn is (1 - ``risk``) P(not lost) +
    ``risk`` P(won); turns that let the opponent win at once are not considered. On ties it makes the turn with the
    lowest cell, then the lowest gift.

    It plays as ``semi_random`` if it has no policy, if every turn lets the opponent win at once, or if only one cell is
    empty; in other positions it does so with probability ``exploration``. Word 0 is for ``semi_random``; word 1 decides
    whether to explore. As its evaluation of a turn the agent reports P(won) - P(lost).

    ``policy`` is of kind 'line_values': see ``agents/line_values.py``. Raises ``ValueError`` if the policy is of
    another kind or its table is invalid; ``knowledge`` raises ``ValueError`` for weights that were learned for other
    lines.
    """

    kernel = line_values_turn

    def __init__(self, policy: Policy | None = None, risk: float = 0.25, exploration: float = 0.0) -> None:
        self._risk = check_probability("risk", risk)
        self._exploration = check_probability("exploration", exploration)
        if policy is not None:
            check_weights(policy, "line_values")
        self._policy = policy

    def knowledge(self, rules: Rules) -> Knowledge:
        settings = np.array([self._exploration, self._risk, float(self._policy is not None)])
        if self._policy is None:
            return Knowledge(
                settings, np.zeros(1), np.concatenate([build_feature_words(rules), np.zeros(2 * CELLS, np.uint64)])
            )
        weights = pack_weights(self._policy, rules)
        return Knowledge(settings, weights.table, weights.keys)
