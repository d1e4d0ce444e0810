"""Quarto as a game of OpenSpiel, ``python_quarto``: importing this module registers it.

``pyspiel.load_game("python_quarto")``, or ``pyspiel.load_game("python_quarto(rules=square)")`` for other rules. Players
0 and 1 are the seats. A player places the piece in hand, then gives the next one. These are two decisions of one player
in a row, which share the actions 0 to 15. The observation tensor is that of ``quarto.observations`` as float32 [17, 8].
It needs the extra ``openspiel``: without it the import raises ``MissingExtraError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from quarto.errors import require_extra
from quarto.notation import format_cell, format_piece, format_position
from quarto.observations import (
    ACTIONS,
    MAX_DECISIONS,
    SHAPE,
    StepwiseGame,
    encode_one_row_per_piece,
    resolve_rules,
)
from quarto.rules import NONE

with require_extra("openspiel", "quarto.openspiel"):
    import pyspiel
    from open_spiel.python.observation import IIGObserverForPublicInfoGame

GAME_TYPE = pyspiel.GameType(
    short_name="python_quarto",
    long_name="Quarto",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.DETERMINISTIC,
    information=pyspiel.GameType.Information.PERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=2,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=False,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={"rules": "classic"},
)
GAME_INFO = pyspiel.GameInfo(
    num_distinct_actions=ACTIONS,
    max_chance_outcomes=0,
    num_players=2,
    min_utility=-1.0,
    max_utility=1.0,
    utility_sum=0.0,
    max_game_length=MAX_DECISIONS,
)


class QuartoGame(pyspiel.Game):
    """The game for OpenSpiel, played by the rules that its parameter ``rules`` names."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        super().__init__(GAME_TYPE, GAME_INFO, dict(params or {}))
        self.rules = resolve_rules(self.get_parameters().get("rules", "classic"))

    def new_initial_state(self) -> QuartoState:
        return QuartoState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> Any:
        """Return an observer of positions. Both players see the whole position."""
        if iig_obs_type is None or (iig_obs_type.public_info and not iig_obs_type.perfect_recall):
            return PositionObserver(params)
        return IIGObserverForPublicInfoGame(iig_obs_type, params)


class QuartoState(pyspiel.State):
    """The state of a game. OpenSpiel prescribes the names of its methods."""

    def __init__(self, game: QuartoGame) -> None:
        super().__init__(game)
        self.quarto = StepwiseGame(game.rules)

    def current_player(self) -> int:
        player: int = pyspiel.PlayerId.TERMINAL if self.quarto.over else self.quarto.seat
        return player

    def _legal_actions(self, _player: int) -> list[int]:
        legal = self.quarto.legal_action_mask
        return [action for action in range(ACTIONS) if legal >> action & 1]

    def _apply_action(self, action: int) -> None:
        self.quarto.act(action)

    def _action_to_string(self, _player: int, action: int) -> str:
        """Format an action as a cell such as ``b1`` if there is a piece in hand, else as a piece such as ``F``."""
        return format_piece(action) if self.quarto.hand == NONE else format_cell(action)

    def is_terminal(self) -> bool:
        return self.quarto.over

    def returns(self) -> list[float]:
        if self.quarto.winner == NONE:
            return [0.0, 0.0]
        return [1.0, -1.0] if self.quarto.winner == 0 else [-1.0, 1.0]

    def __str__(self) -> str:
        return format_position(self.quarto.position, self.quarto.rules.name)


class PositionObserver:
    """An observer that provides a position as a tensor and as text.

    Raises ``ValueError`` for any parameters, because it supports none.
    """

    def __init__(self, params: Any) -> None:
        if params:
            raise ValueError(f"observation parameters {params} are not supported: leave them out")
        self.tensor = np.zeros(SHAPE[0] * SHAPE[1], np.float32)
        self.dict = {"observation": self.tensor.reshape(SHAPE)}

    def set_from(self, state: QuartoState, _player: int) -> None:
        """Write the position of ``state`` into the tensor."""
        self.dict["observation"][:] = encode_one_row_per_piece(state.quarto.pieces)

    def string_from(self, state: QuartoState, _player: int) -> str:
        return str(state)


pyspiel.register_game(GAME_TYPE, QuartoGame)
