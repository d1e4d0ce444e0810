"""``qarena archive export`` and ``import``: games for other tools, and games from elsewhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, rules_options


def register(app: typer.Typer) -> None:
    """Add the commands to those of ``qarena archive``."""
    app.command("export")(export)
    app.command("import")(import_)


def export(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    form: Annotated[str, typer.Option("--format", help="text, csv, minari, d3rlpy or rlds.")],
    output: Annotated[
        str,
        typer.Option("--output", help="A new file; for minari a folder named like quarto-v0; - prints text and csv."),
    ],
    where: Annotated[
        str | None, typer.Option("--where", help="Which games: a condition in SQL on the view games. Default: all.")
    ] = None,
    perspective: Annotated[
        str | None, typer.Option("--perspective", help="Whose rewards and outcomes: mover, seat_0 or seat_1.")
    ] = None,
    sample: Annotated[int | None, typer.Option("--sample", help="Only so many of them, drawn by the seed.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=(1 << 63) - 1, help="Of the sample.")] = 1,
    rows: Annotated[str, typer.Option("--rows", help="Of csv: plies or games.")] = "plies",
    imposed: Annotated[bool, typer.Option("--imposed", help="Also turns of imposed openings, marked.")] = False,
    masks: Annotated[bool, typer.Option("--masks", help="Also which actions were legal: 289 bytes a step.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is at --output.")] = False,
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Write games for other tools: as text, as a table, or as the decisions of a player for offline learning."""
    from analytics import open_archive
    from analytics.exchange.export import Wish, export_to
    from analytics.exchange.export import export as write
    from runners.archive.exchange import STREAM, said, watched

    wish = Wish(form, where, perspective, sample, seed, rows, imposed, masks)
    with open_archive(archive) as opened:
        if output == STREAM:
            export_to(opened, wish, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with watched() as watch:
            done = write(opened, wish, Path(output), force, watch)
    typer.echo(said(done, wish, output))


def import_(
    file: Annotated[str, typer.Argument(help="A text with a game a line, 'F@b1 3@b2 …'; - reads stdin.")],
    rules: Annotated[
        str, typer.Option(help="Of games without a tag that says it.", autocompletion=rules_options)
    ] = "classic",
    name: Annotated[str | None, typer.Option(help="The event, for games without a tag that says it.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Import the others if some lines are wrong.")] = False,
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Add games that were played elsewhere, as text."""
    from runners.archive.exchange import bring_in

    command = shlex.join(["qarena", *sys.argv[1:]])
    raise typer.Exit(bring_in(archive, file, rules, name, skip_bad, command))
