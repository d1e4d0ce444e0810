"""The Gymnasium environment of one game: a learner against an agent. Made by ``gymnasium.make``, see ``quarto.env``."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from agents.base.agent import Agent
from analytics import DEFAULT_ARCHIVE
from quarto.batch import ENDINGS
from quarto.env.rendering import FRAMES_PER_SECOND, RENDER_MODES, Renderer
from quarto.notation import format_game
from quarto.position import Position
from quarto.rules import Rules
from runners.learning.environments.step_kernels import to_batch
from runners.learning.environments.vector import QuartoVectorEnv, Seed

StepResult = tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]


class QuartoEnv(gymnasium.Env):
    """A game of a learner against ``opponent``, which answers within ``step``.

    Observations are int8 [17, 8], actions 0 to 15 are cells or pieces, see ``quarto.observations``. With ``turns`` an
    observation is int8 [17], the piece on each cell, then the one in hand, -1 for none; an action is a whole turn, 0 to
    288, as in exported episodes. ``info`` has the legal actions as ``action_mask``, int8 [16] or [289], and the
    learner's ``seat``; at the end of a game also its ``ending`` and the ``game`` as text. Rewards: 1 won, -1 lost, 0
    drawn or not over. An illegal action forfeits the game (-1). If the opponent forfeits, which no action of the
    learner caused, the game is truncated with reward 0.

    ``opponent``: an agent's label or object, or None: the learner plays both seats. Then ``seat`` of ``info`` is the
    one that acts next, and a reward is for the one that acted. ``rules``: ``Rules`` or a yaml's name. ``seat``: 0, 1,
    or None for a random one in each game. ``record``: a file to which finished games are appended as text, where the
    learner is called ``name``. ``archive``, ``config_dir``: see ``build_opponent``. ``opening_plies`` are random ones
    before the first action, which finish no line. Raises ``RequestError`` for ``turns`` where the mover chooses the
    piece.

    Once the game is over the mask allows every action: where Gymnasium begins a new game in the next step, it asks for
    one more action, which it ignores. The first game after ``reset(seed=s)`` is game 0 of seed s, further resets
    without a seed go on with games 1, 2, …; seat and randomness of the opponent depend on both numbers alone.

    A copy, or a pickled one, goes on with the game, also into the file of ``record``. Copying raises ``RequestError``
    if the opponent plays in a process of its own or by the clock.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012  (Gymnasium's form)

    def __init__(  # noqa: PLR0913, PLR0917  (the keys that gymnasium.make takes)
        self,
        opponent: str | Agent | None = "random",
        rules: Rules | str = "classic",
        seat: int | None = None,
        render_mode: str | None = None,
        record: str | Path | None = None,
        name: str = "learner",
        archive: str | PurePath = DEFAULT_ARCHIVE,
        config_dir: str | Path | None = None,
        opening_plies: int = 0,
        turns: bool = False,
    ) -> None:
        self._games = QuartoVectorEnv(
            1, opponent, rules, seat, None, record, name, archive, config_dir, opening_plies, turns
        )
        self.rules, self.render_mode, self._renderer = self._games.rules, render_mode, Renderer(render_mode)
        self.observation_space = self._games.single_observation_space
        self.action_space = self._games.single_action_space
        self._mask = np.ones(1, np.int8)

    def reset(
        self, *, seed: Seed | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int8], dict[str, Any]]:
        """Begin a new game, in which the opponent may already have decided."""
        super().reset(seed=None if seed is None else int(seed))
        observations, infos = self._games.reset(seed=None if seed is None else [seed])
        return observations[0], self._render_and_build_info(infos)

    def step(self, action: Any) -> StepResult:
        """Take the learner's decision or turn and, if it is then the opponent's turn, that turn."""
        observations, rewards, terminated, truncated, infos = self._games.step([int(action)])
        info = self._render_and_build_info(infos)
        if "ending" in infos:
            game, ended = self._games.envs[0], int(self._games.envs["plies"][0])
            plies = list(zip(game["pieces"][:ended].tolist(), game["cells"][:ended].tolist(), strict=True))
            info |= {"ending": ENDINGS[infos["ending"][0]], "game": format_game(plies)}
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def _render_and_build_info(self, infos: dict[str, Any]) -> dict[str, Any]:
        """The game's own of the infos on all games; who watches sees its position."""
        self._renderer.show_position(self._current_position())
        self._mask = infos["action_mask"][0]
        return {"action_mask": self._mask, "seat": int(infos["seat"][0])}

    def _current_position(self) -> Position:
        return to_batch(self._games.envs).position(0)

    def action_masks(self) -> NDArray[np.bool_]:
        """The legal actions, all of them once the game is over, under the name that sb3-contrib asks for."""
        return self._mask.astype(np.bool_)

    def render(self) -> Any:
        """The board as text (``ansi``) or as an image, [height, width, 3] uint8; ``human`` shows it in a window."""
        return self._renderer.render(self._current_position())

    def close(self) -> None:
        self._renderer.close()
