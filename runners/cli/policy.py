"""``qarena policy``: what was learned, and from which games; deriving it from logged games, again and anew."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, ThreadsOption, build_arguments, options_of

app = typer.Typer(
    help="Derive policies from logged games; list, show and compare them.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("ls")
def ls(archive: ArchiveOption = ARCHIVE) -> None:
    """List the policies."""
    from analytics.policies import policy_store
    from analytics.store.archive import Archive
    from runners.terminal.tables import write

    write(policy_store.listing(Archive.open(archive)))


@app.command("show")
def show(policy: Annotated[str, typer.Argument(help="Its name or id.")], archive: ArchiveOption = ARCHIVE) -> None:
    """Show a policy: what it is, how it was learned, from which games."""
    from analytics.policies import policy_store
    from analytics.store.archive import Archive
    from runners.arena.agent_policies import description
    from runners.terminal import console
    from runners.terminal.tables import properties_table

    opened = Archive.open(archive)
    card = policy_store.find(opened, policy)
    properties = description(card, policy_store.folder_of(opened, card.policy_id))
    console.show([properties_table(properties, f"policy {card.name}")])


@app.command("build", help=f"Derive a policy from logged games. Kinds: {', '.join(options_of('policy'))}.")
def build(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]…",
            help='kind=KIND name=NAME "where=CONDITION", parameters of the kind, threads=N, archive.root=DIR.',
            autocompletion=build_arguments,
        ),
    ] = None,
    archive: Annotated[Path | None, typer.Option("--archive", help="The same as archive.root=DIR.")] = None,
) -> None:
    """Derive a policy from logged games: those that a condition in SQL on the view games chooses."""
    from runners.training import derive

    wanted = derive.wanted_of(arguments or [], archive, sys.argv[1:])
    started = time.perf_counter()
    card = derive.build(wanted)
    derive.show(card, wanted.root, time.perf_counter() - started)


@app.command("rebuild")
def rebuild(
    policy: Annotated[str, typer.Argument(help="Its name or id.")],
    archive: ArchiveOption = ARCHIVE,
    threads: ThreadsOption = None,
) -> None:
    """Derive a policy again from the games on its card: identical (exit 0), or what differs (exit 1)."""
    from runners.policies.rebuild import rebuild as derive_again

    found = derive_again(archive, policy, threads)
    for difference in found.differences:
        typer.echo(difference, err=True)
    games = f"{found.card.learned['games']:,} games"
    answer = "differs" if found.differences else "identical"
    typer.echo(f"{answer}: policy {found.card.name} ({found.card.policy_id}), {found.size} from {games}")
    raise typer.Exit(1 if found.differences else 0)


@app.command("lineage")
def lineage(policy: Annotated[str, typer.Argument(help="Its name or id.")], archive: ArchiveOption = ARCHIVE) -> None:
    """Show where a policy comes from: runs, query, code, and the policies that its games were played by."""
    from runners.policies.lineage import lineage as tree

    for line in tree(archive, policy):
        typer.echo(line)


@app.command("compare")
def compare(
    one: Annotated[str, typer.Argument(help="A policy's name or id.")],
    other: Annotated[str, typer.Argument(help="Another one's.")],
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Compare two policies: what both know, where it differs, how often they choose alike."""
    from runners.policies.compare import compare as carry_out

    carry_out(archive, one, other)
