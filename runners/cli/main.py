"""The command line. Nothing heavy is imported before the command that needs it is known: `--help` answers at once."""

from __future__ import annotations

import importlib.util
import io
import shlex
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from quarto.errors import ArenaError, RequestError
from runners.cli import archive, bench, openings, perfect, policy, report, reproduce, strength, tablebase
from runners.cli.flags import flags_first
from runners.cli.options import (
    ARCHIVE,
    HYDRA_ARGUMENTS,
    ROOT,
    ArchiveOption,
    FormatOption,
    OutputOption,
    Overrides,
    TrainingOverrides,
    agent_options,
    rules_options,
)

if TYPE_CHECKING:
    from rich.table import Table


class Commands(TyperGroup):
    """All commands: what was interrupted says so, where it does not say more itself. Typer would say nothing."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Carry out a command. Raises ``typer.Exit`` at Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="qarena",
    cls=Commands,
    help="Quarto: agents meet by the million, every ply lands in a Parquet archive, questions are SQL.",
    epilog="--debug anywhere shows the traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(archive.app, name="archive")
app.add_typer(policy.app, name="policy")
app.add_typer(tablebase.app, name="tablebase")


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


@app.command(context_settings=HYDRA_ARGUMENTS, help="Train a player: learn from games, keep what was learned.")
def train(context: typer.Context, arguments: TrainingOverrides = None) -> None:
    """Train, or go on with a training."""
    _hydra("train", [*(arguments or []), *context.args])


def trains(arguments: Sequence[str]) -> bool:
    """Whether the experiment that is chosen is a training's: then it is one whichever command names it."""
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith("experiment=")]
    recipe = ROOT / "conf" / "experiment" / f"{Path(chosen[-1]).name}.yaml" if chosen else None
    return recipe is not None and recipe.exists() and "override /trainer:" in recipe.read_text(encoding="utf-8")


def _hydra(command: str, arguments: Sequence[str]) -> None:
    from runners.hydra_app.application import RUN, launch
    from runners.training.application import TRAIN

    flags, rest = flags_first(arguments)
    multirun = command == "sweep" or "--multirun" in flags or "-m" in flags
    flags = [flag for flag in flags if flag not in ("--multirun", "-m")]
    application = TRAIN if command == "train" or trains(rest) else RUN
    raise typer.Exit(launch(application, [*flags, *rest], [command, *arguments], multirun))


@app.command()
def sql(
    question: Annotated[
        str,
        typer.Argument(
            help="One SELECT over the views runs, games, plies, decisions, positions, sweeps, verdicts; - reads stdin."
        ),
    ],
    archive: ArchiveOption = ARCHIVE,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    memory: Annotated[
        str, typer.Option("--memory", help="What DuckDB may take before it spills to the disk: 1GiB, 70%.")
    ] = "70%",
) -> None:
    """Ask the archive a question in SQL (DuckDB's dialect, read-only)."""
    from runners.archive.index import ask
    from runners.terminal.tables import form_of, write

    form = form_of(format.value if format else None, output)  # before the question is asked
    frame = ask(archive, sys.stdin.read() if question == "-" else question, memory)
    write(frame, form, output)


@app.command()
def play(  # noqa: PLR0913, PLR0917  (each is an option of the command)
    agent: Annotated[
        str,
        typer.Argument(
            help="An agent, with parameters if you like: 'mcts(iterations=1000)'.", autocompletion=agent_options
        ),
    ],
    seat: Annotated[int, typer.Option(min=0, max=1, help="Yours: 0 gives the first piece, 1 places first.")] = 1,
    rules: Annotated[str, typer.Option(help="The rules to play by.", autocompletion=rules_options)] = "classic",
    seed: Annotated[int, typer.Option(min=0, max=(1 << 63) - 1, help="Of the agent's randomness.")] = 1,
    name: Annotated[str | None, typer.Option(help="The game is logged as human:NAME. Default: the login name.")] = None,
    archive: ArchiveOption = ARCHIVE,
    no_log: Annotated[bool, typer.Option("--no-log", help="Keep the game out of the archive.")] = False,
    config_dir: Annotated[
        Path | None, typer.Option("--config-dir", help="A folder with agents and rules of your own, as for run.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No pictures and colours, as over a pipe.")] = False,
) -> None:
    """Play against an agent at the terminal, or over a pipe."""
    from runners.play.start import Setting, start

    command = shlex.join(["qarena", *sys.argv[1:]])
    start(Setting(agent, rules, seat, seed, name, None if no_log else archive, archive, config_dir, plain, command))


@app.command()
def agents() -> None:
    """List the agents with their parameters."""
    from runners.hydra_app.agents_table import agents_table

    _print(agents_table())


@app.command()
def perft(
    plies: Annotated[int, typer.Argument(help="How deep to count.")],
    rules: Annotated[str, typer.Option("--rules", help="The rules to count under.")] = "classic",
) -> None:
    """Count live game prefixes after 0 to PLIES plies, exactly, up to symmetry."""
    from quarto.perft import perft as count
    from runners.arena.config import load_rules
    from runners.perfect.perft_table import perft_table

    _print(perft_table(rules, count(load_rules(rules), plies)))


@app.command()
def warm() -> None:
    """Compile every kernel now, so that the first game of any run starts at once."""
    from runners.bench.warm import warm as compile_all

    for name, seconds in compile_all():
        typer.echo(f"{seconds:6.2f} s  {name}")


for topic in (openings, strength, perfect, report, reproduce, bench):
    topic.register(app)


def _print(table: Table) -> None:
    from runners.terminal.console import show

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
