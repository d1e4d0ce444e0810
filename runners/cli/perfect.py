"""``qarena solve``, ``annotate``, ``mistakes`` and ``perft``: exact values and exact counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli import options


def solve(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    position: Annotated[
        str | None, typer.Argument(help="Four rows and a hand, '...F/.3../..../.... 7', then the rules if not classic.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="A file of positions, one a line (- is standard input); prints a line of JSON for each."
        ),
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
    from runners.perfect.solvers import SolveOptions
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


def annotate(
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    choices: Annotated[bool, typer.Option("--choices", help="Also count the choices that keep the value.")] = False,
    from_pieces: Annotated[
        int | None,
        typer.Option(
            "--from-pieces",
            min=0,
            max=15,
            help="Leave out decisions on boards with fewer pieces. Default: 0 (own_piece: 5).",
        ),
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
    from runners.arena.schemas import executor_named
    from runners.perfect.annotate import annotate as judge

    settings = AnnotationSettings(choices, from_pieces, megabytes=megabytes)
    judge(archive, runs or [], settings, threads, executor_named(executor, ray_address))


def mistakes(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    agent: Annotated[str | None, typer.Option("--agent", help="Only decisions of the agent with this label.")] = None,
    rules: Annotated[str | None, options.rules("Only games under these rules.")] = None,
    positions: Annotated[int, typer.Option("--positions", min=0, help="Number of hardest positions to show.")] = 10,
    html: Annotated[Path | None, typer.Option("--html", help="Also write charts to this HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also write a chart to this SVG file.")] = None,
    form: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
) -> None:
    """Show the regret of each agent, and the hardest positions.

    Needs the values of `qarena annotate`.
    """
    from analytics.query.game_filter import GameFilter
    from runners.perfect.mistakes import show_mistakes
    from runners.terminal.files import check_output
    from runners.terminal.tables import output_of

    for path in filter(None, (html, svg)):
        check_output(path, force)
    games = GameFilter(runs=tuple(runs or ()), agent=agent, rules=rules)
    show_mistakes(archive, games, positions, html, svg, output_of(form, output, force))


def perft(
    plies: Annotated[int, typer.Argument(help="Number of plies to count.")],
    rules: Annotated[str, options.rules("The rules to count under.")] = "classic",
) -> None:
    """Count positions after 0 to PLIES plies, exactly.

    Games that a line has ended are left out. Positions count up to symmetry.
    """
    from quarto.perft import perft as count
    from runners.arena.config_groups import load_rules
    from runners.perfect.tablebases import perft_table
    from runners.terminal.console import show

    show([perft_table(rules, count(load_rules(rules), plies))])
