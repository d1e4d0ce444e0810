"""Shared parts of the tests of experiments: requests as the command line makes them, stored rows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hydra import compose, initialize_config_module
from polars.testing import assert_frame_equal

from analytics import open_archive
from runners.arena.execution import RunOutcome, execute_request
from runners.arena.request import RunRequest
from runners.config.requests import build_request
from runners.config.schemas import RunConfig, check_keys_and_values
from runners.hosting import interruption

QARENA = str(Path(sys.executable).with_name("qarena"))

# A player whose speed depends on the environment and whose moves do not.
SLEEPY = """
import os
import time

class Sleepy:
    pause = float(os.environ.get("PAUSE", "0"))

    def choose(self, position, rng):
        time.sleep(self.pause)
        return int(rng.choice(position.free)), int(rng.choice(position.available or [-1]))
"""


def draw_the_same_words(patch: pytest.MonkeyPatch) -> None:
    """Let different runs draw the words of one run, so that their games can be compared."""
    for module in ("arena.experiment", "learning.training.online"):
        patch.setattr(f"runners.{module}.run_id_to_stream_key", lambda _run_id: np.uint64(7))


def stop_the_second_run(patch: pytest.MonkeyPatch, archive: Path) -> None:
    """Interrupt the second run of an archive, a sweep's second job, as soon as it begins."""

    @contextmanager
    def interruptible() -> Iterator[threading.Event]:
        stop = threading.Event()
        if len(list(archive.glob("runs/*"))) == 1:
            stop.set()
        yield stop

    patch.setattr(interruption, "stop_on_signal_then_interrupt_then_exit", interruptible)


def build_shell_environment(**variables: str) -> dict[str, str]:
    """Return the environment of somebody who can type ``qarena``."""
    return os.environ | {"PATH": f"{Path(QARENA).parent}{os.pathsep}{os.environ['PATH']}"} | variables


def run_qarena(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``qarena …`` in ``folder``, in a process of its own, and return its result."""
    return subprocess.run(
        [QARENA, *arguments],
        cwd=folder,
        env=build_shell_environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,  # compiling everything for the first time takes a while
    )


def start_qarena(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start ``qarena …`` in ``folder``, in a process of its own."""
    return subprocess.Popen(
        [QARENA, *arguments],
        cwd=folder,
        env=build_shell_environment(**variables),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(process: subprocess.Popen[str], what: Callable[[], bool]) -> None:
    """Wait until something is so; fail if the process ends first."""
    deadline = time.monotonic() + 120  # seconds that nothing takes
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def parse_resuming_command(errors: str) -> list[str]:
    """Return the command that resumes, which an interrupted command prints; a note on compiling may follow."""
    (line,) = (line for line in errors.splitlines() if line.startswith("  "))
    return shlex.split(line)


@cache
def build_run_request(*overrides: str) -> RunRequest:
    """Build the request of ``qarena run`` with these overrides."""
    with initialize_config_module("conf", version_base="1.3"):
        composed = compose("run", overrides=list(overrides), return_hydra_config=True)
        check_keys_and_values(composed, RunConfig)
        return build_request(composed, composed.hydra.runtime.choices, composed.hydra.overrides.task)


def store_at(root: Path, run_request: RunRequest) -> RunRequest:
    """Return the same request for the archive at ``root``."""
    return replace(run_request, storage=replace(run_request.storage, root=root))


def play(root: Path, *overrides: str, stop: threading.Event | None = None) -> RunOutcome:
    """Carry out such a request."""
    return execute_request(store_at(root, build_run_request(*overrides)), "qarena run", stop or threading.Event())


def read_archive_rows(root: Path) -> dict[str, pl.DataFrame]:
    """Read everything in an archive, in an order that does not depend on how it got there."""
    with open_archive(root) as archive:
        games = archive.scan("games").cast({pl.Categorical: pl.String}).sort("run_id", "game_id").collect()
        plies = archive.scan("plies").sort("run_id", "game_id", "ply").collect()
    return {"games": games, "plies": plies}


def assert_same_rows(actual: Mapping[str, pl.DataFrame], expected: Mapping[str, pl.DataFrame]) -> None:
    for table in ("games", "plies"):
        assert_frame_equal(actual[table], expected[table])


class Watcher:
    """Hears of progress, and asks to stop once so many games were played."""

    def __init__(self, stop: threading.Event | None = None, enough: float = float("inf")) -> None:
        self.stop = stop or threading.Event()
        self.enough = enough
        self.started: list[int] = []
        self.games = 0

    def start(self, games: int) -> None:
        self.started.append(games)

    def report_turns(self, turns: int) -> None:
        """Do nothing."""

    def advance(self, games: int) -> None:
        self.games += games
        if self.games >= self.enough:
            self.stop.set()
