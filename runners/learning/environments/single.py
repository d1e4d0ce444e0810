"""The Gymnasium environment of one game between a learner and an agent.

``gymnasium.make`` builds it; ``quarto.env`` registers its ids.
"""

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
from quarto.position import PackedPosition
from quarto.rules import Rules
from runners.learning.environments.step_kernels import to_batch
from runners.learning.environments.vector import QuartoVectorEnv, Seed

StepResult = tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]


class QuartoEnv(gymnasium.Env):
    """A game of a learner against ``opponent``, which takes its turns within ``step``.

    Observations are int8 [17, 8], and actions 0 to 15 are cells or pieces (see ``quarto.observations``). With
    ``turns``, an observation is int8 [17]: the piece on each cell, followed by the piece in hand, with -1 for none. An
    action is then a whole turn, 0 to 288, as in exported episodes. ``info`` has the legal actions as ``action_mask``,
    int8 [16] or [289], and the learner's ``seat``; at the end of a game it also has the ``ending`` and the ``game`` as
    text. Rewards are 1 for a win, -1 for a loss, and 0 for a draw or while the game goes on. An illegal action forfeits
    the game (-1). If the opponent forfeits, the game is truncated with reward 0, because no action of the learner
    caused that.

    Once the game is over, the mask allows every action, because Gymnasium asks for one more action, which it ignores,
    in the step in which a new game begins. The first game after ``reset(seed=s)`` is game 0 of seed s, and further
    resets without a seed begin games 1, 2, …; the seats and the opponent's randomness depend only on the seed and the
    number of the game.

    A copy, including a pickled one, continues the game and appends to the same ``record``. Copying raises
    ``RequestError`` if the opponent plays in a process of its own or its turns have a time limit.

    Args:
        opponent: An agent's label or an agent object. None: the learner plays both seats; then ``seat`` in ``info`` is
            the seat that acts next, and a reward is for the seat that acted.
        rules: ``Rules``, or the name of a yaml.
        seat: The learner's seat, 0 or 1; None: a random one in each game.
        render_mode: ``ansi``, ``rgb_array`` or ``human``; None: nothing is rendered.
        record: A file to which finished games are appended as text.
        name: The learner's name in ``record``.
        archive: The archive with the policies of agents.
        config_dir: The user's own folder of agents and rules.
        opening_plies: Number of random plies before the first action, none of which finishes a line.
        turns: Whether an action is a whole turn.

    Raises:
        RequestError: A value is wrong, or ``turns`` is true where the mover chooses the piece.

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
        """Begin a new game, and return its first observation and ``info``.

        If the opponent takes the first turn, it has already done so.
        """
        super().reset(seed=None if seed is None else int(seed))
        observations, infos = self._games.reset(seed=None if seed is None else [seed])
        return observations[0], self._render_and_build_info(infos)

    def step(self, action: Any) -> StepResult:
        """Carry out the learner's decision or turn, then let the opponent take its turn if it is due.

        Returns the observation, the reward, ``terminated``, ``truncated`` and ``info``.
        """
        observations, rewards, terminated, truncated, infos = self._games.step([int(action)])
        info = self._render_and_build_info(infos)
        if "ending" in infos:
            game, ply_count = self._games.envs[0], int(self._games.envs["plies"][0])
            plies = list(zip(game["pieces"][:ply_count].tolist(), game["cells"][:ply_count].tolist(), strict=True))
            info |= {"ending": ENDINGS[infos["ending"][0]], "game": format_game(plies)}
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def _render_and_build_info(self, infos: dict[str, Any]) -> dict[str, Any]:
        """Show the position if a window is open, and build this game's info from the vectorised ``infos``."""
        self._renderer.show_position_if_windowed(self._current_position())
        self._mask = infos["action_mask"][0]
        return {"action_mask": self._mask, "seat": int(infos["seat"][0])}

    def _current_position(self) -> PackedPosition:
        return to_batch(self._games.envs).position(0)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are legal: bool [16], or [289] for whole turns; once the game is over, all are legal.

        sb3-contrib calls a method of this name.
        """
        return self._mask.astype(np.bool_)

    def render(self) -> Any:
        """Render the board according to the render mode.

        ``ansi`` returns text, ``rgb_array`` returns uint8 [height, width, 3], and ``human`` shows the board in a
        window.
        """
        return self._renderer.render_unless_windowed(self._current_position())

    def close(self) -> None:
        self._renderer.close()
