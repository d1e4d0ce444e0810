"""``qarena reproduce``: play what five studies published and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli import options


def reproduce(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    study: Annotated[
        str | None, typer.Option("--study", help="One or more of A to E, as in A,C. Default: all.")
    ] = None,
    games: Annotated[int, typer.Option("--games", help="Of each pairing.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of all runs and trainings.")] = 1,
    threads: options.Threads = options.ALL_CORES,
    archive: options.Archive = options.ARCHIVE,
    other_code: Annotated[
        str, typer.Option("--other-code", help="For runs begun by other code: refuse, extend or new.")
    ] = "refuse",
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Also write a Markdown file.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with charts.")] = None,
    force: options.Force = False,
) -> None:
    """Replay five published studies and compare the figures.

    Shows each published figure, ours with its interval, and why some differ.
    """
    from runners.arena.schemas import OTHER_CODE, ArchiveSettings, check_choice
    from runners.reproduce.pairings import PlaySettings
    from runners.reproduce.run import checked
    from runners.reproduce.run import reproduce as carry_out
    from runners.terminal.files import check_output

    check_choice("--other-code", other_code, OTHER_CODE)
    for path in filter(None, (markdown, html)):
        check_output(path, force)
    settings = PlaySettings(games, seed, threads, ArchiveSettings(archive, other_code=other_code), options.typed())
    raise typer.Exit(carry_out(checked(study, settings, markdown, html)))
