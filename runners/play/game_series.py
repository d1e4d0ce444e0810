"""`qarena play`: sets up games, runs the dialogue, logs and reviews each game, and offers a rematch."""

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
from runners.play.session import Logbook, Session, build_human_run_spec, format_aids, format_plies_sql, prepare_game
from runners.terminal.console import format_sql_command, print_note

DEFAULT_NAME = "somebody"  # the player where the system knows no login name
REMATCH_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "quit": False, "exit": False, "": False}


@dataclass(frozen=True)
class PlayOptions:
    """The options of ``qarena play``."""

    agent: str  # label
    rules: str
    seat: int  # the person's, in the first game
    seed: int
    name: str | None  # None: the login name
    archive: PurePath | None  # None: the game is not logged
    policies: PurePath  # the archive that holds the agent's policy, if it plays by one
    config_dir: Path | None  # the user's own folder of agents and rules
    plain: bool
    review_seconds: float  # time limit for judging a finished game; 0: games are not judged
    command: str  # as typed


def play_series(options: PlayOptions) -> None:
    """Play a game, then rematches with the seats swapped, until the person declines.

    Raises ``RequestError`` for an invalid option before anything is asked or written, ``FailureError`` if the input
    ends before the game does or if the game cannot be logged, and ``SystemExit`` if the person presses Ctrl-C.
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
    """A series of games between a person and one agent."""

    def __init__(self, options: PlayOptions, agent: Agent, guarded: GuardedAgent, screen: Screen) -> None:
        self._options = options
        self._agent = agent
        self._guarded = guarded
        self._screen = screen

    def play_game(self, spec: RunSpec, seat: int, unlogged_number: int) -> bool:
        """Play one game, log it and review it; return whether it was played to the end.

        ``unlogged_number`` is the game's number if the game is not logged; the agent's randomness depends on it.
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
        logbook, session = prepared.logbook, prepared.start_session_before_first_gift()
        self._screen.begin_game_with_heading(_format_heading(spec, seat, None if logbook is None else prepared.number))
        started = time.perf_counter()
        if not _play_to_end_or_exit(Dialogue(session, self._screen), self._screen):
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
            f"  {format_sql_command(format_plies_sql(run_id, game_number), logbook.root)}", unwrapped=True
        )

    def _print_review(self, session: Session) -> None:
        """Print the mistakes of both players. During the search for mistakes, Ctrl-C ends the program."""
        game, seconds = session.game, self._options.review_seconds
        try:
            with self._screen.show_waiting("Looking for mistakes"):
                review = review_game(game.rules, game.plies, game.hand, seconds=seconds)
        except KeyboardInterrupt:
            self._screen.print_text("\nThe game was not judged.")
            raise SystemExit(exit_code()) from None
        self._screen.print_text("")
        for line in render_review(review, Participants(session.seat, session.opponent.label), seconds):
            self._screen.print_text(line, unwrapped=True)

    def ask_for_rematch(self) -> bool:
        """Ask whether to play again with the seats swapped; Ctrl-C or the end of the input means no."""
        self._screen.print_text("")
        while True:
            try:
                answer = self._screen.prompt("rematch with the seats swapped, y or n").strip().lower()
            except (EOFError, KeyboardInterrupt):
                self._screen.print_text("")
                return False
            if answer in REMATCH_ANSWERS:
                return REMATCH_ANSWERS[answer]
            self._screen.print_text(f"{quote_input(answer)} is neither y nor n.")


def find_login_name() -> str:
    """Return the user's login name, or ``DEFAULT_NAME`` if the system does not know it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in many containers
        return DEFAULT_NAME


def _format_heading(spec: RunSpec, seat: int, game_number: int | None) -> str:
    human, agent = spec.agents
    role_in_seat_0 = "places second" if spec.rules.mover_chooses else "gives first"
    role = role_in_seat_0 if seat == 0 else "places first"
    log_entry = "not logged" if game_number is None else f"game {game_number}"
    players = f"{human.label} ({role}) against {agent.label}"
    return f"{players}; {spec.rules.name} rules, seed {spec.seed}, {log_entry}"


def _play_to_end_or_exit(dialogue: Dialogue, screen: Screen) -> bool:
    """Play until the game is over, and return whether it is over.

    If the person leaves earlier, a message is printed. Raises ``FailureError`` if the input ends before the game does,
    and ``SystemExit`` if the person presses Ctrl-C.
    """
    try:
        is_over = dialogue.play_to_end()
    except EOFError:
        screen.print_text("")
        raise FailureError("the input ended before the game did, so it is not logged") from None
    except KeyboardInterrupt:
        screen.print_text("\nThe game is not finished, so it is not logged.")
        raise SystemExit(exit_code()) from None
    if not is_over:
        screen.print_text("You leave. The game is not finished, so it is not logged.")
    return is_over
