"""Options that several commands have, and their completion in the shell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer

from analytics import DEFAULT_ARCHIVE
from analytics.files.location import location_of
from runners.terminal.files import TABLE_FORMATS

ARCHIVE = DEFAULT_ARCHIVE
MARKUP: Any = "markdown"  # of help: panels, and whole sentences
ROOT = Path(__file__).resolve().parents[2]  # of the project, or of where it is installed

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
RunIds = Annotated[list[str] | None, typer.Argument(metavar="[RUN]…", help="Run ids. Default: all runs.")]
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
MegabytesOption = Annotated[float, typer.Option("--megabytes", help="Memory for the table of proven positions.")]


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


def hydra_arguments(groups: Sequence[str], keys: Sequence[str]) -> Any:
    """The argument for Hydra's overrides, completed: a key or, after ``group=``, an option of the group."""

    def completed(incomplete: str) -> list[str]:
        key, equals, value = incomplete.partition("=")
        group = key.lstrip("+").split("@")[0]
        if equals and group in groups:
            return [f"{key}={option}" for option in options_of(group, value)]
        return [f"{each}=" for each in keys if f"{each}=".startswith(incomplete)]

    return typer.Argument(metavar="[KEY=VALUE]…", help="Hydra's overrides and flags.", autocompletion=completed)


RUN_ARGUMENTS = hydra_arguments(
    ("agent", "rules", "experiment", "executor"),
    (
        *("agent@a", "agent@b", "rules", "experiment", "games", "seed", "opening_plies", "threads", "agents"),
        *("schedule", "archive", "executor", "ray.address"),
    ),
)
TRAIN_ARGUMENTS = hydra_arguments(
    ("trainer", "rules", "executor"),
    (
        *("trainer", "rules", "policy.name", "trainer.games", "seed", "curve.block", "threads", "archive"),
        *("executor", "ray.address"),
    ),
)
SPRT_ARGUMENTS = hydra_arguments(
    ("agent", "rules"),
    (
        *("agent@a", "agent@b", "rules", "elo0", "elo1", "alpha", "beta", "games", "seed", "opening_plies", "threads"),
        "archive",
    ),
)
POLICY_BUILD_ARGUMENTS = hydra_arguments(
    ("kind", "executor"), ("kind", "name", "where", "threads", "archive", "executor", "ray.address")
)

Overrides = Annotated[list[str] | None, RUN_ARGUMENTS]
TrainingOverrides = Annotated[list[str] | None, TRAIN_ARGUMENTS]
SprtOverrides = Annotated[list[str] | None, SPRT_ARGUMENTS]
PolicyBuildOverrides = Annotated[list[str] | None, POLICY_BUILD_ARGUMENTS]
