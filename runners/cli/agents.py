"""``qarena agents``: the players that experiments can name; their yamls, new ones, and whether one is sound."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from quarto.errors import RequestError
from runners.cli import options

WIDTH, FRAME = 80, 7  # characters of the table of agents, and of its frame

app = typer.Typer(
    name="agents",
    invoke_without_command=True,
    help="List, show, check and create agents.",
    rich_markup_mode=options.MARKUP,
)
INTERFACES = ("choose", "play", "kernel")


@app.callback()
def agents(
    context: typer.Context,
    wide: Annotated[bool, typer.Option("--wide", help="With parameters and classes, the descriptions whole.")] = False,
    config_dir: options.ConfigDir = None,
) -> None:
    """List, show, check and create agents."""
    if context.invoked_subcommand is None:
        from runners.arena.config_groups import user_config_dir

        with user_config_dir(config_dir):
            _show_agents(wide)


def _show_agents(wide: bool) -> None:
    """Print the table of agents, each in one line unless ``wide``. Raises after it for a yaml that cannot be read."""
    from analytics.results.columns import words
    from runners.arena.config_groups import comment_of, names, parameters_of, settings_of
    from runners.terminal.console import show, tabulated

    agents, wrong = dict[str, dict[str, Any]](), list[RequestError]()
    for name in names("agent"):
        try:
            agents[name] = settings_of("agent", name)
        except RequestError as error:
            wrong.append(error)
    room = None if wide else max(20, WIDTH - FRAME - max(map(len, agents)))
    plays = (comment_of("agent", name) for name in agents)
    columns = [
        words("agent", agents),
        words("plays", (textwrap.shorten(text, room, placeholder=" …") if room else text for text in plays)),
    ]
    if wide:
        parameters = (parameters_of(own).items() for own in agents.values())
        columns.append(words("parameters", (", ".join(f"{key}={value}" for key, value in each) for each in parameters)))
        columns.append(words("class", (str(own.get("_target_")) for own in agents.values())))
    show([tabulated(columns)])
    if wrong:
        raise RequestError("\n".join(map(str, wrong)))


@app.command("show")
def show_agent(
    agent: Annotated[str, options.agent("The name of an agent.")],
    config_dir: options.ConfigDir = None,
) -> None:
    """Show the yaml of an agent: parameters, defaults, meaning."""
    from runners.arena.config_groups import text_of, user_config_dir
    from runners.terminal.console import print_line

    with user_config_dir(config_dir):
        print_line(text_of("agent", agent).rstrip("\n"))


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="The name of the agent, and of its module.")],
    interface: Annotated[
        str,
        typer.Option(
            help="choose (one position, plain Python), play (a batch, NumPy) or kernel (jitted).",
            autocompletion=lambda incomplete: options.starting(incomplete, INTERFACES),
        ),
    ] = "choose",
    config_dir: Annotated[
        Path, typer.Option(help="Your own folder; it is made if it does not exist.", show_default=True)
    ] = Path("my_agents"),
) -> None:
    """Create an agent of your own: its file, yaml and test.

    It plays at once, and is yours to change.
    """
    import shlex

    from quarto.sources import find
    from runners.arena.config_groups import user_config_dir
    from runners.checking.new_agent import new_agent
    from runners.terminal.console import print_line, program

    with user_config_dir(config_dir if config_dir.is_dir() else None):
        files = new_agent(name, interface, config_dir)
    width = max(len(str(path)) for path in files)
    folder = shlex.quote(str(config_dir))
    for line in (
        *(f"{path!s:<{width}}  {what}" for path, what in files.items()),
        "Check it, play it, vary it, test it:",
        f"  {program()} agents check {name} --config-dir {folder}",
        f"  {program()} run {name} random games=1000 --config-dir {folder}",
        f"  {program()} sweep agent@a={name} agent@b=semi_random a.safe=true,false games=1000 --config-dir {folder}",
        f"  python -m pytest {folder}{'' if find('pytest') else '  # after: python -m pip install pytest'}",
    ):
        print_line(line)


@app.command()
def check(
    agent: Annotated[str, options.agent("An agent, with or without parameters: 'mine(depth=2)'.")],
    rules: Annotated[str, options.rules("The rules to play by.")] = "classic",
    seed: Annotated[int, options.seed("Seed of the games.")] = 1,
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
) -> None:
    """Check that an agent is legal, repeatable and in time.

    It plays twenty games with itself and twenty with random.

    Is every turn legal? Where does it raise? Does it play the same games again, also in other batches and in another
    order? Does it print? How many turns does it take a second? Nothing is stored. Exits 1 if anything is wrong.
    """
    from runners.checking.check import check as carry_out

    if not carry_out(agent, rules, seed, archive, config_dir):
        raise typer.Exit(1)
