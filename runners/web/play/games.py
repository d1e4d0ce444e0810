"""The games that this server holds, each with its address and the agent's turns. A finished game is logged once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import count
from typing import NamedTuple

from quarto.batch import FORFEIT_RESIGNED
from quarto.errors import ArenaError, NotFoundError, RequestError
from quarto.game import Game, Participants, describe_ending, describe_turn
from runners.hosting.guarded_agent import GuardedAgent
from runners.play.dialogue import parse_and_play_decision
from runners.play.hints import find_hint
from runners.play.session import AgentFailedError, Opponent, PreparedGame, Session, build_human_run_spec, prepare_game
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.background import BackgroundJob, BackgroundPool
from runners.web.play.addresses import RESIGN, GameAddress, GameSetup, create_web_game_id
from runners.web.play.guide import Guide, build_guide
from runners.web.play.series import SeriesBook, SeriesStanding, count_half_points
from runners.web.site import Site

MAX_GAMES = 1000  # games held; beyond that, the least recently used one is forgotten
MAX_THINKING = 16  # agents that think at a time
FOREVER = float("inf")  # seconds: a job has no limit, because an agent has its own (turn_seconds)
IDLE_SECONDS = 30.0  # without a request by a page, after which an agent's thread is abandoned

_serials = count()


TurnsByGame = dict[Game, tuple[int, int] | AgentFailedError]


class TurnPendingError(Exception):
    """The error for a turn that the agent has not chosen yet."""


class RememberingOpponent:
    """An opponent that remembers its turns, and takes the same turn whenever the same game is replayed.

    A turn that is not remembered yet is chosen by the wrapped opponent, if there is one.
    """

    def __init__(self, label: str, turns_by_game: TurnsByGame, opponent: Opponent | None = None) -> None:
        self.label = label
        self._answers = turns_by_game
        self._thinking = opponent

    def take_turn(self, game: Game) -> tuple[int, int]:
        """Return the remembered turn, or let the wrapped opponent choose a turn and remember it.

        Raises ``TurnPendingError`` if no turn is remembered and there is no wrapped opponent. Raises
        ``AgentFailedError`` if the wrapped opponent fails, or failed in the same game before.
        """
        if game not in self._answers and self._thinking is not None:
            try:
                self._answers[game] = self._thinking.take_turn(game)
            except AgentFailedError as error:
                self._answers[game] = error
        turn = self._answers.get(game)
        if turn is None:
            raise TurnPendingError
        if isinstance(turn, AgentFailedError):
            raise turn
        return turn


class GameState(NamedTuple):
    """The state of a game after some of the person's decisions."""

    session: Session
    turns: tuple[int, ...]  # indices of the decisions that began the person's turns
    news: tuple[str, ...]  # sentences about what happened since the person's last turn began
    thinking: bool  # the agent has not taken its turn yet

    @property
    def game(self) -> Game:
        return self.session.game


class WebGame:
    """A game between a person and an agent on the web.

    ``moves`` in its methods are the person's decisions in order.
    """

    def __init__(self, start_address: GameAddress, prepared_game: PreparedGame, aids: Sequence[str] = ()) -> None:
        self.start_address = start_address
        self.prepared = prepared_game
        self.serial = next(_serials)
        self.aids = {*aids, "hint"} if start_address.setup.guided else set(aids)
        self.moves: tuple[str, ...] = ()  # the current decisions: those of the form that was sent last
        self.log_entry: tuple[str, int] | None = None  # run id and game number, once the game is logged
        self.log_error = ""  # why the game could not be logged
        self.standing: SeriesStanding | None = None  # of its series, once the game is over
        self.lock = threading.Lock()  # guards the attributes above; not held while the agent thinks
        self._thinking = threading.Lock()
        self._answers: TurnsByGame = {}
        self._guides: dict[Game, Guide] = {}  # of a guided game
        self._started = time.perf_counter()

    def replay(self, moves: Sequence[str]) -> GameState:
        """Return the state of the game after the person's decisions ``moves`` and the agent's turns between them.

        Raises ``RequestError`` for an illegal decision.
        """
        return self._replay_against(moves, RememberingOpponent(self.prepared.opponent.label, self._answers))

    def play_agent_turn(self, moves: Sequence[str]) -> None:
        """Let the agent take its turn after the person's decisions ``moves``.

        If the turn ends the game and ``moves`` are the current decisions, the game is logged.
        """
        with self._thinking:
            opponent = self.prepared.opponent
            state = self._replay_against(moves, RememberingOpponent(opponent.label, self._answers, opponent))
            if self.start_address.setup.guided and not state.session.is_over:
                self._guides[state.game] = build_guide(state.game)
        with self.lock:
            if state.session.is_over and tuple(moves) == self.moves:
                self._log_game(state.game)

    def record_result(self, moves: Sequence[str], series: SeriesBook, browser_id: str) -> None:
        """Record the result in the browser's series, once, if ``moves`` are the current decisions and end the game."""
        state, setup = self.replay(moves), self.start_address.setup
        with self.lock:
            if self.standing is not None or not state.session.is_over or tuple(moves) != self.moves:
                return
            self.standing = series.record_result(
                browser_id,
                (setup.name, setup.agent, setup.rules),
                count_half_points(state.game.winner, setup.seat),
                is_aided=bool(self.aids),
            )

    def is_guide_due(self, state: GameState) -> bool:
        """Return whether a decision of the person in a guided game has no help yet, because it is being computed."""
        is_persons = not (state.thinking or state.session.is_over)
        return self.start_address.setup.guided and is_persons and state.game not in self._guides

    def find_guide(self, game: Game) -> Guide | None:
        """Return the help for the person's decision in ``game``, or None if this is no guided game."""
        return self._guides.get(game)

    def is_to_be_logged(self, moves: Sequence[str]) -> bool:
        """Return whether ``moves`` are the current decisions and end a game that is not in the archive yet."""
        with self.lock:
            if self.log_entry is not None or self.log_error or tuple(moves) != self.moves:
                return False
            return self.replay(moves).session.is_over

    def append_decision(self, moves: Sequence[str], decision: str) -> tuple[str, ...]:
        """Append a decision to ``moves``, make the result the current decisions, and return the result.

        If the decision was made on an earlier page, the later turns are taken back. The same decision may arrive twice,
        because a form can be sent twice. Raises ``RequestError`` for an illegal decision, while the agent is thinking,
        and once the game is logged.
        """
        with self.lock:
            if self.moves == (*moves, decision):
                return self.moves
            self._check_not_logged()
            if self.replay(moves).thinking:
                raise RequestError(f"{self.prepared.opponent.label} is thinking: wait for its turn")
            new_moves = (*moves, decision)
            self.replay(new_moves)
            if self.moves[: len(new_moves)] != new_moves and tuple(moves) != self.moves:
                self.aids.add("undo")
            self.moves = new_moves
            return new_moves

    def undo(self, moves: Sequence[str]) -> tuple[str, ...]:
        """Take back the person's last turn, even if only part of it was decided, and return the remaining decisions.

        Raises ``RequestError`` if the person has not played yet, and once the game is logged.
        """
        with self.lock:
            self._check_not_logged()
            turns = self.replay(moves).turns
            if not turns:
                raise RequestError("there is nothing to take back: you have not played yet")
            self.aids.add("undo")
            self.moves = tuple(moves[: turns[-1]])
            return self.moves

    def record_hint(self) -> None:
        """Record that the person asked for a hint. Raises ``RequestError`` if the game has already been logged."""
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


class BegunGame(NamedTuple):
    """A game that is about to begin, while its agent is being prepared."""

    id: str  # as ``create_web_game_id`` returns it
    setup_job: BackgroundJob  # its result is the ``WebGame``


class WebGameService:
    """A service that holds the games that people play on a site.

    Agents think in background threads, at most one for each browser, so nobody waits for another person's agent.
    ``browser_id`` in the methods identifies the browser.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._background = BackgroundPool(
            MAX_THINKING, max_jobs=2 * MAX_GAMES, idle_seconds=IDLE_SECONDS, unstoppable=True
        )
        self._games: OrderedDict[GameAddress, WebGame] = OrderedDict()
        self._series = SeriesBook()
        self._lock = threading.Lock()

    def close(self) -> None:
        self._background.close()

    def begin_game(self, setup: GameSetup, browser_id: str) -> BegunGame:
        """Begin a game: start the job that prepares its agent, and return the job with the id of the game.

        Raises ``RequestError`` if the rules or the agent do not exist.
        """
        web_game_id = create_web_game_id()
        return BegunGame(web_game_id, self._start_setup_job(web_game_id, setup, browser_id, web_game_id))

    def find_setup_job(self, web_game_id: str) -> BackgroundJob:
        """Return the job that prepares the game with this id. Raises ``NotFoundError`` if there is no such job."""
        job = self._background.find_and_count_request(web_game_id)
        if job is None:
            raise NotFoundError(
                "this server does not hold that game, perhaps because it was started again: begin a new one"
            )
        return job

    def find_game(self, address: GameAddress) -> WebGame | None:
        """Return the game that the address names, or None if this server does not hold the game."""
        with self._lock:
            game = self._games.get(address.beginning)
            if game is not None:
                self._games.move_to_end(address.beginning)
            return game

    def start_reopen_job(self, address: GameAddress, browser_id: str) -> BackgroundJob:
        """Return the job that resumes the game that the address names; start the job if needed.

        The result of the job is the ``WebGame``. The game is marked as one in which turns were taken back, because the
        address does not show whether that happened. Raises ``RequestError`` if the rules or the agent do not exist.
        """
        key = ("open", address)
        return self._start_setup_job(
            key, address.setup, browser_id, address.id, address.number, address.moves, ("undo",)
        )

    def find_reopen_job(self, address: GameAddress) -> BackgroundJob | None:
        """Return the job that resumes the game that the address names, or None if nobody has started such a job."""
        return self._background.find_and_count_request(("open", address))

    def start_turn_job(self, game: WebGame, moves: tuple[str, ...], browser_id: str) -> BackgroundJob:
        """Return the job in which the agent takes its turn after ``moves``; start the job if needed.

        If the turn ends the game, the job also logs the game and records its result for the browser.
        """

        def work(_job: BackgroundJob) -> None:
            game.play_agent_turn(moves)
            game.record_result(moves, self._series, browser_id)

        return self._background.find_or_start((game.serial, moves), work, FOREVER, owner=browser_id)

    def find_turn_job(self, game: WebGame, moves: tuple[str, ...]) -> BackgroundJob | None:
        """Return the job in which the agent takes its turn after ``moves``, or None if the job was not started."""
        return self._background.find_and_count_request((game.serial, moves))

    def start_hint_job(self, game: WebGame, moves: tuple[str, ...], browser_id: str) -> BackgroundJob:
        """Return the job that finds a hint for the person's decision after ``moves``; start the job if needed.

        Pages do not wait for the job, because kernels may have to be compiled first.
        """
        key = ("hint", game.serial, moves)
        return self._background.find_or_start(
            key, lambda _job: find_hint(game.replay(moves).game), FOREVER, owner=browser_id
        )

    def find_hint_job(self, game: WebGame, moves: tuple[str, ...]) -> BackgroundJob | None:
        """Return the job that finds a hint after ``moves``, or None if the job was not started."""
        return self._background.find_and_count_request(("hint", game.serial, moves))

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
        options, choices = self._site.options, self._site.get_or_create_service(AgentsAndRules)
        rules, agent = choices.load_rules(setup.rules), choices.load_agent(setup.agent)

        def work(_job: BackgroundJob) -> WebGame:
            spec = build_human_run_spec(rules, setup.name, agent, setup.seat, setup.seed)
            player = agent.build()
            players = (player, GuardedAgent(player, agent.label, rules))
            prepared = prepare_game(spec, setup.seat, players, options.archive, options.command, game_number)
            game = self._keep_game(WebGame(GameAddress(setup, prepared.number, web_game_id), prepared, aids))
            game.play_agent_turn(moves)
            return game

        return self._background.find_or_start(key, work, FOREVER, owner=browser_id)

    def _keep_game(self, game: WebGame) -> WebGame:
        with self._lock:
            kept_game = self._games.setdefault(game.start_address, game)
            while len(self._games) > MAX_GAMES:
                self._games.popitem(last=False)
            return kept_game
