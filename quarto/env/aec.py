"""The PettingZoo environment: two seats in turns (AEC). A seat places the piece in hand, then gives the next one."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from quarto.env.rendering import FRAMES_PER_SECOND, RENDER_MODES, Renderer
from quarto.notation import format_game
from quarto.observations import (
    ACTIONS,
    SHAPE,
    StepwiseGame,
    encode_one_row_per_piece,
    resolve_rules,
    unpack_mask,
)
from quarto.rules import NONE, Rules

SEATS = ("seat_0", "seat_1")


def env(rules: Rules | str = "classic", render_mode: str | None = None) -> AECEnv:
    """Build the environment with PettingZoo's wrappers, in which an illegal action ends the game.

    The seat that chose the illegal action gets the reward -1.

    Args:
        rules: ``Rules``, or the name of a yaml in ``conf/rules``.
        render_mode: ``human``, ``ansi`` or ``rgb_array``. If it is None, nothing is rendered.

    Returns:
        The environment, which checks that its methods are called in the correct order.

    """
    environment = wrappers.TerminateIllegalWrapper(raw_env(rules, render_mode), illegal_reward=-1)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(environment))


class raw_env(AECEnv):  # noqa: N801  (PettingZoo's name for it)
    """The environment without wrappers. It raises ``ValueError`` for an illegal action.

    An observation is ``{"observation": int8 [17, 8], "action_mask": int8 [16]}``: see ``quarto.observations``. The seat
    that does not decide next sees the same position and a mask of zeros. At the end of a game the reward is 1 for the
    winner, -1 for the loser and 0 for a draw, and ``infos[seat]["game"]`` is the game in notation for each seat. A
    copied or unpickled environment continues the game.
    """

    metadata = {  # noqa: RUF012  (so PettingZoo declares it)
        "name": "quarto_v0",
        "render_modes": RENDER_MODES,
        "render_fps": FRAMES_PER_SECOND,
        "is_parallelizable": False,
    }

    def __init__(self, rules: Rules | str = "classic", render_mode: str | None = None) -> None:
        super().__init__()
        self.rules = resolve_rules(rules)
        self.render_mode = render_mode
        self.possible_agents = [*SEATS]
        seat_space = spaces.Dict(
            {
                "observation": spaces.Box(0, 1, SHAPE, np.int8),
                "action_mask": spaces.Box(0, 1, (ACTIONS,), np.int8),
            }
        )
        self.observation_spaces = dict.fromkeys(SEATS, seat_space)
        self.action_spaces = {seat: spaces.Discrete(ACTIONS) for seat in SEATS}
        self._renderer = Renderer(render_mode)
        self._start()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a new game. The seed and the options have no effect, because nothing here is random."""
        self._start()
        self._renderer.show_position_if_windowed(self.game.position)

    def _start(self) -> None:
        self.game = StepwiseGame(self.rules)
        self.agents = [*SEATS]
        self.agent_selection = SEATS[self.game.seat]
        self.rewards = dict.fromkeys(SEATS, 0)
        self._cumulative_rewards = dict.fromkeys(SEATS, 0)
        self.terminations = dict.fromkeys(SEATS, False)
        self.truncations = dict.fromkeys(SEATS, False)
        self.infos: dict[str, dict[str, Any]] = {seat: {} for seat in SEATS}

    def observe(self, agent: str) -> dict[str, NDArray[np.int8]]:
        legal = self.game.legal_action_mask if agent == self.agent_selection else 0
        return {"observation": encode_one_row_per_piece(self.game.pieces), "action_mask": unpack_mask(legal)}

    def step(self, action: int | None) -> None:
        """Carry out the action of the selected seat.

        After the end of the game the action must be ``None``, which removes the selected seat. Raises ``ValueError``
        for an illegal action, and for ``None`` before the end of the game.
        """
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[self.agent_selection] = 0
        if action is None:
            raise ValueError(f"action None: {self.agent_selection} is to decide, and the game is not over")
        self.game.act(int(action))
        if self.game.over:
            self._end()
        self.agent_selection = SEATS[self.game.seat]
        self._renderer.show_position_if_windowed(self.game.position)

    def _end(self) -> None:
        self.terminations = dict.fromkeys(SEATS, True)
        for seat, name in enumerate(SEATS):
            self.infos[name] = {"game": format_game(self.game.plies)}
            if self.game.winner != NONE:
                self.rewards[name] = 1 if seat == self.game.winner else -1
        self._accumulate_rewards()

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return the board as text (``ansi``) or as an image (``rgb_array``), [height, width, 3] uint8.

        In the mode ``human``, return None, because the window already shows the board.
        """
        return self._renderer.render_unless_windowed(self.game.position)

    def close(self) -> None:
        self._renderer.close()
