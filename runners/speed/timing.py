"""Timing: commands from outside, in processes of their own; functions in rounds.

Of rounds the best time counts, since noise only ever adds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from quarto.errors import FailureError

# A process begins with the peak memory of the one that forked it, and this one has used a gigabyte for benchmarks. So a
# small process in between starts the measured one, waits for it and reports seconds, peak and exit code.
_BETWEEN = """
import os, sys, time
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
