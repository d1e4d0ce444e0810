"""Options that several commands have, and their completion in the shell."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from analytics import DEFAULT_ARCHIVE
from analytics.store.files.backend import parse_location, parse_size
from runners.arena.executors.base import MEBIBYTE, available_cores
from runners.terminal.files import TABLE_FORMATS, TableOutput, build_table_output, check_output_file

ARCHIVE = DEFAULT_ARCHIVE
DEBUG_OPTION = "--debug"  # anywhere in a command: show the traceback of an error
MARKUP: Any = "markdown"  # the markup of help texts
PROJECT_ROOT = Path(__file__).resolve().parents[2]  # the project's folder, or the folder of its installation


def create_command_group(name: str, help: str, **settings: Any) -> typer.Typer:  # noqa: A002
    """Create a group of commands with a name and a help text.

    ``settings`` are arguments of ``typer.Typer``. Without them, the group prints its help if no command follows.
    """
    return typer.Typer(name=name, help=help, rich_markup_mode=MARKUP, **settings or {"no_args_is_help": True})


def list_typed_words() -> list[str]:
    """Return the words after the name of the program, without ``--debug``, which only ``main`` reads."""
    return [word for word in sys.argv[1:] if word != DEBUG_OPTION]


def format_command_line_without_program() -> str:
    """Return the typed arguments as one line, quoted for the shell, without the name of the program."""
    return shlex.join(list_typed_words())


def select_by_prefix(incomplete: str, names: Sequence[str]) -> list[str]:
    """Return the names that begin with ``incomplete``, the part of a word that the user has typed."""
    return [name for name in names if name.startswith(incomplete)]


def list_group_options(group: str, incomplete: str = "") -> list[str]:
    """List the project's own options of a configuration group, such as the agents of the group ``agent``.

    Only names that begin with ``incomplete`` are returned.
    """
    return select_by_prefix(incomplete, sorted(path.stem for path in (PROJECT_ROOT / "conf" / group).glob("*.yaml")))


def build_group_completion(group: str) -> Callable[[str], list[str]]:
    """Return a function that completes a word to the options of a configuration group.

    The function takes the part of the word that the user has typed, and returns the options that begin with it.
    """
    return lambda incomplete: list_group_options(group, incomplete)


def agent_argument(help: str) -> Any:  # noqa: A002
    """Return the declaration of an argument that names an agent, with this help text and shell completion."""
    return Argument(help=help, autocompletion=build_group_completion("agent"))


def rules_option(help: str) -> Any:  # noqa: A002
    """Return the declaration of the option ``--rules``, which names rules, with this help text and shell completion."""
    return Option("--rules", help=help, autocompletion=build_group_completion("rules"))


def seed_option(help: str, bits: int = 63) -> Any:  # noqa: A002
    """Return the declaration of the option ``--seed``, a random seed of at most ``bits`` bits, with this help text."""
    return Option("--seed", min=0, max=(1 << bits) - 1, help=help)


Archive = Annotated[
    PurePath,
    Option(
        "--archive",
        metavar="DIR",
        parser=parse_location,
        help="The archive's folder or URL (s3://BUCKET/PREFIX); QARENA_ARCHIVE sets another default.",
        show_default=True,
    ),
]
Where = Annotated[
    str | None,
    Option("--where", metavar="CONDITION", help="Only games that meet this condition in SQL on the view games."),
]
Runs = Annotated[list[str] | None, Option("--run", metavar="RUN", help="Only games of this run; may be repeated.")]
AgentLabel = Annotated[
    str | None, Option("--agent", metavar="AGENT", help="Only decisions of the agent with this label.")
]
Positions = Annotated[
    Path | None,
    Option("--positions", metavar="FILE", help="A set that 'policy positions' made. Default: the one that ships."),
]
DrawsPerPosition = Annotated[
    int, Option("--draws", min=1, max=1000, help="Turns in each position, each with randomness of its own.")
]
JsonFile = Annotated[
    Path | None, Option("--json", metavar="FILE", help="Also write JSON to this file; - prints it instead.")
]
TrustAgents = Annotated[
    bool, Option("--trust-agents", help="Allow agents and classes of others, which the archive or a page names.")
]
ConfigDir = Annotated[
    Path | None,
    Option("--config-dir", metavar="DIR", help="A folder of your own, with agents, rules, kinds or trainers."),
]
Threads = Annotated[
    int, Option("--threads", min=1, help="Default: all cores.", callback=lambda threads: threads or available_cores())
]
ALL_CORES: Any = None
Executor = Annotated[
    str,
    Option(
        "--executor",
        metavar="NAME",
        help="What does the work: threads, processes or ray (docs/scale.md).",
        autocompletion=build_group_completion("executor"),
    ),
]
EXECUTOR = "threads"
RayAddress = Annotated[
    str | None,
    Option(
        "--ray-address",
        metavar="ADDRESS",
        help="With --executor ray, the cluster: auto (of this machine), HOST or HOST:PORT, or local (one is started).",
    ),
]
FileSize = Annotated[int, Option("--size", metavar="SIZE", parser=parse_size, help="Of the files, at most.")]
SolverMemory = Annotated[
    float,
    Option(
        "--memory",
        metavar="SIZE",
        parser=lambda size: parse_size(size) / MEBIBYTE,
        help="Memory for the table of proven positions.",
    ),
]
MIB_128: Any = "128MiB"  # defaults are parsed like typed values
MIB_256: Any = "256MiB"

# How a table is printed, or written.
Format = Annotated[
    str | None,
    Option(
        "--format",
        metavar="FORMAT",
        help=f"{', '.join(TABLE_FORMATS[:-1])} or {TABLE_FORMATS[-1]}. Default: by the name of --output, else table.",
        autocompletion=lambda incomplete: select_by_prefix(incomplete, TABLE_FORMATS),
    ),
]
Output = Annotated[Path | None, Option("--output", metavar="FILE", help="A file to write instead of the terminal.")]
Force = Annotated[bool, Option("--force", help="Replace files that exist.")]
Wide = Annotated[bool, Option("--wide", help="Print all columns, also those that the terminal has no room for.")]
Table = TableOutput
Filters = dict[str, Any]  # keywords of a question: see ``analytics.library.GameFilters``


def check_output_files(force: bool, *files: Path | None) -> None:
    """Raise ``RequestError`` if one of the files may not or cannot be written.

    Commands call this function before long work begins. An existing file may be written only if ``force`` is true. None
    stands for a file that was not asked for.
    """
    for file in filter(None, files):
        check_output_file(file, force)


def add_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with options for how its table is printed or written, in place of its parameter ``table``.

    The options are checked before the command begins.
    """

    def run_command(
        form: Format = None, output: Output = None, force: Force = False, wide: Wide = False, **arguments: Any
    ) -> None:
        command(**arguments, table=build_table_output(form, output, force, wide))

    return _merge_parameters(command, run_command)


def add_game_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options that select games, in place of its parameter ``filters``."""

    def run_command(
        where: Where = None,
        run: Runs = None,
        rules: Annotated[str | None, rules_option("Only games under these rules.")] = None,
        agent: Annotated[
            str | None,
            Option("--agent", metavar="AGENT", help="Only games of the agent with this label; of decisions, its own."),
        ] = None,
        opponent: Annotated[
            str | None, Option("--opponent", metavar="AGENT", help="Only games against the agent with this label.")
        ] = None,
        trainings: Annotated[
            bool | None,
            Option(
                "--trainings/--no-trainings",
                help="Whether games of trainings count. Default: not for results and ratings. "
                "Those of runs that --run names always do.",
                show_default=False,
            ),
        ] = None,
        **arguments: Any,
    ) -> None:
        games = {"where": where, "run": run, "rules": rules, "agent": agent, "opponent": opponent}
        filters = games if trainings is None else {**games, "trainings": trainings}
        command(**arguments, filters={name: value for name, value in filters.items() if value not in (None, [])})

    return _merge_parameters(command, run_command)


def add_config_dir_option(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the option ``--config-dir``, which names a folder with more yamls and modules."""

    def run_command(config_dir: ConfigDir = None, **arguments: Any) -> None:
        from runners.config.yaml_options import use_config_dir

        with use_config_dir(config_dir):
            command(**arguments)

    return _merge_parameters(command, run_command)


def _merge_parameters(command: Callable[..., None], replacement: Callable[..., None]) -> Callable[..., None]:
    """Give ``replacement`` the name, the help and the parameters of ``command``, and return ``replacement``.

    The parameters of ``command`` come first, and those of ``replacement`` follow. Parameters of ``command`` that
    ``replacement`` fills itself, such as ``table``, are left out.
    """
    signature = inspect.signature(command, eval_str=True)
    command_parameters = [
        parameter for parameter in signature.parameters.values() if parameter.name not in FILLED_PARAMETERS
    ]
    added_parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(replacement, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = [*command_parameters, *added_parameters]
    update_wrapper(replacement, command)
    replacement.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    replacement.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del replacement.__wrapped__  # type: ignore[attr-defined]  # Typer would take its signature
    return replacement


FILLED_PARAMETERS = ("table", "filters", "launch")  # parameters of commands that the decorators here fill
Launch = Callable[..., None]  # lets Hydra carry out an application with the typed words, and ends the program
RunName = Annotated[str | None, Option("--name", help="Name of the run, for people; of at most 80 characters.")]
RunNote = Annotated[str | None, Option("--note", help="Note about the run, for people.")]
KeepGoing = Annotated[bool, Option("--keep-going", help="Play on although an agent forfeits all its games.")]


def add_hydra_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of all commands that use Hydra, in place of its parameter ``launch``.

    As ``launch``, the command receives a function that lets Hydra carry out an application and then ends the command.
    """

    def run_command(
        context: typer.Context,
        archive: Annotated[str | None, Option(metavar="DIR", help="Short for archive.root=DIR.")] = None,
        config_dir: Annotated[
            list[Path] | None,
            Option("--config-dir", "-cd", metavar="DIR", help="A folder of your own, with agents, rules or recipes."),
        ] = None,
        multirun: Annotated[
            bool, Option("--multirun", "-m", help="A sweep: once for each combination of values.")
        ] = False,
        cfg: Annotated[
            Literal["job", "hydra", "all"] | None,
            Option("--cfg", "-c", help="Print the settings, and do nothing else."),
        ] = None,
        help: Annotated[bool, Option("--help", "-h", help="Show this message and exit.")] = False,  # noqa: A002
        **arguments: Any,
    ) -> None:
        def launch_and_exit(
            application: Any,
            words: Sequence[str] | None,
            play_on_despite_forfeits: bool = False,
            name: str | None = None,
            note: str | None = None,
        ) -> None:
            """Let Hydra carry out an application with the typed words, and raise ``typer.Exit`` with its exit code."""
            from runners.config.arguments import parse_arguments
            from runners.config.execution import run_hydra_command
            from runners.terminal.console import format_shell_line

            typed = format_shell_line(list_typed_words())
            command_arguments = parse_arguments(
                words or [], archive, play_on_despite_forfeits, config_dir or [], typed, name, note
            )
            raise typer.Exit(run_hydra_command(application, context, command_arguments, multirun, cfg, help))

        command(**arguments, launch=launch_and_exit)

    return _merge_parameters(command, run_command)


def _build_overrides_argument(agents_metavar: str) -> Any:
    """Return the declaration of the argument that takes agents and Hydra's overrides, with shell completion.

    ``agents_metavar`` stands for the agents in the help; if it is "", the command takes no agents. A word is completed
    to the names of agents, and after ``group=`` to the options of that group.
    """

    def complete_word(incomplete: str) -> list[str]:
        key, equals, value = incomplete.partition("=")
        if equals:
            return [f"{key}={option}" for option in list_group_options(key.lstrip("+").split("@")[0], value)]
        return list_group_options("agent", incomplete) if agents_metavar else []

    return Argument(
        metavar=f"{agents_metavar}[KEY=VALUE]…", help="--help explains every key.", autocompletion=complete_word
    )


Players = Annotated[list[str] | None, _build_overrides_argument("[AGENT]… ")]
Overrides = Annotated[list[str] | None, _build_overrides_argument("")]
