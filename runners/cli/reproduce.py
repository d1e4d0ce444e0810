"""``qarena reproduce``: play what five studies published and compare."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ARCHIVE, ArchiveOption, ForceOption


def reproduce(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    study: Annotated[
        str | None, typer.Option("--study", help="One or more of A to E, as in A,C. Default: all.")
    ] = None,
    games: Annotated[int, typer.Option("--games", help="Of each pairing.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Of all runs and trainings.")] = 1,
    threads: Annotated[int | None, typer.Option("--threads", help="Default: one for each core.")] = None,
    archive: ArchiveOption = ARCHIVE,
    other_code: Annotated[
        str, typer.Option("--other-code", help="For runs begun by other code: refuse, extend or new.")
    ] = "refuse",
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Also write a Markdown file.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with charts.")] = None,
    force: ForceOption = False,
) -> None:
    """Replay five published studies and compare the figures.

    Shows each published figure, ours with its interval, and why some differ.
    """
    from runners.arena.schemas import OTHER_CODE, ArchiveSettings, check_choice
    from runners.executors.machine import available_cores
    from runners.reproduce.pairings import PlaySettings
    from runners.reproduce.run import checked
    from runners.reproduce.run import reproduce as carry_out
    from runners.terminal.files import check_output

    cores = available_cores() if threads is None else threads
    check_choice("--other-code", other_code, OTHER_CODE)
    for path in filter(None, (markdown, html)):
        check_output(path, force)
    settings = PlaySettings(
        games, seed, cores, ArchiveSettings(archive, other_code=other_code), shlex.join(sys.argv[1:])
    )
    raise typer.Exit(carry_out(checked(study, settings, markdown, html)))
