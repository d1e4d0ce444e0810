"""Seconds from typing a command to its end, on a warm kernel cache, and as ratios to importing three libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runners.speed.timing import process, python

IMPORTS = "import numba, polars, duckdb"
# By name: the command, the ratio that it is to stay below, and its exit code. Hydra alone takes as long as IMPORTS to
# describe all that can be chosen; what plays a game also waits for numba to set up its compiler.
COMMANDS = {
    "help": (["--help"], 0.5, 0),
    "run_help": (["run", "--help"], 1.6, 0),
    "wrong_request": (["run", "agent@a=nobody"], 1.2, 2),
    "run_of_two_games": (["run", "agent@a=random", "agent@b=random", "games=2", "archive.root=two"], 2.5, 0),
    "sql": (["sql", "--archive", "two", "SELECT count(*) AS games FROM games"], 2.0, 0),
}


def startup(folder: Path, rounds: int) -> dict[str, Any]:
    """Wall seconds of each command in a process of its own, the best of some rounds, and their ratio to ``IMPORTS``.

    The commands take turns, so that whatever disturbs the machine disturbs all of them; from the second round on the
    archive has the two games already. ``folder`` is where they run.
    """
    imports: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        imports.append(python(["-c", IMPORTS], folder).seconds)
        for name, (arguments, _most, code) in COMMANDS.items():
            seconds[name].append(process(arguments, folder, code).seconds)
    figures: dict[str, Any] = {"imports": {"seconds": min(imports)}}
    for name, (_arguments, most, _code) in COMMANDS.items():
        ratio = min(seconds[name]) / min(imports)
        figures[name] = {"seconds": min(seconds[name]), "ratio_to_imports": ratio, "target_ratio_to_imports": most}
    return figures
