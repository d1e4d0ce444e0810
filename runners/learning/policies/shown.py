"""Policies at the terminal: `qarena policy ls`, `show`, `rebuild` and `lineage`."""

from __future__ import annotations

from pathlib import PurePath

import typer

from analytics.policies import listing
from analytics.questions.columns import words
from analytics.store import policy_cards, policy_store
from analytics.store.archive import Archive
from analytics.store.texts import as_line
from runners.config.agent_policies import description, readers_of
from runners.learning.policies.lineage import lineage
from runners.learning.policies.rebuild import rebuild
from runners.terminal import console
from runners.terminal.files import TableOutput
from runners.terminal.tables import write


def list_policies(root: PurePath, table: TableOutput) -> None:
    """Print or write the policies of an archive."""
    listed = listing.list_policies(Archive.open(root))
    write(listed, table)
    if table.is_printed and len(listed):
        kinds = [f"{kind} ({', '.join(readers_of(kind)) or 'none'})" for kind in listed["kind"].unique().sort()]
        console.print_line(
            f"kind: what the table holds, and in brackets the agents that play by it: {'; '.join(kinds)}"
        )


def show_policy(root: PurePath, wanted: str) -> None:
    """Print all that is known of a policy, named by its name or id. Raises ``NotFoundError`` if there is none."""
    archive = Archive.open(root)
    card = policy_store.find(archive, wanted)
    described = description(card, policy_cards.folder_of(archive, card.policy_id))
    names, texts = zip(*described, strict=True)  # a name may come more than once
    console.show([console.tabulated([words("property", names), words("value", texts)], f"policy {card.name}")])


def show_rebuilt(root: PurePath, wanted: str, threads: int, trusted: bool) -> int:
    """Learn a policy again and print the differences. Returns the exit code: 1 if there are any."""
    with console.progress_bar("learning again", "games"):
        found = rebuild(root, wanted, threads, trusted)
    for difference in found.differences:
        typer.echo(as_line(difference, 1000), err=True)  # it names columns of anybody's table
    games = f"{found.card.learned['games']:,} games"
    answer = "differs" if found.differences else "identical"
    typer.echo(f"{answer}: policy {found.card.name} ({found.card.policy_id}), {found.size} from {games}")
    return 1 if found.differences else 0


def show_lineage(root: PurePath, wanted: str) -> None:
    """Print where a policy comes from."""
    for line in lineage(root, wanted):
        typer.echo(console.escaped(line))
