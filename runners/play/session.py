"""One game of a person against an agent: its turns, undo, and its entry in the archive.

A person's games are one run for each player, agent, rules, seat and seed, with one unit a game. Games in which the
person asked for a hint or took a turn back are runs of their own, whose label says so: ``human:anna(hint,undo)``. So
nobody takes them for games without help.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Protocol

import numpy as np

from agents.base.agent import ERROR, LATE, Agent
from analytics.store.archive import Archive
from analytics.store.blocks import one_game
from analytics.store.range_files import store_games
from analytics.store.ranges import first_game_id, merged, missing
from analytics.store.records import LABEL, run_word
from analytics.store.schema import MAX_PAIRS
from quarto.batch import FORFEIT_ERROR, FORFEIT_ILLEGAL, FORFEIT_TIME, Batch, Block, Turns
from quarto.errors import ArenaError, RequestError
from quarto.jit import uint64
from quarto.position import Position
from quarto.rng import Streams, stream, turn_offset_of
from quarto.rules import Rules
from runners.arena.code import code_of, differences
from runners.arena.experiment import begin, end
from runners.arena.spec import AgentSpec, RunSpec
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
        self._raised: list[BaseException] = []
        self._stream = np.array([stream(uint64(run), number, 0)], np.uint64)

    def turn(self, game: Game) -> tuple[int, int]:
        if self._guarded.game_words:  # its memory may be of turns that the person took back: play them again
            self._player.start(range(1))
            for number in range(game.turn % 2, game.turn, 2):
                self._ask(number, game.before(number))
        turns = self._ask(game.turn, game.position)
        if turns.cells[0] == ERROR:
            raise AgentFailedError(f"it raised {exception_text(self._raised[-1])}", FORFEIT_ERROR)
        if turns.cells[0] == LATE:
            raise AgentFailedError("its turn took too long", FORFEIT_TIME)
        return int(turns.cells[0]), int(turns.gifts[0])

    def _ask(self, number: int, position: Position) -> Turns:
        rng = Streams(self._stream + turn_offset_of(number))
        return self._guarded.ask(self._player, Batch.of([position]), rng, np.zeros(1, np.uint32), self._raised.append)


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


# The log.

HUMAN = "runners.play.Human"
PATIENCE = 10.0  # seconds in which another process or thread may log a game of the same person
AIDS = ((), ("hint",), ("undo",), ("hint", "undo"))  # what a person may have used in a game


def spec_of(rules: Rules, name: str, agent: AgentSpec, seat: int, seed: int) -> RunSpec:
    """The run of a person's games against an agent; ``seat`` is the person's.

    Raises ``RequestError`` for a name that cannot be part of a label.
    """
    label = f"human:{name}"
    longest = _marked(label, AIDS[-1])
    if not name.strip() or not LABEL.fullmatch(longest):
        raise RequestError(
            f"name {name!r} is not a printable text of at most {200 - len(longest) + len(name)} characters"
        )
    pairing = (0, 1) if seat == 0 else (1, 0)
    return RunSpec(rules, (AgentSpec(label, HUMAN, {}), agent), (pairing,), seed, opening_plies=0, seats="fixed")


def _marked(label: str, aids: Collection[str]) -> str:
    return f"{label}({','.join(sorted(aids))})" if aids else label


def block_of(game: Game, number: int) -> Block:
    """A finished game as a block for the archive. Raises ``ValueError`` for a game that goes on."""
    if game.ending is None:
        raise ValueError("the game is not over")
    return Block(0, number, 0, one_game(game.plies, game.winner, game.ending), swapped=False)


class Logbook:
    """Logs the games of one run. If other code began the run, a new run is begun beside it."""

    def __init__(self, archive: Archive, spec: RunSpec, agent: Agent, command: str) -> None:
        self._archive = archive
        self.root = archive.root
        self._code = code_of(spec, [None, agent])  # the person comes first
        self._command = command
        known = archive.run(spec.run_id)
        other = known is not None and differences(known, self._code)
        self.spec = replace(spec, salt=self._code["fingerprint"]) if other else spec

    def next_number(self) -> int:
        """The first number that is free in the run and in those of games with help: its random stream is unused."""
        runs = (self.spec_with(aids).run_id for aids in AIDS)
        held = merged(taken for run_id in runs for taken in self._archive.ranges(run_id).covered)
        return missing(held, MAX_PAIRS)[0][0]

    def spec_with(self, aids: Collection[str]) -> RunSpec:
        """The run of games in which the person used these aids."""
        human, agent = self.spec.agents
        return replace(self.spec, agents=(replace(human, label=_marked(human.label, aids)), agent))

    def enter(self, game: Game, number: int, seconds: float, aids: Collection[str] = ()) -> tuple[str, int]:
        """Log a finished game, in which the person used some of ``AIDS``; returns its run and number.

        The number is ``number``, or the next free one if that was taken meanwhile. Raises ``FailureError`` if the
        archive cannot be written, ``RequestError`` if another process writes to this run all the time.
        """
        started = time.perf_counter()
        spec = self.spec_with(aids)
        try:
            with self._archive.only_writer(self.spec.run_id, PATIENCE):  # runs with help share its numbers
                runs = (self.spec_with(used).run_id for used in AIDS)
                if any(self._archive.ranges(run_id).at(number) is not None for run_id in runs):
                    number = self.next_number()
                begin(self._archive, spec, self._code, number + 1, self._command)
                span, block = (number, number + 1), block_of(game, number)
                store_games(self._archive, spec.run_id, spec.line, spec.labels, span, [block])
        finally:
            with suppress(ArenaError):  # the error of writing is the one to report
                end(self._archive, spec, seconds + time.perf_counter() - started)
        return spec.run_id, number


@dataclass(frozen=True)
class PreparedGame:
    """A game before it begins: who plays, the run that it belongs to, and its number there."""

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
    """A game of ``spec``, in which the person has a seat; with an ``archive`` it is logged.

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


def used(aids: Collection[str]) -> str:
    """The aids in words: ``hint and undo``."""
    return " and ".join(sorted(aids))


def question_for(run_id: str, number: int) -> str:
    """The question in SQL for the plies of a logged game."""
    game = f"run_id = '{run_id}' AND game_id = {first_game_id(0, number)}"
    return f"SELECT ply, seat, piece, cell FROM plies WHERE {game} ORDER BY ply"  # noqa: S608  (to be typed)
