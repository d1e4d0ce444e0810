"""The kind `line_values`: boards, update and targets are those of their slow twins."""

from __future__ import annotations

import re
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.learning.line_boards import STAGE_SIZE
from agents.learning.line_features import build_feature_words
from agents.line_values import HEADS, UNIT, Weights, stage_size
from agents.semi_random import SemiRandom
from analytics.policies.kinds.dataset import Dataset
from analytics.policies.kinds.line_fit import (
    Examples,
    LearningPlan,
    build_stage_fit,
    learn_examples,
    round_weights_and_zero_unseen,
)
from analytics.policies.kinds.line_sweep import (
    HELD_OUT_ONE_IN,
    LineSweep,
    StageBoards,
    StageExamples,
    StagePlan,
    fill_stage_boards,
    mix_reply_values_into_targets,
    sample_games,
    solve_not_lost_and_won,
)
from analytics.policies.kinds.line_values import LineValuesKind
from analytics.store.game_tables import RangeGames
from analytics.store.policy_store import compute_knowledge_digest
from quarto.batch import NO_VALUE, VALUE_UNITS, Games
from quarto.errors import RequestError
from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import Solver
from runners.arena.batch_engine import BatchEngine, PairRange
from tests import naive
from tests.agents.learning.test_line_features import numbers_of
from tests.agents.test_line_values import chance
from tests.analytics.naive_games import build_spec, record
from tests.marks import seldom
from tests.naive_policies import lines
from tests.naive_policies.games import position_of
from tests.naive_solver import solve_position

QUICK = {
    8: StagePlan(200, (1, 3), exact_share=0.5),
    9: StagePlan(300, (2, 2), 3, 2, 0.5),
    10: StagePlan(300, (1, 2), 2, 2, 1.0),
}
LEARNING = LearningPlan(1, 0.05, 0)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Play 2,000 games of semi_random from two imposed plies."""
    engine = BatchEngine(CLASSIC, [SemiRandom(), SemiRandom()], ["a", "b"], [(0, 1)], 3, 4, 2)
    games = engine.play_block(PairRange(0, 0, 1000)).games
    opening = np.full(2000, 2, np.int8)
    return Dataset((record(build_spec(CLASSIC, seed=7)),), (0, 2000), np.arange(2000), opening, games)


def position_at(boards: Any, i: int) -> PackedPosition:
    return PackedPosition(
        int(boards.lanes[i]), int(boards.occupied[i]), int(boards.available[i]), int(boards.gift[i]), NONE
    )


def afterstate_at(boards: Any, i: int) -> lines.Afterstate:
    return lines.Afterstate(board(position_at(boards, i)), int(boards.gift[i]), CLASSIC)


def position_after(turn: lines.Afterstate) -> PackedPosition:
    """Return an afterstate as a position, with the pieces that are left."""
    return position_of(turn.board, turn.gift)._replace(available=sum(1 << piece for piece in turn.left))


def sweep_of(dataset: Dataset, threads: int = 1) -> LineSweep:
    return LineSweep(dataset, build_feature_words(CLASSIC), QUICK, LEARNING, threads)


def gathered(games: Any, stage: int, turns: tuple[int, int]) -> StageBoards:
    size = len(games.words)
    boards = StageBoards.empty(size * turns[0] * turns[1])
    return boards.copy_first(fill_stage_boards(games, (0, size), stage, turns, boards, CLASSIC.tables))


def open_boards(dataset: Dataset, stage: int, most: int) -> Any:
    """Select boards whose replies leave the result open, and their features."""
    part = sweep_of(dataset).build_block_examples(
        sample_games(dataset, 0), (0, 400), stage, StagePlan(400, exact_share=0.0)
    )
    boards, examples = part.boards.copy_first(most), part.examples
    size = len(boards.lanes)
    return boards, Examples(examples.feature_numbers, examples.begins[: size + 1], examples.targets[:size])


def plies_of(games: Games, game: int) -> list[tuple[int, int]]:
    return [(int(games.pieces[ply, game]), int(games.cells[ply, game])) for ply in range(int(games.plies[game]))]


def test_boards_are_logged_ones_and_others_one_or_two_turns_away(dataset: Dataset) -> None:
    games = sample_games(dataset, 0)
    assert (np.diff(games.words.astype(object)) > 0).all()
    held_out = games.select_games(held_out=True)
    assert 60 < len(held_out.words) < 200
    assert (held_out.words % np.uint64(HELD_OUT_ONE_IN) == 0).all()
    learned, size = games.select_games(held_out=False), 100
    learned = learned._replace(words=learned.words[:size])
    boards, place = gathered(learned, 9, (2, 2)), 0
    afterstates = [afterstate_at(boards, i) for i in range(len(boards.lanes))]
    logged = [plies for game in range(size) if len(plies := plies_of(learned.games, game)) > 9]
    for plies in logged:
        before = naive.board_after(plies[:9])
        if not naive.winning_cells(before, plies[9][0], CLASSIC):
            assert (afterstates[place].board, afterstates[place].gift) == (before, plies[9][0])
            place += 1
    early = [naive.board_after(plies[:7]) for plies in logged]
    apart = [
        min(sum(a != b for a, b in zip(board, after.board, strict=True)) for board in early) for after in afterstates
    ]
    again = [naive.board_after(plies[:8]) for plies in logged]
    one = [
        any(sum(a != b for a, b in zip(earlier, after.board, strict=True)) == 1 for earlier in again)
        for after in afterstates
    ]
    assert set(apart) == {2}
    assert all(one[: 2 * place - len(logged) // 2])
    assert not all(one)
    assert len(afterstates) > 2 * place
    for after in afterstates:
        assert after.gift in naive.safe_pieces(after.board, [*after.left, after.gift], CLASSIC)


@pytest.mark.parametrize("units", [0, 3])
def test_an_update_is_that_of_the_slow_twin_to_the_last_bit(dataset: Dataset, units: int) -> None:
    words = build_feature_words(CLASSIC)
    boards, examples = open_boards(dataset, 8, 40)
    size = len(boards.lanes)
    examples.targets[:] = np.random.default_rng(1).random((size, HEADS))
    fit, features = build_stage_fit(words, units, 5), int(words[STAGE_SIZE])
    split = features * (HEADS + units)
    twin = lines.Learner(fit.weights[:split].reshape(features, -1), fit.weights[split:].reshape(HEADS, units))
    rows = [examples.feature_numbers[examples.begins[i] : examples.begins[i + 1]].tolist() for i in range(size)]
    assert rows == [numbers_of(position_at(boards, i), words) for i in range(size)]
    for _ in range(2):
        learn_examples(examples, 0.1, fit, np.zeros(HEADS))
        for i in range(size):
            twin.learn(rows[i], examples.targets[i].tolist(), 0.1, chance)
    assert np.array_equal(fit.weights[:split].reshape(features, -1), twin.weights)
    assert np.array_equal(fit.weights[split:].reshape(HEADS, units), twin.outputs)
    rounded = round_weights_and_zero_unseen(fit)[:split].reshape(features, -1) * UNIT
    met = np.unique(np.concatenate(rows))
    assert np.isin(np.flatnonzero(rounded.any(axis=1)), met).all()
    assert np.abs(rounded[met] - twin.weights[met]).max() <= UNIT / 2
    assert size == 40


def drawn_weights(seed: int, words: Any) -> NDArray[np.int16]:
    size = stage_size(int(words[STAGE_SIZE]), 0)
    drawn: NDArray[np.int16] = np.random.default_rng(seed).normal(0, 0.2 / UNIT, size).astype(np.int16)
    return drawn


def chances_left(after: lines.Afterstate, weights: NDArray[np.int16], words: Any) -> list[float]:
    """Return the giver's chances not to lose and to win, by the best replies."""
    rows, replies = weights.reshape(-1, HEADS) * UNIT, [(0.0, 0.0)]
    for _, _, then in lines.safe_turns(after.board, after.gift, after.left, CLASSIC):
        end = lines.decided(then)
        not_lost, won = rows[numbers_of(position_after(then), words)].sum(axis=0).tolist()
        replies.append((float(end != lines.LOST), float(end == lines.WON)) if end else (chance(not_lost), chance(won)))
    return [1 - max(won for _, won in replies), 1 - max(not_lost for not_lost, _ in replies)]


@pytest.mark.parametrize("stage", [*seldom(5), 10])
def test_targets_are_the_best_replies_by_the_weights(dataset: Dataset, stage: int) -> None:
    words, weights = build_feature_words(CLASSIC), drawn_weights(2, build_feature_words(CLASSIC))
    boards, _ = open_boards(dataset, stage, 12)
    learned = Weights(weights, np.zeros(32, np.uint64))
    backed, half = np.zeros((12, HEADS)), np.ones((12, HEADS))
    mix_reply_values_into_targets(boards, words, learned, 1.0, backed)
    mix_reply_values_into_targets(boards, words, learned, 0.5, half)
    assert backed.tolist() == [chances_left(afterstate_at(boards, i), weights, words) for i in range(12)]
    assert np.array_equal(half, 0.5 + 0.5 * backed)


def test_exact_targets_are_those_of_the_slow_solver(dataset: Dataset) -> None:
    games = sample_games(dataset, 0).select_games(held_out=False)
    boards = gathered(games, 12, (1, 2)).copy_first(20)
    targets = solve_not_lost_and_won(boards, Solver(CLASSIC, 1.0))
    for i in range(len(boards.lanes)):
        worth = -solve_position(position_at(boards, i), CLASSIC).value
        assert targets[i].tolist() == [float(worth >= 0), float(worth > 0)]
    assert len({tuple(row) for row in targets.tolist()}) == 3


def test_a_sweep_learns_exact_values_late_and_what_replies_leave_early_too(dataset: Dataset) -> None:
    sweep, words, solver = sweep_of(dataset), build_feature_words(CLASSIC), Solver(CLASSIC, 1.0)
    stages, curve = sweep.run()
    assert set(stages) == set(QUICK)
    assert curve["held_out_won"].null_count() == 0
    games = sample_games(dataset, 0)
    part = sweep.build_block_examples(games, (0, 200), 9, QUICK[9])
    worth = solve_not_lost_and_won(part.boards, solver)
    assert np.array_equal(part.examples.targets, worth)
    prepared, after = Future[StageExamples](), Future[NDArray[np.int16] | None]()
    prepared.set_result(part)
    after.set_result(stages[10])
    mixed = sweep.mix_in_replies_or_solve_block(prepared, 0.5, after)
    backed = np.zeros_like(worth)
    units = np.tile(np.array([0, 2], np.uint64), 16)
    mix_reply_values_into_targets(part.boards, words, Weights(stages[10], units), 1.0, backed)
    assert np.array_equal(mixed.examples.targets, (worth + backed) / 2)


class Evaluated(Dataset):
    """Games in which half of the turns had a value."""

    def read_evaluation_values_if_any(self, run_id: str, games: RangeGames) -> NDArray[np.int32]:
        drawn = np.random.default_rng(int(games.game_id[0]))
        values = drawn.integers(-VALUE_UNITS, VALUE_UNITS + 1, (16, len(games.game_id))).astype(np.int32)
        return np.where(drawn.random(values.shape) < 0.5, NO_VALUE, values).astype(np.int32)


def test_the_expected_score_of_logged_turns_is_learned_as_the_slow_twin_learns_it(dataset: Dataset) -> None:
    few = Games(*(np.ascontiguousarray(column[..., :200]) for column in dataset.games))
    games = Evaluated(dataset.runs, (0, 200), dataset.game_id[:200], dataset.opening[:200], few)
    stage, words = 8, build_feature_words(CLASSIC)
    values = next(games.read_evaluation_values_if_any("", part) for _, part in games.read_blocks())
    twin, learned = lines.Learner(np.zeros((int(words[STAGE_SIZE]), 2), np.float32), np.zeros((2, 0), np.float32)), 0
    for game in range(200):
        plies = [(int(few.pieces[ply, game]), int(few.cells[ply, game])) for ply in range(stage)]
        if few.plies[game] <= stage or values[stage - 1, game] == NO_VALUE:
            continue
        position = position_from_plies(plies, gift := int(few.pieces[stage, game]))
        cells = board(position)
        if any(naive.finishes_line(cells, gift, cell, CLASSIC) for cell in naive.empty_cells(cells)):
            continue
        if lines.decided(lines.Afterstate(cells, gift, CLASSIC)):
            continue
        score = (int(values[stage - 1, game]) / VALUE_UNITS + 1) / 2
        twin.learn(numbers_of(position, words), [score, score], LineValuesKind().rate, chance)
        learned += 1
    assert learned > 20
    table = LineValuesKind(method="evaluations", passes=1).learn(games, 2).policy.table
    rows = table["pieces"] == stage
    feature, part, weight = (table[name][rows].tolist() for name in ("feature", "part", "weight"))
    learned_weights = dict(zip(zip(feature, part, strict=True), weight, strict=True))
    expected = np.rint(twin.weights.astype(np.float64) / UNIT) * UNIT
    assert learned_weights == {
        (int(f), int(part)): expected[f, part] for f, part in zip(*np.nonzero(expected), strict=True)
    }


def test_games_without_evaluations_are_refused(dataset: Dataset) -> None:
    with pytest.raises(
        RequestError, match=r"of which an agent reported a value \(archive.evaluations=true stores them\)"
    ):
        LineValuesKind(method="evaluations").derive(dataset, 1)


def test_the_same_games_give_the_same_bytes_on_any_number_of_threads(dataset: Dataset) -> None:
    (one, curve), (other, same) = (sweep_of(dataset, threads).run() for threads in (1, 3))
    assert all(np.array_equal(one[stage], other[stage]) for stage in QUICK)
    assert curve.equals(same)
    assert 0 < curve.filter(pieces=9)["not_lost"][-1] < 0.3
    kind = LineValuesKind(games=150)
    learned = kind.learn(dataset, 1)
    assert compute_knowledge_digest(learned.policy) == compute_knowledge_digest(kind.learn(dataset, 3).policy)
    assert learned.curve is not None
    assert set(learned.curve["pieces"]) >= set(range(2, 11))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "guess"}, "method='guess' is not one of fitted, evaluations, cloning"),
        ({"games": 0}, "games=0 is not a whole number from 1 to 1048576"),
        ({"agent": "x"}, "agent=x has no effect on method=fitted"),
        ({"rate": 0.0}, "rate=0.0 is not above 0"),
        ({"passes": 0}, "passes=0 is not a whole number from 1 to 1000"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LineValuesKind(**parameters)
