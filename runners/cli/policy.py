"""``qarena policy``: derive policies from logged games, again too; list, show and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.groups import Group
from runners.cli.options import (
    ARCHIVE,
    HYDRA_ARGUMENTS,
    ArchiveOption,
    PolicyBuildOverrides,
    ThreadsOption,
    WideOption,
    options_of,
)

app = typer.Typer(
    cls=Group,
    help="Derive policies from logged games; list, show and compare them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("ls")
def ls(archive: ArchiveOption = ARCHIVE, wide: WideOption = False) -> None:
    """List the policies."""
    from analytics.policies import policy_store
    from analytics.store.archive import Archive
    from runners.terminal.tables import TableOutput, write

    write(policy_store.listing(Archive.open(archive)), TableOutput(wide=wide))


@app.command("show")
def show(policy: Annotated[str, typer.Argument(help="Its name or id.")], archive: ArchiveOption = ARCHIVE) -> None:
    """Show a policy: its kind, how it was learned, from which games."""
    from analytics.policies import policy_store
    from analytics.store import policy_cards
    from analytics.store.archive import Archive
    from runners.arena.agent_policies import description
    from runners.terminal import console
    from runners.terminal.tables import properties_table

    opened = Archive.open(archive)
    card = policy_store.find(opened, policy)
    properties = description(card, policy_cards.folder_of(opened, card.policy_id))
    console.show([properties_table(properties, f"policy {card.name}")])


@app.command(
    "build",
    context_settings=HYDRA_ARGUMENTS,
    help=f"Derive a policy from logged games. Kinds: {', '.join(options_of('kind'))}.",
)
def build(
    context: typer.Context,
    arguments: PolicyBuildOverrides = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="CONDITION", help="In SQL, on the view games. Default: all games.")
    ] = None,
) -> None:
    """Derive a policy from logged games: those that a condition in SQL on the view games chooses."""
    from runners.hydra_app.application import launch
    from runners.hydra_app.flags import quoted
    from runners.policies.build import BUILD

    own = [] if where is None else [f"where={quoted(where)}"]
    raise typer.Exit(launch(BUILD, "policy build", [*(arguments or []), *context.args, *own]))


@app.command("rebuild")
def rebuild(
    policy: Annotated[str, typer.Argument(help="Its name or id.")],
    archive: ArchiveOption = ARCHIVE,
    threads: ThreadsOption = None,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", help="A folder with kinds or trainers of your own.")
    ] = None,
) -> None:
    """Derive a policy again from the games on its card and compare: identical (exit 0) or different (exit 1)."""
    from runners.hydra_app.config_dir import user_config_dir
    from runners.policies.rebuild import rebuild as derive_again

    with user_config_dir(config_dir):
        found = derive_again(archive, policy, threads)
    for difference in found.differences:
        typer.echo(difference, err=True)
    games = f"{found.card.learned['games']:,} games"
    answer = "differs" if found.differences else "identical"
    typer.echo(f"{answer}: policy {found.card.name} ({found.card.policy_id}), {found.size} from {games}")
    raise typer.Exit(1 if found.differences else 0)


@app.command("lineage")
def lineage(policy: Annotated[str, typer.Argument(help="Its name or id.")], archive: ArchiveOption = ARCHIVE) -> None:
    """Show where a policy comes from: runs, condition, code, and the policies by which its games were played."""
    from runners.policies.lineage import lineage as tree
    from runners.terminal.console import escaped

    for line in tree(archive, policy):
        typer.echo(escaped(line))


@app.command("compare")
def compare(
    one: Annotated[str, typer.Argument(help="A policy's name or id.")],
    other: Annotated[str, typer.Argument(help="The name or id of another one.")],
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Compare two policies: the rows that both have, the differences, how often they choose the same turn."""
    from runners.policies.compare import compare as carry_out

    carry_out(archive, one, other)
