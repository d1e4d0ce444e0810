from __future__ import annotations

import random

import numpy as np

from quarto.batch import Batch
from quarto.observations import SHAPE, VALUES, encoded, mask, observation, observation_of
from quarto.position import Position
from quarto.rules import NONE
from quarto.stepwise import ACTIONS, StepwiseGame


def games(seed: int, count: int) -> list[StepwiseGame]:
    """The states of random games."""
    chance = random.Random(seed)
    found: list[StepwiseGame] = []
    while len(found) < count:
        game = StepwiseGame()
        while not game.over:
            found.append(game.copy())
            game.act(chance.choice([action for action in range(ACTIONS) if game.legal >> action & 1]))
    return found[:count]


def twin(position: Position, places: list[int]) -> np.ndarray:
    """What an observation shows, value by value."""
    rows = np.zeros(SHAPE, np.int8)
    for place, piece in enumerate(places):
        for attribute in range(4):
            if piece != NONE:
                rows[place, attribute + 4 * (1 - (piece >> attribute & 1))] = 1
    return rows


def test_a_row_has_the_values_of_a_piece() -> None:
    seen = observation([*[NONE] * 5, 0b1010, *[NONE] * 10, 0b0001])
    assert seen.dtype == np.int8
    assert seen[5].tolist() == [0, 1, 0, 1, 1, 0, 1, 0]  # square, solid, coloured, high; then the opposites
    assert seen[16].tolist() == [1, 0, 0, 0, 0, 1, 1, 1]
    assert seen.sum() == VALUES


def test_a_batch_is_encoded_like_its_positions_one_by_one() -> None:
    states = games(seed=2, count=300)
    observations, masks = encoded(Batch.of([state.position for state in states]))
    assert observations.dtype == masks.dtype == np.int8
    for state, seen, legal in zip(states, observations, masks, strict=True):
        expected = twin(state.position, state.pieces)
        assert np.array_equal(seen, expected)
        assert np.array_equal(observation(state.pieces), expected)
        assert np.array_equal(observation_of(state.position), expected)
        assert legal.tolist() == [state.legal >> action & 1 for action in range(ACTIONS)]
        assert np.array_equal(mask(state.legal), legal)


def test_positions_that_lie_apart_in_memory_are_encoded_too() -> None:
    batch = Batch.of([state.position for state in games(seed=3, count=40)])
    apart = Batch(*(field[::2] for field in batch))  # type: ignore[arg-type]  # each keeps its own type
    for whole, part in zip(encoded(batch), encoded(apart), strict=True):
        assert np.array_equal(whole[::2], part)
