"""Policies at the terminal: `qarena policy ls`, `show`, `rebuild` and `lineage`."""

from __future__ import annotations

from pathlib import PurePath

import typer

from analytics.policies import listing
from analytics.questions.columns import text_column
from analytics.store import policy_cards, policy_store
from analytics.store.archive import Archive
from analytics.store.texts import to_line
from runners.config.agent_policies import format_policy_card, list_reader_names
from runners.learning.policies.lineage import format_lineage
from runners.learning.policies.rebuilding import rebuild_policy
from runners.terminal import console
from runners.terminal.files import TableOutput
from runners.terminal.tables import output_frame


def output_policies(root: PurePath, table: TableOutput) -> None:
    """Print or write the policies of an archive."""
    listed = listing.list_policies(Archive.open(root))
    output_frame(listed, table)
    if table.is_printed and len(listed):
        kinds = [f"{kind} ({', '.join(list_reader_names(kind)) or 'none'})" for kind in listed["kind"].unique().sort()]
        console.print_line(
            f"kind: what the table holds, and in brackets the agents that play by it: {'; '.join(kinds)}"
        )


def print_policy(root: PurePath, wanted: str) -> None:
    """Print all that is known of a policy, named by its name or id. Raises ``NotFoundError`` if there is none."""
    archive = Archive.open(root)
    card = policy_store.find(archive, wanted)
    described = format_policy_card(card, policy_cards.policy_folder(archive, card.policy_id))
    names, texts = zip(*described, strict=True)  # a name may come more than once
    console.print_tables(
        [console.build_table([text_column("property", names), text_column("value", texts)], f"policy {card.name}")]
    )


def print_rebuild(root: PurePath, wanted: str, threads: int, trusted: bool) -> int:
    """Learn a policy again and print the differences. Returns the exit code: 1 if there are any."""
    with console.show_progress_bar("learning again", "games"):
        found = rebuild_policy(root, wanted, threads, trusted)
    for difference in found.differences:
        typer.echo(to_line(difference, 1000), err=True)  # it names columns of anybody's table
    games = f"{found.card.learned['games']:,} games"
    answer = "differs" if found.differences else "identical"
    typer.echo(f"{answer}: policy {found.card.name} ({found.card.policy_id}), {found.size} from {games}")
    return 1 if found.differences else 0


def print_lineage(root: PurePath, wanted: str) -> None:
    """Print where a policy comes from."""
    for line in format_lineage(root, wanted):
        typer.echo(console.escape_text(line))
