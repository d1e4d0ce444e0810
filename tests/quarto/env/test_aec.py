from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quarto.errors import RequestError
from quarto.notation import parse_game

pytestmark = [
    pytest.mark.extras,
    pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning"),  # of PettingZoo's tests
]


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw into a window that nobody sees, without waiting between pictures."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    rendering = pytest.importorskip("quarto.env.rendering")
    monkeypatch.setattr(rendering, "FRAMES_PER_SECOND", 10_000)


def make_environment(**options: Any) -> Any:
    from quarto.env import env

    return env(**options)


def play_randomly(environment: Any, seed: int) -> list[str]:
    """Play a random game and return which seat decided, in turn."""
    chance, seats = random.Random(seed), []
    environment.reset(seed=seed)
    for agent in environment.agent_iter():
        seen, _, terminated, truncated, _ = environment.last()
        action = None
        if not (terminated or truncated):
            seats.append(agent)
            action = chance.choice(np.flatnonzero(seen["action_mask"]).tolist())
        environment.step(action)
    return seats


@pytest.mark.parametrize("rules", ["classic", "own_piece"])
def test_pettingzoo_accepts_it(rules: str) -> None:
    from pettingzoo.test import api_test, seed_test

    with warnings.catch_warnings():  # it would rather have plain arrays than ones with a mask, and no empty board
        warnings.filterwarnings("ignore", "Observation", UserWarning)
        api_test(make_environment(rules=rules), num_cycles=1000)
        seed_test(lambda: make_environment(rules=rules), num_cycles=200)


def test_pettingzoo_makes_it_by_name() -> None:
    import pettingzoo

    from quarto.env import ENV_ID

    environment = pettingzoo.make("aec", ENV_ID, rules="square")
    assert environment.unwrapped.rules.squares == "plain"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda environment: pickle.loads(pickle.dumps(environment))])  # noqa: S301
@pytest.mark.parametrize("name", ["env", "raw_env"])
def test_a_copy_is_the_same_position_and_goes_on_by_itself(name: str, copied: Callable[[Any], Any]) -> None:
    import quarto.env

    environment = getattr(quarto.env, name)(render_mode="human")
    environment.reset(seed=np.int64(1))
    for action in (3, 0, 7):
        environment.step(action)
    other = copied(environment)
    for action in (5, 1, 6):
        assert other.unwrapped.game.position == environment.unwrapped.game.position
        assert other.agent_selection == environment.agent_selection
        assert np.array_equal(other.last()[0]["action_mask"], environment.last()[0]["action_mask"])
        before = environment.unwrapped.game.position
        other.step(action)
        assert environment.unwrapped.game.position == before
        environment.step(action)
    environment.close()
    other.close()


def test_a_seat_places_and_then_gives() -> None:
    environment = make_environment()
    seats = play_randomly(environment, seed=1)
    assert seats[0] == "seat_0"
    pairs = list(zip(seats[1::2], seats[2::2], strict=False))
    assert all(placed == gave for placed, gave in pairs)
    assert [placed for placed, _ in pairs] == ["seat_1", "seat_0"] * (len(pairs) // 2) + ["seat_1"] * (len(pairs) % 2)
    own_piece = play_randomly(make_environment(rules="own_piece"), seed=1)
    assert own_piece[:4] == ["seat_1", "seat_1", "seat_0", "seat_0"]


def test_the_winner_gets_one_and_the_game_is_in_the_infos() -> None:
    from quarto.env import raw_env

    environment = raw_env()
    environment.reset()
    for action in (0, 0, 1, 1, 2, 2, 3):
        environment.step(action)
        assert environment.rewards == {"seat_0": 0, "seat_1": 0}
    environment.step(3)
    assert environment.rewards == {"seat_0": 1, "seat_1": -1}
    assert all(environment.terminations.values())
    for agent in ("seat_0", "seat_1"):
        assert parse_game(environment.infos[agent]["game"]) == [(0, 0), (1, 1), (2, 2), (3, 3)]
        assert not environment.observe(agent)["action_mask"].any()


def test_an_illegal_action_loses() -> None:
    environment = make_environment()
    environment.reset()
    environment.step(5)
    environment.step(0)
    environment.step(5)  # given before
    assert environment.rewards == {"seat_0": 0, "seat_1": -1}
    assert all(environment.terminations.values()) or all(environment.truncations.values())


def test_wrong_names_are_refused_with_the_right_ones() -> None:
    with pytest.raises(RequestError, match=r"rules 'clasic' does not exist; did you mean 'classic'"):
        make_environment(rules="clasic")
    with pytest.raises(RequestError, match=r"render_mode 'asci' does not exist; did you mean 'ansi'"):
        make_environment(render_mode="asci")
