"""One game of a person against an agent: who is to act, what the agent answers, and taking turns back. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from agents.base import ERROR
from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, Batch, Turns
from quarto.errors import RequestError
from quarto.jit import uint64
from quarto.position import Position
from quarto.rng import Streams, stream, turn_offset_of
from quarto.rules import Rules
from runners.arena.engine import Contestant
from runners.play.game import Asked, Game


class AgentFailedError(Exception):
    """The agent raised; the message is what it raised."""


class Opponent(Protocol):
    """Whoever the person plays against."""

    @property
    def label(self) -> str: ...

    def turn(self, game: Game) -> tuple[int, int]:
        """Cell and gift. Raises ``AgentFailedError``."""
        ...


class AgentOpponent:
    """An agent in the game of one number, with the randomness that the engine would give it there."""

    def __init__(self, contestant: Contestant, seed: int, number: int) -> None:
        self.label = contestant.label
        self._contestant = contestant
        self._player = contestant.player()
        self._stream = np.array([stream(uint64(seed), number, 0)], np.uint64)

    def turn(self, game: Game) -> tuple[int, int]:
        with _failures() as failures:
            if self._contestant.game_words:  # what it remembers may be of turns that the person took back
                self._player.start(range(1))
                for number in range(game.turn % 2, game.turn, 2):
                    self._ask(number, game.before(number))
            turns = self._ask(game.turn, game.position)
        if turns.cells[0] == ERROR:
            raise AgentFailedError(*failures[-1:])
        return int(turns.cells[0]), int(turns.gifts[0])

    def _ask(self, number: int, position: Position) -> Turns:
        rng = Streams(self._stream + turn_offset_of(number))
        return self._contestant.ask(self._player, Batch.of([position]), rng, np.zeros(1, np.uint32))


class _Failures(logging.Handler):
    """What agents raised, one line each, instead of tracebacks on the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self.lines.append(" ".join(f"{type(error).__name__}: {error}".split()))


@contextmanager
def _failures() -> Iterator[list[str]]:
    """What contestants log in the meantime."""
    logger, handler = logging.getLogger(Contestant.__module__), _Failures()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


class Session:
    """A game and its past. ``seat`` is the person's."""

    def __init__(self, rules: Rules, seat: int, opponent: Opponent) -> None:
        self.seat = seat
        self.opponent = opponent
        self.game = Game(rules)
        self.reason = ""  # why the agent forfeited, once it has
        self._turns: list[Game] = []  # the game at the beginning of each turn that the person took

    @property
    def over(self) -> bool:
        return self.game.asked is Asked.NOTHING

    @property
    def agent_to_act(self) -> bool:
        return not self.over and self.game.seat != self.seat

    def act(self, game: Game) -> None:
        """Let the person, whose turn it is, go on to ``game``, which follows from the present one."""
        if not self.game.halfway:
            self._turns.append(self.game)
        self.game = game

    def answer(self) -> None:
        """Let the agent, whose turn it is, take it. One that raises or breaks the rules forfeits."""
        try:
            cell, gift = self.opponent.turn(self.game)
        except AgentFailedError as error:
            self.reason = f"it raised {error}"
            self.game = self.game.forfeited(FORFEIT_ERROR)
            return
        try:
            for step in _steps(self.game, cell, gift):
                self.game = step
        except RequestError as error:
            self.reason = f"its turn was illegal: {error}"
            self.game = self.game.forfeited(FORFEIT_ILLEGAL)

    def undo(self) -> bool:
        """Back to the beginning of the person's last turn; false if there is none."""
        if not self._turns:
            return False
        self.game = self._turns.pop()
        return True


def _steps(game: Game, cell: int, gift: int) -> Iterator[Game]:
    """The games that a whole turn leads through: a gift once the game is over does not matter."""
    if game.asked is Asked.PLY:
        yield game.play(gift, cell)
        return
    if game.asked is Asked.PLACEMENT:
        game = game.place(cell)
        yield game
    if game.asked is Asked.GIFT:
        yield game.give(gift)
