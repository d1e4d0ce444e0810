"""The speed of the environments for reinforcement learning, beside those of the libraries that they are made for.

A step is a decision of one player, chosen at random among the legal ones, which is part of its time. Environments take
turns in each round, and the best round counts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from quarto.errors import of_extra

SECONDS = 1.0  # of one environment in a round
GAMES = 4096  # at once in the vectorised environment
BETWEEN_CLOCKS = 200  # steps from one look at the clock to the next
TARGET_RATIO = 100  # of the vectorised environment to PettingZoo's Connect Four

Steps = Callable[[], int]  # takes some steps and returns how many


def environment_figures(rounds: int, quick: bool = False) -> dict[str, Any]:
    """Steps a second of each environment, and ratios. Raises ``MissingExtraError`` without the extras."""
    seconds = SECONDS / (10 if quick else 1)
    steps = {**_of_pettingzoo(), **_of_gymnasium(), **_of_openspiel()}
    for warmed_up in steps.values():
        warmed_up()
    best = dict.fromkeys(steps, 0.0)
    for _ in range(rounds):
        for name, take in steps.items():
            best[name] = max(best[name], _speed(take, seconds))
    figures: dict[str, Any] = {name: {"steps_per_second": speed} for name, speed in best.items()}
    yardstick = best["pettingzoo_connect_four"]
    figures["vector_quarto"] |= {
        "games_at_once": GAMES,
        "ratio_to_pettingzoo_connect_four": best["vector_quarto"] / yardstick,
        "target_ratio_to_pettingzoo_connect_four": TARGET_RATIO,
        "ratio_to_pettingzoo_quarto": best["vector_quarto"] / best["pettingzoo_quarto"],
    }
    figures["pettingzoo_quarto"]["ratio_to_connect_four"] = best["pettingzoo_quarto"] / yardstick
    return figures


def _speed(take: Steps, seconds: float) -> float:
    """Steps a second, for about so many seconds."""
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds or count == 0:
        count += take()
    return count / elapsed


def _of_pettingzoo() -> dict[str, Steps]:
    with of_extra("rl", "the measurement of environments"):
        from pettingzoo.classic.connect_four.connect_four import env as connect_four

        from quarto.env import env

    return {"pettingzoo_connect_four": _turns_of(connect_four()), "pettingzoo_quarto": _turns_of(env())}


def _turns_of(environment: Any) -> Steps:
    """Steps of a PettingZoo environment in turns, as in its ``performance_benchmark``."""
    environment.reset()

    def take() -> int:
        for _ in range(BETWEEN_CLOCKS):
            observation, _, terminated, truncated, _ = environment.last()
            if terminated or truncated:
                environment.reset()
            else:
                environment.step(random.choice(np.flatnonzero(observation["action_mask"]).tolist()))
        return BETWEEN_CLOCKS

    return take


def _of_gymnasium() -> dict[str, Steps]:
    import gymnasium

    from quarto.env import ENV_ID

    single, vector = gymnasium.make(ENV_ID), gymnasium.make_vec(ENV_ID, num_envs=GAMES)
    single_masks = [single.reset(seed=1)[1]["action_mask"]]
    vector_masks = [vector.reset(seed=1)[1]["action_mask"]]
    chance = np.random.default_rng(1)

    def take() -> int:
        for _ in range(BETWEEN_CLOCKS):
            *_, terminated, truncated, info = single.step(random.choice(np.flatnonzero(single_masks[0]).tolist()))
            single_masks[0] = single.reset()[1]["action_mask"] if terminated or truncated else info["action_mask"]
        return BETWEEN_CLOCKS

    def take_many() -> int:
        """A random number for each action: the greatest of the legal ones is chosen."""
        drawn = chance.random(vector_masks[0].shape, np.float32)
        vector_masks[0] = vector.step((drawn * vector_masks[0]).argmax(axis=1))[-1]["action_mask"]
        return GAMES

    return {"gymnasium_quarto": take, "vector_quarto": take_many}


def _of_openspiel() -> dict[str, Steps]:
    with of_extra("openspiel", "the measurement of environments"):
        import pyspiel
        from open_spiel.python.games import tic_tac_toe  # noqa: F401  (registers python_tic_tac_toe)

        import quarto.openspiel  # noqa: F401  (registers python_quarto)

    def steps_of(name: str) -> Steps:
        game = pyspiel.load_game(name)

        def take() -> int:
            state, count = game.new_initial_state(), 0
            while not state.is_terminal():
                state.apply_action(random.choice(state.legal_actions()))
                count += 1
            return count

        return take

    names = ("connect_four", "python_tic_tac_toe", "python_quarto")
    return {f"openspiel_{name}": steps_of(name) for name in names}
