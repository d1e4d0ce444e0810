"""Policies at the terminal: `qarena policy ls`, `show` and `rebuild`."""

from __future__ import annotations

from pathlib import PurePath

import typer

from analytics import open_archive
from analytics.questions.columns import text_column
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.texts import format_count_with_noun, to_line
from runners.config.agent_policies import format_policy_card, list_reader_names
from runners.learning.policies.lineage import format_policy_lineage
from runners.learning.policies.rebuilding import rebuild_policy
from runners.terminal import console
from runners.terminal.files import TableOutput
from runners.terminal.tables import output_result


def output_policies(root: PurePath, table: TableOutput) -> None:
    """Print the policies of an archive or write them to a file."""
    with open_archive(root, check=False) as archive:
        policies = archive.policies()
    output_result(policies, table)
    if table.is_table_for_people_on_stdout and policies.frame.height:
        readers = {kind: ", ".join(list_reader_names(kind)) for kind in policies.frame["kind"].unique().sort()}
        kinds = [f"{kind} ({names or 'none'})" for kind, names in readers.items()]
        console.print_line(
            f"kind: what the table holds, and in brackets the agents that play by it: {'; '.join(kinds)}"
        )


def print_policy_and_lineage(root: PurePath, name: str) -> None:
    """Print the card and the lineage of a policy; ``name`` is its name or its id.

    Raises ``NotFoundError`` if there is no such policy.
    """
    archive = ArchiveStore.open(root)
    card = policy_store.find(archive, name)
    properties = format_policy_card(card, policy_cards.policy_folder(archive, card.policy_id))
    names, texts = zip(*properties, strict=True)  # a name may come more than once
    columns = [text_column("property", names), text_column("value", texts)]
    console.print_tables([console.build_escaped_table(columns, f"policy {card.name}")])
    console.print_line("Where it comes from:")
    for line in format_policy_lineage(archive, card.policy_id):
        console.print_line(line)


def rebuild_and_print(root: PurePath, name: str, threads: int, trusted: bool) -> int:
    """Rebuild a policy and print how the result differs from the stored policy.

    Returns the exit code, which is 1 if they differ and 0 otherwise. ``trusted`` allows third-party code to run, and
    ``name`` is the name or the id of the policy.
    """
    with console.show_progress_bar_or_notes("learning again", "games"):
        rebuilt = rebuild_policy(root, name, threads, trusted)
    for difference in rebuilt.differences:
        typer.echo(to_line(difference, 1000), err=True)  # it names columns of anybody's table
    games = format_count_with_noun(rebuilt.card.learned["games"], "game")
    verdict = "differs" if rebuilt.differences else "identical"
    typer.echo(f"{verdict}: policy {rebuilt.card.name} ({rebuilt.card.policy_id}), {rebuilt.size} from {games}")
    return 1 if rebuilt.differences else 0
