"""Timing of commands in processes of their own and of functions in rounds; programs in C and C++ for comparison.

The fastest round counts, because noise only adds time.
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
from runners.arena.executors.base import convert_peak_to_bytes

Figures = dict[str, Any]  # nested by name, as they are printed

# A process begins with the peak memory of the process that forked it, and this one has used a gigabyte for benchmarks.
# So a small process in between starts the measured one, waits for it, and reports its
# wall time, peak memory, processor time and exit code.
WRAPPER_PROGRAM = """
import os, sys, time

started = time.perf_counter()
silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[silence])
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - started
print(seconds, usage.ru_maxrss, usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status))
"""
QARENA_PROGRAM = "from runners.cli.main import main; main()"
# The commands that may compile a source, and the flag that it needs, by the ending of its name.
COMPILERS = {".c": (("cc",), "-pthread"), ".cpp": (("c++", "g++"), "-std=c++17")}


class ProcessUsage(NamedTuple):
    """The resources that a process used."""

    seconds: float  # wall time
    peak_bytes: int  # peak memory
    processor_seconds: float  # of all threads, in user and system mode


def measure_process(
    arguments: Sequence[str], folder: Path, expected_exit_code: int = 0, program: str = QARENA_PROGRAM
) -> ProcessUsage:
    """Run ``qarena`` or another program in ``folder`` and measure its time and memory.

    ``program`` is the program's source in Python, which receives ``arguments``. Raises ``FailureError`` if the exit
    code is not ``expected_exit_code``.
    """
    wrapper_command = [sys.executable, "-S", "-c", WRAPPER_PROGRAM, sys.executable, "-c", program, *arguments]
    completed = subprocess.run(wrapper_command, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603  (our own command)
    seconds, peak, processor_seconds, exit_code = completed.stdout.split()
    if int(exit_code) != expected_exit_code:
        raise FailureError(f"'{' '.join(arguments)}' failed with exit code {exit_code}: {completed.stderr.strip()}")
    return ProcessUsage(float(seconds), convert_peak_to_bytes(int(peak)), float(processor_seconds))


def time_fastest(measure: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the fastest of ``rounds`` calls of ``measure``."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        measure()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def compile_program(source: str, folder: Path) -> Path | None:
    """Compile the C or C++ source file ``source``, which is beside this module, and return the path of the program.

    The program is written to ``folder``. Returns None if there is no compiler.
    """
    commands, flag = COMPILERS[Path(source).suffix]
    compiler = next(filter(None, map(shutil.which, commands)), None)
    if compiler is None:
        return None
    program = folder / Path(source).stem
    with as_file(files("runners.bench") / source) as path:
        command = [compiler, flag, "-O3", "-march=native", "-o", str(program), str(path)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  (our own program)
    return program
