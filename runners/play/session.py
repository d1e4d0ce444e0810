"""One game of a person against an agent: whose turn it is, the agent's turns, and undo. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from agents.base import ERROR, LATE
from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, Batch, Turns
from quarto.errors import RequestError
from quarto.jit import uint64
from quarto.position import Position
from quarto.rng import Streams, stream, turn_offset_of
from quarto.rules import Rules
from runners.hosting.guarded_agent import GuardedAgent, exception_text
from runners.play.game import Game, NextDecision


class AgentFailedError(Exception):
    """The agent took no turn. The message says why, and ``ending`` is the index into ENDINGS."""

    def __init__(self, reason: str, ending: int) -> None:
        super().__init__(reason)
        self.ending = ending


class Opponent(Protocol):
    """The person's opponent."""

    @property
    def label(self) -> str: ...

    def turn(self, game: Game) -> tuple[int, int]:
        """Cell and gift. Raises ``AgentFailedError``."""
        ...


class AgentOpponent:
    """An agent in the game of a number in a run (its word), with the random stream that the engine would give it."""

    def __init__(self, guarded: GuardedAgent, run: int, number: int) -> None:
        self.label = guarded.label
        self._guarded = guarded
        self._player = guarded.player()
        self._raised: list[str] = []
        self._stream = np.array([stream(uint64(run), number, 0)], np.uint64)

    def turn(self, game: Game) -> tuple[int, int]:
        if self._guarded.game_words:  # its memory may be of turns that the person took back: play them again
            self._player.start(range(1))
            for number in range(game.turn % 2, game.turn, 2):
                self._ask(number, game.before(number))
        turns = self._ask(game.turn, game.position)
        if turns.cells[0] == ERROR:
            raise AgentFailedError(f"it raised {self._raised[-1]}", FORFEIT_ERROR)
        if turns.cells[0] == LATE:
            raise AgentFailedError("its turn took too long", FORFEIT_TIME)
        return int(turns.cells[0]), int(turns.gifts[0])

    def _ask(self, number: int, position: Position) -> Turns:
        rng = Streams(self._stream + turn_offset_of(number))
        return self._guarded.ask(self._player, Batch.of([position]), rng, np.zeros(1, np.uint32), self._note_error)

    def _note_error(self, error: BaseException) -> None:
        self._raised.append(exception_text(error))


class Session:
    """A game with its history. ``seat`` is the person's."""

    def __init__(self, rules: Rules, seat: int, opponent: Opponent) -> None:
        self.seat = seat
        self.opponent = opponent
        self.game = Game(rules)
        self.reason = ""  # why the agent forfeited, once it has
        self.aids: set[str] = set()  # "hint", "undo": what the person has used
        self._turns: list[Game] = []  # the game at the beginning of each turn that the person took

    @property
    def over(self) -> bool:
        return self.game.asked is NextDecision.NOTHING

    @property
    def agent_to_act(self) -> bool:
        return not self.over and self.game.seat != self.seat

    def act(self, game: Game) -> None:
        """Go on to ``game``, which follows from the current game by a decision of the person."""
        if not self.game.halfway:
            self._turns.append(self.game)
        self.game = game

    def answer(self) -> None:
        """Let the agent take its turn. It forfeits by an exception, an illegal turn, or one that takes too long."""
        try:
            cell, gift = self.opponent.turn(self.game)
        except AgentFailedError as error:
            self.reason = str(error)
            self.game = self.game.forfeited(error.ending)
            return
        try:
            for step in _steps(self.game, cell, gift):
                self.game = step
        except RequestError as error:
            self.reason = f"its turn was illegal: {error}"
            self.game = self.game.forfeited(FORFEIT_ILLEGAL)

    def undo(self) -> bool:
        """Go back to the start of the person's last turn. False if there is none."""
        if not self._turns:
            return False
        self.game = self._turns.pop()
        self.aids.add("undo")
        return True


def _steps(game: Game, cell: int, gift: int) -> Iterator[Game]:
    """The games after each step of a turn. A gift after the end of the game is ignored."""
    if game.asked is NextDecision.PLY:
        yield game.play(gift, cell)
        return
    if game.asked is NextDecision.PLACEMENT:
        game = game.place(cell)
        yield game
    if game.asked is NextDecision.GIFT:
        yield game.give(gift)
