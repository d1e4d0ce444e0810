"""``qarena policy``: derive policies from logged games, again too; list, show, compare and judge them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli import judge
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
    help="Derive policies from logged games; list, show, compare and judge them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OwnOption = Annotated[
    Path | None, typer.Option("--config-dir", help="A folder with agents, kinds or trainers of your own.")
]


@app.command("ls")
def ls(archive: ArchiveOption = ARCHIVE, wide: WideOption = False) -> None:
    """List the policies."""
    from analytics.policies import policy_store
    from analytics.store.archive import Archive
    from runners.terminal.tables import TableOutput, write

    write(policy_store.listing(Archive.open(archive)), TableOutput(wide=wide))


@app.command("show")
def show(
    policy: Annotated[str, typer.Argument(help="Its name or id.")],
    archive: ArchiveOption = ARCHIVE,
    config_dir: OwnOption = None,
) -> None:
    """Show a policy: its kind, how it was learned, from which games."""
    from analytics.policies import policy_store
    from analytics.store import policy_cards
    from analytics.store.archive import Archive
    from runners.arena.agent_policies import description
    from runners.hydra_app.config_dir import user_config_dir
    from runners.terminal import console
    from runners.terminal.tables import properties_table

    opened = Archive.open(archive)
    card = policy_store.find(opened, policy)
    with user_config_dir(config_dir):
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

    given = [*(arguments or []), *context.args]
    asked, typed = ([], []) if where is None else ([f"where={quoted(where)}"], ["--where", where])
    raise typer.Exit(launch(BUILD, "policy build", [*given, *asked], typed=[*given, *typed]))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A Parquet or CSV file: position (or plies), cell, gift, value.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="kind and name; rules, scale and conflicts.")
    ] = None,
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Make a policy of a table that was learned elsewhere: a value for each turn, -1 lost to 1 won.

    kind is mc_afterstate, fitted_q or q_table; name is the policy's (the file's); rules those of the positions
    (classic); scale multiplies the values (1); conflicts says what is done if one turn has different values, up to
    symmetry: refuse, mean or first (refuse).
    """
    import shlex
    import sys

    from runners.policies.importing import import_policy, settings_of

    import_policy(archive, file, settings_of(settings or []), f"qarena {shlex.join(sys.argv[1:])}")


@app.command("rebuild")
def rebuild(
    policy: Annotated[str, typer.Argument(help="Its name or id.")],
    archive: ArchiveOption = ARCHIVE,
    threads: ThreadsOption = None,
    config_dir: OwnOption = None,
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
    config_dir: OwnOption = None,
) -> None:
    """Compare two policies: the rows that both have, the differences, how often they choose the same turn."""
    from runners.hydra_app.config_dir import user_config_dir
    from runners.policies.compare import compare as carry_out

    with user_config_dir(config_dir):
        carry_out(archive, one, other)


app.command("judge")(judge.judge)
app.command("positions")(judge.positions)
