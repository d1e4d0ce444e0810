"""A person's game against an agent before it begins: the run it belongs to, its number there, and who plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.rng import run_word
from quarto.rules import Rules
from runners.arena.spec import AgentSpec, RunSpec
from runners.contestants.contestant import Contestant
from runners.play.logbook import Logbook, spec_of
from runners.play.session import AgentOpponent, Session


@dataclass(frozen=True)
class Table:
    """The players of a game, and where it is logged."""

    spec: RunSpec
    agent: AgentSpec
    seat: int  # the person's
    opponent: AgentOpponent
    logbook: Logbook | None  # None: the game is not logged
    number: int  # of the game in its run: the agent's randomness depends on it

    def session(self) -> Session:
        """The game at its beginning."""
        return Session(self.spec.rules, self.seat, self.opponent)


def lay_table(
    rules: Rules,
    agent: AgentSpec,
    *,
    name: str,
    seat: int,
    seed: int,
    archive: PurePath | None,
    command: str,
    number: int | None = None,
) -> Table:
    """A table for a game of ``human:NAME``; with an ``archive``, which is made if there is none, the game is logged.

    ``number`` is that of a game that was begun before; None: the next that is free. Raises ``RequestError`` before
    anything is written: for a name that cannot be part of a label, an agent that cannot be set up or does not play
    these rules, an archive that cannot be had, and a number that no game has had yet.
    """
    spec = spec_of(rules, name, agent, seat, seed)
    player = agent.build()
    contestant = Contestant(player, agent.label, rules)
    logbook, chosen = None, number or 0
    if archive is not None:
        logbook = Logbook(Archive.open(archive, create=True), spec, player, command)
        following = logbook.next_number()
        chosen = following if number is None else number
        if chosen > following:
            raise RequestError(f"game {chosen} was never begun here: the next one is number {following}")
    return Table(spec, agent, seat, AgentOpponent(contestant, run_word(spec.run_id), chosen), logbook, chosen)
