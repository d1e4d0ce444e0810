"""A copied or pickled environment goes on like the original, and neither disturbs the other."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quarto.errors import RequestError
from quarto.views import Position
from runners.hosting.timed_agents import TimedAgent
from tests.runners.players import Dice

pytestmark = pytest.mark.extras


class Moody:
    """An agent in Python whose turns depend on how many turns it has taken before."""

    def __init__(self) -> None:
        self.turn_count = 0

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        self.turn_count += 1
        cells, gifts = position.free, position.available
        return cells[self.turn_count % len(cells)], gifts[int(rng.integers(len(gifts)))] if gifts else -1


def copy_by_pickle(environment: Any) -> Any:
    return pickle.loads(pickle.dumps(environment))  # noqa: S301


COPIES: list[Callable[[Any], Any]] = [copy.deepcopy, copy_by_pickle]
OPPONENTS: list[Any] = ["random", "mcts(iterations=4,reuse=true)", Moody(), None]


def make(turns: bool = False, **options: Any) -> Any:
    import gymnasium

    from quarto.env import ENV_ID, TURNS_ID

    return gymnasium.make(TURNS_ID if turns else ENV_ID, **options)


def make_many(turns: bool = False, **options: Any) -> Any:
    import gymnasium

    from quarto.env import ENV_ID, TURNS_ID

    return gymnasium.make_vec(TURNS_ID if turns else ENV_ID, num_envs=5, **options)


def record_steps(environment: Any, mask: Any, seed: int, steps: int = 30) -> list[Any]:
    """Take random legal actions, over the ends of games, and list everything that the environment returns."""
    chance, records = np.random.default_rng(seed), list[Any]()
    for _ in range(steps):
        masks = np.atleast_2d(mask)
        actions = [int(chance.choice(np.flatnonzero(row))) for row in masks]
        observation, reward, terminated, truncated, infos = environment.step(actions if mask.ndim == 2 else actions[0])
        if mask.ndim == 1 and (terminated or truncated):
            observation, infos = environment.reset()
        mask = infos["action_mask"]
        records.append(
            [np.array(value).tolist() for value in (observation, reward, terminated, truncated, *infos.values())]
        )
    return records


@pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("opponent", OPPONENTS, ids=["jitted", "remembering", "python", "none"])
@pytest.mark.parametrize("make_environment", [make, make_many], ids=["one", "many"])
def test_a_copy_goes_on_like_the_original(
    make_environment: Callable[..., Any], opponent: Any, copied: Callable[[Any], Any]
) -> None:
    def begin() -> tuple[Any, Any]:
        environment = make_environment(turns=True, opponent=copy.deepcopy(opponent))
        _, infos = environment.reset(seed=3)
        chance = np.random.default_rng(1)
        for _ in range(2):
            masks = np.atleast_2d(infos["action_mask"])
            actions = [int(chance.choice(np.flatnonzero(row))) for row in masks]
            *_, infos = environment.step(actions if make_environment is make_many else actions[0])
        return environment, infos["action_mask"]

    alone, mask = begin()
    expected = record_steps(alone, mask, seed=2)
    environment, mask = begin()
    other = copied(environment)
    assert record_steps(copied(other), mask, seed=4) != expected
    assert record_steps(other, mask, seed=2) == expected
    assert record_steps(environment, mask, seed=2) == expected


def test_a_copy_records_its_games_too(tmp_path: Path) -> None:
    environment = make(record=tmp_path / "games.txt")
    _, info = environment.reset(seed=1)
    other = copy.deepcopy(environment)
    record_steps(environment, info["action_mask"], seed=2, steps=60)
    games = len((tmp_path / "games.txt").read_text().splitlines())
    record_steps(other, info["action_mask"], seed=2, steps=60)
    assert len((tmp_path / "games.txt").read_text().splitlines()) == 2 * games > 0


@pytest.mark.parametrize(
    ("opponent", "reason"),
    [
        ("polito", "agent 'polito' cannot be copied: it plays in a process of its own; copy a game against"),
        ("engine", "agent 'engine' cannot be copied: it plays in a process of its own; copy a game against"),
        (TimedAgent(Dice, 9.0), "cannot be copied: its turns are limited by the clock, so they cannot be repeated; "),
    ],
    ids=["polito", "engine", "limited"],
)
@pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "pickle"])
def test_an_opponent_that_cannot_be_copied_is_named(opponent: Any, reason: str, copied: Callable[[Any], Any]) -> None:
    environment = make(opponent=opponent)
    environment.reset(seed=1)
    with pytest.raises(RequestError, match=reason):
        copied(environment)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
def test_seeds_may_be_numpys_integers(kind: type[np.integer[Any]]) -> None:
    for make_environment in (make, make_many):
        observation, infos = make_environment().reset(seed=3)
        same_observation, same_infos = make_environment().reset(seed=kind(3))
        assert np.array_equal(observation, same_observation)
        assert np.array_equal(infos["seat"], same_infos["seat"])
    for seeds in ([kind(3), None, kind(5), 6, kind(7)], np.arange(3, 8, dtype=kind)):
        assert np.array_equal(
            make_many().reset(seed=seeds)[0][[0, 2, 3, 4]], make_many().reset(seed=3)[0][[0, 2, 3, 4]]
        )
