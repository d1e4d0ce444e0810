"""The games that this server holds: each with its address and the agent's answers, and logged once when it is over.

The address of a game says who plays, and every decision of the person so far. The agent's turns are not in it: they
follow from the rest, so an address cannot claim a turn that the agent never took.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from analytics.store.schema import MAX_PAIRS
from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import ArenaError, NotFoundError, RequestError
from quarto.game import Game, Participants, describe_ending, describe_turn
from runners.hosting.guarded_agent import GuardedAgent
from runners.play.dialogue import parse_and_play_decision
from runners.play.hints import find_hint
from runners.play.session import AgentFailedError, Opponent, PreparedGame, Session, build_human_run_spec, prepare_game
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.background import BackgroundJob, BackgroundPool
from runners.web.page_rendering import check_decision_words, parse_whole_number
from runners.web.site import Site

MAX_GAMES = 1000  # that are held; one that has not been touched for longest is forgotten
MAX_THINKING = 16  # agents at a time
FOREVER = float("inf")  # an agent's limits are its own (turn_seconds)
IDLE_SECONDS = 30.0  # without a page that asks, after which an agent gives up its place

_serials = count()


TurnsByGame = dict[Game, tuple[int, int] | AgentFailedError]


class TurnPendingError(Exception):
    """The agent has not answered yet."""


class RememberingOpponent:
    """An opponent that repeats the answers that were given; for others it asks ``thinking``, if that is there."""

    def __init__(self, label: str, turns_by_game: TurnsByGame, opponent: Opponent | None = None) -> None:
        self.label = label
        self._answers = turns_by_game
        self._thinking = opponent

    def take_turn(self, game: Game) -> tuple[int, int]:
        if game not in self._answers and self._thinking is not None:
            try:
                self._answers[game] = self._thinking.take_turn(game)
            except AgentFailedError as error:
                self._answers[game] = error
        found = self._answers.get(game)
        if found is None:
            raise TurnPendingError
        if isinstance(found, AgentFailedError):
            raise found
        return found


class GameState(NamedTuple):
    """A game after some decisions of the person."""

    session: Session
    turns: tuple[int, ...]  # the indices of the decisions with which the person's turns began
    news: tuple[str, ...]  # sentences about what happened after the person's last decision but one
    thinking: bool  # the agent has not answered yet

    @property
    def game(self) -> Game:
        return self.session.game


class WebGame:
    """A game between a person and an agent."""

    def __init__(self, start_address: GameAddress, prepared_game: PreparedGame, aids: Sequence[str] = ()) -> None:
        self.start_address = start_address
        self.prepared = prepared_game
        self.serial = next(_serials)
        self.aids = set(aids)
        self.moves: tuple[str, ...] = ()  # that count: those of the form that was sent last
        self.log_entry: tuple[str, int] | None = None  # run and number, once the game is logged
        self.log_error = ""  # why it could not be logged
        self.lock = threading.Lock()  # of what may change; not held while the agent thinks
        self._thinking = threading.Lock()
        self._answers: TurnsByGame = {}
        self._started = time.perf_counter()

    def replay(self, moves: Sequence[str]) -> GameState:
        """The game after decisions. Raises ``RequestError`` for an illegal one."""
        return self._replay_against(moves, RememberingOpponent(self.prepared.opponent.label, self._answers))

    def play_agent_turn(self, moves: Sequence[str]) -> None:
        """Let the agent answer; log the game if that ends it and the decisions are those that count."""
        with self._thinking:
            opponent = self.prepared.opponent
            found = self._replay_against(moves, RememberingOpponent(opponent.label, self._answers, opponent))
        with self.lock:
            if found.session.is_over and tuple(moves) == self.moves:
                self._log_game(found.game)

    def is_to_be_logged(self, moves: Sequence[str]) -> bool:
        """Whether these decisions count, end the game, and it is not in the archive yet."""
        with self.lock:
            if self.log_entry is not None or self.log_error or tuple(moves) != self.moves:
                return False
            return self.replay(moves).session.is_over

    def decide(self, moves: Sequence[str], decision: str) -> tuple[str, ...]:
        """The decisions after one more, which then count. Raises ``RequestError`` if it is illegal.

        If the person went back to an earlier page, turns are taken back. The last decision may come twice.
        """
        with self.lock:
            if self.moves == (*moves, decision):
                return self.moves
            self._check_not_logged()
            if self.replay(moves).thinking:
                raise RequestError(f"{self.prepared.opponent.label} is thinking: wait for its turn")
            after = (*moves, decision)
            self.replay(after)
            if self.moves[: len(after)] != after and tuple(moves) != self.moves:
                self.aids.add("undo")
            self.moves = after
            return after

    def undo(self, moves: Sequence[str]) -> tuple[str, ...]:
        """The decisions without the last turn of the person, or its beginning."""
        with self.lock:
            self._check_not_logged()
            turns = self.replay(moves).turns
            if not turns:
                raise RequestError("there is nothing to take back: you have not played yet")
            self.aids.add("undo")
            self.moves = tuple(moves[: turns[-1]])
            return self.moves

    def record_hint(self) -> None:
        """The person wants a hint."""
        with self.lock:
            self._check_not_logged()
            self.aids.add("hint")

    def _check_not_logged(self) -> None:
        if self.log_entry is not None:
            run_id, number = self.log_entry
            raise RequestError(f"this game is over, and logged as game {number} of run {run_id}: begin another one")

    def _replay_against(self, moves: Sequence[str], opponent: Opponent) -> GameState:
        session = Session(self.prepared.spec.rules, self.prepared.seat, opponent)
        players = Participants(self.prepared.seat, opponent.label)
        turns: list[int] = []
        news: list[str] = []
        at = 0
        while not session.is_over:
            before = session.game
            if session.is_agent_to_act:
                try:
                    session.play_agent_turn()
                except TurnPendingError:
                    break
            elif at < len(moves):
                if not before.is_gift_due:
                    turns.append(at)
                    news.clear()
                session.advance_to(_apply_decision(moves[at], before))
                at += 1
            else:
                break
            news.append(describe_turn(before, session.game, players))
        if session.is_over:
            if at < len(moves):
                raise RequestError(f"the game is over, and {moves[at]} comes after its end")
            news.append(describe_ending(session.game, players, session.reason))
        return GameState(session, tuple(turns), tuple(filter(None, news)), session.is_agent_to_act)

    def _log_game(self, game: Game) -> None:
        if self.log_entry is not None or self.prepared.logbook is None:
            return
        seconds = time.perf_counter() - self._started
        try:
            self.log_entry = self.prepared.logbook.log_game(game, self.prepared.number, seconds, self.aids)
            self.log_error = ""
        except ArenaError as error:
            self.log_error = str(error)


def _apply_decision(word: str, game: Game) -> Game:
    return game.with_forfeit(FORFEIT_RESIGNED) if word == RESIGN else parse_and_play_decision(word, game)


class WebGameService:
    """The games of a site. Agents think in threads of their own, one for each browser at a time.

    So nobody waits for another one's. ``session`` names the browser.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._background = BackgroundPool(
            MAX_THINKING, max_jobs=2 * MAX_GAMES, idle_seconds=IDLE_SECONDS, unstoppable=True
        )
        self._games: OrderedDict[GameAddress, WebGame] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        self._background.close()

    def start_setup_of_new_game(self, setup: GameSetup, browser_id: str) -> tuple[str, BackgroundJob]:
        """Begin a game: its id, and the job that sets the agent up, whose result is the game.

        Raises ``RequestError`` for rules or an agent that do not exist.
        """
        identity = create_web_game_id()
        return identity, self._start_setup_job(identity, setup, browser_id, identity)

    def find_setup_job(self, web_game_id: str) -> BackgroundJob:
        """The job that sets up the game of an id. Raises ``NotFoundError`` if there is none."""
        found = self._background.find(web_game_id)
        if found is None:
            raise NotFoundError("this server does not know that game: begin a new one")
        return found

    def find_game(self, address: GameAddress) -> WebGame | None:
        """The game of an address, if this server began it or took it up, and has not forgotten it."""
        with self._lock:
            found = self._games.get(address.beginning)
            if found is not None:
                self._games.move_to_end(address.beginning)
            return found

    def start_reopen_job(self, address: GameAddress, browser_id: str) -> BackgroundJob:
        """Take up a game where its address says; the job's result is the game.

        What was taken back in it is not known, so it counts as one in which the person took turns back. Raises as
        ``begin`` does.
        """
        key = ("open", address)
        return self._start_setup_job(
            key, address.setup, browser_id, address.id, address.number, address.moves, ("undo",)
        )

    def find_reopen_job(self, address: GameAddress) -> BackgroundJob | None:
        """The job that takes up the game of an address, if somebody asked for that."""
        return self._background.find(("open", address))

    def start_turn_job(self, game: WebGame, moves: tuple[str, ...], browser_id: str) -> BackgroundJob:
        """The job in which the agent answers, and the game is logged if it is over."""
        return self._background.find_or_start(
            (game.serial, moves), lambda _job: game.play_agent_turn(moves), FOREVER, owner=browser_id
        )

    def find_turn_job(self, game: WebGame, moves: tuple[str, ...]) -> BackgroundJob | None:
        """That job, if it was begun."""
        return self._background.find((game.serial, moves))

    def start_hint_job(self, game: WebGame, moves: tuple[str, ...], browser_id: str) -> BackgroundJob:
        """The job that finds a hint: it needs kernels, for which no page waits."""
        key = ("hint", game.serial, moves)
        return self._background.find_or_start(
            key, lambda _job: find_hint(game.replay(moves).game), FOREVER, owner=browser_id
        )

    def find_hint_job(self, game: WebGame, moves: tuple[str, ...]) -> BackgroundJob | None:
        """That job, if it was begun."""
        return self._background.find(("hint", game.serial, moves))

    def _start_setup_job(
        self,
        key: Hashable,
        setup: GameSetup,
        browser_id: str,
        web_game_id: str,
        game_number: int | None = None,
        moves: tuple[str, ...] = (),
        aids: Sequence[str] = (),
    ) -> BackgroundJob:
        settings, known = self._site.options, self._site.get_or_create_service(AgentsAndRules)
        rules, agent = known.load_rules(setup.rules), known.load_agent(setup.agent)

        def work(_job: BackgroundJob) -> WebGame:
            spec = build_human_run_spec(rules, setup.name, agent, setup.seat, setup.seed)
            player = agent.build()
            players = (player, GuardedAgent(player, agent.label, rules))
            prepared = prepare_game(spec, setup.seat, players, settings.archive, settings.command, game_number)
            held = self._keep_game(WebGame(GameAddress(setup, prepared.number, web_game_id), prepared, aids))
            held.play_agent_turn(moves)
            return held

        return self._background.find_or_start(key, work, FOREVER, owner=browser_id)

    def _keep_game(self, game: WebGame) -> WebGame:
        with self._lock:
            found = self._games.setdefault(game.start_address, game)
            while len(self._games) > MAX_GAMES:
                self._games.popitem(last=False)
            return found


GAME_PATH = "/play/game"
RESIGN = "resign"
MAX_MOVES = 33  # gifts and placements of one person, and a resignation

_ID = re.compile(r"[\w-]{22}")


class GameSetup(NamedTuple):
    """The players and settings of a game."""

    agent: str  # label
    rules: str
    seat: int  # the person's
    seed: int
    name: str  # the person's


class GameAddress(NamedTuple):
    """A game and the person's decisions."""

    setup: GameSetup
    number: int  # in its run
    id: str  # a random one, by which this server knows the game
    moves: tuple[str, ...] = ()  # cells, pieces, piece@cell where the mover chooses, ``resign``

    def to_query(self) -> dict[str, object]:
        """The values of the address by name."""
        made = {**self.setup._asdict(), "number": self.number, "id": self.id}
        return made | ({"moves": ".".join(self.moves)} if self.moves else {})

    def with_decision(self, decision: str) -> GameAddress:
        """The address after one more decision. Raises ``RequestError`` for a text that cannot be one."""
        return self._replace(moves=_check_moves([*self.moves, decision]))

    @property
    def beginning(self) -> GameAddress:
        return self._replace(moves=())


def create_web_game_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(16)


def parse_setup(values: Mapping[str, str]) -> GameSetup:
    """The setup among the values of a form or an address. Raises ``RequestError`` for what is missing or wrong."""
    seat, seed = parse_whole_number(values, "seat", 1), parse_whole_number(values, "seed")
    return GameSetup(
        _parse_text_field(values, "agent"),
        values.get("rules") or "classic",
        seat,
        seed,
        _parse_text_field(values, "name"),
    )


def parse_address(values: Mapping[str, str]) -> GameAddress:
    """The address of a game. Raises ``RequestError`` naming the value that is missing or wrong."""
    identity, moves = values.get("id", ""), values.get("moves", "")
    if not _ID.fullmatch(identity):
        raise RequestError(f"id {identity[:40]!r} is not that of a game: begin a new game")
    words = _check_moves(moves.split(".") if moves else [])
    return GameAddress(parse_setup(values), parse_whole_number(values, "number", MAX_PAIRS - 1), identity, words)


def _check_moves(words: list[str]) -> tuple[str, ...]:
    return check_decision_words("moves", words, MAX_MOVES, RESIGN)


def _parse_text_field(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "").strip()
    if not text or len(text) > 200:
        raise RequestError(f"{name} {text[:40]!r} is not a text of 1 to 200 characters")
    return text
