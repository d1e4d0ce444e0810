"""The Gymnasium environment of whole turns: the observations and actions of exported episodes and their datasets."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agents.base import Agent
from agents.network import ACTIONS, CHOICES, NO_CELL, NO_GIFT, legal_actions
from analytics import DEFAULT_ARCHIVE
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.rules import CELLS, NONE, PIECES, Rules
from quarto.views import BatchView
from runners.environments.single import QuartoEnv

ILLEGAL = CELLS  # no action of either phase


class QuartoTurnsEnv(gymnasium.Env):
    """A game of a learner against ``opponent``, where a step is a whole turn: a placement and a gift.

    Observations are int8 [17], the piece on each cell, then the one in hand, -1 for none; actions are 17 * cell + gift,
    16 where there is no placement (the first gift) or no gift (the game is over). These are the episodes that
    ``qarena archive export`` and ``qarena benchmark make`` write. ``info`` has the legal actions as ``action_mask``,
    int8 [289], and what else that of ``QuartoEnv`` has; parameters, rewards and the end of a game are as there.
    ``opening_plies`` are random ones before the first turn, which finish no line.

    Raises ``RequestError`` for rules under which the mover chooses the piece.
    """

    metadata = QuartoEnv.metadata

    def __init__(
        self,
        opponent: str | Agent = "random",
        rules: Rules | str = "classic",
        seat: int | None = None,
        render_mode: str | None = None,
        opening_plies: int = 0,
        archive: str | PurePath = DEFAULT_ARCHIVE,
        config_dir: str | Path | None = None,
    ) -> None:
        self._env = QuartoEnv(opponent, rules, seat, render_mode, archive=archive, config_dir=config_dir)
        self._env.opening_plies = opening_plies
        if self._env.rules.mover_chooses:
            raise RequestError(f"under rules {self._env.rules.name!r} the mover chooses the piece: a turn gives none")
        self.render_mode = render_mode
        self.observation_space = spaces.Box(NONE, PIECES - 1, (CELLS + 1,), np.int8)
        self.action_space = spaces.Discrete(ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int8], dict[str, Any]]:
        """Begin a new game, in which the opponent may already have decided."""
        super().reset(seed=seed)
        _, info = self._env.reset(seed=seed, options=options)
        return self._seen(), self._info(info)

    def step(self, action: Any) -> tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]:
        """Take the learner's turn and, unless the game is over, the opponent's. An illegal turn forfeits the game."""
        cell, gift = divmod(int(action), CHOICES)
        decisions = [part for part, none in ((cell, NO_CELL), (gift, NO_GIFT)) if part != none]
        if not self._legal()[int(action)]:
            decisions = [ILLEGAL]
        for decision in decisions:
            _, reward, terminated, truncated, info = self._env.step(decision)
        return self._seen(), reward, terminated, truncated, self._info(info)

    def _seen(self) -> NDArray[np.int8]:
        return np.array(self._env.game.pieces, np.int8)

    def _legal(self) -> NDArray[np.bool_]:
        game = self._env.game
        if game.over:
            return np.ones(ACTIONS, np.bool_)
        legal: NDArray[np.bool_] = legal_actions(BatchView(Batch.of([game.position]), game.rules))[0]
        return legal

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        return info | {"action_mask": self._legal().astype(np.int8)}

    def action_masks(self) -> NDArray[np.bool_]:
        """The legal actions: bool [289], under the name that sb3-contrib asks for."""
        return self._legal()

    def render(self) -> Any:
        """As that of ``QuartoEnv``."""
        return self._env.render()

    def close(self) -> None:
        self._env.close()
