"""`method=cloning`: the turns that are compared, the update and who is cloned are those of the slow twin."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from agents.alpha_beta import AlphaBeta
from agents.learning.line_boards import STAGE_SIZE
from agents.learning.line_features import build_feature_words
from agents.line_values import DECIDED_CHANCES, HEADS, STEEPEST
from agents.semi_random import SemiRandom
from analytics.policies.kinds.dataset import BOTH_SEATS, Dataset
from analytics.policies.kinds.line_cloning import (
    SAMPLED_TURNS,
    CloningBlock,
    learn_and_count_stage_turns,
    select_cloning_block,
)
from analytics.policies.kinds.line_fit import build_stage_fit
from analytics.policies.kinds.line_sweep import compute_game_words
from analytics.policies.kinds.line_values import LineValuesKind
from analytics.store.policy_store import compute_knowledge_digest
from analytics.store.records import run_id_to_stream_key
from quarto.batch import Games
from quarto.errors import RequestError
from quarto.rules import CLASSIC
from runners.arena.batch_engine import BatchEngine, PairRange
from tests import naive
from tests.agents.learning.test_line_features import numbers_of
from tests.agents.test_line_values import chance
from tests.analytics.naive_games import build_spec, record
from tests.analytics.policies.kinds.test_line_values import position_after
from tests.naive_policies import lines

OPENING = 2


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Play 400 games of alpha_beta and semi_random from two imposed plies."""
    engine = BatchEngine(CLASSIC, [AlphaBeta(), SemiRandom()], ["a", "b"], [(0, 1)], 3, 4, OPENING)
    games = engine.play_block(PairRange(0, 0, 200)).games
    run = record(build_spec(CLASSIC, [("alpha_beta", "semi_random")], seed=7))
    return Dataset((run,), (0, 400), np.arange(400), np.full(400, OPENING, np.int8), games)


def parts(dataset: Dataset) -> tuple[CloningBlock, CloningBlock]:
    """Select the games that are learned from, and those held out."""
    ((run, games),) = dataset.read_blocks()
    words = compute_game_words(run_id_to_stream_key(run.run_id), games.game_id, 0)
    seats = np.full(len(words), BOTH_SEATS, np.int8)
    learning, measuring = (select_cloning_block(games, seats, words, held_out) for held_out in (False, True))
    return learning, measuring


def compared(part: CloningBlock, game: int, stage: int) -> list[lines.Afterstate]:
    """List the afterstates of the compared turns, that of the logged turn first, as the module describes them."""
    plies = [(int(part.games.pieces[ply, game]), int(part.games.cells[ply, game])) for ply in range(stage + 1)]
    board, (hand, cell), gift = naive.board_after(plies[: stage - 1]), plies[stage - 1], plies[stage][0]
    available = [piece for piece in range(16) if piece not in board and piece != hand]
    if stage > OPENING and naive.winning_cells(board, hand, CLASSIC):
        return []
    turns = lines.safe_turns(board, hand, available, CLASSIC)
    if stage == OPENING:  # the cell was imposed
        turns = [turn for turn in turns if turn[0] == cell]
    places = [turn[:2] for turn in turns]
    if len(turns) < 2 or (cell, gift) not in places:
        return []
    logged = places.index((cell, gift))
    alternatives = [number for number in range(len(turns)) if number != logged]
    if len(turns) > SAMPLED_TURNS:
        word = naive.draw(int(part.words[game]), stage)
        drawn = [(naive.draw(word, i) >> 32) * len(turns) >> 32 for i in range(SAMPLED_TURNS - 1)]
        alternatives = [number for number in dict.fromkeys(drawn) if number != logged]
    return [turns[number][2] for number in [logged, *alternatives]]


def cloned(twin: lines.Learner, turns: Sequence[Sequence[int]], ends: Sequence[str | None], rate: float) -> None:
    """Update the twin once: the first turn is the logged one. A turn whose ``end`` is known has that value."""
    values = [twin.forward(features) for features in turns]
    for (logits, _), end in zip(values, ends, strict=True):
        if end:
            logits[:] = (2 * DECIDED_CHANCES[(lines.LOST, lines.DRAWN, lines.WON).index(end)] - 1) * STEEPEST
    errors = np.zeros((len(turns), HEADS), np.float32)
    alternatives = np.float32(len(turns) - 1)
    for head in range(HEADS):
        for i in range(1, len(turns)):
            error = np.float32(1.0 - chance(float(values[0][0][head] - values[i][0][head])))
            errors[0, head] += error / alternatives
            errors[i, head] = -error / alternatives
    for features, (_, units), turn_errors in zip(turns, values, errors, strict=True):
        twin.change(features, units, turn_errors, rate)


@pytest.mark.parametrize(("stage", "units"), [(2, 0), (9, 0), (12, 2)])
def test_the_update_is_that_of_the_slow_twin(dataset: Dataset, stage: int, units: int) -> None:
    words, (part, _) = build_feature_words(CLASSIC), parts(dataset)
    few = CloningBlock(
        Games(*(np.ascontiguousarray(column[..., :25]) for column in part.games)),
        part.imposed_and_seats[:, :25],
        part.words[:25],
    )
    few = few._replace(imposed_and_seats=np.ascontiguousarray(few.imposed_and_seats))
    fit, features = build_stage_fit(words, units, 5), int(words[STAGE_SIZE])
    split = features * (HEADS + units)
    twin = lines.Learner(fit.weights[:split].reshape(features, -1), fit.weights[split:].reshape(HEADS, units))
    met = [turns for game in range(25) if few.games.plies[game] > stage if (turns := compared(few, game, stage))]
    numbers = [[numbers_of(position_after(after), words) for after in afterstates] for afterstates in met]
    ends = [[lines.decided(after) for after in afterstates] for afterstates in met]
    for _ in range(2):
        learned = learn_and_count_stage_turns(*few, stage, words, 0.1, fit, np.zeros(HEADS))
        for turn_features, their_ends in zip(numbers, ends, strict=True):
            cloned(twin, turn_features, their_ends, 0.1)
        assert learned == len(met) > 3
    assert np.array_equal(fit.weights[:split].reshape(features, -1), twin.weights)
    assert np.array_equal(fit.weights[split:].reshape(HEADS, units), twin.outputs)


def test_the_same_games_give_the_same_bytes_on_any_number_of_threads(dataset: Dataset) -> None:
    kind = LineValuesKind(method="cloning", passes=2)
    one = kind.learn(dataset, 1)
    assert compute_knowledge_digest(one.policy) == compute_knowledge_digest(kind.learn(dataset, 3).policy)
    assert one.curve is not None
    assert one.curve["held_out_won"].drop_nulls().len() > 5


def test_only_the_turns_of_the_agent_that_is_named_are_learned(dataset: Dataset) -> None:
    both, one, other = (
        LineValuesKind(method="cloning", passes=1, agent=agent).learn(dataset, 2).curve
        for agent in (None, "alpha_beta", "semi_random")
    )
    assert both is not None
    assert one is not None
    assert other is not None
    sizes = [int(curve["boards"].sum()) for curve in (both, one, other)]
    assert sizes[0] == sizes[1] + sizes[2]
    # What alpha_beta does can be told from its board; what semi_random does cannot.
    middle = [curve.filter(pieces=7)["not_lost"][0] for curve in (one, other)]
    assert middle[0] < middle[1]
    with pytest.raises(RequestError, match=r"agent=alpha_bta played none of the games; did you mean 'alpha_beta'"):
        LineValuesKind(method="cloning", agent="alpha_bta").learn(dataset, 1)
    with pytest.raises(ValueError, match=re.escape("agent=x has no effect on method=fitted")):
        LineValuesKind(agent="x")
