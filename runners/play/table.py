"""A person's game against an agent before it begins: the run it belongs to, its number there, and who plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from agents.base import Agent
from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.rng import run_word
from runners.arena.spec import RunSpec
from runners.hosting.guarded_agent import GuardedAgent
from runners.play.logbook import Logbook
from runners.play.session import AgentOpponent, Session


@dataclass(frozen=True)
class PreparedGame:
    """The players of a game, and where it is logged."""

    spec: RunSpec
    seat: int  # the person's
    opponent: AgentOpponent
    logbook: Logbook | None  # None: the game is not logged
    number: int  # of the game in its run: the agent's randomness depends on it

    def session(self) -> Session:
        """The game at its beginning."""
        return Session(self.spec.rules, self.seat, self.opponent)


def prepared_game(
    spec: RunSpec,
    seat: int,
    player: tuple[Agent, GuardedAgent],
    archive: PurePath | None,
    command: str,
    number: int | None = None,
) -> PreparedGame:
    """A table for a game of ``spec``, in which the person has a seat; with an ``archive`` the game is logged.

    The archive is made if there is none. ``number`` is that of a game that was begun before, or that of one that is not
    logged; None: the next that is free. Raises ``RequestError`` for an archive that cannot be had, and for a number
    that no game has had yet.
    """
    agent, guarded = player
    word = run_word(spec.run_id)
    if archive is None:
        return PreparedGame(spec, seat, AgentOpponent(guarded, word, number or 0), None, number or 0)
    logbook = Logbook(Archive.open(archive, create=True), spec, agent, command)
    following = logbook.next_number()
    chosen = following if number is None else number
    if chosen > following:
        raise RequestError(f"game {chosen} was never begun here: the next one is number {following}")
    return PreparedGame(spec, seat, AgentOpponent(guarded, word, chosen), logbook, chosen)
