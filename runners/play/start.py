"""`qarena play`: set up the game, run the dialogue, log the game."""

from __future__ import annotations

import getpass
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PurePath

from analytics.store.archive import Archive
from analytics.store.schema import first_game_id
from quarto.errors import FailureError
from quarto.notation import format_game
from quarto.rng import run_word
from runners.arena.agent_labels import agent_named
from runners.arena.agent_policies import untrained
from runners.arena.config_groups import load_rules
from runners.arena.spec import RunSpec
from runners.contestants.contestant import Contestant
from runners.contestants.interruption import INTERRUPTED
from runners.hydra_app.config_dir import user_config_dir
from runners.play.dialogue import Dialogue
from runners.play.logbook import Logbook, spec_of
from runners.play.screens import Screen, screen_for
from runners.play.session import AgentOpponent, Session
from runners.terminal.console import print_note, sql_command

DEFAULT_NAME = "somebody"  # the player where the system knows no login name


@dataclass(frozen=True)
class PlayOptions:
    """The options of ``qarena play``."""

    agent: str  # its label
    rules: str
    seat: int  # the person's
    seed: int
    name: str | None  # None: the login name
    archive: PurePath | None  # None: the game is not logged
    policies: PurePath  # the archive with the policy of the agent, if it has one
    config_dir: Path | None  # with agents and rules of the user's own
    plain: bool
    command: str  # as it was typed


def start(options: PlayOptions) -> None:
    """Play one game.

    Raises ``RequestError`` for a wrong option before anything is asked or written; ``FailureError`` if the input ends
    before the game or the game cannot be logged; ``SystemExit`` at Ctrl-C.
    """
    with user_config_dir(options.config_dir):
        rules, agent = load_rules(options.rules), agent_named(options.agent, options.policies)
    for note in untrained([agent]):
        print_note(note)
    spec = spec_of(rules, login_name() if options.name is None else options.name, agent, options.seat, options.seed)
    player = agent.build()
    contestant = Contestant(player, agent.label, rules)
    logbook = number = None
    if options.archive is not None:
        logbook = Logbook(Archive.open(options.archive, create=True), spec, player, options.command)
        number = logbook.next_number()
    screen = screen_for(options.plain)
    screen.greet(_heading(spec, options, number))
    session = Session(rules, options.seat, AgentOpponent(contestant, run_word(spec.run_id), number or 0))
    started = time.perf_counter()
    if not _played(Dialogue(session, screen), screen):
        return
    screen.write(f"Game: {format_game(session.game.plies) or '(no ply was played)'}")
    if logbook is not None and number is not None and options.archive is not None:
        run_id, number = logbook.enter(session.game, number, time.perf_counter() - started, session.aids)
        if session.aids:
            used = " and ".join(sorted(session.aids))
            screen.write(f"You used {used}, so the game is logged apart from your others.")
        _write_place(screen, run_id, number, options.archive)


def login_name() -> str:
    """The login name of the user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in many containers
        return DEFAULT_NAME


def _heading(spec: RunSpec, options: PlayOptions, number: int | None) -> str:
    human, agent = spec.agents
    in_seat_0 = "places second" if spec.rules.mover_chooses else "gives first"
    role = in_seat_0 if options.seat == 0 else "places first"
    kept = "not logged" if number is None else f"game {number}"
    players = f"{human.label} ({role}) against {agent.label}"
    return f"{players}; {spec.rules.name} rules, seed {spec.seed}, {kept}"


def _played(dialogue: Dialogue, screen: Screen) -> bool:
    """Whether the game was played to its end."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # text that cannot be decoded is a wrong answer, not a failure
    try:
        over = dialogue.run()
    except EOFError:
        screen.write("")
        raise FailureError("the input ended before the game did, so it is not logged") from None
    except KeyboardInterrupt:
        screen.write("\nThe game is not finished, so it is not logged.")
        raise SystemExit(INTERRUPTED) from None
    if not over:
        screen.write("You leave. The game is not finished, so it is not logged.")
    return over


def _write_place(screen: Screen, run_id: str, number: int, root: PurePath) -> None:
    screen.write(f"Logged as game {number} of run {run_id} in {root}. To find it again:")
    game = f"run_id = '{run_id}' AND game_id = {first_game_id(0, number)}"
    question = f"SELECT ply, seat, piece, cell FROM plies WHERE {game} ORDER BY ply"  # noqa: S608  (to be typed)
    screen.write(f"  {sql_command(question, root)}", unwrapped=True)
