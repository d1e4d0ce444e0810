"""Options that several commands have, and their completion in the shell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer

from analytics import DEFAULT_ARCHIVE
from analytics.files.backend import location_of
from analytics.files.sizes import bytes_of
from runners.executors.base import MEBIBYTE, available_cores
from runners.hydra_app.yaml_keys import keys_in
from runners.terminal.files import TABLE_FORMATS

ARCHIVE = DEFAULT_ARCHIVE
MARKUP: Any = "markdown"  # of help: panels, and whole sentences
ROOT = Path(__file__).resolve().parents[2]  # of the project, or of where it is installed

# For commands that Hydra carries out: options that Typer does not know are passed on to Hydra.
HYDRA_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def group(name: str, help: str) -> typer.Typer:  # noqa: A002
    """A group of commands."""
    return typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=MARKUP)


def typed() -> str:
    """The command as it was typed, without the name of the program."""
    return shlex.join(sys.argv[1:])


def starting(incomplete: str, names: Sequence[str]) -> list[str]:
    """The names that begin with what is typed."""
    return [name for name in names if name.startswith(incomplete)]


Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar=f"[{'|'.join(TABLE_FORMATS)}]",
        help="Default: by the name of --output, else a table.",
        autocompletion=lambda incomplete: starting(incomplete, TABLE_FORMATS),
    ),
]
Positions = Annotated[
    Path | None, typer.Option("--positions", help="A set that 'policy positions' made. Default: the one that ships.")
]
Draws = Annotated[
    int, typer.Option("--draws", min=1, max=1000, help="Turns in each position, each with randomness of its own.")
]
Wide = Annotated[bool, typer.Option("--wide", help="Print all columns, also those that the terminal has no room for.")]
Output = Annotated[Path | None, typer.Option("--output", help="A file to write instead of the terminal.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Archive = Annotated[
    PurePath,
    typer.Option(
        "--archive",
        metavar="DIR",
        parser=location_of,
        help="The archive's folder or URL (s3://BUCKET/PREFIX); QARENA_ARCHIVE sets another default.",
        show_default=True,
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="CONDITION", help="Only games that meet this condition in SQL on the view games."),
]
Runs = Annotated[
    list[str] | None, typer.Option("--run", metavar="RUN", help="Only games of this run; may be repeated.")
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON to this file; - prints it instead.")
]
Trust = Annotated[
    bool,
    typer.Option("--trust-agents", help="Allow agents and classes of others, which the archive or a page names."),
]
ConfigDir = Annotated[
    Path | None, typer.Option("--config-dir", help="A folder of your own, with agents, rules, kinds or trainers.")
]
ALL_CORES: Any = None
Threads = Annotated[
    int,
    typer.Option("--threads", min=1, help="Default: all cores.", callback=lambda threads: threads or available_cores()),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor",
        help="Carries it out: threads, processes, or ray (docs/scale.md).",
        autocompletion=lambda incomplete: options_of("executor", incomplete),
    ),
]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", metavar="ADDRESS", help="With --executor ray: auto, HOST or HOST:PORT.")
]
EXECUTOR = "threads"


Size = Annotated[int, typer.Option("--size", metavar="SIZE", parser=bytes_of, help="Of the files, at most.")]
Memory = Annotated[
    float,
    typer.Option(
        "--memory",
        metavar="SIZE",
        parser=lambda size: bytes_of(size) / MEBIBYTE,
        help="Memory for the table of proven positions.",
    ),
]
MIB_128: Any = "128MiB"  # defaults are parsed as what is typed
MIB_256: Any = "256MiB"


def options_of(group: str, incomplete: str = "") -> list[str]:
    """The names of the project's own options of a configuration group that begin with ``incomplete``."""
    return starting(incomplete, sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml")))


def agent_options(incomplete: str) -> list[str]:
    """Completions of an agent's name."""
    return options_of("agent", incomplete)


def rules_options(incomplete: str) -> list[str]:
    """Completions of the name of rules."""
    return options_of("rules", incomplete)


def agent(help: str) -> Any:  # noqa: A002
    """An argument that names an agent."""
    return typer.Argument(help=help, autocompletion=agent_options)


def rules(help: str) -> Any:  # noqa: A002
    """An option that names rules."""
    return typer.Option("--rules", help=help, autocompletion=rules_options)


def seed(help: str, bits: int = 63) -> Any:  # noqa: A002
    """An option with the seed of something random."""
    return typer.Option("--seed", min=0, max=(1 << bits) - 1, help=help)


def keys_of(config: str) -> list[str]:
    """The keys and groups of a yaml in ``conf``, in their order."""
    text = (ROOT / "conf" / f"{config}.yaml").read_text(encoding="utf-8")
    return [key.name for key in keys_in(text) if key.default and key.name != "archive"]


def hydra_arguments(config: str) -> Any:
    """The argument for agents and Hydra's overrides, completed: an agent, a key, or an option after ``group=``."""

    def completed(incomplete: str) -> list[str]:
        key, equals, value = incomplete.partition("=")
        if equals:
            return [f"{key}={option}" for option in options_of(key.lstrip("+").split("@")[0], value)]
        keys = keys_of(config)
        agents = agent_options(incomplete) if "agents" in keys else []
        return [*agents, *starting(incomplete, [f"{key}=" for key in keys])]

    agents = "[AGENT]… " if config in ("run", "sprt") else ""
    return typer.Argument(metavar=f"{agents}[KEY=VALUE]…", help="--help explains every key.", autocompletion=completed)


RUN_ARGUMENTS = hydra_arguments("run")
Overrides = Annotated[list[str] | None, RUN_ARGUMENTS]
TrainingOverrides = Annotated[list[str] | None, hydra_arguments("train")]
SprtOverrides = Annotated[list[str] | None, hydra_arguments("sprt")]
PolicyBuildOverrides = Annotated[list[str] | None, hydra_arguments("policy_build")]
