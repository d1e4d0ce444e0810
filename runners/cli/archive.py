"""``qarena archive``: what is in an archive, whether it is sound, and what was left behind."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from runners.cli import exchange
from runners.cli.options import ARCHIVE, ArchiveOption

app = typer.Typer(
    help="List, index, check and clean an archive; games out of it and into it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
exchange.register(app)


@app.command("ls")
def ls(archive: ArchiveOption = ARCHIVE) -> None:
    """List the runs."""
    from analytics import open_archive
    from runners.archive.runs import RUNS
    from runners.terminal.tables import write

    with open_archive(archive) as opened:
        write(opened.sql(RUNS))


@app.command("verify")
def verify(archive: ArchiveOption = ARCHIVE) -> None:
    """Check everything committed: checksums, counts, every game replayed against the rules."""
    from analytics.store.archive import Archive
    from analytics.verify.archive import verify as check

    found = check(Archive.open(archive))
    for problem in found.problems:
        typer.echo(str(problem), err=True)
    counts = f"{found.runs} runs, {found.shards} shards, {found.games:,} games, {found.plies:,} plies"
    counts += f", {found.decisions:,} decisions" if found.decisions else ""
    counts += f", {found.positions:,} rows of positions" if found.positions else ""
    counts += f", {found.policies} policies" if found.policies else ""
    counts += f", {found.verdicts} verdicts" if found.verdicts else ""
    typer.echo(f"{counts}: {len(found.problems) or 'no'} problem(s)")
    raise typer.Exit(1 if found.problems else 0)


@app.command("gc")
def gc(
    archive: ArchiveOption = ARCHIVE,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what is listed, but for foreign files.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also files younger than an hour: only while nobody writes to the archive.")
    ] = False,
) -> None:
    """List, and with --remove delete, files that do not count: killed and interrupted writers leave them."""
    from analytics.store.archive import Archive
    from analytics.verify import garbage

    least_age = -math.inf if everything else garbage.GRACE_SECONDS  # clocks differ: a file may be from the future
    found = garbage.unreferenced_files(Archive.open(archive))
    removed = garbage.remove(found, least_age) if remove else []
    for file in found:
        fate = "foreign" if not file.ours else "young" if file.age_seconds < least_age else "unreferenced"
        typer.echo(f"{'removed' if file in removed else fate}  {file.bytes:,} bytes  {file.path}")
    able = sum(file.ours and file.age_seconds >= least_age for file in found)
    typer.echo(
        f"{len(removed)} of {len(found)} files removed"
        if remove
        else f"{len(found)} files, {able} to remove with --remove"
    )


@app.command("index")
def index(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]…", help="Run ids; without, all runs.")] = None,
    archive: ArchiveOption = ARCHIVE,
    plies: Annotated[
        int | None,
        typer.Option("--plies", min=1, max=16, help="Of each game. Default: 6, or as many as the run was indexed by."),
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: all cores.")] = None,
) -> None:
    """Index the positions of all games, for `qarena openings` and the view positions."""
    from runners.archive.index import index as carry_out

    carry_out(archive, runs or [], plies, threads)
