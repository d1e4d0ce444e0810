"""The game of an environment by itself, in plain Python, decision by decision: the kernels must agree with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import ERROR_CELL, LATE_CELL
from quarto.batch import ENDINGS, FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, FULL_BOARD, LINE, Batch
from quarto.jit import uint64
from quarto.notation import format_game
from quarto.observations import (
    ACTIONS,
    GIFT_CODES,
    TURN_CODES,
    StepwiseGame,
    encode_one_row_per_piece,
    encode_pieces_and_legal_turns,
    resolve_rules,
    unpack_mask,
)
from quarto.rng import OPENING_STREAM, Streams, stream, turn_seed_offset_in_python
from quarto.rules import NONE
from runners.hosting.lockstep import draw_openings
from runners.learning.environments.vector import build_opponent


class OneGame:
    """A learner against an opponent, with the keys of ``QuartoEnv``: games 0, 1, … of the seed of ``reset``."""

    def __init__(
        self,
        opponent: Any,
        rules: str = "classic",
        seat: int | None = None,
        opening_plies: int = 0,
        turns: bool = False,
    ) -> None:
        self.rules, self.fixed_seat, self.opening_plies, self.turns = resolve_rules(rules), seat, opening_plies, turns
        self.opponent = build_opponent(opponent, self.rules)
        self.player = self.opponent.fork_player() if self.opponent else None
        self.seed = self.number = self.seat = 0
        self.stream = np.zeros(1, np.uint64)
        self.game = StepwiseGame(self.rules)

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self.seed, self.number = (self.seed, self.number + 1) if seed is None else (seed, 0)
        self.game = StepwiseGame(self.rules)
        word, openings = uint64(self.seed), np.empty((2, self.opening_plies, 1), np.int8)
        draw_openings(word, self.number, self.rules.tables, openings)
        for decision in openings[:, :, 0].T.ravel().tolist():
            self.game.act(decision)
        self.stream[0] = stream(word, self.number, 0)
        self.seat = (
            int(stream(word, self.number, OPENING_STREAM) & uint64(1)) if self.fixed_seat is None else self.fixed_seat
        )
        if self.player:
            self.player.start(range(1))
        observation, *_, info = self._after(self._answer())
        return observation, info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not 0 <= action < (TURN_CODES if self.turns else ACTIONS) or not self._legal()[action]:
            return self._after(FORFEIT_ILLEGAL, forfeit_of=self.seat)
        for decision in divmod(action, GIFT_CODES) if self.turns else (action,):
            if decision < ACTIONS:  # otherwise it is no placement, or no gift
                self.game.act(decision)
        return self._after(self._answer())

    def _answer(self) -> int | None:
        """Play the opponent's turn if it is due; return the ending if the opponent forfeits."""
        game, rng = self.game, Streams(self.stream + turn_seed_offset_in_python(self.game.turn_number))
        if self.opponent is None or self.player is None or game.over or game.seat == self.seat:
            return None
        turns = self.opponent.take_turns(
            self.player, Batch.from_positions([game.position]), rng, np.zeros(1, np.uint32)
        )
        cell, gift = int(turns.cells[0]), int(turns.gifts[0])
        if cell in (ERROR_CELL, LATE_CELL):
            return FORFEIT_ERROR if cell == ERROR_CELL else FORFEIT_TIME
        actions = (gift, cell) if self.rules.mover_chooses else (gift,) if game.hand == NONE else (cell, gift)
        for action in actions:
            if self.game.over:
                break
            if not 0 <= action < ACTIONS or not game.legal_action_mask >> action & 1:
                return FORFEIT_ILLEGAL
            game.act(action)
        return None

    def _after(
        self, forfeit: int | None, forfeit_of: int | None = None
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the values of ``step``; ``forfeit`` is the ending if a player forfeited, by default the opponent."""
        loser = 1 - self.seat if forfeit_of is None else forfeit_of
        game, acting_seat, over = self.game, self.seat, self.game.over or forfeit is not None
        if self.opponent is None and not over:
            self.seat = game.seat
        legal = np.ones(TURN_CODES if self.turns else ACTIONS, np.bool_) if over else self._legal()
        info: dict[str, Any] = {"action_mask": legal, "seat": self.seat}
        truncated = forfeit is not None and loser != self.seat
        winner = game.winner if forfeit is None else 1 - loser
        if over:
            ending = forfeit if forfeit is not None else FULL_BOARD if winner == NONE else LINE
            info |= {"ending": ENDINGS[ending], "game": format_game(game.plies)}
        reward = 0.0 if truncated or not over or winner == NONE else 1.0 if winner == acting_seat else -1.0
        observation = np.array(game.pieces, np.int8) if self.turns else encode_one_row_per_piece(game.pieces)
        return observation, reward, over and not truncated, truncated, info

    def _legal(self) -> NDArray[np.bool_]:
        if not self.turns:
            return unpack_mask(self.game.legal_action_mask).astype(np.bool_)
        return encode_pieces_and_legal_turns(Batch.from_positions([self.game.position]), self.rules)[1].reshape(-1)
