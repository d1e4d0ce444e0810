"""Logistic regression on sparse features, with an optional hidden layer: one pass after the other, in a fixed order.

The update is AdaGrad's (J. Duchi et al., Adaptive Subgradient Methods for Online Learning and Stochastic Optimization,
2011). Each stage is learned by a single thread, so there are no races. Arithmetic follows IEEE 754, without a library's
exponential. Therefore the same boards give the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agents.learning.line_boards import STAGE_SIZE
from agents.learning.line_features import MAX_FEATURES
from agents.line_values import HEADS, MAX_WEIGHT, NOT_LOST, UNIT, WON, add_rows_to_sums, sigmoid, stage_size
from quarto.jit import float64, inline_function, int64, kernel, uint64
from quarto.rng import draw, mix, unit_float
from quarto.rules import CELLS

FIRST_SQUARES = 4.0  # sum of squared gradients before the first: it keeps the first steps small
FIRST_HIDDEN_SQUARES = 0.05
HIDDEN_WEIGHT, OUTPUT_WEIGHT = 0.05, 0.3  # bounds of the random weights before the first pass


class Examples(NamedTuple):
    """The features of ``N`` afterstates with the same number of pieces on the board, with targets for the heads.

    The targets are the chances of not losing and of winning.
    """

    feature_numbers: NDArray[np.int32]  # [M] numbers of features, one afterstate after the other
    begins: NDArray[np.int64]  # [N + 1] index of each afterstate's first feature, and M
    targets: NDArray[np.float64]  # [N, HEADS]


class StageFit(NamedTuple):
    """The weights of one stage, that is, of one number of pieces on the board, while they are learned."""

    weights: NDArray[np.float32]  # [stage_size]: see ``agents/line_values.py``
    squares: NDArray[np.float32]  # [features, HEADS + 1], then [HEADS, units]: sums of squared gradients; 0: never met
    features: int
    units: int


def build_stage_fit(words: NDArray[np.uint64], units: int, seed: int) -> StageFit:
    """Build the initial weights of a stage: random weights to and from the ``units`` hidden units, and 0 elsewhere.

    ``words`` are the feature tables of the rules.
    """
    features = int(words[STAGE_SIZE])
    fit = StageFit(
        np.zeros(stage_size(features, units), np.float32),
        np.zeros(features * (HEADS + 1) + HEADS * units, np.float32),
        features,
        units,
    )
    if units:
        _randomise_hidden_weights(fit, seed)
    return fit


@kernel()
def _randomise_hidden_weights(fit: StageFit, seed: int) -> None:
    """Set the weights to and from the hidden units to random values that follow from ``seed``."""
    width, word = HEADS + fit.units, mix(uint64(seed))
    for i in range(fit.weights.shape[0]):
        if i >= fit.features * width:
            fit.weights[i] = OUTPUT_WEIGHT * (2.0 * unit_float(draw(word, i)) - 1.0)
        elif i % width >= HEADS:
            fit.weights[i] = HIDDEN_WEIGHT * (2.0 * unit_float(draw(word, i)) - 1.0)


@inline_function
def fill_logits(feature_numbers: Any, count: int, fit: StageFit, sums: Any) -> None:
    """Fill ``sums`` [HEADS + units] float32 with the logits of the heads, followed by the sums of the hidden units.

    The first ``count`` entries of ``feature_numbers`` are the features of one afterstate.
    """
    width, units = HEADS + fit.units, fit.units
    if units == 0:  # both sums stay in registers
        not_lost, won = np.float32(0.0), np.float32(0.0)
        for i in range(count):
            row = int64(feature_numbers[i]) * HEADS
            not_lost += fit.weights[row]
            won += fit.weights[row + 1]
        sums[NOT_LOST], sums[WON] = not_lost, won
        return
    for k in range(width):
        sums[k] = np.float32(0.0)
    add_rows_to_sums(feature_numbers, count, 0, fit.weights, sums[:width])
    output = fit.features * width
    for head in range(HEADS):
        for k in range(units):
            sums[head] += fit.weights[output + head * units + k] * max(sums[HEADS + k], np.float32(0.0))


@inline_function
def learn_output_weights_and_fill_slopes(errors: Any, rate: Any, fit: StageFit, sums: Any, slopes: Any) -> Any:
    """Update the weights from the hidden units to the heads for one afterstate, and fill ``slopes`` [units].

    ``errors`` [HEADS] are the errors of the heads, and ``sums`` comes from ``fill_logits``. ``slopes`` gets the
    gradient of each hidden unit. Return the mean square of these gradients.
    """
    width, units, mean = HEADS + fit.units, fit.units, np.float32(0.0)
    output, squares = fit.features * width, fit.features * (HEADS + 1)
    for k in range(units):
        slope, active = np.float32(0.0), sums[HEADS + k] > np.float32(0.0)
        for head in range(HEADS):
            index = head * units + k
            if active:
                slope += errors[head] * fit.weights[output + index]
                gradient = errors[head] * sums[HEADS + k]
                fit.squares[squares + index] += gradient * gradient
                step = np.sqrt(fit.squares[squares + index] + np.float32(FIRST_SQUARES))
                fit.weights[output + index] += rate * gradient / step
        slopes[k] = slope
        mean += slope * slope
    return mean / np.float32(max(units, 1))


@inline_function
def allocate_step_memory() -> NDArray[np.float32]:
    """Allocate work memory for ``learn_feature_weights``: [HEADS + 1, MAX_FEATURES]."""
    return np.empty((HEADS + 1, MAX_FEATURES), np.float32)


@inline_function
def learn_feature_weights(
    feature_numbers: Any, count: int, errors: Any, rate: Any, fit: StageFit, slopes: Any, mean: Any, steps: Any
) -> None:
    """Update the weights of the ``count`` features of one afterstate.

    ``slopes`` and ``mean`` come from ``learn_output_weights_and_fill_slopes``, ``steps`` from ``allocate_step_memory``.
    The running sums of squared gradients, which scale the steps, do not depend on the weights, so all of them are
    computed first. The square roots and divisions, which take most of the time, then work on adjacent numbers, so the
    processor computes several of them at once.
    """
    for head in range(HEADS):
        square = errors[head] * errors[head]
        for i in range(count):
            index = int64(feature_numbers[i]) * (HEADS + 1) + head
            fit.squares[index] += square
            steps[head, i] = fit.squares[index]
        change = rate * errors[head]
        for i in range(count):
            steps[head, i] = change / np.sqrt(steps[head, i] + np.float32(FIRST_SQUARES))
    width = HEADS + fit.units
    for i in range(count):
        row = int64(feature_numbers[i]) * width
        for head in range(HEADS):
            fit.weights[row + head] += steps[head, i]
    if fit.units > 0:
        for i in range(count):
            index = int64(feature_numbers[i]) * (HEADS + 1) + HEADS
            fit.squares[index] += mean
            steps[HEADS, i] = fit.squares[index]
        for i in range(count):
            factor = rate / np.sqrt(steps[HEADS, i] + np.float32(FIRST_HIDDEN_SQUARES))
            row = int64(feature_numbers[i]) * width + HEADS
            hidden_row = fit.weights[row : row + fit.units]  # a slice, as in ``add_rows_to_sums``
            for k in range(fit.units):
                hidden_row[k] += factor * slopes[k]


@kernel()
def learn_examples(examples: Examples, rate: float, fit: StageFit, squared_errors: NDArray[np.float64]) -> None:
    """Learn from the examples in one pass, in order, and add their squared errors to ``squared_errors`` [HEADS].

    The error of an example is taken before the example is learned. If ``rate`` is 0, the errors are measured but
    nothing is learned.
    """
    sums, slopes = np.empty(HEADS + fit.units, np.float32), np.empty(max(fit.units, 1), np.float32)
    errors, steps, rate32 = np.empty(HEADS, np.float32), allocate_step_memory(), np.float32(rate)
    for i in range(examples.targets.shape[0]):
        features = examples.feature_numbers[examples.begins[i] : examples.begins[i + 1]]
        count = int64(features.shape[0])
        fill_logits(features, count, fit, sums)
        for head in range(HEADS):
            errors[head] = np.float32(examples.targets[i, head] - sigmoid(float64(sums[head])))
            squared_errors[head] += errors[head] * errors[head]
        if rate > 0.0:
            mean = learn_output_weights_and_fill_slopes(errors, rate32, fit, sums, slopes)
            learn_feature_weights(features, count, errors, rate32, fit, slopes, mean, steps)


def round_weights_and_zero_unseen(fit: StageFit) -> NDArray[np.int16]:
    """Return the weights as multiples of ``UNIT``, the precision of a policy; those of unseen features are 0."""
    clipped = np.clip(fit.weights, -MAX_WEIGHT, MAX_WEIGHT)
    weights: NDArray[np.int16] = np.rint(clipped / np.float32(UNIT)).astype(np.int16)
    rows = weights[: fit.features * (HEADS + fit.units)].reshape(fit.features, -1)
    rows[fit.squares[: fit.features * (HEADS + 1)].reshape(fit.features, -1)[:, 0] == 0.0] = 0
    return weights


LAST_PASSES, LAST_RATE = 2, 0.3  # the last passes take smaller steps


CURVE_SCHEMA = {
    **dict.fromkeys(("pieces", "pass", "boards"), pl.Int64()),
    **dict.fromkeys(("not_lost", "won", "held_out_not_lost", "held_out_won"), pl.Float64()),
}


Stages = dict[int, NDArray[np.int16]]  # the weights of both heads by number of pieces


class LearningPlan(NamedTuple):
    """The number of passes, the step size and the seed for learning weights: see ``conf/kind/line_values.yaml``."""

    passes: int
    rate: float
    seed: int

    def rate_for_pass(self, number: int) -> float:
        """Return the step size of the pass with this number, counted from 0. The last passes take smaller steps."""
        return self.rate * (LAST_RATE if number >= max(self.passes - LAST_PASSES, 1) else 1.0)


class StageLearner(Protocol):
    """A function that learns one stage, that is, one number of pieces on the board, from one block of games."""

    def __call__(self, stage: int, rate: float, fit: StageFit, sums: NDArray[np.float64]) -> None:
        """Learn one stage, and add its number of boards and each head's sum of squared errors to ``sums``.

        In ``sums`` [2, 1 + HEADS], column 0 is the number of boards, and the other columns are the sums of squared
        errors. Row 0 is for games that are learned from, row 1 for held-out games. ``rate`` is the learning rate.
        """
        ...


def learn_in_passes(
    words: NDArray[np.uint64],
    plan: LearningPlan,
    read_learners: Callable[[int], Iterator[StageLearner]],
    threads: int,
) -> tuple[Stages, pl.DataFrame]:
    """Learn linear weights for each stage that occurs in the games; return the weights, and each pass's mean errors.

    A stage is a number of pieces on the board, and ``words`` has the feature tables of the rules. ``read_learners``
    yields a learner for each block of games in a pass; its argument is the number of the pass, counted from 0. Errors
    are measured before each example is learned.
    """
    fits = {stage: build_stage_fit(words, 0, plan.seed) for stage in range(1, CELLS)}
    rows, sums = list[tuple[float | None, ...]](), dict[int, NDArray[np.float64]]()
    with ThreadPoolExecutor(threads) as pool:
        for number in range(plan.passes):
            sums = {stage: np.zeros((2, 1 + HEADS)) for stage in fits}
            for learn in read_learners(number):
                list(pool.map(learn, fits, repeat(plan.rate_for_pass(number)), fits.values(), sums.values()))
            for stage in reversed(fits):
                means = [float(total / row[0]) if row[0] else None for row in sums[stage] for total in row[1:]]
                rows.append((stage, number + 1, int(sums[stage][0, 0]), *means))
    weights = {stage: round_weights_and_zero_unseen(fit) for stage, fit in fits.items() if sums[stage][0, 0]}
    return weights, pl.DataFrame([row for row in rows if row[2]], schema=CURVE_SCHEMA, orient="row")


BLOCK_GAMES = (
    1 << 15
)  # games that all stages learn from before any learns from the next, so that they stay in the cache
