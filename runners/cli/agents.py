"""``qarena agents``: the players that experiments can name; ``agents check``: whether one keeps to the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.groups import Group
from runners.cli.options import ARCHIVE, ArchiveOption, agent_options, rules_options

app = typer.Typer(cls=Group, invoke_without_command=True, help="List the agents with their parameters, or check one.")


@app.callback()
def agents(context: typer.Context) -> None:
    """List the agents with their parameters, or check one."""
    if context.invoked_subcommand is None:
        from runners.hydra_app.agents_table import agents_table
        from runners.terminal.console import show

        show([agents_table()])


@app.command()
def check(
    agent: Annotated[
        str,
        typer.Argument(help="An agent, with or without parameters: 'mine(depth=2)'.", autocompletion=agent_options),
    ],
    rules: Annotated[str, typer.Option(help="The rules to play by.", autocompletion=rules_options)] = "classic",
    seed: Annotated[int, typer.Option(min=0, max=(1 << 63) - 1, help="Seed of the games.")] = 1,
    archive: ArchiveOption = ARCHIVE,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", help="A folder with your own agents and rules, as for run.")
    ] = None,
) -> None:
    """Play twenty games of an agent with itself and twenty with random, and tell what it does wrong.

    Is every turn legal? Where does it raise? Does it play the same games again, also in other batches and in another
    order? Does it print? How many turns does it take a second? Nothing is stored. Exits 1 if anything is wrong.
    """
    from runners.checking.check import CheckOptions
    from runners.checking.check import check as carry_out

    if not carry_out(CheckOptions(agent, rules, seed, archive, config_dir)):
        raise typer.Exit(1)
