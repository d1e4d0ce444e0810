"""Timing: commands from outside, in processes of their own; functions in rounds; plain C and C++ to compare with.

Of rounds the best time counts, since noise only ever adds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from quarto.errors import FailureError

# A process begins with the peak memory of the one that forked it, and this one has used a gigabyte for benchmarks. So a
# small process in between starts the measured one, waits for it and reports seconds, peak and exit code.
_BETWEEN = """
import os, sys, time




import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path




from pathlib import Path
from typing import Any


started = time.perf_counter()
silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[silence])
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - started, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


class Usage(NamedTuple):
    """The resources that a process used."""

    seconds: float  # of wall time
    peak: int  # bytes of memory


def process(arguments: Sequence[str], folder: Path, code: int = 0) -> Usage:
    """Run ``qarena`` in ``folder``. Raises ``FailureError`` for another exit code than ``code``."""
    return python(["-c", "from runners.cli.main import main; main()", *arguments], folder, code)


def python(arguments: Sequence[str], folder: Path, expected: int = 0) -> Usage:
    """Run this Python in ``folder``. Raises ``FailureError`` for another exit code than ``expected``."""
    between = [sys.executable, "-S", "-c", _BETWEEN, sys.executable, *arguments]
    ended = subprocess.run(between, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603  (our own command)
    seconds, peak, code = ended.stdout.split()
    if int(code) != expected:
        raise FailureError(f"'{' '.join(arguments[2:])}' failed with exit code {code}: {ended.stderr.strip()}")
    return Usage(float(seconds), int(peak) * (1 if sys.platform == "darwin" else 1024))  # the unit of ru_maxrss differs


def best(measure: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of some rounds."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        measure()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def scaling(what: str, count: int, seconds_on: Callable[[int], float], rounds: int) -> dict[str, float]:
    """The speed on one thread and on two, which take turns; ``seconds_on`` so many threads it takes for ``count``."""
    one, two = map(min, zip(*((seconds_on(1), seconds_on(2)) for _ in range(rounds)), strict=True))
    return {
        f"one_thread_{what}_per_second": count / one,
        f"two_threads_{what}_per_second": count / two,
        "speedup": one / two,
    }


Yardstick = Callable[[int, int], float]  # seconds by games and threads

# By the ending of a source: the commands that may compile it, and the flags that it needs.
COMPILERS = {".c": (("cc",), "-pthread"), ".cpp": (("c++", "g++"), "-std=c++17")}


def compiled(source: str, folder: Path) -> Path | None:
    """A program beside this file, compiled into ``folder``; None where there is no compiler."""
    commands, flag = COMPILERS[Path(source).suffix]
    compiler = next(filter(None, map(shutil.which, commands)), None)
    if compiler is None:
        return None
    program = folder / Path(source).stem
    with as_file(files("runners.speed") / source) as path:
        command = [compiler, flag, "-O3", "-march=native", "-o", str(program), str(path)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  (our own program)
    return program


def yardstick(folder: Path) -> Yardstick | None:
    """A function that runs the C program, compiled into ``folder``; None without ``cc``."""
    program = compiled("yardstick.c", folder)
    if program is None:
        return None

    def seconds(games: int, threads: int) -> float:
        command = [str(program), str(games), str(threads)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])  # noqa: S603

    return seconds


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

    The commands take turns, so that a disturbance of the machine disturbs all of them. From the second round on the
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
