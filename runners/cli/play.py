"""``qarena run``, ``sweep``, ``sprt``, ``play``, ``serve`` and ``reproduce``: games are played."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli import options

if TYPE_CHECKING:
    from runners.hydra_app.application import Application


def run(arguments: options.Players = None) -> None:
    """Play a match or a tournament."""
    by_hydra("run", arguments or [])


def sweep(arguments: options.Players = None) -> None:
    """Play every combination of the given values."""
    by_hydra("sweep", arguments or [])


def by_hydra(command: str, arguments: Sequence[str]) -> None:
    """Let Hydra carry out ``run``, ``sweep`` or ``train``. Raises ``typer.Exit`` with the exit code."""
    from runners.hydra_app.launch import launch

    application = _application(command == "train" or is_training(arguments))
    raise typer.Exit(launch(application, command, arguments, command == "sweep"))


def is_training(arguments: Sequence[str]) -> bool:
    """Whether the chosen experiment is a training: then each of the three commands carries it out as one."""
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith("experiment=")]
    recipe = options.ROOT / "conf" / "experiment" / f"{Path(chosen[-1]).name}.yaml" if chosen else None
    return recipe is not None and recipe.exists() and "override /trainer:" in recipe.read_text(encoding="utf-8")


def _application(training: bool) -> Application:
    if training:
        from runners.training.application import TRAIN

        return TRAIN
    from runners.hydra_app.application import RUN

    return RUN


def sprt(
    arguments: options.Players = None,
    counts: Annotated[
        str | None, typer.Option(metavar="LL,LD,DD,WD,WW", help="Play nothing: test these counts of pairs.")
    ] = None,
) -> None:
    """Play two agents until a test decides which is stronger."""
    if counts is not None:
        from runners.sprt.shown import show_counts

        show_counts(counts, arguments or [])
        return
    from runners.hydra_app.launch import launch
    from runners.sprt.application import SPRT

    raise typer.Exit(launch(SPRT, "sprt", arguments or []))


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


def reproduce(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    study: Annotated[str | None, typer.Option(help="One or more of A to E, as in A,C. Default: all.")] = None,
    games: Annotated[int, typer.Option(help="Of each pairing.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of all runs and trainings.")] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
    other_code: Annotated[str, typer.Option(help="For runs begun by other code: refuse, extend or new.")] = "refuse",
    markdown: Annotated[Path | None, typer.Option(help="Also write a Markdown file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with charts.")] = None,
    force: options.Force = False,
) -> None:
    """Replay five published studies and compare the figures.

    Shows each published figure, ours with its interval, and why some differ.
    """
    from runners.arena.schemas import OTHER_CODE, ArchiveSettings, check_choice
    from runners.reproduce import PlaySettings, checked
    from runners.reproduce import reproduce as carry_out
    from runners.terminal.files import check_output

    check_choice("--other-code", other_code, OTHER_CODE)
    for path in filter(None, (markdown, html)):
        check_output(path, force)
    storage = ArchiveSettings(archive, other_code=other_code)
    raise typer.Exit(
        carry_out(checked(study, PlaySettings(games, seed, threads, storage, options.typed()), markdown, html))
    )
