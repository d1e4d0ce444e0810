"""``qarena policy``: derive policies from logged games, again too; list, show, compare and judge them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli import judge, options

app = options.group("policy", "Learn policies from logged games; list, compare, judge them.")
POLICY = typer.Argument(help="Its name or id.")


@app.command("ls")
def ls(archive: options.Archive = options.ARCHIVE, wide: options.Wide = False) -> None:
    """List the policies."""
    from analytics.policies import policy_store
    from analytics.store.archive import Archive
    from runners.terminal.tables import TableOutput, write

    write(policy_store.listing(Archive.open(archive)), TableOutput(wide=wide))


@app.command("show")
def show(
    policy: Annotated[str, POLICY],
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
) -> None:
    """Show a policy: its kind, method and games."""
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
    context_settings=options.HYDRA_ARGUMENTS,
    help=f"Derive a policy from logged games. Kinds: {', '.join(options.options_of('kind'))}.",
)
def build(
    context: typer.Context,
    arguments: options.PolicyBuildOverrides = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="CONDITION", help="In SQL, on the view games. Default: all games.")
    ] = None,
) -> None:
    """Learn a policy from logged games.

    A condition in SQL on the view games can choose the games.
    """
    from runners.hydra_app.arguments import quoted
    from runners.hydra_app.launch import launch
    from runners.policies.build import BUILD

    asked = [] if where is None else [f"where={quoted(where)}"]
    raise typer.Exit(launch(BUILD, "policy build", [*(arguments or []), *context.args, *asked]))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A Parquet or CSV file: position (or plies), cell, gift, value.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="kind and name; rules, scale and conflicts.")
    ] = None,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Make a policy from a table that was learned elsewhere.

    The table has a value for each turn, from -1 (lost) to 1 (won).

    kind is mc_afterstate, fitted_q or q_table. name is the policy's (the file's). rules are those of the positions
    (classic). scale multiplies the values (1). conflicts is for turns with different values, up to symmetry: refuse,
    mean or first (refuse).
    """
    from runners.policies.importing import import_policy, settings_of

    import_policy(archive, file, settings_of(settings or []), f"qarena {options.typed()}")


@app.command("rebuild")
def rebuild(
    policy: Annotated[str, POLICY],
    archive: options.Archive = options.ARCHIVE,
    threads: options.Threads = options.ALL_CORES,
    config_dir: options.ConfigDir = None,
    trust_agents: options.Trust = False,
) -> None:
    """Learn a policy again from the same games, and compare.

    Exit code 0: identical to the last bit. Exit code 1: different.
    """
    from runners.hydra_app.config_dir import user_config_dir
    from runners.policies.rebuild import rebuild as derive_again
    from runners.terminal.console import progress_bar

    with user_config_dir(config_dir), progress_bar("learning again", "games"):
        found = derive_again(archive, policy, threads, trust_agents)
    for difference in found.differences:
        typer.echo(difference, err=True)
    games = f"{found.card.learned['games']:,} games"
    answer = "differs" if found.differences else "identical"
    typer.echo(f"{answer}: policy {found.card.name} ({found.card.policy_id}), {found.size} from {games}")
    raise typer.Exit(1 if found.differences else 0)


@app.command("lineage")
def lineage(policy: Annotated[str, POLICY], archive: options.Archive = options.ARCHIVE) -> None:
    """Show where a policy comes from.

    Runs, condition, code, and the policies that played its games.
    """
    from runners.policies.lineage import lineage as tree
    from runners.terminal.console import escaped

    for line in tree(archive, policy):
        typer.echo(escaped(line))


@app.command("compare")
def compare(
    one: Annotated[str, typer.Argument(help="A policy's name or id.")],
    other: Annotated[str, typer.Argument(help="The name or id of another one.")],
    archive: options.Archive = options.ARCHIVE,
    config_dir: options.ConfigDir = None,
) -> None:
    """Compare the tables of two policies.

    The rows that both have, the differences, and how often they choose the same turn.
    """
    from runners.hydra_app.config_dir import user_config_dir
    from runners.policies.compare import compare as carry_out

    with user_config_dir(config_dir):
        carry_out(archive, one, other)


app.command("judge")(judge.judge)
app.command("positions")(judge.positions)
