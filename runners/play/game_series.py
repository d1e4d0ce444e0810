"""`qarena play`: set up games, run the dialogue, log each game, review it, offer a rematch."""

from __future__ import annotations

import getpass
import io
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePath

from agents.base.agent import Agent
from analytics.exact.game_review import review_game
from quarto.errors import FailureError
from quarto.game import Participants
from quarto.notation import format_game
from runners.arena.spec import RunSpec
from runners.config.agent_policies import describe_untrained_agents
from runners.config.agents import agent_from_label
from runners.config.yaml_options import load_rules, use_config_dir
from runners.hosting.guarded_agent import GuardedAgent
from runners.hosting.interruption import exit_code
from runners.play.dialogue import Dialogue, quote_input
from runners.play.hints import render_review
from runners.play.screens import Screen, build_screen
from runners.play.session import Logbook, Session, build_human_run_spec, format_aids, format_plies_query, prepare_game
from runners.terminal.console import format_sql_command, print_note

DEFAULT_NAME = "somebody"  # the player where the system knows no login name
REMATCH_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "quit": False, "exit": False, "": False}


@dataclass(frozen=True)
class PlayOptions:
    """The options of ``qarena play``."""

    agent: str  # its label
    rules: str
    seat: int  # the person's, in the first game
    seed: int
    name: str | None  # None: the login name
    archive: PurePath | None  # None: the game is not logged
    policies: PurePath  # the archive with the policy of the agent, if it has one
    config_dir: Path | None  # with agents and rules of the user's own
    plain: bool
    review_seconds: float  # that a finished game is judged for; 0: it is not
    command: str  # as it was typed


def play_series(options: PlayOptions) -> None:
    """Play a game, and rematches with the seats swapped for as long as the person wants one.

    Raises ``RequestError`` for a wrong option before anything is asked or written; ``FailureError`` if the input ends
    before the game or the game cannot be logged; ``SystemExit`` at Ctrl-C.
    """
    with use_config_dir(options.config_dir):  # an agent's modules may import others while it plays
        _play_until_declined(options)


def _play_until_declined(options: PlayOptions) -> None:
    rules, agent = load_rules(options.rules), agent_from_label(options.agent, options.policies, True)
    for note in describe_untrained_agents([agent]):
        print_note(note)
    name = find_login_name() if options.name is None else options.name
    player = agent.build()
    series = GameSeries(options, player, GuardedAgent(player, agent.label, rules), build_screen(options.plain))
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # text that cannot be decoded is a wrong answer, not a failure
    for game in count():
        seat = (options.seat + game) % 2
        spec = build_human_run_spec(rules, name, agent, seat, options.seed)
        if not series.play_game(spec, seat, game // 2) or not series.ask_for_rematch():
            return


class GameSeries:
    """A person's games against an agent, one after the other."""

    def __init__(self, options: PlayOptions, agent: Agent, guarded: GuardedAgent, screen: Screen) -> None:
        self._options = options
        self._agent = agent
        self._guarded = guarded
        self._screen = screen

    def play_game(self, spec: RunSpec, seat: int, unlogged_number: int) -> bool:
        """Play one game, log it and review it. Returns whether it was played to its end.

        ``unlogged_number`` is the number of the game if it is not logged.
        """
        options = self._options
        command = options.command if seat == options.seat else f"{options.command} --seat {seat}"
        prepared = prepare_game(
            spec,
            seat,
            (self._agent, self._guarded),
            options.archive,
            command,
            None if options.archive else unlogged_number,
        )
        logbook, session = prepared.logbook, prepared.start_session()
        self._screen.print_heading(_format_heading(spec, seat, None if logbook is None else prepared.number))
        started = time.perf_counter()
        if not _play_to_end(Dialogue(session, self._screen), self._screen):
            return False
        self._screen.print_text(f"Game: {format_game(session.game.plies) or '(no ply was played)'}")
        if logbook is not None:
            self._log_game(logbook, session, prepared.number, time.perf_counter() - started)
        if self._options.review_seconds:
            self._print_review(session)
        return True

    def _log_game(self, logbook: Logbook, session: Session, game_number: int, seconds: float) -> None:
        run_id, game_number = logbook.log_game(session.game, game_number, seconds, session.aids)
        if session.aids:
            self._screen.print_text(
                f"You used {format_aids(session.aids)}, so the game is logged apart from your others."
            )
        self._screen.print_text(f"Logged as game {game_number} of run {run_id} in {logbook.root}. To find it again:")
        self._screen.print_text(
            f"  {format_sql_command(format_plies_query(run_id, game_number), logbook.root)}", unwrapped=True
        )

    def _print_review(self, session: Session) -> None:
        """Show where each side erred. Ctrl-C ends the search for it, and the program."""
        game, seconds = session.game, self._options.review_seconds
        try:
            with self._screen.show_waiting("Looking for mistakes"):
                review = review_game(game.rules, game.plies, game.hand, seconds=seconds)
        except KeyboardInterrupt:
            self._screen.print_text("\nThe game is not judged.")
            raise SystemExit(exit_code()) from None
        self._screen.print_text("")
        for line in render_review(review, Participants(session.seat, session.opponent.label), seconds):
            self._screen.print_text(line, unwrapped=True)

    def ask_for_rematch(self) -> bool:
        """Whether the person wants another game with the seats swapped. The end of the input is a no, as is Ctrl-C."""
        self._screen.print_text("")
        while True:
            try:
                typed = self._screen.prompt("rematch with the seats swapped, y or n").strip().lower()
            except (EOFError, KeyboardInterrupt):
                self._screen.print_text("")
                return False
            if typed in REMATCH_ANSWERS:
                return REMATCH_ANSWERS[typed]
            self._screen.print_text(f"{quote_input(typed)} is neither y nor n.")


def find_login_name() -> str:
    """The login name of the user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in many containers
        return DEFAULT_NAME


def _format_heading(spec: RunSpec, seat: int, game_number: int | None) -> str:
    human, agent = spec.agents
    in_seat_0 = "places second" if spec.rules.mover_chooses else "gives first"
    role = in_seat_0 if seat == 0 else "places first"
    kept = "not logged" if game_number is None else f"game {game_number}"
    players = f"{human.label} ({role}) against {agent.label}"
    return f"{players}; {spec.rules.name} rules, seed {spec.seed}, {kept}"


def _play_to_end(dialogue: Dialogue, screen: Screen) -> bool:
    """Whether the game was played to its end."""
    try:
        over = dialogue.play_to_end()
    except EOFError:
        screen.print_text("")
        raise FailureError("the input ended before the game did, so it is not logged") from None
    except KeyboardInterrupt:
        screen.print_text("\nThe game is not finished, so it is not logged.")
        raise SystemExit(exit_code()) from None
    if not over:
        screen.print_text("You leave. The game is not finished, so it is not logged.")
    return over
