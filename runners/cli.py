"""The command line. Nothing heavy is imported before the command that needs it is known: `--help` answers at once."""

from __future__ import annotations

import importlib.util
import io
import math
import sys
import traceback
from collections.abc import Sequence
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quarto.errors import ArenaError, RequestError
from runners import tablebases

if TYPE_CHECKING:
    from rich.table import Table

HYDRA_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
FLAGS_WITH_VALUES = (
    "--config-dir",
    "-cd",
    "--config-name",
    "-cn",
    "--config-path",
    "-cp",
    "--cfg",
    "-c",
    "--package",
    "-p",
)
INFO = ("--info", "-i")
INFO_TOPICS = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")  # the value may be left out
ARCHIVE = Path("data/archive")
ROOT = Path(__file__).resolve().parent.parent  # of the project, or of where it is installed

app = typer.Typer(
    name="qarena",
    help="Quarto: agents meet by the million, every ply lands in a Parquet archive, questions are SQL.",
    epilog="--debug anywhere shows the traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
archive_app = typer.Typer(help="List, check and clean an archive.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(archive_app, name="archive")
app.add_typer(tablebases.app, name="tablebase")


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qarena {metadata.version('quarto-arena')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Quarto: agents meet by the million, every ply lands in a Parquet archive, questions are SQL."""


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


ArchiveOption = Annotated[Path, typer.Option("--archive", help="The archive's folder.", show_default=True)]


def overrides(incomplete: str) -> list[str]:
    """What an override may begin with or, after ``group=``, the options of the project's own groups."""
    key, equals, value = incomplete.partition("=")
    group = key.lstrip("+").split("@")[0]
    groups = ("agent", "rules", "experiment")
    if equals and group in groups:
        options = [path.stem for path in (ROOT / "conf" / group).glob("*.yaml")]
        return [f"{key}={option}" for option in sorted(options) if option.startswith(value)]
    keys = [
        "agent@a",
        "agent@b",
        "rules",
        "experiment",
        "games",
        "seed",
        "opening_plies",
        "threads",
        "agents",
        "schedule",
        "archive.root",
    ]
    return [f"{each}=" for each in keys if f"{each}=".startswith(incomplete)]


Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]…", help="Hydra's overrides and flags.", autocompletion=overrides),
]


@app.command(
    context_settings=HYDRA_ARGUMENTS, help="Play a match or a tournament (`qarena run --help` lists what can be set)."
)
def run(context: typer.Context, arguments: Overrides = None) -> None:
    """Play one experiment."""
    _hydra("run", [*(arguments or []), *context.args])


@app.command(context_settings=HYDRA_ARGUMENTS, help="Play every combination of the given values: Hydra's multirun.")
def sweep(context: typer.Context, arguments: Overrides = None) -> None:
    """Play a sweep of experiments."""
    _hydra("sweep", [*(arguments or []), *context.args])


def _hydra(command: str, arguments: Sequence[str]) -> None:
    from runners.application import launch

    flags, rest = flags_first(arguments)
    multirun = command == "sweep" or "--multirun" in flags or "-m" in flags
    flags = [flag for flag in flags if flag not in ("--multirun", "-m")]
    raise typer.Exit(launch([*flags, *rest], [command, *arguments], multirun))


def flags_first(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags with their values, and all else: Hydra stumbles over flags that come after overrides."""
    flags: list[str] = []
    rest: list[str] = []
    waiting = False
    for argument in arguments:
        topic = bool(flags) and flags[-1] in INFO and argument in INFO_TOPICS
        if waiting or topic or argument.startswith("-"):
            flags.append(argument)
            waiting = not waiting and argument in FLAGS_WITH_VALUES
        else:
            rest.append(argument)
    if waiting:
        raise RequestError(f"{flags[-1]} needs a value: {flags[-1]} VALUE")
    return [*flags, *(["all"] if flags and flags[-1] in INFO else [])], rest


@app.command()
def sql(
    question: Annotated[
        str, typer.Argument(help="One SELECT over the views runs, games, plies, decisions, sweeps; - reads stdin.")
    ],
    archive: ArchiveOption = ARCHIVE,
    format: Annotated[  # noqa: A002
        Format | None, typer.Option("--format", help="Default: by the name of --output, else a table.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="A file to write instead of the terminal.")] = None,
) -> None:
    """Ask the archive a question in SQL (DuckDB's dialect, read-only)."""
    from analytics import open_archive
    from runners.tables import write

    text = sys.stdin.read() if question == "-" else question
    with open_archive(archive) as opened:
        frame = opened.sql(text)
    write(frame, format.value if format else None, output)


@archive_app.command("ls")
def archive_ls(archive: ArchiveOption = ARCHIVE) -> None:
    """List the runs."""
    from analytics import open_archive
    from runners.tables import RUNS, write

    with open_archive(archive) as opened:
        write(opened.sql(RUNS))


@archive_app.command("verify")
def archive_verify(archive: ArchiveOption = ARCHIVE) -> None:
    """Check everything committed: checksums, counts, every game replayed against the rules."""
    from analytics.archive import Archive
    from analytics.verify import verify

    found = verify(Archive.open(archive))
    for problem in found.problems:
        typer.echo(str(problem), err=True)
    counts = f"{found.runs} runs, {found.shards} shards, {found.games:,} games, {found.plies:,} plies"
    counts += f", {found.decisions:,} decisions" if found.decisions else ""
    typer.echo(f"{counts}: {len(found.problems) or 'no'} problem(s)")
    raise typer.Exit(1 if found.problems else 0)


@archive_app.command("gc")
def archive_gc(
    archive: ArchiveOption = ARCHIVE,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what is listed, but for foreign files.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also files younger than an hour: only while nobody writes to the archive.")
    ] = False,
) -> None:
    """List, and with --remove delete, what no commit names: leftovers of killed or interrupted writers."""
    from analytics import leftovers
    from analytics.archive import Archive

    least_age = -math.inf if everything else leftovers.GRACE_SECONDS  # clocks differ: a file may be from the future
    found = leftovers.leftovers(Archive.open(archive))
    removed = leftovers.remove(found, least_age) if remove else []
    for leftover in found:
        fate = "foreign" if not leftover.ours else "young" if leftover.age_seconds < least_age else "leftover"
        typer.echo(f"{'removed' if leftover in removed else fate}  {leftover.bytes:,} bytes  {leftover.path}")
    able = sum(leftover.ours and leftover.age_seconds >= least_age for leftover in found)
    typer.echo(
        f"{len(removed)} of {len(found)} files removed"
        if remove
        else f"{len(found)} files, {able} to remove with --remove"
    )


@app.command()
def agents() -> None:
    """List the agents with their parameters."""
    from runners.tables import agents_table

    _print(agents_table())


@app.command()
def perft(
    plies: Annotated[int, typer.Argument(help="How deep to count.")],
    rules: Annotated[str, typer.Option("--rules", help="The rules to count under.")] = "classic",
) -> None:
    """Count live game prefixes after 0 to PLIES plies, exactly, up to symmetry."""
    from quarto.perft import perft as count
    from runners.config import load_rules
    from runners.tables import perft_table

    _print(perft_table(rules, count(load_rules(rules), plies)))


@app.command()
def solve(
    position: Annotated[
        str | None, typer.Argument(help="Four rows and a hand, '...F/.3../..../.... 7', then the rules if not classic.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Positions, one a line (- is stdin): one line of JSON for each.")
    ] = None,
    game: Annotated[bool, typer.Option("--game", help="Prove the value of the whole game.")] = False,
    rules: Annotated[str | None, typer.Option("--rules", help="The rules of that game (default: classic).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    distance: Annotated[
        bool, typer.Option("--distance/--no-distance", help="Placements until the end; values alone are faster.")
    ] = True,
    values: Annotated[bool, typer.Option("--values", help="Without the turns.")] = False,
    megabytes: Annotated[float, typer.Option("--megabytes", help="Memory for what is proven on the way.")] = 128.0,
) -> None:
    """Solve positions exactly: value, distance, and every turn with its value."""
    from runners import solve_command
    from runners.solve import Wanted

    wanted = Wanted(turns=not values, distance=distance)
    proven = solve_command.check_request(position, file, game, rules)
    if proven is not None:
        solve_command.solve_game(proven, megabytes, json)
    elif file is not None:
        solve_command.report_bad(solve_command.solve_file(file, wanted, megabytes))
    else:
        solve_command.solve_position(str(position), wanted, megabytes, json)


RunIds = Annotated[list[str] | None, typer.Argument(metavar="[RUN]…", help="Run ids; without, all runs.")]


@app.command()
def annotate(
    runs: RunIds = None,
    archive: ArchiveOption = ARCHIVE,
    choices: Annotated[bool, typer.Option("--choices", help="Also count the choices that keep the value.")] = False,
    from_pieces: Annotated[
        int | None,
        typer.Option("--from-pieces", min=0, max=15, help="Judge from so many pieces on (0; own_piece: 5)."),
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: all cores.")] = None,
    megabytes: Annotated[float, typer.Option("--megabytes", help="Memory for what is proven on the way.")] = 128.0,
) -> None:
    """Judge every decision of the games by its exact value and add that to the archive."""
    from runners.mistakes import annotate as judge

    judge(archive, runs or [], choices, from_pieces, threads, megabytes)


@app.command()
def mistakes(
    runs: RunIds = None,
    archive: ArchiveOption = ARCHIVE,
    positions: Annotated[int, typer.Option("--positions", min=0, help="How many of the hardest positions.")] = 10,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a chart to this file (needs the extra plots).")
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="The same as SVG.")] = None,
) -> None:
    """How much each agent gives up, by ply, and the positions that are missed most (after `qarena annotate`)."""
    from runners.mistakes import show_mistakes

    show_mistakes(archive, runs or [], positions, [path for path in (html, svg) if path])


@app.command()
def warm() -> None:
    """Compile every kernel now, so that the first game of any run starts at once."""
    from runners.warm import warm as compile_all

    for name, seconds in compile_all():
        typer.echo(f"{seconds:6.2f} s  {name}")


@app.command()
def bench(
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the games: a look, not a measurement.")] = False,
    solver: Annotated[bool, typer.Option("--solver", help="Measure the solver instead.")] = False,
) -> None:
    """Measure games a second, bytes a row and memory, each as a ratio within this run."""
    from runners.bench import bench
    from runners.bench_solver import bench_solver
    from runners.tables import bench_table

    figures = bench_solver(quick) if solver else bench(quick)
    _print(bench_table(figures))
    if json:
        from runners.tables import write_json

        write_json(figures, json)


def _print(table: Table) -> None:
    from runners.display import show

    show([table])


def _refuse_shadows() -> None:
    """Raise if a folder on the import path hides one of the project's packages.

    Their names are common: with ``PYTHONPATH=.`` a folder ``agents`` of the user's own would be taken for ours.
    """
    for name in ("quarto", "agents", "analytics", "conf", "runners"):
        found = importlib.util.find_spec(name)
        places = list(found.submodule_search_locations or []) if found else []
        if str(ROOT / name) not in places:
            raise RequestError(
                f"{places[0] if places else name} hides the project's own package '{name}': rename that folder, or "
                "take it off PYTHONPATH"
            )


def main() -> None:
    """The console script: exits 2 for a wrong request, 1 for a failure, 130 when interrupted."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without box-drawing characters gets question marks
    try:
        _refuse_shadows()
        app()
    except BrokenPipeError:  # whoever reads has seen enough
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise SystemExit(130) from None
    except Exception as error:  # noqa: BLE001  (the last resort: one line instead of a traceback)
        if debug:
            traceback.print_exc()
        known = isinstance(error, ArenaError)
        text = " ".join((str(error) if known else f"{type(error).__name__}: {error}").split())
        typer.echo(f"error: {text}{'' if known or debug else ' (unexpected; --debug shows where)'}", err=True)
        raise SystemExit(error.exit_code if isinstance(error, ArenaError) else 1) from None
