"""``qarena solve``, ``annotate``, ``mistakes`` and ``tablebase``: exact values, and tables of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli import options

app = options.group("tablebase", "Build, check and list tables of exact values.")


def solve(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    position: Annotated[
        str | None, typer.Argument(help="Four rows and a hand, '...F/.3../..../.... 7', then the rules if not classic.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file of positions, one a line (- is standard input); prints a line of JSON for each."),
    ] = None,
    game: Annotated[bool, typer.Option("--game", help="Prove the value of the whole game.")] = False,
    rules: Annotated[str | None, options.rules("With --game: the rules. Default: classic.")] = None,
    json: options.Json = None,
    force: options.Force = False,
    distance: Annotated[
        bool,
        typer.Option(
            "--distance/--no-distance", help="Also the number of placements until the end, which takes longer."
        ),
    ] = True,
    turns: Annotated[bool, typer.Option("--turns/--no-turns", help="Also the value of every turn.")] = True,
    megabytes: options.Memory = options.MIB_128,
) -> None:
    """Solve positions exactly.

    Shows the value, the distance to the end, and every turn with its value.
    """
    from runners.perfect import solve
    from runners.perfect.solve import SolveOptions
    from runners.terminal.files import check_output

    if json is not None:
        check_output(json, force)
    wanted = SolveOptions(turns=turns, distance=distance)
    proven = solve.check_request(position, file, game, rules)
    if proven is not None:
        solve.solve_game(proven, megabytes, json)
    elif file is not None:
        solve.solve_file(file, wanted, megabytes)
    else:
        solve.solve_position(str(position), wanted, megabytes, json)


def annotate(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION", help="Only files in which a game meets this condition in SQL on the view games."
        ),
    ] = None,
    choices: Annotated[bool, typer.Option("--choices", help="Also count the choices that keep the value.")] = False,
    from_pieces: Annotated[
        int | None,
        typer.Option(min=0, max=15, help="Leave out decisions on boards with fewer pieces. Default: 0 (own_piece: 5)."),
    ] = None,
    threads: options.Threads = options.ALL_CORES,
    megabytes: options.Memory = options.MIB_128,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
) -> None:
    """Find the exact value of every decision in the games.

    The values are added to the archive: `qarena mistakes` and the view decisions show them.
    """
    from analytics.perfect.annotate import AnnotationSettings
    from analytics.query.game_filter import GameFilter
    from runners.arena.schemas import executor_named
    from runners.perfect.decisions import annotate as judge

    settings = AnnotationSettings(choices, from_pieces, megabytes=megabytes)
    judge(archive, GameFilter(where, tuple(runs or ())), settings, threads, executor_named(executor, ray_address))


def mistakes(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    agent: options.AgentLabel = None,
    rules: Annotated[str | None, options.rules("Only games under these rules.")] = None,
    positions: Annotated[int, typer.Option(min=0, help="Number of hardest positions to show.")] = 10,
    html: Annotated[Path | None, typer.Option(help="Also write charts to this HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Also write a chart to this SVG file.")] = None,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
) -> None:
    """Show the regret of each agent, and the hardest positions.

    Needs the values of `qarena annotate`.
    """
    from analytics.query.game_filter import GameFilter
    from runners.perfect.decisions import show_mistakes
    from runners.terminal.files import check_output, output_of

    for path in filter(None, (html, svg)):
        check_output(path, force)
    games = GameFilter(runs=tuple(runs or ()), agent=agent, rules=rules)
    show_mistakes(archive, games, positions, html, svg, output_of(form, output, force))


@app.command()
def build(
    pieces: Annotated[int, typer.Option(help="Number of pieces of the largest boards: 1 to 7.")],
    rules: Annotated[str, options.rules("The rules to solve under.")] = "classic",
    directory: Annotated[
        Path | None, typer.Option(help="Default: $QARENA_TABLEBASE, else in the user's data folder.")
    ] = None,
    megabytes: options.Memory = options.MIB_256,
    threads: options.Threads = options.ALL_CORES,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
) -> None:
    """Build a tablebase, or continue an interrupted build."""
    from analytics.perfect import tablebase_build
    from analytics.perfect.tablebase import home
    from quarto.sources import source_fingerprint
    from runners.arena.code import version
    from runners.arena.config_groups import load_rules
    from runners.arena.schemas import executor_named
    from runners.executors.base import available_megabytes
    from runners.hosting.interruption import INTERRUPTED, interruptible
    from runners.perfect.tablebases import solve
    from runners.terminal.console import print_note, program, progress_bar

    chosen = executor_named(executor, ray_address)
    job = tablebase_build.BuildJob(load_rules(rules), pieces, directory or home(), threads, megabytes)
    tables = chosen.here(threads)
    tablebase_build.check(job, available_megabytes(), tables)
    needed = tablebase_build.needed_megabytes(job, tables)
    means = f"{threads} threads" if chosen.shares_memory else f"executor {executor}"
    print_note(f"{job.rules.name}, boards of up to {pieces} pieces: {needed:,.0f} MB of memory at most, {means}")
    code = {"version": version(), "fingerprint": source_fingerprint(("quarto",))[:16]}
    with interruptible() as stop, progress_bar("solving", "boards") as bar:
        progress = tablebase_build.BuildProgress(bar.start, bar.advance)
        found = tablebase_build.build(
            job, code, stop, progress, lambda chunks, stop: solve(chunks, chosen, threads, stop)
        )
    if found is None:
        print_note(f"interrupted; solved boards are kept in {job.chunks}. To continue:")
        print_note(f"  {program()} {options.typed()}")
        raise typer.Exit(INTERRUPTED)
    card, boards = found.card, sum(found.card.boards)
    size = f"{card.bytes:,} bytes ({card.bytes / boards:.2f} a board)"
    typer.echo(f"{found.path}: {boards:,} boards, {size}, {card.seconds:,.0f} seconds of one thread")


@app.command()
def verify(
    file: Annotated[Path | None, typer.Argument(help="A tablebase. Default: all.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Number of the largest boards to solve again.")] = 20,
    megabytes: options.Memory = options.MIB_256,
) -> None:
    """Check a tablebase.

    Its checksum, its boards, its values against one another, and a sample that is solved again.
    """
    from analytics.perfect.tablebase import open_tablebase, tablebases
    from analytics.perfect.tablebase_build import verify as check
    from quarto.errors import RequestError
    from runners.terminal.console import number_of

    if file is not None and not file.with_suffix(".json").exists():
        raise RequestError(f"there is no tablebase {file} (it has no card {file.with_suffix('.json').name} beside it)")
    problems = 0
    for found in [open_tablebase(file)] if file else list(tablebases()):
        wrong = list(check(found, sample, megabytes))
        problems += len(wrong)
        for line in wrong:
            typer.echo(line, err=True)
        typer.echo(f"{found.path}: {sum(found.card.boards):,} boards, {number_of(len(wrong), 'problem')}")
    raise typer.Exit(1 if problems else 0)


@app.command("show")
def show_tablebases(
    rules: Annotated[str | None, options.rules("Only tablebases of these rules.")] = None,
    theory: Annotated[
        bool,
        typer.Option(
            "--theory", help="Print what the largest tablebase of each rules proves, as Markdown (docs/theory.md)."
        ),
    ] = False,
) -> None:
    """List the tablebases, with boards by pieces and value."""
    from analytics.perfect.tablebase import largest_for, same_game, tablebases
    from analytics.perfect.theory import report
    from quarto.errors import RequestError
    from runners.arena.config_groups import load_rules, names
    from runners.perfect.tablebases import tablebase_tables
    from runners.terminal.console import show

    if theory:
        asked = [load_rules(rules)] if rules else [load_rules(name) for name in names("rules")]
        typer.echo(report([found for found in map(largest_for, asked) if found]), nl=False)
        return
    known = list(tablebases())
    chosen = [found for found in known if rules is None or same_game(found.rules, load_rules(rules))]
    if not chosen:
        raise RequestError(f"there is no tablebase{f' for rules {rules}' if rules else ''}: build one")
    show(tablebase_tables(chosen))
