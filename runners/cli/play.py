"""``qarena play``: a game of a person against an agent."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, agent_options, rules_options


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(play)


def play(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    agent: Annotated[
        str,
        typer.Argument(
            help="An agent, with parameters if you like: 'mcts(iterations=1000)'.", autocompletion=agent_options
        ),
    ],
    seat: Annotated[int, typer.Option(min=0, max=1, help="Yours: 0 gives the first piece, 1 places first.")] = 1,
    rules: Annotated[str, typer.Option(help="The rules to play by.", autocompletion=rules_options)] = "classic",
    seed: Annotated[int, typer.Option(min=0, max=(1 << 63) - 1, help="Of the agent's randomness.")] = 1,
    name: Annotated[str | None, typer.Option(help="The game is logged as human:NAME. Default: the login name.")] = None,
    archive: ArchiveOption = ARCHIVE,
    no_log: Annotated[bool, typer.Option("--no-log", help="Keep the game out of the archive.")] = False,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", help="A folder with agents and rules of your own, as for run.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No pictures and colours, as over a pipe.")] = False,
) -> None:
    """Play against an agent at the terminal, or over a pipe."""
    from runners.play.start import Setting, start

    command = shlex.join(["qarena", *sys.argv[1:]])
    start(Setting(agent, rules, seat, seed, name, None if no_log else archive, archive, config_dir, plain, command))
