"""The commands that play: ``qarena run``, ``sweep``, ``sprt``, ``play``, ``serve``, ``reproduce``; and ``agents``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from runners.cli import options
from runners.config.recipes import is_training_experiment_chosen

agents_group = options.create_command_group(
    "agents", "List, show, check and create agents.", invoke_without_command=True
)
AGENT_INTERFACES = ("choose", "play", "kernel")


@options.add_hydra_options
def run(
    launch: options.Launch,
    arguments: options.Players = None,
    keep_going: options.KeepGoing = False,
    name: options.RunName = None,
    note: options.RunNote = None,
) -> None:
    """Play a match or a tournament."""
    launch(choose_run_or_training_application(arguments or []), arguments, keep_going, name, note)


@options.add_hydra_options
def sweep(launch: options.Launch, arguments: options.Players = None, keep_going: options.KeepGoing = False) -> None:
    """Play every combination of the given values."""
    launch(choose_run_or_training_application(arguments or []), arguments, keep_going)


def choose_run_or_training_application(arguments: Sequence[str]) -> Any:
    """Return ``TRAIN`` if the arguments name the experiment of a training, and ``RUN`` otherwise.

    The commands ``run`` and ``sweep`` launch the returned application.
    """
    if is_training_experiment_chosen(arguments):
        from runners.learning.training.application import TRAIN

        return TRAIN
    from runners.config.application import RUN

    return RUN


@options.add_hydra_options
def sprt(
    launch: options.Launch,
    arguments: options.Players = None,
    keep_going: options.KeepGoing = False,
    name: options.RunName = None,
    note: options.RunNote = None,
    counts: Annotated[
        str | None, Option(metavar="LL,LD,DD,WD,WW", help="Play nothing: test these counts of pairs.")
    ] = None,
) -> None:
    """Play two agents until a test decides which is stronger."""
    if counts is not None:
        from runners.arena.sprt_output import print_test_of_counts

        print_test_of_counts(counts, arguments or [])
        return
    from runners.cli.sprt import SPRT

    launch(SPRT, arguments, keep_going, name, note)


def play(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    agent: Annotated[
        str, options.agent_argument("A level, 1 (random) to 10 (perfect), or an agent: 'mcts(iterations=1000)'.")
    ],
    seat: Annotated[int, Option(min=0, max=1, help="Your seat: 0 gives the first piece, 1 places first.")] = 1,
    rules: Annotated[str, options.rules_option("The rules to play by.")] = "classic",
    seed: Annotated[int, options.seed_option("Seed of the agent's random choices.")] = 1,
    name: Annotated[str | None, Option(help="The game is logged as human:NAME. Default: your login name.")] = None,
    archive: options.Archive = options.ARCHIVE,
    no_log: Annotated[bool, Option("--no-log", help="Do not log the game.")] = False,
    config_dir: options.ConfigDir = None,
    plain: Annotated[bool, Option("--plain", help="Plain text without pictures and colours.")] = False,
    review: Annotated[
        float, Option(min=0, help="Seconds at most for judging a finished game by exact values; 0: it is not judged.")
    ] = 10.0,
) -> None:
    """Play against an agent at the terminal.

    The command also works over a pipe, with one line for each decision.
    """
    from runners.play.game_series import PlayOptions, play_series
    from runners.play.levels import find_level_agent

    logged_archive, command = None if no_log else archive, f"qarena {options.format_command_line_without_program()}"
    play_series(
        PlayOptions(
            find_level_agent(agent),
            rules,
            seat,
            seed,
            name,
            logged_archive,
            archive,
            config_dir,
            plain,
            review,
            command,
        )
    )


@options.add_config_dir_option
def engine(
    agent: Annotated[str, options.agent_argument("An agent, with or without parameters: 'mcts(iterations=1000)'.")],
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Let other programs use an agent as a player.

    The agent speaks the engine protocol over standard input and output (docs/engines.md).
    """
    from runners.play.engine_server import serve_engine

    serve_engine(agent, archive)


def serve(
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 is any that is free.")] = 8000,
    host: Annotated[
        str, Option(help="The address to listen at. Any other than the default lets other machines connect.")
    ] = "127.0.0.1",
    name: Annotated[str | None, Option(help="Your games are logged as human:NAME. Default: your login name.")] = None,
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
    trust_agents: options.TrustAgents = False,
) -> None:
    """Serve pages to play, analyse games and browse the archive.

    The pages also answer questions to the archive in SQL.
    """
    from runners.web import server

    server.serve(
        archive, host, port, name, config_dir, trust_agents, f"qarena {options.format_command_line_without_program()}"
    )


def reproduce(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    study: Annotated[str | None, Option(help="One or more of A to E, as in A,C. Default: all.")] = None,
    games: Annotated[int, Option(help="Of each pairing.")] = 10_000,
    seed: Annotated[int, Option(help="Of all runs and trainings.")] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
    other_code: Annotated[str, Option(help="For runs begun by other code: refuse, extend or new.")] = "refuse",
    markdown: Annotated[Path | None, Option(help="Also write a Markdown file.")] = None,
    html: Annotated[Path | None, Option(help="Also write a page with charts.")] = None,
    force: options.Force = False,
) -> None:
    """Replay five published studies and compare the figures.

    The tables show each published figure, ours with its interval, and why some differ.
    """
    from runners.arena.storage import OTHER_CODE_ACTIONS, ArchiveOptions
    from runners.bench import reproduction
    from runners.config.schemas import check_choice

    check_choice("--other-code", other_code, OTHER_CODE_ACTIONS)
    options.check_output_files(force, markdown, html)
    storage = ArchiveOptions(archive, other_code=other_code)
    pairing_options = reproduction.PairingOptions(
        games, seed, threads, storage, options.format_command_line_without_program()
    )
    raise typer.Exit(
        reproduction.reproduce(reproduction.build_request_with_even_games(study, pairing_options, markdown, html))
    )


@agents_group.callback()
@options.add_config_dir_option
def agents(
    context: typer.Context,
    wide: Annotated[bool, Option("--wide", help="With parameters and classes, the descriptions whole.")] = False,
) -> None:
    """List, show, check and create agents."""
    if context.invoked_subcommand is None:
        from runners.authoring.agent_table import print_agents

        print_agents(wide)


@agents_group.command("show")
@options.add_config_dir_option
def show_agent(agent: Annotated[str, options.agent_argument("The name of an agent.")]) -> None:
    """Show the yaml of an agent: its parameters, their defaults and meanings."""
    from runners.config.yaml_options import read_option_text
    from runners.terminal.console import print_line

    print_line(read_option_text("agent", agent).rstrip("\n"))


@agents_group.command("new")
def new(
    name: Annotated[str, Argument(help="The name of the agent, and of its module.")],
    interface: Annotated[
        str,
        Option(
            help="choose (one position, plain Python), play (a batch, NumPy) or kernel (jitted).",
            autocompletion=lambda incomplete: options.select_by_prefix(incomplete, AGENT_INTERFACES),
        ),
    ] = "choose",
    config_dir: Annotated[
        Path, Option(help="Your own folder; it is made if it does not exist.", show_default=True)
    ] = Path("my_agents"),
) -> None:
    """Create an agent of your own: its file, yaml and test.

    The new agent can play at once, and is yours to change.
    """
    from quarto.sources import find_module_spec
    from runners.authoring.new_agent import create_and_describe_agent_files
    from runners.config.yaml_options import use_config_dir
    from runners.terminal.console import find_program, print_line

    with use_config_dir(config_dir if config_dir.is_dir() else None):
        files = create_and_describe_agent_files(name, interface, config_dir)
    width = max(len(str(path)) for path in files)
    program, folder = find_program(), shlex.quote(str(config_dir))
    for line in (
        *(f"{path!s:<{width}}  {content}" for path, content in files.items()),
        "Check it, play it, vary it, test it:",
        f"  {program} agents check {name} --config-dir {folder}",
        f"  {program} run {name} random games=1000 --config-dir {folder}",
        f"  {program} sweep agent@a={name} agent@b=semi_random a.safe=true,false games=1000 --config-dir {folder}",
        f"  python -m pytest {folder}{'' if find_module_spec('pytest') else '  # after: python -m pip install pytest'}",
    ):
        print_line(line)


@agents_group.command()
def check(
    agent: Annotated[str, options.agent_argument("An agent, with or without parameters: 'mine(depth=2)'.")],
    rules: Annotated[str, options.rules_option("The rules to play by.")] = "classic",
    seed: Annotated[int, options.seed_option("Seed of the games.")] = 1,
    seconds: Annotated[float, Option(min=1, help="Time limit. A slow agent plays fewer games.")] = 120,
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
) -> None:
    """Check that an agent plays legally, repeatably and in time.

    The agent plays twenty games against itself and twenty against the agent 'random'.

    The check shows whether every turn is legal, where the agent raises an error, whether it plays the same games again
    (also in other batches and in another order), whether it prints any text, and how many turns it plays per second.
    Nothing is stored. The exit code is 1 if anything is wrong.
    """
    from runners.authoring.agent_check import check_agent_and_print

    if not check_agent_and_print(agent, rules, seed, archive, config_dir, seconds):
        raise typer.Exit(1)
