"""One leg of a block: game 0, or game 1, of each of its pairs, in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import ERROR, LATE
from agents.lift import KernelPlayer, Player
from quarto.batch import Batch, Games, Lockstep, Turns
from quarto.errors import is_ctrl_c
from quarto.rng import Streams, turn_offset_of
from quarto.rules import CELLS, Rules
from runners.contestants.contestant import Contestant
from runners.contestants.lockstep import LEGAL, WON, GameNumbers, advance, begin, first_gift, play_out


class Setting(NamedTuple):
    """The common part of the games of a leg."""

    rules: Rules
    opening: int  # imposed plies
    seats: Sequence[Contestant]  # by seat
    players: Sequence[Player]  # of this thread, by seat


class _Before(NamedTuple):
    """Games before a turn, and the turn in each."""

    batch: Batch
    slot: NDArray[np.uint32]
    turns: Turns


class Leg:
    """Game 0 or 1 of each pair. ``games`` holds the columns of all games of the pairs."""

    def __init__(self, setting: Setting, numbers: GameNumbers, openings: NDArray[np.int8], games: Games) -> None:
        self._setting = setting
        self._numbers = numbers
        self._openings = openings
        self.games = games
        self.game = numbers.game
        self._state: Lockstep | None = None  # once it is begun
        self.size = openings.shape[2]  # games that go on

    @property
    def running(self) -> NDArray[np.integer]:
        """The columns of its games that are not over."""
        if self._state is None:
            return np.arange(self._numbers.game, len(self.games.plies), self._numbers.games_a_pair)
        return self._state.slot[: self.size]

    @property
    def remembers(self) -> bool:
        """Whether a player has memory of the games."""
        return any(player.game_words for player in self._setting.players)

    def play_compiled(self, state: Lockstep) -> bool:
        """Play all games in one kernel; false, and no game is played, if a player is not jitted or a turn raised."""
        zero, one = self._setting.players
        if not (isinstance(zero, KernelPlayer) and isinstance(one, KernelPlayer)):
            return False
        self._begin(state)
        span = (self._setting.opening, self.size)
        try:
            play_out(zero.turn, zero.own, one.turn, one.own, self._setting.rules.tables, span, state, self.games)
        except BaseException as error:  # the turns are asked for one by one, to find the game that it forfeits
            if is_ctrl_c(error):
                raise
            return False
        self.size = 0
        return True

    def begin(self, state: Lockstep) -> None:
        """Set the games up; the memory of earlier games is cleared."""
        self._begin(state)
        self._state = state

    def _begin(self, state: Lockstep) -> None:
        begin(self._numbers, self._openings, state, self.games)
        for player in self._setting.players:
            player.start(range(self._numbers.game, len(self.games.plies), self._numbers.games_a_pair))

    def take(self, turn: int) -> None:
        """Ask for turn number ``turn`` in each game that goes on, and play it."""
        state, size, seat = self._state, self.size, turn & 1
        if state is None or size == 0:
            return
        rules, opening, seats, players = self._setting
        rng = Streams(state.streams[:size] + turn_offset_of(turn))
        turns = seats[seat].ask(players[seat], state.batch.part(0, size), rng, state.slot[:size])
        state.turns.cells[:size], state.turns.gifts[:size] = turns
        before = _Before(state.batch.part(0, size).copy(), state.slot[:size].copy(), turns)
        if turn == opening and not rules.mover_chooses:
            self.size = first_gift(state, self.games, opening, size)
        else:
            self.size = advance(state, self.games, rules.tables, turn - 1, size)
        if self.size < size and seats[seat].wants_illegal:
            for i in self._illegal(before, turn)[:1]:
                answer = int(turns.cells[i]), int(turns.gifts[i])
                position, seed = before.batch.position(i), int(rng.seeds[i])
                seats[seat].describe_illegal(players[seat], position, seed, answer)

    def _illegal(self, before: _Before, turn: int) -> NDArray[np.integer]:
        """The games of ``before`` that an illegal turn has ended, as indices."""
        rules, opening, *_ = self._setting
        over = ~np.isin(before.slot, self.running)
        over &= (before.turns.cells != ERROR) & (before.turns.cells != LATE)
        if turn != opening or rules.mover_chooses:
            last = self.games.ending[before.slot]
            over &= (last & WON == 0) & ((last & LEGAL == 0) | (turn < CELLS))
        return np.flatnonzero(over)
