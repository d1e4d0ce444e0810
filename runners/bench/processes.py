"""The command line in a process of its own, measured from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from quarto.errors import FailureError

MEBIBYTE = 1 << 20

# A process begins with the peak memory of the one that forked it, which has a gigabyte of benchmarks behind it: so a
# small one goes between, forks, waits and reports seconds, peak and exit code.
_BETWEEN = """
import os, sys, time
started = time.perf_counter()
silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[silence])
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - started, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


def process(arguments: Sequence[str], folder: Path) -> tuple[float, int]:
    """Run the command line in a process of its own; returns its wall seconds and peak memory in bytes."""
    command = [sys.executable, "-c", "from runners.cli.main import main; main()", *arguments]
    between = [sys.executable, "-S", "-c", _BETWEEN, *command]
    ended = subprocess.run(between, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603  (our own command)
    seconds, peak, code = ended.stdout.split()
    if code != "0":
        raise FailureError(f"'qarena {' '.join(arguments)}' failed with exit code {code}: {ended.stderr.strip()}")
    return float(seconds), int(peak) * (1 if sys.platform == "darwin" else 1024)  # the unit of ru_maxrss differs
