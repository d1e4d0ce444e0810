"""The commands on exact values: ``qarena solve``, ``annotate``, ``mistakes``, ``puzzles``, ``tablebase`` and ``perft``.

``bench`` and ``warm``, which concern this machine, are here too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from quarto.errors import RequestError
from quarto.sources import compilation_progress
from runners.cli import options
from runners.terminal.files import read_file

tablebase_group = options.create_command_group("tablebase", "Build, check and list tables of exact values.")
puzzles_group = options.create_command_group(
    "puzzles", "Solve puzzles: one turn keeps the value. Make puzzles from annotated games."
)


def solve(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    position: Annotated[
        str | None, Argument(help="Four rows and a hand, '...F/.3../..../.... 7', then the rules if not classic.")
    ] = None,
    file: Annotated[
        Path | None,
        Option(help="A file of positions, one a line (- is standard input); prints a line of JSON for each."),
    ] = None,
    game: Annotated[bool, Option("--game", help="Prove the value of the whole game.")] = False,
    rules: Annotated[str | None, options.rules_option("With --game: the rules. Default: classic.")] = None,
    json: options.JsonFile = None,
    force: options.Force = False,
    distance: Annotated[
        bool,
        Option("--distance/--no-distance", help="Also the number of placements until the end, which takes longer."),
    ] = True,
    turns: Annotated[bool, Option("--turns/--no-turns", help="Also the value of every turn.")] = True,
    megabytes: options.SolverMemory = options.MIB_128,
) -> None:
    """Solve positions exactly.

    The answer has the value, the distance to the end, and every turn with its value.
    """
    from runners.exact import solutions
    from runners.exact.solutions import SolveOptions

    options.check_output_files(force, json)
    solve_options = SolveOptions(turns=turns, distance=distance)
    rules_name = solutions.find_whole_game_rules_name(position, file, game, rules)
    if rules_name is not None:
        solutions.output_game_value(rules_name, megabytes, json)
    elif file is not None:
        solutions.print_file_solutions(file, solve_options, megabytes)
    else:
        solutions.output_position_solution(str(position), solve_options, megabytes, json)


def annotate(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    runs: options.Runs = None,
    archive: options.Archive = options.ARCHIVE,
    where: Annotated[
        str | None,
        Option(metavar="CONDITION", help="Only files in which a game meets this condition in SQL on the view games."),
    ] = None,
    choices: Annotated[
        bool, Option("--choices", help="Also count the choices that keep each value, for qarena mistakes: slower.")
    ] = False,
    from_pieces: Annotated[
        int | None,
        Option(min=0, max=15, help="Leave out boards with fewer pieces than this. Default: 0 (own_piece: 5)."),
    ] = None,
    threads: options.Threads = options.ALL_CORES,
    megabytes: options.SolverMemory = options.MIB_128,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
) -> None:
    """Find the exact value of every decision in the games.

    The values are added to the archive, and shown by `qarena mistakes` and the SQL view `decisions`.
    """
    from analytics.exact.annotation import AnnotationOptions
    from analytics.questions.selection import GameFilter
    from runners.config.requests import load_executor
    from runners.exact.annotation import annotate_games
    from runners.terminal import console

    annotation_options = AnnotationOptions(choices, from_pieces, megabytes=megabytes)
    games = GameFilter(where, tuple(runs or ()))
    summary = annotate_games(archive, games, annotation_options, threads, load_executor(executor, ray_address))
    console.print_line(summary)


@options.add_output_options
@options.add_game_filters
def mistakes(
    table: options.Table,
    filters: options.Filters,
    archive: options.Archive = options.ARCHIVE,
    positions: Annotated[int, Option(min=0, help="Number of worst mistakes to show.")] = 10,
) -> None:
    """Show the regret of each agent, and the worst mistakes.

    The games must have been annotated with `qarena annotate`. Among equal mistakes, those that were easiest to avoid
    come first.
    """
    from runners.exact.annotation import output_mistakes

    output_mistakes(archive, positions, table, **filters)


def _list_themes(incomplete: str) -> list[str]:
    """List the themes of puzzles that begin with ``incomplete``, for shell completion."""
    from analytics.exact.puzzle_themes import THEMES

    return options.select_by_prefix(incomplete, list(THEMES))


@puzzles_group.command("play")
def play_puzzles(
    number: Annotated[int, Argument(help="The puzzle to begin with. The easy ones come first.")] = 1,
    theme: Annotated[
        str | None,
        Option(
            metavar="THEME",
            help="Only puzzles of this theme: win, save, quiet (several gifts are safe, one is right) or rules (others "
            "than classic).",
            autocompletion=_list_themes,
        ),
    ] = None,
    level: Annotated[int | None, Option(min=1, max=5, help="Only puzzles of this level: 1 (easy) to 5 (hard).")] = None,
    rules: Annotated[str | None, options.rules_option("Only puzzles under these rules.")] = None,
    file: Annotated[Path | None, Option(help="A file that 'puzzles make' wrote. Default: the set that ships.")] = None,
    plain: Annotated[bool, Option("--plain", help="Plain text without pictures and colours.")] = False,
) -> None:
    """Solve puzzles at the terminal.

    The command also works over a pipe, with one line for each turn.
    """
    from analytics.exact.puzzle_themes import PuzzleFilter
    from analytics.exact.puzzles import load_shipped_puzzles, parse_puzzles
    from runners.exact.puzzle_dialogue import run_puzzles
    from runners.play.screens import build_screen

    puzzles = (
        parse_puzzles(read_file(str(file)).decode(errors="replace"), str(file)) if file else load_shipped_puzzles()
    )
    run_puzzles(puzzles, number, build_screen(plain), PuzzleFilter(theme or "", level or 0, rules or ""))


@puzzles_group.command("make")
def make_puzzles(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    output: Annotated[Path, Option(help="The CSV file to write.")],
    count: Annotated[int, Option(min=1, help="Number of puzzles, equally many of each level.")] = 300,
    runs: options.Runs = None,
    rules: Annotated[str | None, options.rules_option("Only games under these rules.")] = None,
    archive: options.Archive = options.ARCHIVE,
    seed: Annotated[int, options.seed_option("Of the choice of positions, and of the agents that try them.", 31)] = 1,
    threads: options.Threads = options.ALL_CORES,
    megabytes: options.SolverMemory = options.MIB_128,
    force: options.Force = False,
) -> None:
    """Make puzzles from annotated games.

    Annotate the games with `qarena annotate --choices` first; without `--choices`, fewer puzzles are found. Built-in
    agents try each puzzle, and their results set its level. The same games and options give the same bytes.
    """
    from analytics.questions.selection import GameFilter
    from runners.exact.puzzle_generation import PuzzleOptions, create_puzzle_file

    options.check_output_files(force, output)
    puzzle_options = PuzzleOptions(count, seed, threads, megabytes)
    create_puzzle_file(archive, GameFilter(runs=tuple(runs or ()), rules=rules), puzzle_options, output)


@tablebase_group.command()
def build(
    pieces: Annotated[int, Option(help="Number of pieces of the largest boards: 1 to 7.")],
    rules: Annotated[str, options.rules_option("The rules to solve under.")] = "classic",
    directory: Annotated[
        Path | None, Option(help="Default: $QARENA_TABLEBASE, else in the user's data folder.")
    ] = None,
    megabytes: options.SolverMemory = options.MIB_256,
    threads: options.Threads = options.ALL_CORES,
    executor: options.Executor = options.EXECUTOR,
    ray_address: options.RayAddress = None,
) -> None:
    """Build a tablebase, or continue an interrupted build."""
    from analytics.exact.tablebase import user_folder
    from analytics.exact.tablebase_build import TablebaseBuildRequest
    from runners.config.requests import load_executor
    from runners.config.yaml_options import load_rules
    from runners.exact.tablebases import build_tablebase

    request = TablebaseBuildRequest(load_rules(rules), pieces, directory or user_folder(), threads, megabytes)
    raise typer.Exit(
        build_tablebase(request, load_executor(executor, ray_address), options.format_command_line_without_program())
    )


@tablebase_group.command()
def verify(
    file: Annotated[Path | None, Argument(help="A tablebase. Default: all.")] = None,
    sample: Annotated[int, Option(min=0, help="Number of the largest boards to solve again.")] = 20,
    megabytes: options.SolverMemory = options.MIB_256,
) -> None:
    """Check a tablebase.

    The command checks the checksum and the boards, compares the values with one another, and solves a sample again.
    """
    from runners.exact.tablebases import verify_and_print_tablebases

    raise typer.Exit(verify_and_print_tablebases(file, sample, megabytes))


@tablebase_group.command("show")
def show_tablebases(
    rules: Annotated[str | None, options.rules_option("Only tablebases of these rules.")] = None,
    theory: Annotated[
        bool,
        Option("--theory", help="Print what the largest tablebase of each rules proves, as Markdown (docs/theory.md)."),
    ] = False,
) -> None:
    """List the tablebases, and count their boards by pieces and value."""
    from runners.exact.tablebases import print_tablebases

    print_tablebases(rules, theory)


@options.add_config_dir_option
def bench(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    json: options.JsonFile = None,
    force: options.Force = False,
    quick: Annotated[bool, Option("--quick", help="Every figure from fewer games, in under a minute.")] = False,
    solver: Annotated[bool, Option("--solver", help="Measure the solver instead.")] = False,
    questions: Annotated[bool, Option("--questions", help="Measure questions to an archive instead.")] = False,
    executors: Annotated[bool, Option("--executors", help="Measure what executors do besides playing.")] = False,
    names: Annotated[
        float | None,
        Option(metavar="N", help="Measure only the archive's work on N names of files (1e7), N/10 and N/100."),
    ] = None,
    growth: Annotated[
        str | None,
        Option(
            metavar="AXIS",
            help="Measure how commands grow with an archive's runs, agents, jobs, files, policies or games instead, or "
            "with all of these.",
        ),
    ] = None,
    largest: Annotated[
        int | None, Option(min=1, help="With --growth: leave out archives with more of them than this.")
    ] = None,
    turn: Annotated[
        str | None,
        Option(metavar="AGENT", help="Measure only the turns of this agent, in microseconds by pieces on the board."),
    ] = None,
    rules: Annotated[
        str | None, options.rules_option("With --turn: the rules. Default: classic, or rules that the agent plays.")
    ] = None,
    positions: Annotated[
        int | None, Option(help="With --turn: positions of each number of pieces. Default: 500.")
    ] = None,
    seed: Annotated[int | None, Option(help="With --turn: seed of the positions. Default: 1.")] = None,
) -> None:
    """Measure the speed on this machine.

    The figures are games a second, bytes a row and memory. Speeds that are compared are measured alternately in one
    call, so their ratios are more reliable than the speeds themselves. With --turn, the figures are the times of one
    agent's turns, and what a turn in a game is made of.
    """
    options.check_output_files(force, json)
    if turn is not None:
        from runners.bench.turn_times import run_turn_benchmark

        raise typer.Exit(
            run_turn_benchmark(turn, rules, 500 if positions is None else positions, 1 if seed is None else seed, json)
        )
    for name, value in (("--rules", rules), ("--positions", positions), ("--seed", seed)):
        if value is not None:
            raise RequestError(f"{name} {value} needs --turn AGENT: the other measurements have fixed conditions")
    if largest is not None and growth is None:
        raise RequestError(f"--largest {largest} needs --growth AXIS: the other measurements have fixed sizes")
    selected = {
        "--solver": solver,
        "--questions": questions,
        "--executors": executors,
        "--names": names is not None,
        "--growth": growth is not None,
    }
    if len(words := [word for word, is_given in selected.items() if is_given]) > 1:
        raise RequestError(f"{' and '.join(words)} measure different things: give one of them")
    if growth is not None:
        from runners.bench.growth import run_growth_benchmark

        run_growth_benchmark(growth, largest, json)
        return
    from runners.bench.benchmark import output_figures, run_benchmark

    if names is not None:
        from runners.bench.file_names import bench_file_names

        output_figures(bench_file_names(names), json)
    else:
        run_benchmark(words[0].removeprefix("--") if words else "all", quick, json)


def warm() -> None:
    """Compile all kernels now, so that later commands start at once."""
    from runners.bench.warm_up import are_all_kernels_compiled, count_warm_up_steps, time_warm_up_steps
    from runners.terminal.console import print_note, show_progress_bar_or_notes

    if not are_all_kernels_compiled():
        compilation_progress.announce = lambda: None  # the bar says it
        print_note(
            "Compiling the kernels of all commands in two processes, which takes about a minute. "
            "Ctrl-C is fine: a later command compiles what it needs."
        )
        with show_progress_bar_or_notes("Compiling", "steps") as bar:
            bar.start(count_warm_up_steps())
            for _ in time_warm_up_steps():
                bar.advance()
    typer.echo("All kernels are compiled.")


def perft(
    plies: Annotated[int, Argument(help="Number of plies to count.")],
    rules: Annotated[str, options.rules_option("The rules to count under.")] = "classic",
) -> None:
    """Count the games and boards that play can reach after each number of plies from 0 to PLIES.

    The counts are exact. A game that was won at an earlier ply is not counted again, and boards that are equal under
    symmetries count once.
    """
    from runners.exact.tablebases import print_perft

    print_perft(rules, plies)
