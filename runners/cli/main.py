"""The command line: the commands by group, and what their errors become. Nothing heavy is imported at the start."""

from __future__ import annotations

import functools
import gc
import io
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from quarto.errors import ArenaError, FailureError, RequestError
from quarto.sources import compilation_progress
from runners.cli import archive, exact_play, games, policies
from runners.cli.options import MARKUP
from runners.cli.system_errors import explain_system_error, flush_output, open_closed_streams, print_error
from runners.hosting.interruption import exit_code, exit_on_interrupt, is_stop_requested

# Objects made before garbage is looked for. Imports make millions that stay: with Python's own threshold of some
# hundreds, looking through them took a sixth of the time of a short command.
GARBAGE_THRESHOLD = 100_000


class CommandGroup(TyperGroup):
    """All commands, in the order of the help. At Ctrl-C, Typer alone would end without a word."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, panel by panel."""
        return sorted(super().list_commands(ctx), key=[*map(_find_command_name, chain(*PANELS.values()))].index)

    def make_context(self, *arguments: Any, **extra: Any) -> typer.Context:
        """Parse the command line. Raises ``typer.Exit`` at Ctrl-C."""
        with _exit_on_interrupt():
            return super().make_context(*arguments, **extra)  # type: ignore[return-value]  # Typer's own context

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Carry out a command. Raises ``typer.Exit`` at Ctrl-C."""
        with _exit_on_interrupt():
            return super().invoke(ctx)


@contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Inside the context a ``KeyboardInterrupt`` becomes a line and ``typer.Exit``."""
    try:
        yield
    except KeyboardInterrupt:
        print_error("interrupted")
        raise typer.Exit(exit_code()) from None


class SqlCommand(TyperCommand):
    """``qarena sql``, whose question may begin with a comment, ``-- …``: names of options have no spaces in them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command; those that are no options for all their dashes are questions."""
        questions = [] if "--" in args else [word for word in args if _is_question(word)]
        options = [word for word in args if word not in questions]
        return super().parse_args(ctx, [*options, "--", *questions] if questions else args)


def _is_question(word: str) -> bool:
    """Whether a word begins with dashes and a space, or has a space before its first ``=``."""
    return word.startswith("-") and len(word.partition("=")[0].split(maxsplit=1)) > 1


app = typer.Typer(
    name="qarena",
    cls=CommandGroup,
    help="Experiments with the board game Quarto: play, log every ply, ask in SQL.",
    epilog="--debug anywhere shows the traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
)
# By panel of the help, in the order of their use. What only developers need stands last.
PANELS: Mapping[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Play": (
        games.run,
        games.sweep,
        games.sprt,
        games.play,
        games.serve,
        games.engine,
        games.agents_group,
        games.reproduce,
    ),
    "Ask": (
        archive.sql,
        archive.crosstable,
        archive.rate,
        archive.compare,
        archive.openings,
        archive.first_plies,
        archive.lengths,
        archive.learning_curve,
        archive.evaluations,
        archive.show,
        archive.report,
    ),
    "Learn": (policies.train, policies.policy_group, policies.benchmark_group),
    "Perfect play": (
        exact_play.solve,
        exact_play.annotate,
        exact_play.mistakes,
        exact_play.puzzles_group,
        exact_play.tablebase_group,
    ),
    "Archive": (archive.archive_group,),
    "Maintain": (exact_play.bench, exact_play.warm, exact_play.perft),
}
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel, cls=SqlCommand if command is archive.sql else TyperCommand)(command)


def _find_command_name(command: Any) -> str:
    """The name of a command, given its function, or of a group of commands."""
    return str(command.info.name if isinstance(command, typer.Typer) else command.__name__.replace("_", "-"))


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"qarena {metadata.version('quarto-arena')}")
        raise typer.Exit


@app.callback()
def declare_global_options(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Experiments with the board game Quarto: play, log every ply, ask in SQL."""


def _check_current_folder() -> None:
    """Raise if the current folder was deleted: no path could be relative to it."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RequestError("the current folder was deleted or moved: go to one that exists, cd ~") from None


class CompilingNotice:
    """Prints on standard error that kernels are compiled, again every ten seconds: a command must not look hung."""

    SECONDS = 10.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None  # when a line was printed

    def __call__(self) -> None:
        """Called before each function is compiled."""
        from analytics.questions.columns import format_count_with_noun

        now = self._clock()
        if self._last is None:
            self.print_note(
                "Compiling the kernels that this command needs, which may take a minute. "
                "Later commands find them ready."
            )
        elif now - self._last < self.SECONDS:
            return
        else:
            self.print_note(f"… {format_count_with_noun(compilation_progress.compiled, 'kernel')} so far")
        self._last = now

    def print_total(self) -> None:
        """Say how long it took, if anything was compiled."""
        from analytics.questions.columns import format_count_with_noun

        if self._last is not None:
            count = format_count_with_noun(compilation_progress.compiled, "kernel")
            self.print_note(f"Compiled {count} in {compilation_progress.seconds:.1f} s. Speeds leave this time out.")

    def print_note(self, text: str) -> None:
        """Print on standard error."""
        typer.echo(text, err=True)


def main() -> None:
    """The command line: exits 2 for a wrong request, 1 for a failure, 130 when interrupted."""
    open_closed_streams()
    try:
        with exit_on_interrupt():
            _run_and_explain_errors()
    finally:
        if "duckdb" not in sys.modules:  # which complains of what is left
            gc.freeze()  # looking for garbage in all that was imported takes a quarter of a short run


def _run_and_explain_errors() -> None:
    gc.set_threshold(GARBAGE_THRESHOLD)
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without box-drawing characters gets question marks
    try:
        _check_current_folder()
        notice = compilation_progress.announce = CompilingNotice()
        try:
            _run_command()
        finally:
            notice.print_total()
    except BrokenPipeError:  # the reader has closed the pipe early (| head)
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        print_error("interrupted")
        raise SystemExit(exit_code()) from None
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # Typer has met it first, and ends with 1
            raise SystemExit(0) from None
        raise
    except BaseException as error:  # noqa: BLE001  (the last resort: one line instead of a traceback)
        from analytics.store.files.backend import hide_credentials

        if debug:
            typer.echo(hide_credentials(traceback.format_exc()), err=True, nl=False)
        if is_stop_requested() and not isinstance(
            error, FailureError
        ):  # into which a library turned a KeyboardInterrupt
            print_error("interrupted")
            raise SystemExit(exit_code()) from None
        print_error(f"error: {hide_credentials(_format_error(error, debug))}")
        raise SystemExit(error.exit_code if isinstance(error, ArenaError) else 1) from None


def _run_command() -> None:
    """Carry out the typed command. Raises ``RequestError`` for options and arguments that it does not take."""
    try:
        code = _build_command(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="qarena", standalone_mode=False)
    except typer.TyperException as error:
        message, context = error.format_message(), getattr(error, "ctx", None)
        if not message:  # a group without a command: its help is printed
            raise SystemExit(RequestError.exit_code) from None
        raise RequestError(
            message.rstrip(".") + (_describe_usage_remedy(error, context, message) if context else "")
        ) from None
    flush_output()
    raise SystemExit(code if isinstance(code, int) else 0)


def _describe_usage_remedy(error: Any, context: typer.Context, message: str) -> str:
    """What to write in place of an option or an argument that the command does not take."""
    path, options = context.command_path, {option for param in context.command.params for option in param.opts}
    unknown, extra = getattr(error, "option_name", ""), "extra argument" in message
    if extra and path.endswith(" sql"):
        return ': write the question in quotes, qarena sql "SELECT …"'
    if extra and path.endswith("agents check"):
        return ": an agent and its parameters are one word, qarena agents check 'NAME(key=value,key=value)'"
    if extra and "--run" in options:
        return f": one run alone is {path} --run RUN"
    if unknown == "--run" and {"run", "runs"} & options:
        return f": the run itself is what this command takes, {path} RUN"
    if unknown and "arguments" in options and not error.possibilities:
        return f": settings have no dashes, {unknown.lstrip('-')}=VALUE"
    return f" (see '{path} --help')"


@functools.cache
def _build_command(command_name: str) -> Any:
    """The typed command as Click has it, or all of them if there is none of this name.

    Each takes a millisecond to make. What runs many in one process, as the tests do, need not make them anew.
    """
    one = copy(app)
    one.registered_commands = [
        each for each in app.registered_commands if _find_command_name(each.callback) == command_name
    ]
    one.registered_groups = [
        each for each in app.registered_groups if _find_command_name(each.typer_instance) == command_name
    ]
    return _hide_metavars_and_expand_homes(
        typer.main.get_command(one if one.registered_commands or one.registered_groups else app)
    )


def _hide_metavars_and_expand_homes(command: Any) -> Any:
    """Let the help of a command show no type of a flag, which takes no value, and expand ``~`` in each of its paths."""
    for option in command.get_params(typer.Context(command)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
        option.callback = option.callback or _expand_homes
    for inner in getattr(command, "commands", {}).values():
        _hide_metavars_and_expand_homes(inner)
    return command


def _expand_homes(_context: Any, _parameter: Any, value: Any) -> Any:
    """The value of an option or argument, with home folders expanded if it is a path or a list of paths."""
    from analytics.store.files.backend import expand_home

    if isinstance(value, list | tuple):
        return type(value)(_expand_homes(_context, _parameter, item) for item in value)
    return expand_home(value) if isinstance(value, Path) else value


MAX_ERROR_CHARACTERS = 4000  # characters of an error


def _format_error(error: BaseException, debug: bool) -> str:
    """One line about an error that ends a command."""
    from analytics.store.texts import to_line

    if of_system := explain_system_error(error):
        return to_line(of_system, MAX_ERROR_CHARACTERS)
    known = isinstance(error, ArenaError)
    text = to_line(str(error) if known else f"{type(error).__name__}: {error}", MAX_ERROR_CHARACTERS)
    if known:
        return text
    return text if debug else f"{text} (unexpected; --debug shows where)"
