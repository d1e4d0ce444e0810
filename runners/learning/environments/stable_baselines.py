"""Many games as a ``VecEnv``, which the learners of Stable-Baselines3 and sb3-contrib take without a wrapper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from quarto.errors import require_extra
from runners.learning.environments.vector import Observations, QuartoVectorEnv

with require_extra("sb3", "runners.learning.environments.stable_baselines"):
    from stable_baselines3.common.vec_env import VecEnv

MASKS_METHOD = "action_masks"  # the method that sb3-contrib calls on each environment


class QuartoVecEnv(VecEnv):
    """``num_envs`` games of a learner for Stable-Baselines3, as in ``QuartoVecEnv(256, opponent="random")``.

    The keyword arguments are those of ``QuartoVectorEnv``. When a game is over, a new one begins in the same step, and
    the info of that step has ``terminal_observation`` and ``TimeLimit.truncated``, as Stable-Baselines3 expects. Every
    info has the learner's ``seat``.
    """

    def __init__(self, num_envs: int, **keys: Any) -> None:
        self._games = QuartoVectorEnv(num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **keys)
        self._actions = np.zeros(num_envs, np.int64)
        self._masks = np.ones((num_envs, 1), np.bool_)
        super().__init__(num_envs, self._games.single_observation_space, self._games.single_action_space)

    def reset(self) -> Observations:
        """Begin all games anew, and return their first observations.

        If ``seed`` was called since the last reset, its seeds are used; otherwise, seeds are drawn at random.
        """
        observations, infos = self._games.reset(seed=self._seeds)
        self._masks = infos["action_mask"].astype(np.bool_)
        self._reset_seeds()
        return observations

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Observations, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        observations, rewards, terminated, truncated, game_infos = self._games.step(self._actions)
        self._masks, done = game_infos["action_mask"].astype(np.bool_), terminated | truncated
        infos: list[dict[str, Any]] = [{"seat": seat} for seat in game_infos["seat"].tolist()]
        for i in np.flatnonzero(done).tolist():
            infos[i]["terminal_observation"] = game_infos["final_obs"][i]
            infos[i]["TimeLimit.truncated"] = bool(truncated[i])
        return observations, rewards.astype(np.float32), done, infos

    def close(self) -> None:
        self._games.close()

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return a list with the value of an attribute for each game.

        The games share all attributes, so the values are the same. If the attribute is ``action_masks``, the value is a
        method.
        """
        value = self.env_method if attr_name == MASKS_METHOD else getattr(self._games, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Raise ``AttributeError``, because the games of one environment share all attributes."""
        raise AttributeError(f"{attr_name!r} cannot be set: the games of one QuartoVecEnv share all keys")

    def env_method(
        self, method_name: str, *_args: Any, indices: int | Iterable[int] | None = None, **_keys: Any
    ) -> list[Any]:
        """Call a method of each game; ``action_masks`` is the only method.

        The method returns the legal actions of each game: bool [16], or [289] for whole turns. Raises
        ``AttributeError`` for any other method.
        """
        if method_name != MASKS_METHOD:
            raise AttributeError(f"a QuartoVecEnv has no method {method_name!r} of single games, only {MASKS_METHOD!r}")
        return [self._masks[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Return False for each of the games, because no game has a wrapper of its own."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return an image of the board of each game; without ``render_mode="rgb_array"``, return None for each game."""
        return self._games.render() or [None] * self.num_envs
