"""The plain C and C++ programs that figures are compared with."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

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
