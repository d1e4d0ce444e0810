"""The command line: the commands by panel, and the messages of their errors. Nothing heavy is imported at the start."""

from __future__ import annotations

import functools
import gc
import io
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from quarto.errors import ArenaError, FailureError, RequestError, describe_nearest_name
from quarto.sources import compilation_progress
from runners.cli import archive, exact_play, games, league, policies
from runners.cli.options import DEBUG_OPTION, MARKUP, list_typed_words
from runners.cli.system_errors import explain_system_error, flush_standard_output, open_closed_streams, print_error
from runners.hosting.interruption import exit_code, exit_on_interrupt, is_stop_requested

# Number of new objects after which Python collects garbage. Imports create millions of objects that stay: with Python's
# own threshold of a few hundred, collecting took a sixth of the time of a short command.
GARBAGE_THRESHOLD = 100_000
COMMAND_SYNONYMS = {  # words that other programs use, by the command that does it here
    "agents": "bots engines players",
    "archive export": "export",
    "archive import": "import",
    "archive ls": "list ls runs",
    "archive verify": "check verify",
    "bench": "perf speed",
    "crosstable": "results scores standings",
    "mistakes": "blunders errors",
    "play": "human",
    "rate": "bayeselo elo leaderboard ordo rank ranking ratings strength",
    "run": "battle gauntlet match simulate tournament versus vs",
    "serve": "browse gui server ui web",
    "solve": "analyse analysis analyze eval evaluate",
    "sql": "query select",
    "train": "learn",
}


def _suggest_command(name: str, commands: Iterable[str]) -> str:
    """Return ``"did you mean 'x'? "`` with the command of which ``name`` is a synonym, or whose name is most similar.

    The text is empty if no command is similar.
    """
    meant = next((command for command, words in COMMAND_SYNONYMS.items() if name.lower() in words.split()), None)
    return describe_nearest_name(name, commands, 0.6) if meant is None else describe_nearest_name(meant, [meant])


class InterruptibleCommandGroup(TyperGroup):
    """The group of all commands, which lists them in the order of the help's panels.

    The group prints a line on Ctrl-C, because Typer would not.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help's panels."""
        return sorted(super().list_commands(ctx), key=[*map(_format_command_name, chain(*PANELS.values()))].index)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of a command, the command, and the words after it. Raises ``RequestError`` without one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            hint = _suggest_command(name, self.commands)
            raise RequestError(f"No such command {name!r}{hint and f': {hint}'.rstrip()} (see 'qarena --help')")
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **extra: Any) -> typer.Context:
        """Parse the command line into the context of a command. Raises ``typer.Exit`` on Ctrl-C."""
        with _exit_on_interrupt():
            return super().make_context(*arguments, **extra)  # type: ignore[return-value]  # Typer's own context

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Carry out the command of a context and return what the command returns. Raises ``typer.Exit`` on Ctrl-C."""
        with _exit_on_interrupt():
            return super().invoke(ctx)


@contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Print a line and raise ``typer.Exit`` if ``KeyboardInterrupt`` is raised inside the context."""
    try:
        yield
    except KeyboardInterrupt:
        print_error("interrupted")
        raise typer.Exit(exit_code()) from None


class SqlCommandAcceptingLeadingComment(TyperCommand):
    """The command ``qarena sql``, whose question may begin like an option, because SQL comments begin with ``--``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command into the parameters of a context, and return the words that are left.

        A word that begins with a dash is taken as the question if it has a space before its first ``=``. This rule does
        not apply if ``--`` is among the words.
        """
        questions = [] if "--" in args else [word for word in args if _is_question_with_leading_dash(word)]
        options = [word for word in args if word not in questions]
        return super().parse_args(ctx, [*options, "--", *questions] if questions else args)


def _is_question_with_leading_dash(word: str) -> bool:
    """Return whether a word begins with a dash but is a question, not an option.

    A question has a space before its first ``=``, as in ``-- comment``; an option has none.
    """
    return word.startswith("-") and len(word.partition("=")[0].split(maxsplit=1)) > 1


app = typer.Typer(
    name="qarena",
    cls=InterruptibleCommandGroup,
    help="Experiments with the board game Quarto: play, log every ply, ask in SQL.",
    epilog="--debug anywhere shows the traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
)
# The commands by panel of the help, in the order of their use; commands for developers are last.
PANELS: Mapping[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Play": (
        games.run,
        games.sweep,
        games.sprt,
        games.play,
        games.serve,
        games.engine,
        league.league_group,
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
            app.command(
                rich_help_panel=panel, cls=SqlCommandAcceptingLeadingComment if command is archive.sql else TyperCommand
            )(command)


def _format_command_name(function_or_group: Any) -> str:
    """Return the name that users type for ``function_or_group``, a command's function or a group of commands."""
    return str(
        function_or_group.info.name
        if isinstance(function_or_group, typer.Typer)
        else function_or_group.__name__.replace("_", "-")
    )


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib import metadata

        typer.echo(f"qarena {metadata.version('quarto-arena')}")
        raise typer.Exit


@app.callback()
def declare_global_options(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Declare the options of the program itself.

    Typer calls this function before any command.
    """


def _check_current_folder() -> None:
    """Raise ``RequestError`` if the current folder was deleted, because no path could be relative to it."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RequestError("the current folder was deleted or moved: go to one that exists, cd ~") from None


class CompilingNotice:
    """A note on standard error that kernels are being compiled, repeated so that a command does not look hung."""

    SECONDS = 10.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None  # time of the last line, in seconds

    def __call__(self) -> None:
        """Print the note at the first call; later, print the number of compiled kernels at most once in ten seconds."""
        from analytics.store.texts import format_count_with_noun

        now = self._clock()
        if self._last is None:
            self.print_on_standard_error(
                "Compiling the kernels that this command needs, which may take a minute. "
                "Later commands find them ready."
            )
        elif now - self._last < self.SECONDS:
            return
        else:
            self.print_on_standard_error(f"… {format_count_with_noun(compilation_progress.compiled, 'kernel')} so far")
        self._last = now

    def print_total(self) -> None:
        """Print how many kernels were compiled and how long that took, if a note was printed before."""
        from analytics.store.texts import format_count_with_noun

        if self._last is not None:
            count = format_count_with_noun(compilation_progress.compiled, "kernel")
            self.print_on_standard_error(
                f"Compiled {count} in {compilation_progress.seconds:.1f} s. Speeds leave this time out."
            )

    def print_on_standard_error(self, text: str) -> None:
        """Print one line on standard error."""
        typer.echo(text, err=True)


def main() -> None:
    """Run the console script.

    The exit code is 2 for a wrong request and 1 for a failure. After an interruption, it is 128 plus the number of the
    signal.
    """
    open_closed_streams()
    try:
        with exit_on_interrupt():
            _run_and_explain_errors()
    finally:
        if "duckdb" not in sys.modules:  # DuckDB complains about objects that are never freed
            gc.freeze()  # a last collection of everything imported takes a quarter of a short command


def _run_and_explain_errors() -> None:
    gc.set_threshold(GARBAGE_THRESHOLD)
    debug = DEBUG_OPTION in sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without box-drawing characters gets question marks
    try:
        _check_current_folder()
        notice = compilation_progress.announce = CompilingNotice()
        try:
            _run_command_and_exit()
        finally:
            notice.print_total()
    except BrokenPipeError:  # the reader has closed the pipe early (| head)
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        print_error("interrupted")
        raise SystemExit(exit_code()) from None
    except SystemExit as exit_request:
        if isinstance(exit_request.__context__, BrokenPipeError):  # Typer handled it first, and exits with 1
            raise SystemExit(0) from None
        raise
    except BaseException as error:  # noqa: BLE001  (the last resort: one line instead of a traceback)
        from analytics.store.files.backend import hide_endpoint_credentials

        if debug:
            typer.echo(hide_endpoint_credentials(traceback.format_exc()), err=True, nl=False)
        # A library may have turned the KeyboardInterrupt into an error of its own.
        if is_stop_requested() and not isinstance(error, FailureError):
            print_error("interrupted")
            raise SystemExit(exit_code()) from None
        print_error(f"error: {hide_endpoint_credentials(_format_error_line(error, debug))}")
        raise SystemExit(error.exit_code if isinstance(error, ArenaError) else 1) from None


def _run_command_and_exit() -> None:
    """Carry out the command that was typed, and raise ``SystemExit`` with its exit code.

    Raises ``RequestError`` for options and arguments that the command does not take.
    """
    try:
        typed = list_typed_words()
        code = _build_app_with_command_or_all(typed[0] if typed else "")(
            typed, prog_name="qarena", standalone_mode=False
        )
    except typer.TyperException as error:
        _drop_options_similar_to_setting(error)
        message, context = error.format_message(), getattr(error, "ctx", None)
        if not message:  # the words name a group without a command, and its help was printed
            raise SystemExit(RequestError.exit_code) from None
        raise RequestError(
            message.rstrip(".") + (_describe_usage_remedy(error, context, message) if context else "")
        ) from None
    flush_standard_output()
    raise SystemExit(code if isinstance(code, int) else 0)


def _drop_options_similar_to_setting(error: Any) -> None:
    """Drop the proposals from the error about an unknown option that is named like a setting.

    For ``--games=7``, Click would propose the option ``--name``.
    """
    name = getattr(error, "option_name", "").lstrip("-")
    if getattr(error, "possibilities", None) and name.isidentifier():
        from dataclasses import fields

        from runners.config.schemas import SCHEMAS  # only for a wrong option

        settings = {field.name for schema in SCHEMAS.values() for field in fields(schema)}
        if name in settings:
            error.possibilities = None


def _describe_usage_remedy(error: Any, context: typer.Context, message: str) -> str:
    """Return the end of the message about a wrong option or argument: what to write instead, or where to find help.

    ``error`` is Click's error, ``context`` the context of the command, and ``message`` the message so far.
    """
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
    if unknown in ("--name", "--note") and path.endswith(" train"):
        return ": 'qarena serve' names the run of a training on its page"
    if unknown and "arguments" in options and not error.possibilities:
        return f": settings have no dashes, {unknown.lstrip('-')}=VALUE"
    return f" (see '{path} --help')"


@functools.cache
def _build_app_with_command_or_all(command_name: str) -> Any:
    """Build a Click group that has only the command with this name, or all commands if none has it.

    Only one command is built, because each takes a millisecond to build. The groups are cached for programs that run
    many commands in one process, such as the tests.
    """
    single_command_app = copy(app)
    single_command_app.registered_commands = [
        info for info in app.registered_commands if _format_command_name(info.callback) == command_name
    ]
    single_command_app.registered_groups = [
        info for info in app.registered_groups if _format_command_name(info.typer_instance) == command_name
    ]
    return _hide_metavars_and_expand_homes(
        typer.main.get_command(
            single_command_app
            if single_command_app.registered_commands or single_command_app.registered_groups
            else app
        )
    )


def _hide_metavars_and_expand_homes(command: Any) -> Any:
    """Prepare the options of a Click command and of its subcommands, and return the command.

    In the help, flags then show no type, because they take no value. In arguments and options that are paths, ``~`` is
    expanded.
    """
    for option in command.get_params(typer.Context(command)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
        option.callback = option.callback or _expand_homes
    for inner in getattr(command, "commands", {}).values():
        _hide_metavars_and_expand_homes(inner)
    return command


def _expand_homes(_context: Any, _parameter: Any, value: Any) -> Any:
    """Return the value of an option or argument, with ``~`` expanded if the value is a path or a list of paths.

    The signature is that of a Click callback.
    """
    from analytics.store.files.backend import expand_home_if_known

    if isinstance(value, list | tuple):
        return type(value)(_expand_homes(_context, _parameter, item) for item in value)
    return expand_home_if_known(value) if isinstance(value, Path) else value


MAX_ERROR_CHARACTERS = 4000  # of an error's message


def _format_error_line(error: BaseException, is_traceback_printed: bool) -> str:
    """Format an error that ends a command as one line.

    The line for an unexpected error names the class of the error and, unless ``is_traceback_printed`` is set, the
    option ``--debug``.
    """
    from analytics.store.texts import to_line

    if system_message := explain_system_error(error):
        return to_line(system_message, MAX_ERROR_CHARACTERS)
    if isinstance(error, ArenaError):
        return to_line(error.for_command_line, MAX_ERROR_CHARACTERS)
    text = to_line(f"{type(error).__name__}: {error}", MAX_ERROR_CHARACTERS)
    return text if is_traceback_printed else f"{text} (unexpected; --debug shows where)"
