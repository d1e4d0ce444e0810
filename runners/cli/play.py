"""``qarena play`` and ``serve``: a game of a person against an agent, at the terminal or in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.cli import options


def play(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    agent: Annotated[str, options.agent("An agent, with or without parameters: 'mcts(iterations=1000)'.")],
    seat: Annotated[int, typer.Option(min=0, max=1, help="Your seat: 0 gives the first piece, 1 places first.")] = 1,
    rules: Annotated[str, options.rules("The rules to play by.")] = "classic",
    seed: Annotated[int, options.seed("Seed of the agent's random choices.")] = 1,
    name: Annotated[
        str | None, typer.Option(help="The game is logged as human:NAME. Default: your login name.")
    ] = None,
    archive: options.Archive = options.ARCHIVE,
    no_log: Annotated[bool, typer.Option("--no-log", help="Do not log the game.")] = False,
    config_dir: options.ConfigDir = None,
    plain: Annotated[bool, typer.Option("--plain", help="Plain text without pictures and colours.")] = False,
    review: Annotated[
        float,
        typer.Option(min=0, help="Seconds at most for judging a finished game by exact values; 0: it is not judged."),
    ] = 10.0,
) -> None:
    """Play against an agent at the terminal.

    Also over a pipe: one line a decision.
    """
    from runners.play.start import PlayOptions, start

    logged, command = None if no_log else archive, f"qarena {options.typed()}"
    start(PlayOptions(agent, rules, seat, seed, name, logged, archive, config_dir, plain, review, command))


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen at. Any other than the default lets other machines connect.")
    ] = "127.0.0.1",
    name: Annotated[
        str | None, typer.Option(help="Your games are logged as human:NAME. Default: your login name.")
    ] = None,
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
    trust_agents: options.Trust = False,
) -> None:
    """Play, analyse, browse and ask in a browser."""
    from runners.web.start import serve as carry_out

    carry_out(archive, host, port, name, config_dir, trust_agents)
