"""Options that several commands have, and their completion in the shell."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer

from analytics import DEFAULT_ARCHIVE
from analytics.files.location import location_of
from quarto.errors import RequestError
from runners.terminal.files import TABLE_FORMATS

ARCHIVE = DEFAULT_ARCHIVE
MARKUP: Any = "markdown"  # of help: panels, and whole sentences
ROOT = Path(__file__).resolve().parents[2]  # of the project, or of where it is installed

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)B")

# For commands that Hydra carries out: options that Typer does not know are passed on to Hydra.
HYDRA_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def format_options(incomplete: str) -> list[str]:
    """Completions of the format of a table."""
    return [name for name in TABLE_FORMATS if name.startswith(incomplete)]


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar=f"[{'|'.join(TABLE_FORMATS)}]",
        help="Default: by the name of --output, else a table.",
        autocompletion=format_options,
    ),
]
WideOption = Annotated[
    bool, typer.Option("--wide", help="Print all columns, also those that the terminal has no room for.")
]
OutputOption = Annotated[Path | None, typer.Option("--output", help="A file to write instead of the terminal.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
ArchiveOption = Annotated[
    PurePath,
    typer.Option(
        "--archive",
        metavar="DIR",
        parser=location_of,
        help="The archive's folder or URL (s3://BUCKET/PREFIX); QARENA_ARCHIVE sets another default.",
        show_default=True,
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="CONDITION", help="Only games that meet this condition in SQL on the view games."),
]
RunsOption = Annotated[
    list[str] | None, typer.Option("--run", metavar="RUN", help="Only games of this run; may be repeated.")
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON to this file; - prints it instead.")
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust-agents", help="Allow agents and classes of others, which the archive or a page names."),
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Default: all cores.")]
ExecutorOption = Annotated[
    str,
    typer.Option(
        "--executor",
        help="Carries it out: threads, processes, or ray (docs/scale.md).",
        autocompletion=lambda incomplete: options_of("executor", incomplete),
    ),
]
RayAddressOption = Annotated[
    str | None, typer.Option("--ray-address", metavar="ADDRESS", help="With --executor ray: auto, HOST or HOST:PORT.")
]
EXECUTOR = "threads"


def bytes_of(size: str | int) -> int:
    """The bytes of a size such as ``128MiB``, ``1GiB`` or ``500MB``. Raises ``RequestError`` for other texts."""
    if isinstance(size, int):  # a default
        return size
    found = _SIZE.fullmatch(size)
    if not found or not float(found[1]):
        raise RequestError(f"{size!r} is not a size: write a number and a unit, such as 128MiB or 1GiB")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " "))


def mebibytes_of(size: str | float) -> float:
    """The same in MiB; a default is in MiB already."""
    return bytes_of(size) / (1 << 20) if isinstance(size, str) else size


SizeOption = Annotated[
    int,
    typer.Option("--size", metavar="SIZE", parser=bytes_of, show_default="128MiB", help="Of the files, at most."),
]
MemoryOption = Annotated[
    float,
    typer.Option(
        "--memory",
        metavar="SIZE",
        parser=mebibytes_of,
        show_default="128MiB",
        help="Memory for the table of proven positions.",
    ),
]


def options_of(group: str, incomplete: str = "") -> list[str]:
    """The names of the project's own options of a configuration group that begin with ``incomplete``."""
    names = sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))
    return [name for name in names if name.startswith(incomplete)]


def agent_options(incomplete: str) -> list[str]:
    """Completions of an agent's name."""
    return options_of("agent", incomplete)


def rules_options(incomplete: str) -> list[str]:
    """Completions of the name of rules."""
    return options_of("rules", incomplete)


def keys_of(config: str) -> list[str]:
    """The keys and groups of a yaml in ``conf``, in their order. Its text is read: completing must be quick."""
    found, parent = [], ""
    for line in (ROOT / "conf" / f"{config}.yaml").read_text(encoding="utf-8").splitlines():
        key = re.match(r"( *)(- )?([a-z][\w@]*):(.*)", line)
        if key and key[2]:
            found.append(key[3])
        elif key:
            parent = parent if key[1] else key[3]
            found.append(f"{parent}.{key[3]}" if key[1] else key[3])
    parents = {key.partition(".")[0] for key in found if "." in key}
    return [key for key in found if key not in ("defaults", "archive", *parents)]


def hydra_arguments(config: str) -> Any:
    """The argument for agents and Hydra's overrides, completed: an agent, a key, or an option after ``group=``."""

    def completed(incomplete: str) -> list[str]:
        key, equals, value = incomplete.partition("=")
        if equals:
            return [f"{key}={option}" for option in options_of(key.lstrip("+").split("@")[0], value)]
        keys = keys_of(config)
        agents = agent_options(incomplete) if "agents" in keys else []
        return [*agents, *(f"{each}=" for each in keys if f"{each}=".startswith(incomplete))]

    agents = "[AGENT]… " if config in ("run", "sprt") else ""
    return typer.Argument(metavar=f"{agents}[KEY=VALUE]…", help="--help explains every key.", autocompletion=completed)


RUN_ARGUMENTS = hydra_arguments("run")
Overrides = Annotated[list[str] | None, RUN_ARGUMENTS]
TrainingOverrides = Annotated[list[str] | None, hydra_arguments("train")]
SprtOverrides = Annotated[list[str] | None, hydra_arguments("sprt")]
PolicyBuildOverrides = Annotated[list[str] | None, hydra_arguments("policy_build")]
