"""The environment of whole turns has the spaces, the openings and the rewards of exported episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quarto.errors import RequestError
from quarto.notation import parse_game
from quarto.observations import CHOICES, TURNS

pytestmark = pytest.mark.extras


def made(**options: Any) -> Any:
    import gymnasium

    from quarto.env import TURNS_ID

    return gymnasium.make(TURNS_ID, **options).unwrapped


def test_gymnasium_accepts_it() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(made(opening_plies=2), skip_render_check=True)


def test_a_step_is_a_whole_turn_after_the_imposed_plies() -> None:
    environment, chance, rewards = made(opening_plies=2), np.random.default_rng(1), set()
    for seed in range(40):
        seen, info = environment.reset(seed=seed)
        assert (seen[:16] >= 0).sum() == 2
        assert (seen[16] < 0) == (info["seat"] == 0)  # seat 0 gives the first piece that is chosen
        steps, done = 0, False
        while not done:
            legal = np.flatnonzero(info["action_mask"])
            action = int(chance.choice(legal))
            assert all((action // CHOICES == 16) == (seen[16] < 0) for action in legal)
            seen, reward, terminated, truncated, info = environment.step(action)
            done, steps = terminated or truncated, steps + 1
        plies = parse_game(info["game"])
        assert steps in ((len(plies) - 2) // 2 + 1, (len(plies) - 1) // 2, len(plies) // 2)
        if info["ending"] == "line":
            assert reward == (1 if len(plies) & 1 == info["seat"] else -1)
        rewards.add(reward)
    assert {1.0, -1.0} <= rewards


def test_an_illegal_turn_forfeits_and_a_seed_repeats_the_opening() -> None:
    environment = made(opening_plies=2)
    seen, info = environment.reset(seed=3)
    assert np.array_equal(environment.reset(seed=3)[0], seen)
    assert not np.array_equal(environment.reset()[0], seen)
    illegal = next(action for action in range(TURNS) if not environment.action_masks()[action])
    _, reward, terminated, _, info = environment.step(illegal)
    assert (reward, terminated, info["ending"]) == (-1.0, True, "forfeit_illegal")


def test_rules_without_gifts_are_refused() -> None:
    with pytest.raises(RequestError, match="the mover chooses the piece"):
        made(rules="own_piece")
