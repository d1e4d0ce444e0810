"""``qarena archive export`` and ``import``: games for other tools, and games from text files."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, WhereOption, rules_options


def register(app: typer.Typer) -> None:
    """Add the commands to those of ``qarena archive``."""
    app.command("export")(export)
    app.command("import")(import_)


def export(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    form: Annotated[str, typer.Option("--format", help="text, csv, minari, d3rlpy or rlds.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", help="A new file (for minari a folder named like quarto-v0), or - to print text and csv."
        ),
    ],
    where: WhereOption = None,
    perspective: Annotated[
        str | None, typer.Option("--perspective", help="The player of rewards and outcomes: mover, seat_0 or seat_1.")
    ] = None,
    sample: Annotated[int | None, typer.Option("--sample", help="Only this many games, drawn at random.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=(1 << 63) - 1, help="Seed of the sample.")] = 1,
    rows: Annotated[str, typer.Option("--rows", help="Rows of csv: plies or games.")] = "plies",
    imposed: Annotated[bool, typer.Option("--imposed", help="Include turns of imposed openings, marked.")] = False,
    masks: Annotated[bool, typer.Option("--masks", help="Include the legal actions: 289 bytes a step.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the existing --output.")] = False,
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Write games for other tools: as text, as a table, or as episodes for offline learning."""
    from analytics.exchange.export import ExportRequest
    from runners.archive.exchange import export_games

    request = ExportRequest(form, where, perspective, sample, seed, rows, imposed, masks)
    export_games(archive, request, output, force)


def import_(
    file: Annotated[str, typer.Argument(help="A text with a game a line, 'F@b1 3@b2 …'; - reads standard input.")],
    rules: Annotated[
        str, typer.Option(help="Rules of games without the tag rules.", autocompletion=rules_options)
    ] = "classic",
    name: Annotated[str | None, typer.Option(help="Event of games without the tag event.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Import the other lines if some are wrong.")] = False,
    archive: ArchiveOption = ARCHIVE,
) -> None:
    """Add games from a text file."""
    from runners.archive.exchange import import_file

    command = shlex.join(["qarena", *sys.argv[1:]])
    raise typer.Exit(import_file(archive, file, rules, name, skip_bad, command))
