"""The plain C program that figures are compared with."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

Yardstick = Callable[[int, int], float]  # seconds by games and threads


@contextmanager
def yardstick(folder: Path) -> Iterator[Yardstick | None]:
    """Compile the C program beside this file into ``folder`` and yield a function that runs it; None without ``cc``."""
    compiler = shutil.which("cc")
    if compiler is None:
        yield None
        return
    program = folder / "yardstick"
    with as_file(files("runners.bench") / "yardstick.c") as source:
        flags = ["-O3", "-march=native", "-pthread", "-o", str(program), str(source)]
        subprocess.run([compiler, *flags], check=True, capture_output=True)  # noqa: S603  (our own program)

    def seconds(games: int, threads: int) -> float:
        command = [str(program), str(games), str(threads)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])  # noqa: S603

    yield seconds
