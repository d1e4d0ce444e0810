"""What the commands share: options of the same meaning, and what may be completed to what."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ARCHIVE = Path("data/archive")
ROOT = Path(__file__).resolve().parents[2]  # of the project, or of where it is installed

# Of commands that Hydra carries out: what is not an option of ours is its own.
HYDRA_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Default: by the name of --output, else a table.")
]
OutputOption = Annotated[Path | None, typer.Option("--output", help="A file to write instead of the terminal.")]
ArchiveOption = Annotated[Path, typer.Option("--archive", help="The archive's folder.", show_default=True)]


def options_of(group: str, incomplete: str = "") -> list[str]:
    """The project's own options of a configuration group that begin so."""
    names = sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))
    return [name for name in names if name.startswith(incomplete)]


def agent_options(incomplete: str) -> list[str]:
    """What the name of an agent may be completed to."""
    return options_of("agent", incomplete)


def rules_options(incomplete: str) -> list[str]:
    """What the name of rules may be completed to."""
    return options_of("rules", incomplete)


RUN_KEYS = (
    *("agent@a", "agent@b", "rules", "experiment", "games", "seed", "opening_plies", "threads", "agents", "schedule"),
    "archive.root",
)
TRAIN_KEYS = ("trainer", "rules", "policy.name", "trainer.games", "seed", "curve.block", "threads", "archive.root")
SPRT_KEYS = (
    *("agent@a", "agent@b", "rules", "elo0", "elo1", "alpha", "beta", "games", "seed", "opening_plies", "threads"),
    "archive.root",
)

POLICY_BUILD_KEYS = ("kind", "name", "where", "threads", "archive.root")


def overrides(incomplete: str) -> list[str]:
    """What an override may begin with or, after ``group=``, the options of the project's own groups."""
    return _completed(incomplete, ("agent", "rules", "experiment"), RUN_KEYS)


def training_overrides(incomplete: str) -> list[str]:
    """The same for a training."""
    return _completed(incomplete, ("trainer", "rules"), TRAIN_KEYS)


def sprt_overrides(incomplete: str) -> list[str]:
    """The same for a test of strength."""
    return _completed(incomplete, ("agent", "rules"), SPRT_KEYS)


def policy_build_overrides(incomplete: str) -> list[str]:
    """The same for a policy to be derived."""
    return _completed(incomplete, ("kind",), POLICY_BUILD_KEYS)


def _completed(incomplete: str, groups: Sequence[str], keys: Sequence[str]) -> list[str]:
    key, equals, value = incomplete.partition("=")
    group = key.lstrip("+").split("@")[0]
    if equals and group in groups:
        return [f"{key}={option}" for option in options_of(group, value)]
    return [f"{each}=" for each in keys if f"{each}=".startswith(incomplete)]


Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]…", help="Hydra's overrides and flags.", autocompletion=overrides),
]

TrainingOverrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]…", help="Hydra's overrides and flags.", autocompletion=training_overrides),
]

SprtOverrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]…", help="Hydra's overrides and flags.", autocompletion=sprt_overrides),
]

PolicyBuildOverrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]…", help="Hydra's overrides and flags.", autocompletion=policy_build_overrides),
]
