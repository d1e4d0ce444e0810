"""The games that this server holds: each with the agent's answers so far, and logged once when it is over."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import ArenaError, RequestError
from quarto.rules import Rules
from runners.arena.spec import AgentSpec
from runners.hosting.guarded_agent import GuardedAgent
from runners.play.game import Game
from runners.play.hints import hint
from runners.play.logbook import spec_of
from runners.play.reading import game_after
from runners.play.session import AgentFailedError, Opponent, Session
from runners.play.table import PreparedGame, prepared_game
from runners.play.wording import Players, result, turn_text
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.background import Background, BackgroundJob
from runners.web.play.address import RESIGN, GameAddress, GameSetup, new_id
from runners.web.settings import Site

MOST_GAMES = 1000  # that are held; one that has not been touched for longest is forgotten
MOST_THINKING = 16  # agents at a time
FOREVER = float("inf")  # an agent's turn cannot be stopped: its limits are its own (turn_seconds)

_numbers = count()


class UnansweredError(Exception):
    """The agent has not answered yet."""


class Remembered:
    """An opponent that repeats the answers that were given, and does not think."""

    def __init__(self, label: str, answers: dict[Game, tuple[int, int] | AgentFailedError]) -> None:
        self.label = label
        self._answers = answers

    def turn(self, game: Game) -> tuple[int, int]:
        found = self._answers.get(game)
        if found is None:
            raise UnansweredError
        if isinstance(found, AgentFailedError):
            raise found
        return found


class Thinking(Remembered):
    """The same, and it asks the agent for what it does not remember."""

    def __init__(self, opponent: Opponent, answers: dict[Game, tuple[int, int] | AgentFailedError]) -> None:
        super().__init__(opponent.label, answers)
        self._opponent = opponent

    def turn(self, game: Game) -> tuple[int, int]:
        if game not in self._answers:
            try:
                self._answers[game] = self._opponent.turn(game)
            except AgentFailedError as error:
                self._answers[game] = error
        return super().turn(game)


class Seen(NamedTuple):
    """A game after some decisions of the person."""

    session: Session
    turns: tuple[int, ...]  # the indices of the decisions with which the person's turns began
    news: tuple[str, ...]  # sentences about what happened after the person's last decision but one
    thinking: bool  # the agent has not answered yet

    @property
    def game(self) -> Game:
        return self.session.game


class HeldGame:
    """A game between a person and an agent."""

    def __init__(self, begun: GameAddress, table: PreparedGame, aids: Sequence[str] = ()) -> None:
        self.begun = begun
        self.table = table
        self.serial = next(_numbers)
        self.aids = set(aids)
        self.moves: tuple[str, ...] = ()  # that count: those of the form that was sent last
        self.entry: tuple[str, int] | None = None  # run and number, once the game is logged
        self.trouble = ""  # why it could not be logged
        self.lock = threading.Lock()  # of what may change; not held while the agent thinks
        self._thinking = threading.Lock()
        self._answers: dict[Game, tuple[int, int] | AgentFailedError] = {}
        self._started = time.perf_counter()

    def seen(self, moves: Sequence[str]) -> Seen:
        """The game after decisions. Raises ``RequestError`` for an illegal one."""
        return self._replayed(moves, Remembered(self.table.opponent.label, self._answers))

    def answer(self, moves: Sequence[str]) -> None:
        """Let the agent answer; log the game if that ends it and the decisions are those that count."""
        with self._thinking:
            found = self._replayed(moves, Thinking(self.table.opponent, self._answers))
        with self.lock:
            if found.session.over and tuple(moves) == self.moves:
                self._log(found.game)

    def is_to_be_logged(self, moves: Sequence[str]) -> bool:
        """Whether these decisions count, end the game, and it is not in the archive yet."""
        with self.lock:
            if self.entry is not None or self.trouble or tuple(moves) != self.moves:
                return False
            return self.seen(moves).session.over

    def decide(self, moves: Sequence[str], decision: str) -> tuple[str, ...]:
        """The decisions after one more, which then count. Raises ``RequestError`` if it is illegal.

        If the person went back to an earlier page, turns are taken back.
        """
        with self.lock:
            self._check_open()
            if self.seen(moves).thinking:
                raise RequestError(f"{self.table.opponent.label} is thinking: wait for its turn")
            after = (*moves, decision)
            self.seen(after)
            if self.moves[: len(after)] != after and tuple(moves) != self.moves:
                self.aids.add("undo")
            self.moves = after
            return after

    def undo(self, moves: Sequence[str]) -> tuple[str, ...]:
        """The decisions without the last turn of the person, or its beginning."""
        with self.lock:
            self._check_open()
            turns = self.seen(moves).turns
            if not turns:
                raise RequestError("there is nothing to take back: you have not played yet")
            self.aids.add("undo")
            self.moves = tuple(moves[: turns[-1]])
            return self.moves

    def hint(self) -> None:
        """The person wants a hint."""
        with self.lock:
            self._check_open()
            self.aids.add("hint")

    def _check_open(self) -> None:
        if self.entry is not None:
            run_id, number = self.entry
            raise RequestError(f"this game is over, and logged as game {number} of run {run_id}: begin another one")

    def _replayed(self, moves: Sequence[str], opponent: Opponent) -> Seen:
        session = Session(self.table.spec.rules, self.table.seat, opponent)
        players = Players(self.table.seat, opponent.label)
        turns: list[int] = []
        news: list[str] = []
        place = 0
        while not session.over:
            before = session.game
            if session.agent_to_act:
                try:
                    session.answer()
                except UnansweredError:
                    break
            elif place < len(moves):
                if not before.halfway:
                    turns.append(place)
                    news.clear()
                session.act(_after(moves[place], before))
                place += 1
            else:
                break
            news.append(turn_text(before, session.game, players))
        if session.over:
            if place < len(moves):
                raise RequestError(f"the game is over, and {moves[place]} comes after its end")
            news.append(result(session.game, players, session.reason))
        return Seen(session, tuple(turns), tuple(filter(None, news)), session.agent_to_act)

    def _log(self, game: Game) -> None:
        if self.entry is not None or self.table.logbook is None:
            return
        seconds = time.perf_counter() - self._started
        try:
            self.entry = self.table.logbook.enter(game, self.table.number, seconds, self.aids)
            self.trouble = ""
        except ArenaError as error:
            self.trouble = str(error)


def _after(word: str, game: Game) -> Game:
    return game.forfeited(FORFEIT_RESIGNED) if word == RESIGN else game_after(word, game)


class HeldGames:
    """The games of a site. Agents think in threads of their own, so that nobody waits for another one's."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._choices = site.service(AgentsAndRules)
        self._background = Background(MOST_THINKING, kept=2 * MOST_GAMES)
        self._held: OrderedDict[GameAddress, HeldGame] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        self._background.close()

    def begin(self, setup: GameSetup) -> tuple[str, BackgroundJob]:
        """Begin a game: its id, and the job that sets the agent up, whose result is the game.

        Raises ``RequestError`` for rules or an agent that do not exist.
        """
        identity = new_id()
        rules, agent = self._choices.rules(setup.rules), self._choices.agent(setup.agent)

        def work(_job: BackgroundJob) -> HeldGame:
            table = self._lay(setup, rules, agent)
            held = self._hold(HeldGame(GameAddress(setup, table.number, identity), table))
            held.answer(())
            return held

        return identity, self._background.job(identity, work, FOREVER)

    def beginning(self, identity: str) -> BackgroundJob:
        """The job that sets up the game of an id. Raises ``RequestError`` if there is none."""
        found = self._background.find(identity)
        if found is None:
            raise RequestError("this server does not know that game: begin a new one")
        return found

    def open(self, address: GameAddress) -> HeldGame | BackgroundJob:
        """The game of an address, or the job that sets it up.

        A game that this server did not begin, or has forgotten, is taken up where the address says. What was taken back
        in it is not known, so it counts as one in which the person took turns back.
        """
        with self._lock:
            held = self._held.get(address.beginning)
            if held is not None:
                self._held.move_to_end(address.beginning)
                return held
        setup = address.setup
        rules, agent = self._choices.rules(setup.rules), self._choices.agent(setup.agent)

        def work(_job: BackgroundJob) -> HeldGame:
            table = self._lay(setup, rules, agent, address.number)
            return self._hold(HeldGame(address.beginning, table, ("undo",)))

        job = self._background.job(("open", address.beginning), work, FOREVER)
        if not job.wait():
            return job
        found: HeldGame = job.result()
        return self._hold(found)

    def answered(self, held: HeldGame, moves: tuple[str, ...]) -> BackgroundJob:
        """The job in which the agent answers."""
        return self._background.job((held.serial, moves), lambda _job: held.answer(moves), FOREVER)

    def hinted(self, held: HeldGame, moves: tuple[str, ...]) -> BackgroundJob:
        """The job that finds a hint, whose result is its lines: it needs kernels, for which no page waits."""
        return self._background.job(("hint", held.serial, moves), lambda _job: hint(held.seen(moves).game), FOREVER)

    def _lay(self, setup: GameSetup, rules: Rules, agent: AgentSpec, number: int | None = None) -> PreparedGame:
        settings = self._site.settings
        spec = spec_of(rules, setup.name, agent, setup.seat, setup.seed)
        player = agent.build()
        guarded = GuardedAgent(player, agent.label, rules)
        return prepared_game(spec, setup.seat, (player, guarded), settings.archive, settings.command, number)

    def _hold(self, held: HeldGame) -> HeldGame:
        with self._lock:
            found = self._held.setdefault(held.begun, held)
            while len(self._held) > MOST_GAMES:
                self._held.popitem(last=False)
            return found
