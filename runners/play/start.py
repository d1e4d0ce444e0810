"""`qarena play`: set up the game, run the dialogue, log the game."""

from __future__ import annotations

import getpass
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PurePath

from quarto.errors import FailureError
from quarto.notation import format_game
from runners.arena.agent_labels import agent_named
from runners.arena.agent_policies import untrained
from runners.arena.config_groups import load_rules
from runners.contestants.interruption import INTERRUPTED
from runners.hydra_app.config_dir import user_config_dir
from runners.play.dialogue import Dialogue
from runners.play.logbook import question_for, used
from runners.play.screens import Screen, screen_for
from runners.play.table import Table, lay_table
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
    name = login_name() if options.name is None else options.name
    table = lay_table(
        rules,
        agent,
        name=name,
        seat=options.seat,
        seed=options.seed,
        archive=options.archive,
        command=options.command,
    )
    screen = screen_for(options.plain)
    session = table.session()
    screen.greet(_heading(table))
    started = time.perf_counter()
    if not _played(Dialogue(session, screen), screen):
        return
    screen.write(f"Game: {format_game(session.game.plies) or '(no ply was played)'}")
    if table.logbook is not None and options.archive is not None:
        seconds = time.perf_counter() - started
        run_id, number = table.logbook.enter(session.game, table.number, seconds, session.aids)
        if session.aids:
            screen.write(f"You used {used(session.aids)}, so the game is logged apart from your others.")
        _write_place(screen, run_id, number, options.archive)


def login_name() -> str:
    """The login name of the user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in many containers
        return DEFAULT_NAME


def _heading(table: Table) -> str:
    spec = table.spec
    human, agent = spec.agents
    in_seat_0 = "places second" if spec.rules.mover_chooses else "gives first"
    role = in_seat_0 if table.seat == 0 else "places first"
    kept = "not logged" if table.logbook is None else f"game {table.number}"
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
    screen.write(f"  {sql_command(question_for(run_id, number), root)}", unwrapped=True)
