"""What `qarena play` does: set the game up, hold the dialogue, log what comes of it."""

from __future__ import annotations

import getpass
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from analytics.store.archive import Archive
from quarto.errors import FailureError
from quarto.notation import format_game
from runners.arena.agent_labels import agent_named
from runners.arena.agent_policies import untrained
from runners.arena.config_groups import load_rules
from runners.arena.engine import Contestant
from runners.arena.spec import RunSpec
from runners.hydra_app.config_dir import own_folder
from runners.play.dialogue import Dialogue
from runners.play.logbook import Logbook, spec_of
from runners.play.screens import Screen, screen_for
from runners.play.session import AgentOpponent, Session
from runners.terminal.console import say, sql_command

NOBODY = "somebody"  # plays where the system knows no login name


@dataclass(frozen=True)
class Setting:
    """What was asked for on the command line."""

    agent: str  # its label
    rules: str
    seat: int  # the person's
    seed: int
    name: str | None  # None: the login name
    archive: Path | None  # None: the game is not logged
    policies: Path  # the archive with the agent's policy, if it names one
    config_dir: Path | None  # with agents and rules of the user's own
    plain: bool
    command: str  # as it was typed


def start(setting: Setting) -> None:
    """Play one game.

    Raises ``RequestError`` for a setting that makes no sense, before anything is asked or written; ``FailureError``
    when the input ends before the game does, or the disk refuses; ``SystemExit`` at Ctrl-C.
    """
    with own_folder(setting.config_dir):
        rules, agent = load_rules(setting.rules), agent_named(setting.agent, setting.policies)
    for note in untrained([agent]):
        say(note)
    spec = spec_of(rules, login_name() if setting.name is None else setting.name, agent, setting.seat, setting.seed)
    contestant = Contestant(agent.build(), agent.label, rules)
    logbook = number = None
    if setting.archive is not None:
        logbook = Logbook(Archive.open(setting.archive, create=True), spec, setting.command)
        number = logbook.next_number()
    screen = screen_for(setting.plain)
    screen.greet(_heading(spec, setting, number))
    session = Session(rules, setting.seat, AgentOpponent(contestant, setting.seed, number or 0))
    started = time.perf_counter()
    if not _held(Dialogue(session, screen), screen):
        return
    screen.say(f"Game: {format_game(session.game.plies) or '(no ply was played)'}")
    if logbook is not None and number is not None and setting.archive is not None:
        number = logbook.enter(session.game, number, time.perf_counter() - started)
        _say_where(screen, logbook, number, setting.archive)


def login_name() -> str:
    """The name of whoever is logged in."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in many containers
        return NOBODY


def _heading(spec: RunSpec, setting: Setting, number: int | None) -> str:
    human, agent = spec.agents
    in_seat_0 = "places second" if spec.rules.mover_chooses else "gives first"
    does = in_seat_0 if setting.seat == 0 else "places first"
    kept = "not logged" if number is None else f"game {number}"
    who = f"{human.label} ({does}) against {agent.label}"
    return f"{who}; {spec.rules.name} rules, seed {spec.seed}, {kept}"


def _held(dialogue: Dialogue, screen: Screen) -> bool:
    """Whether the game was played to its end."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what cannot be decoded is a wrong answer, not a failure
    try:
        over = dialogue.hold()
    except EOFError:
        screen.say("")
        raise FailureError("the input ended before the game did, so it is not logged") from None
    except KeyboardInterrupt:
        screen.say("\nThe game is not finished, so it is not logged.")
        raise SystemExit(130) from None
    if not over:
        screen.say("You leave. The game is not finished, so it is not logged.")
    return over


def _say_where(screen: Screen, logbook: Logbook, number: int, root: Path) -> None:
    screen.say(f"Logged as game {number} of run {logbook.run_id} in {root}. To find it again:")
    game = f"run_id = '{logbook.run_id}' AND game_id = {logbook.game_id(number)}"
    question = f"SELECT ply, seat, piece, cell FROM plies WHERE {game} ORDER BY ply"  # noqa: S608  (to be typed)
    screen.say(f"  {sql_command(question, root)}", whole=True)
