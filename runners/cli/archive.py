"""The commands on an archive: ``qarena sql``, ``crosstable``, ``rate``, ``report``, other questions, and its upkeep."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from analytics.store.files.backend import parse_location
from runners.cli import options

archive_group = options.create_command_group("archive", "Check, index, compact, merge, export and import archives.")


@archive_group.command("export")
def export(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    form: Annotated[str, Option("--format", help="text, csv, spreadsheet, minari, d3rlpy or dataset.")],
    output: Annotated[
        Path,
        Option(help="A new file (for minari a folder like quarto-v0, for dataset a folder); - prints text or csv."),
    ],
    where: options.Where = None,
    perspective: Annotated[
        str | None, Option(help="The player of rewards and outcomes: mover, seat_0, seat_1 or first.")
    ] = None,
    sample: Annotated[int | None, Option(help="Only this many games, drawn at random.")] = None,
    seed: Annotated[int, options.seed_option("Seed of the sample.")] = 1,
    rows: Annotated[str, Option(help="Rows of csv: plies or games.")] = "plies",
    imposed: Annotated[bool, Option("--imposed", help="Include turns of imposed openings, marked.")] = False,
    masks: Annotated[bool, Option("--masks", help="Include the legal actions: 289 bytes a step.")] = False,
    licence: Annotated[
        str, Option("--license", help="Licence of a dataset, as the Hub names it: cc0-1.0.")
    ] = "unknown",
    force: Annotated[bool, Option("--force", help="Replace the existing --output.")] = False,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Write games for other tools.

    The formats are text, tables, episodes for offline learning, and a dataset: a folder of tables with a card for the
    Hugging Face Hub and a `datapackage.json`, which describes the tables to other tools.
    """
    from analytics.exchange.export import ExportRequest
    from runners.cli.maintenance import export_games

    request = ExportRequest(form, where, perspective, sample, seed, rows, imposed, masks, licence)
    export_games(archive, request, str(output), force)


@archive_group.command("import")
def import_(
    file: Annotated[str, Argument(help="A text with a game a line, 'F@b1 3@b2 …'; - reads standard input.")],
    rules: Annotated[str, options.rules_option("Rules of games without the tag rules.")] = "classic",
    name: Annotated[str | None, Option(help="Event of games without the tag event.")] = None,
    skip_bad: Annotated[bool, Option("--skip-bad", help="Import the other lines if some are wrong.")] = False,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Add games from a text file."""
    from runners.cli.maintenance import import_games_file

    raise typer.Exit(
        import_games_file(
            archive, file, rules, name, skip_bad, f"qarena {options.format_command_line_without_program()}"
        )
    )


@archive_group.command("ls")
@options.add_output_options
def ls(table: options.Table, archive: options.Archive = options.ARCHIVE) -> None:
    """List the runs."""
    from runners.cli.queries import output_runs

    output_runs(archive, table)


@archive_group.command("name")
def name_run(
    run: Annotated[str, Argument(help="Its id, or the first digits of its id.")],
    name: options.RunName = None,
    note: options.RunNote = None,
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Give a run a name and a note, or show those that it has.

    An empty text removes the name or the note. Neither changes the run: its id and its games stay as they are.
    """
    from runners.cli.maintenance import name_run_and_print

    name_run_and_print(archive, run, name, note)


@archive_group.command("verify")
def verify(archive: options.Archive = options.ARCHIVE) -> None:
    """Check every file, record and game.

    Files are compared with their checksums, records with the ids of their runs, and games with their fingerprints.
    Every game is also replayed under its rules.
    """
    from runners.cli.maintenance import verify_archive

    raise typer.Exit(verify_archive(archive))


@archive_group.command("upgrade")
def upgrade(archive: options.Archive = options.ARCHIVE) -> None:
    """Upgrade an archive of an older format to the current one.

    Nothing is lost, and after an interruption the same command continues. No other process may use the archive
    meanwhile.
    """
    from runners.cli.maintenance import upgrade_archive

    upgrade_archive(archive)


@archive_group.command("replay")
@options.add_config_dir_option
def replay(
    run: Annotated[str, Argument(help="Its id, as `qarena archive ls` shows it.")],
    archive: options.Archive = options.ARCHIVE,
    threads: options.Threads = options.ALL_CORES,
    trust_agents: options.TrustAgents = False,
) -> None:
    """Play a run again from its record, and compare the games.

    The exit code is 0 if the games are the same, and 1 if they differ; the first game that differs is shown.
    """
    from runners.cli.replay import print_replay

    raise typer.Exit(print_replay(archive, run, threads, trust_agents))


@archive_group.command("index")
def index(
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    plies: Annotated[
        int | None, Option(min=1, max=16, help="Number of plies of each game. Default: 6, or as many as before.")
    ] = None,
    threads: options.Threads = options.ALL_CORES,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
) -> None:
    """Index the positions of games, for faster answers.

    The index is read by `qarena openings` and the SQL view `positions`.
    """
    from runners.cli.queries import index_archive
    from runners.config.requests import load_executor

    index_archive(archive, runs or [], plies, threads, load_executor(executor, ray_address))


@archive_group.command("compact")
def compact(
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    size: options.FileSize = options.MIB_128,
    age: Annotated[
        str,
        Option(
            help="Remove files that are not needed for at least so long: 30m, 1h, 2d. 0 only while no process works."
        ),
    ] = "10m",
    dry_run: Annotated[
        bool, Option("--dry-run", help="Change nothing: list the files that would go, or stay, and why.")
    ] = False,
) -> None:
    """Join small files into large ones, and remove unneeded files.

    A file is not needed if a larger one replaced it, or if a process that was killed left it behind. Other processes
    may read and write the archive meanwhile.
    """
    from runners.cli.maintenance import CompactOptions, compact_archive

    compact_archive(archive, runs or [], CompactOptions(size, age, dry_run))


@archive_group.command("merge")
def merge(
    archives: Annotated[
        list[PurePath], Argument(metavar="SOURCE... DESTINATION", parser=parse_location, help="Folders or URLs.")
    ],
    prefix: Annotated[str, Option(help="Of the names of policies that the destination has with other content.")] = "",
    other_code: Annotated[bool, Option("--other-code", help="Unite runs that different code has played.")] = False,
) -> None:
    """Copy the runs of archives into another one.

    The sources stay as they are. Nothing is copied if two archives hold different games of the same run.
    """
    from runners.cli.maintenance import merge_archives

    merge_archives(archives, prefix, other_code)


@options.add_output_options
def sql(
    table: options.Table,
    question: Annotated[
        str,
        Argument(help="One SELECT over views such as games, plies, seats, runs; - reads standard input."),
    ],
    archive: options.Archive = options.ARCHIVE,
    memory: Annotated[
        str, Option(metavar="SIZE", help="Memory that DuckDB uses before it spills to the disk: 1GiB, 70%.")
    ] = "70%",
    spill: Annotated[
        str | None, Option(metavar="SIZE", help="The most that it spills: 10GiB. Default: 90% of what is free.")
    ] = None,
    timeout: Annotated[float | None, Option(metavar="SECONDS", help="Give up after this time. Default: never.")] = None,
    check: Annotated[
        bool, Option("--check/--no-check", help="Compare files with their checksums, once per machine.")
    ] = True,
) -> None:
    """Ask the archive a question in SQL.

    The dialect is DuckDB's. Nothing can be written. docs/sql.md lists all views and macros.
    """
    from analytics.questions.sql.query_execution import QueryLimits
    from runners.cli.queries import output_sql_answer_indexing_if_needed

    limits = QueryLimits(memory, spill, timeout)
    output_sql_answer_indexing_if_needed(
        archive, sys.stdin.read() if question == "-" else question, limits, table, check
    )


@options.add_output_options
@options.add_game_filters
def rate(
    table: options.Table,
    filters: options.Filters,
    archive: options.Archive = options.ARCHIVE,
    anchor: Annotated[
        str | None, Option(metavar="AGENT", help="The label of the agent whose rating is set by --anchor-elo.")
    ] = None,
    anchor_elo: Annotated[
        float, Option(help="The rating of the anchor; without an anchor, the mean of each table.")
    ] = 0.0,
    samples: Annotated[int, Option(min=0, max=100_000, help="Number of bootstrap samples.")] = 200,
) -> None:
    """Rate all agents in one fit, in Elo with intervals.

    The answer also gives, for any two agents, the probability that one is stronger than the other, and the advantage of
    seat 0 in Elo.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "ratings", anchor=anchor, anchor_elo=anchor_elo, samples=samples, **filters)


@options.add_output_options
@options.add_game_filters
def crosstable(
    table: options.Table,
    filters: options.Filters,
    archive: options.Archive = options.ARCHIVE,
    by_seat: Annotated[bool, Option("--by-seat", help="Separate results for each seat of the first agent.")] = False,
) -> None:
    """Show the score of every agent against every other.

    The tables also have wins, draws and losses, and 95 % intervals.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "crosstable", by_seat=by_seat, **filters)


@options.add_output_options
def compare(
    table: options.Table,
    runs: Annotated[
        list[str], Argument(metavar="RUN RUN…", help="Ids of runs. The others are compared with the first.")
    ],
    archive: options.Archive = options.ARCHIVE,
) -> None:
    """Compare the settings, code and results of runs.

    Speed and regret are compared too. Differences of scores have 95 % intervals and p-values. Runs with the same seed
    play the same openings, so their pairs of games are compared one by one.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "compare", *runs)


@options.add_output_options
def openings(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    table: options.Table,
    position: Annotated[
        str, Argument(help="Four rows and a hand, '...F/.3../..../.... 7', - for no hand, then rules if not classic.")
    ] = "..../..../..../.... -",
    archive: options.Archive = options.ARCHIVE,
    by: Annotated[str | None, Option(help="gift, placement or turn. Default: the next decision, and turns.")] = None,
    agent: options.AgentLabel = None,
    opponent: Annotated[str | None, Option(help="Only decisions against the agent with this label.")] = None,
    run: options.Runs = None,
    since: Annotated[str | None, Option(help="Only runs created on this day (2026-01-31) or later, UTC.")] = None,
    until: Annotated[str | None, Option(help="Only runs created on this day or earlier.")] = None,
    least: Annotated[int, Option(min=1, help="Only decisions that were made at least this many times.")] = 1,
    rules: Annotated[
        str | None, options.rules_option("Rules of the position, if it does not name them. Default: classic.")
    ] = None,
    sort: Annotated[str, Option(help="games (most first), score (lowest first) or losses (most first).")] = "games",
    imposed: Annotated[bool, Option("--imposed", help="Also count imposed plies, which no agent chose.")] = False,
    first_free: Annotated[
        bool, Option("--first-free", help="Count each game at its first free decision, in whatever position.")
    ] = False,
) -> None:
    """Show what was played in a position, and the results.

    Gifts, placements or turns are counted up to symmetry, each with a sample game.
    """
    from analytics.questions.openings import OpeningsQuery, add_rules_name
    from analytics.questions.selection import GameFilter
    from analytics.store.archive import find_run_ids
    from runners.cli.queries import index_and_output_openings
    from runners.config.agents import find_stored_label_or_same

    decider, opponent_label = (find_stored_label_or_same(archive, label) for label in (agent, opponent))
    games = GameFilter(
        runs=find_run_ids(archive, run or ()), agent=decider, opponent=opponent_label, since=since, until=until
    )
    query = OpeningsQuery(add_rules_name(position, rules), by, games, least, imposed, sort, first_free or None)
    index_and_output_openings(archive, query, table)


@options.add_output_options
def show(
    table: options.Table,
    game: Annotated[list[str], Argument(metavar="GAME", help="The run and the game's id, as tables print them.")],
    archive: options.Archive = options.ARCHIVE,
    run: Annotated[str | None, Option(metavar="RUN", help="The run, if GAME is the id alone.")] = None,
    animate: Annotated[
        bool, Option("--animate", help="With --format svg: the picture is one board, on which the game is played.")
    ] = False,
) -> None:
    """Show one game, board by board.

    Each ply is shown with its exact values if the game is annotated (`qarena annotate`). The formats csv, json and
    parquet have a row for each decision, with the position before it; svg is a picture of the boards.
    """
    from runners.web.archive.game_output import output_game

    output_game(archive, " ".join(game), run, table, animate)


@options.add_output_options
@options.add_game_filters
def lengths(table: options.Table, filters: options.Filters, archive: options.Archive = options.ARCHIVE) -> None:
    """Show the number of plies of each agent's games.

    A picture compares these lengths with the exact lengths of random play.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "lengths", **filters)


@options.add_output_options
@options.add_game_filters
def first_plies(
    table: options.Table,
    filters: options.Filters,
    archive: options.Archive = options.ARCHIVE,
    by: Annotated[Literal["placement", "gift"], Option(help="Which first decision.")] = "placement",
) -> None:
    """Show the first placements or gifts of each agent.

    Each placement or gift is shown with its share of the games and its score, and a picture shows them on the board.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "first_plies", decision=by, **filters)


@options.add_output_options
@options.add_game_filters
def learning_curve(table: options.Table, filters: options.Filters, archive: options.Archive = options.ARCHIVE) -> None:
    """Show how policies scored in the games that they learned from.

    A picture shows the curve of each policy.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "learning_curve", **filters)


@options.add_output_options
@options.add_game_filters
def evaluations(table: options.Table, filters: options.Filters, archive: options.Archive = options.ARCHIVE) -> None:
    """Show what agents expected of their turns.

    Evaluations are compared with results and exact values, and shown with the seconds that they took. Only runs that
    were played with `archive.evaluations=true` have evaluations.
    """
    from runners.cli.queries import output_answer

    output_answer(archive, table, "evaluations", **filters)


def report(
    archive: options.Archive = options.ARCHIVE,
    where: options.Where = None,
    runs: options.Runs = None,
    output: Annotated[Path, Option(help="The HTML file.")] = Path("report.html"),
    force: options.Force = False,
    title: Annotated[str | None, Option(help="Title of the page.")] = None,
) -> None:
    """Write an HTML report about the games.

    Results, ratings, openings, lengths, learning and mistakes are on one page, which needs no network.
    """
    from runners.cli.queries import write_report

    options.check_output_files(force, output)
    write_report(archive, where, runs or [], output, title)
