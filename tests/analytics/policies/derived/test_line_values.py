"""The kinds `line_values` and `line_network`: boards, update and targets are those of their slow twins."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.learning.line_features import STAGE_SIZE, words_of
from agents.line_values import HEADS, UNIT, Weights, stage_words
from agents.semi_random import SemiRandom
from analytics.policies.derived.dataset import Dataset
from analytics.policies.derived.line_fit import STEEPEST, Examples, chance_of, fresh, learn, rounded
from analytics.policies.derived.line_sweep import (
    ONE_IN,
    Sweep,
    back_up,
    back_up_two,
    boards_of,
    chosen_games,
    exact,
    write_features,
)
from analytics.policies.derived.line_values import LineNetwork, LineValues
from analytics.policies.policy_store import knowledge_of
from analytics.store.blocks import RangeGames
from quarto.batch import NO_VALUE, VALUE_UNITS, Games
from quarto.errors import RequestError
from quarto.jit import kernel
from quarto.position import Position, board, from_plies
from quarto.rules import CLASSIC, NONE
from quarto.solver.solver import Solver
from runners.arena.engine import Engine, Order
from tests import naive
from tests.agents.learning.test_line_features import numbers_of
from tests.analytics.naive_games import record, spec_of
from tests.naive_policies import lines
from tests.naive_policies.games import position_of
from tests.naive_solver import solve_position

QUICK: dict[str, Any] = {"boards": 200, "exact_from": 12, "foresight": 12}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """2,000 games of semi_random from two imposed plies."""
    engine = Engine(CLASSIC, [SemiRandom(), SemiRandom()], ["a", "b"], [(0, 1)], 3, 4, 2)
    games = engine.play_block(Order(0, 0, 1000)).block.games
    opening = np.full(2000, 2, np.int8)
    return Dataset((record(spec_of(CLASSIC, seed=7)),), (0, 2000), np.arange(2000), opening, games)


def position_at(boards: Any, i: int) -> Position:
    return Position(int(boards.lanes[i]), int(boards.occupied[i]), int(boards.left[i]), int(boards.gift[i]), NONE)


def afterstate_at(boards: Any, i: int) -> lines.Afterstate:
    return lines.Afterstate(board(position_at(boards, i)), int(boards.gift[i]), CLASSIC)


def position_after(turn: lines.Afterstate) -> Position:
    """The same as a position, with the pieces that are left."""
    return position_of(turn.board, turn.gift)._replace(available=sum(1 << piece for piece in turn.left))


def boards_at(dataset: Dataset, stage: int, most: int) -> Any:
    return boards_of(chosen_games(dataset, 0).part(held_out=False), stage, most, CLASSIC.tables)


def test_boards_are_logged_ones_and_others_a_turn_away(dataset: Dataset) -> None:
    games = chosen_games(dataset, 0)
    assert (np.diff(games.words.astype(object)) > 0).all()
    held_out = games.part(held_out=True)
    assert 60 < len(held_out.words) < 200
    assert (held_out.words % np.uint64(ONE_IN) == 0).all()
    learned = games.part(held_out=False)
    boards, place, redrawn = boards_of(learned, 9, 1000, CLASSIC.tables), 0, 0
    for game in range(len(learned.words)):
        if place == len(boards.lanes) or learned.games.plies[game] <= 9:
            continue
        plies = [(int(learned.games.pieces[ply, game]), int(learned.games.cells[ply, game])) for ply in range(10)]
        before, logged, piece = naive.board_after(plies[:8]), naive.board_after(plies[:9]), plies[8][0]
        if not naive.winning_cells(logged, plies[9][0], CLASSIC):
            after = afterstate_at(boards, place)
            assert (after.board, after.gift) == (logged, plies[9][0])
            place += 1
        if not naive.winning_cells(before, piece, CLASSIC) and place < len(boards.lanes):
            after = afterstate_at(boards, place)
            cell = after.board.index(piece) if piece in after.board else NONE
            if cell != NONE and after.board == naive.with_piece(before, piece, cell) and after.gift != plies[9][0]:
                assert after.gift in naive.safe_pieces(after.board, [*after.left, after.gift], CLASSIC)
                place, redrawn = place + 1, redrawn + 1
            elif cell != NONE and after.board == naive.with_piece(before, piece, cell):
                place, redrawn = place + 1, redrawn + 1  # the same gift by chance
    assert place == len(boards.lanes) > 300
    assert redrawn > 150


@kernel()
def chances(logits: Any, found: Any) -> None:
    for i in range(len(logits)):
        found[i] = chance_of(logits[i])


def chance(logit: float) -> float:
    found = np.zeros(1)
    chances(np.array([logit]), found)
    return float(found[0])


def test_chances_are_the_logistic_function() -> None:
    logits = np.linspace(-STEEPEST, STEEPEST, 1001)
    found = np.zeros(1001)
    chances(logits, found)
    assert np.abs(found - 1 / (1 + np.exp(-logits))).max() < 5e-5
    assert chance(1e9) == chance(STEEPEST) == 1 - chance(-1e9)


@pytest.mark.parametrize("units", [0, 3])
def test_an_update_is_that_of_the_slow_twin_to_the_last_bit(dataset: Dataset, units: int) -> None:
    words, boards = words_of(CLASSIC, True, 16), boards_at(dataset, 8, 60)
    examples = Examples.empty(60, words)
    write_features(boards, words, examples, (0, 60))
    examples.targets[:] = np.random.default_rng(1).random((60, HEADS))
    fit, features = fresh(words, units, 5), int(words[STAGE_SIZE])
    split = features * (HEADS + units)
    twin = lines.Learner(fit.weights[:split].reshape(features, -1), fit.weights[split:].reshape(HEADS, units))
    for number in range(2):
        learn(examples, 0.1, fit, np.zeros(HEADS))
        for i in range(60):
            found = examples.found[i, : examples.counts[i]].tolist()
            assert number or found == numbers_of(position_at(boards, i), words)
            twin.learn(found, examples.targets[i].tolist(), 0.1, chance)
    assert np.array_equal(fit.weights[:split].reshape(features, -1), twin.weights)
    assert np.array_equal(fit.weights[split:].reshape(HEADS, units), twin.outputs)
    known = rounded(fit)[:split].reshape(features, -1)
    met = np.unique(np.concatenate([examples.found[i, : examples.counts[i]] for i in range(60)]))
    assert np.array_equal(np.flatnonzero(known.any(axis=1)), met)
    assert np.abs(known[met] - twin.weights[met]).max() <= UNIT / 2


def drawn_weights(seed: int, words: Any) -> np.ndarray:
    size = stage_words(int(words[STAGE_SIZE]), HEADS, 0)
    return np.rint(np.random.default_rng(seed).normal(0, 0.2, size) / UNIT) * UNIT


def replies_to(after: lines.Afterstate, weights: np.ndarray, words: Any) -> list[tuple[lines.Afterstate, np.ndarray]]:
    """The afterstate of each safe reply, and its logits."""
    rows, found = weights.reshape(-1, HEADS), []
    for _, _, then in lines.safe_turns(after.board, after.gift, after.left, CLASSIC):
        found.append((then, rows[numbers_of(position_after(then), words)].sum(axis=0)))
    return found


def chances_left(after: lines.Afterstate, weights: np.ndarray, words: Any) -> list[float]:
    """The giver's chances not to lose and to win, by the best replies."""
    if not after.left:
        return [1.0, 0.0]
    logits = [each for _, each in replies_to(after, weights, words)]
    if not logits:
        return [1.0, 1.0]
    best = np.max(logits, axis=0)
    return [1 - chance(best[1]), 1 - chance(best[0])]


def test_targets_are_the_best_replies_by_the_weights(dataset: Dataset) -> None:
    words, boards = words_of(CLASSIC, True, 11), boards_at(dataset, 10, 25)
    found, weights = np.zeros((25, HEADS)), drawn_weights(2, words)
    back_up(boards, words, Weights(weights, 0, HEADS, 0), found, (0, 25))
    assert found.tolist() == [chances_left(afterstate_at(boards, i), weights, words) for i in range(25)]


@pytest.mark.slow  # two seconds of compiling, and no build backs up so deep unless it is told to
@pytest.mark.parametrize("stage", [10, 14])
def test_deeper_targets_value_the_best_replies_by_the_turns_after_them(dataset: Dataset, stage: int) -> None:
    words, boards = words_of(CLASSIC, True, 12), boards_at(dataset, stage, 12)
    size, breadth = len(boards.lanes), 2
    found, first, second = np.zeros((size, HEADS)), drawn_weights(3, words), drawn_weights(4, words)
    replies, turns = Weights(first, 0, HEADS, 0), Weights(second, 0, HEADS, 0)
    back_up_two(boards, words, replies, turns, breadth, found, (0, size))
    shallow, other = 0, 0
    for i in range(size):
        after = afterstate_at(boards, i)
        made = replies_to(after, first, words)
        orders = [sorted(range(len(made)), key=lambda k: -made[k][1][head]) for head in range(HEADS)]
        best = {k for order in orders for k in order[:breadth]}
        values = np.array([chances_left(made[k][0], second, words) for k in sorted(best)])
        assert found[i].tolist() == [1 - values[:, 1].max(), 1 - values[:, 0].max()] if best else [1.0, 1.0]
        shallow += found[i].tolist() == chances_left(after, first, words)
        other += len(best) > breadth
    assert size > 3
    assert stage == 14 or (shallow < size and other)


def test_exact_targets_are_those_of_the_slow_solver(dataset: Dataset) -> None:
    boards, solver = boards_at(dataset, 12, 20), Solver(CLASSIC, 1.0)
    found = exact(boards, (0, len(boards.lanes)), solver)
    for i in range(len(boards.lanes)):
        worth = -solve_position(position_at(boards, i), CLASSIC).value
        assert found[i].tolist() == [float(worth >= 0), float(worth > 0)]
    assert len({tuple(row) for row in found.tolist()}) == 3
    boards.value[4] = 1 - 2 * int(found[4, 1])  # what is known is believed, not searched for
    assert exact(boards, (3, 6), solver)[1].tolist() == [1.0 - found[4, 1]] * 2
    assert np.array_equal(exact(boards, (3, 6), solver)[::2], found[3:6:2])


def test_a_sweep_learns_exact_values_late_both_in_the_middle_and_what_replies_leave_early(dataset: Dataset) -> None:
    words, plan = (
        words_of(CLASSIC, True, 12),
        LineValues(**QUICK, solved_from=8, breadth=2, deep_from=6, deep_to=7).plan,
    )
    sweep, solver = Sweep(dataset, words, 0, plan, 1), Solver(CLASSIC, 1.0)
    stages, curve = sweep.run()
    weights = {stage: Weights(each, 0, HEADS, 0) for stage, each in stages.items()}
    for stage in (5, 7, 9, 12):
        boards = boards_at(dataset, stage, 20)
        span, backed, worth = (
            (0, len(boards.lanes)),
            np.zeros((len(boards.lanes), HEADS)),
            exact(boards, (0, 20), solver),
        )
        if stage == 7:
            back_up_two(boards, words, weights[8], weights[9], 2, backed, span)
        else:
            back_up(boards, words, weights[stage + 1], backed, span)
        expected = {5: backed, 7: backed, 9: (backed + worth) / 2, 12: worth}[stage]
        assert np.array_equal(sweep.examples(boards, stage).targets, expected)
        measured = sweep.examples(boards, stage, measured=True).targets
        assert np.array_equal(measured, worth if stage >= 7 else backed)
    assert curve["held_out_won"].null_count() == 0


class Told(Dataset):
    """Games in which half of the turns had a value."""

    def thought_values(self, run_id: str, games: RangeGames) -> NDArray[np.int32]:
        drawn = np.random.default_rng(int(games.game_id[0]))
        values = drawn.integers(-VALUE_UNITS, VALUE_UNITS + 1, (16, len(games.game_id))).astype(np.int32)
        return np.where(drawn.random(values.shape) < 0.5, NO_VALUE, values).astype(np.int32)


def test_the_expected_score_of_logged_turns_is_learned_as_the_slow_twin_learns_it(dataset: Dataset) -> None:
    few = Games(*(np.ascontiguousarray(each[..., :200]) for each in dataset.games))
    games = Told(dataset.runs, (0, 200), dataset.game_id[:200], dataset.opening[:200], few)
    stage, words = 8, words_of(CLASSIC, True, 16)
    told = next(games.thought_values("", part) for _, part in games.parts())
    twin, learned = lines.Learner(np.zeros((int(words[STAGE_SIZE]), 2), np.float32), np.zeros((2, 0), np.float32)), 0
    for game in range(200):
        plies = [(int(few.pieces[ply, game]), int(few.cells[ply, game])) for ply in range(stage)]
        if few.plies[game] <= stage or told[stage - 1, game] == NO_VALUE:
            continue
        position = from_plies(plies, gift := int(few.pieces[stage, game]))
        cells = board(position)
        if any(naive.finishes_line(cells, gift, cell, CLASSIC) for cell in naive.empty_cells(cells)):
            continue
        score = (int(told[stage - 1, game]) / VALUE_UNITS + 1) / 2
        twin.learn(numbers_of(position, words), [score, score], LineValues().rate, chance)
        learned += 1
    assert learned > 20
    table = LineValues(method="thoughts", foresight=16, passes=1).learn(games, 2).policy.table
    rows = table["pieces"] == stage
    feature, part, weight = (table[name][rows].tolist() for name in ("feature", "part", "weight"))
    found = dict(zip(zip(feature, part, strict=True), weight, strict=True))
    known = np.rint(twin.weights.astype(np.float64) / UNIT) * UNIT
    assert found == {(int(f), int(part)): known[f, part] for f, part in zip(*np.nonzero(known), strict=True)}


def test_games_without_thoughts_are_refused(dataset: Dataset) -> None:
    with pytest.raises(RequestError, match=r"of which an agent told a value \(archive.thoughts=true logs them\)"):
        LineValues(method="thoughts").derive(dataset, 1)


@pytest.mark.parametrize(
    "kind",
    [
        LineValues(**QUICK),
        LineValues(method="outcomes"),
        LineNetwork(units=2, **QUICK),
        LineNetwork(units=2, method="outcomes"),
    ],
    ids=["fitted", "outcomes", "network", "network outcomes"],
)
def test_the_same_games_give_the_same_bytes_on_any_number_of_threads(dataset: Dataset, kind: LineValues) -> None:
    one = kind.learn(dataset, 1)
    assert knowledge_of(one.policy) == knowledge_of(kind.learn(dataset, 3).policy)
    assert one.policy.kind == kind.kind
    assert one.curve is not None
    errors = one.curve.filter(pieces=9)["not_lost"]
    assert 0 < errors[-1] < 0.3
    assert set(one.curve["pieces"]) >= set(range(2, 14))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "guess"}, "method='guess' is not one of outcomes, thoughts, fitted, exact"),
        ({"foresight": 0}, "foresight=0 is not a whole number from 1 to 16"),
        ({"exact_from": 17}, "exact_from=17 is not a whole number from 1 to 16"),
        ({"solved_from": 0}, "solved_from=0 is not a whole number from 1 to 16"),
        ({"breadth": -1}, "breadth=-1 is not a whole number from 0 to 256"),
        ({"rate": 0.0}, "rate=0.0 is not above 0"),
        ({"passes": 0}, "passes=0 is not a whole number from 1 to 1000"),
        ({"mobility": 1}, "mobility=1 is neither true nor false"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LineValues(**parameters)
