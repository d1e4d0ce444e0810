"""``qarena policy``: what was learned, and from which games."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.options import ARCHIVE, ArchiveOption

app = typer.Typer(help="List and show learned policies.", no_args_is_help=True, rich_markup_mode=None)


@app.command("ls")
def ls(archive: ArchiveOption = ARCHIVE) -> None:
    """List the policies."""
    from analytics import policies
    from analytics.archive import Archive
    from runners.tables import write

    write(policies.listing(Archive.open(archive)))


@app.command("show")
def show(policy: Annotated[str, typer.Argument(help="Its name or id.")], archive: ArchiveOption = ARCHIVE) -> None:
    """Show a policy: what it is, how it was learned, from which games."""
    from analytics import policies
    from analytics.archive import Archive
    from runners import display
    from runners.policies import description
    from runners.tables import properties_table

    opened = Archive.open(archive)
    card = policies.find(opened, policy)
    properties = description(card, policies.folder_of(opened, card.policy_id))
    display.show([properties_table(properties, f"policy {card.name}")])
