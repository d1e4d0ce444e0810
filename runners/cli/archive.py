"""``qarena archive``: list, verify, replay, index, clean, compact and merge archives; export and import games."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Annotated

import typer

from analytics.files.backend import location_of
from runners.cli import options

RUNS = """
SELECT run_id, games,
       if(len(agents) > 2 AND length(array_to_string(agents, ', ')) > 100,
          format('{} and {} others', agents[1], len(agents) - 1), array_to_string(agents, ', ')) AS agents,
       rules, status, strftime(created, '%Y-%m-%d %H:%M') AS created, seed, opening_plies, games_asked,
       round(seconds, 1) AS seconds, ranges, fingerprint
FROM runs ORDER BY created
"""

app = options.group("archive", "Check, index, compact, merge, export and import archives.")


@app.command("export")
def export(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    form: Annotated[str, typer.Option("--format", help="text, csv, spreadsheet, minari, d3rlpy or rlds.")],
    output: Annotated[
        str, typer.Option(help="A new file (for minari a folder named like quarto-v0), or - to print text or csv.")
    ],
    where: options.Where = None,
    perspective: Annotated[
        str | None, typer.Option(help="The player of rewards and outcomes: mover, seat_0, seat_1 or first.")
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Only this many games, drawn at random.")] = None,
    seed: Annotated[int, options.seed("Seed of the sample.")] = 1,
    rows: Annotated[str, typer.Option(help="Rows of csv: plies or games.")] = "plies",
    imposed: Annotated[bool, typer.Option("--imposed", help="Include turns of imposed openings, marked.")] = False,
    masks: Annotated[bool, typer.Option("--masks", help="Include the legal actions: 289 bytes a step.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the existing --output.")] = False,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Write games for other tools.

    As text, as a table, or as episodes for offline learning.
    """
    from analytics.exchange.export import ExportRequest
    from runners.archive.exchange import export_games

    request = ExportRequest(form, where, perspective, sample, seed, rows, imposed, masks)
    export_games(archive, request, output, force)


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(help="A text with a game a line, 'F@b1 3@b2 …'; - reads standard input.")],
    rules: Annotated[
        str, typer.Option(help="Rules of games without the tag rules.", autocompletion=options.of_group("rules"))
    ] = "classic",
    name: Annotated[str | None, typer.Option(help="Event of games without the tag event.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Import the other lines if some are wrong.")] = False,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Add games from a text file."""
    from runners.archive.exchange import import_file

    raise typer.Exit(import_file(archive, file, rules, name, skip_bad, f"qarena {options.typed()}"))


@app.command("ls")
@options.with_table
def ls(
    table: options.Table,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """List the runs."""
    from analytics import open_archive
    from runners.terminal.tables import write

    with open_archive(archive, check=False) as opened:  # which names what to restore must not need it
        write(opened.sql(RUNS), table)


@app.command("verify")
def verify(archive: options.Archive = options.ARCHIVE) -> None:
    """Check every file, record and game.

    Bytes, fingerprints and records are compared, and every game is replayed by the rules.
    """
    from analytics.store.archive import Archive
    from analytics.store.marker import remember
    from analytics.verify.archive import verify as check
    from runners.terminal.console import escaped, number_of, progress_bar

    opened = Archive.open(archive)
    with progress_bar("verifying", "games") as bar:
        bar.start(None)
        found = check(opened, bar.advance)
    remember(archive)
    for problem in found.problems:
        typer.echo(escaped(str(problem)), err=True)
    things = (
        *(
            (found.runs, "run", ""),
            (found.ranges, "range", ""),
            (found.games, "game", ""),
            (found.plies, "ply", "plies"),
        ),
        *((found.decisions, "decision", ""), (found.positions, "row of positions", "rows of positions")),
        *((found.policies, "policy", "policies"), (found.verdicts, "verdict", "")),
    )
    counts = [number_of(*each) for at, each in enumerate(things) if each[0] or at < 4]  # the first ones also if none
    typer.echo(f"{', '.join(counts)}: {number_of(len(found.problems), 'problem')}")
    raise typer.Exit(1 if found.problems else 0)


@app.command("replay")
def replay(
    run: Annotated[str, typer.Argument(help="Its id, as `qarena archive ls` shows it.")],
    archive: options.Archive = options.ARCHIVE,
    threads: options.Threads = options.ALL_CORES,
    config_dir: options.ConfigDir = None,
    trust_agents: options.Trust = False,
) -> None:
    """Play a run again from its record, and compare.

    Exit code 0: the same games. Exit code 1: other games; the first one is shown.
    """
    from runners.archive.replay import show_replay
    from runners.arena.config_groups import user_config_dir

    with user_config_dir(config_dir):
        raise typer.Exit(show_replay(archive, run, threads, trust_agents))


@app.command("gc")
def gc(
    archive: options.Archive = options.ARCHIVE,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the files listed as not needed.")] = False,
    age: Annotated[
        str,
        typer.Option(
            help="Only files that are not needed for at least so long: 30m, 1h, 2d. 0 only while no process works."
        ),
    ] = "10m",  # a listing, or a writer between two steps, takes less
) -> None:
    """List files that are no longer needed; --remove removes them.

    Larger files replaced them, or a killed process left them.
    """
    from analytics.store.archive import Archive
    from analytics.verify import garbage

    least_age, opened = garbage.seconds_of(age), Archive.open(archive)
    found = garbage.unneeded_files(opened)
    removed = set(garbage.remove(opened, found, least_age)) if remove else set()
    for file in found:
        fate = "not needed" if file.is_removable(least_age) else "young" if file.ours else "foreign"
        typer.echo(f"{'removed' if file in removed else fate}  {file.bytes:,} bytes  {file.path}")
    known, count = f"{len(found)} file{'s' * (len(found) != 1)}", sum(file.is_removable(least_age) for file in found)
    typer.echo(f"{len(removed)} of {known} removed" if remove else f"{known}, {count} to remove with --remove")


@app.command("index")
def index(
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    plies: Annotated[
        int | None, typer.Option(min=1, max=16, help="Number of plies of each game. Default: 6, or as many as before.")
    ] = None,
    threads: options.Threads = options.ALL_CORES,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
) -> None:
    """Index the positions of games, for quick questions.

    `qarena openings` and the view positions read the index.
    """
    from runners.archive.index import index as carry_out
    from runners.arena.schemas import executor_named

    carry_out(archive, runs or [], plies, threads, executor_named(executor, ray_address))


@app.command("compact")
def compact(
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    size: options.Size = options.MIB_128,
) -> None:
    """Join small files into large ones.

    Others may read and write meanwhile.
    """
    from runners.archive.upkeep import compact as carry_out

    carry_out(archive, runs or [], size)


@app.command("merge")
def merge(
    archives: Annotated[
        list[PurePath], typer.Argument(metavar="SOURCE... DESTINATION", parser=location_of, help="Folders or URLs.")
    ],
    prefix: Annotated[
        str, typer.Option(help="Of the names of policies that the destination has with other content.")
    ] = "",
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Unite runs that different code has played.")
    ] = False,
) -> None:
    """Copy the runs of archives into another one.

    The sources stay as they are. Nothing is copied if two archives hold different games of one run.
    """
    from runners.archive.upkeep import merge as carry_out

    carry_out(archives, prefix, other_code)


@app.command("to-delta")
def to_delta(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder, or one of this command: games, plies.")],
    archive: options.Archive = options.ARCHIVE,
    games_only: Annotated[bool, typer.Option("--games-only", help="No table of plies.")] = False,
) -> None:
    """Write Delta tables of games and plies.

    Called again, it adds what is new.
    """
    from runners.archive.upkeep import delta

    delta(archive, folder, games_only)
