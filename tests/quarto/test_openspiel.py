from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quarto.observations import StepwiseGame, encode_board_and_hand
from quarto.rules import NONE, Rules
from tests.paths import ROOT

pytestmark = pytest.mark.extras

PLAYTHROUGH = ROOT / "tests/quarto/playthroughs/python_quarto.txt"


def load_quarto(name: str = "python_quarto") -> Any:
    import pyspiel

    import quarto.openspiel  # noqa: F401  (registers the game)

    return pyspiel.load_game(name)


@pytest.mark.parametrize("rules", ["classic", "square", "own_piece"])
def test_openspiel_plays_it_at_random(rules: str) -> None:
    import pyspiel

    pyspiel.random_sim_test(load_quarto(f"python_quarto(rules={rules})"), num_sims=10, serialize=False, verbose=False)


def test_the_playthrough_is_as_recorded() -> None:
    """Replay a game that OpenSpiel's ``generate_playthrough`` recorded.

    ``playthrough("python_quarto", None, seed=1)`` records a new one.
    """
    load_quarto()
    from absl import flags
    from open_spiel.python.algorithms.generate_playthrough import replay

    flags.FLAGS.mark_as_parsed()
    expected, replayed = replay(str(PLAYTHROUGH))
    assert replayed == expected


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state)), lambda state: state.clone()],  # noqa: S301
)
def test_a_copied_state_goes_on_by_itself(copied: Callable[[Any], Any]) -> None:
    state = load_quarto("python_quarto(rules=square)").new_initial_state()
    for action in (3, np.int64(0), 7):
        state.apply_action(action)
    other = copied(state)
    assert (str(other), other.history(), other.get_game()) == (str(state), [3, 0, 7], state.get_game())
    before = str(state)
    other.apply_action(5)
    assert str(state) == before
    state.apply_action(5)
    assert (str(other), other.legal_actions()) == (str(state), state.legal_actions())


def test_its_states_are_those_of_the_game() -> None:
    game, twin = load_quarto(), StepwiseGame()
    state, chance = game.new_initial_state(), np.random.default_rng(1)
    while not state.is_terminal():
        assert state.current_player() == twin.seat
        assert state.legal_actions() == [action for action in range(16) if twin.legal_action_mask >> action & 1]
        tensor = np.array(state.observation_tensor()).reshape(17, 8)
        assert np.array_equal(tensor, encode_board_and_hand(twin.position))
        action = int(chance.choice(state.legal_actions()))
        text = state.action_to_string(action)
        assert len(text) == (1 if twin.hand == NONE else 2)
        before = state.clone()
        state.apply_action(action)
        assert before.current_player() == twin.seat  # a clone goes on by itself
        twin.act(action)
    assert twin.over
    assert state.returns() == {0: [1, -1], 1: [-1, 1], NONE: [0, 0]}[twin.winner]


def test_rules_are_a_parameter() -> None:
    game = load_quarto("python_quarto(rules=square)")
    assert game.rules == Rules("square", squares="plain")
    assert str(game.new_initial_state()).endswith("square")
