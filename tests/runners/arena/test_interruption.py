"""Interrupted runs and slow agents: finished games are stored, and the same command ends up with the same rows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from agents.random import Random
from analytics import open_archive
from analytics.store.archive import Archive
from analytics.verify.archive import verify
from quarto.errors import FailureError
from quarto.rules import CLASSIC
from quarto.views import PositionView
from runners.arena.engine import BatchEngine, Order
from runners.arena.playing import execute
from runners.executors import base
from runners.hosting import interruption
from runners.hosting.interruption import interruptible, unprinted_interrupts
from tests.runners.conftest import Qarena
from tests.runners.experiments import (
    SLEEPY,
    Watcher,
    assert_same_rows,
    request,
    resuming,
    rows,
    start,
    stored_at,
    wait_for,
)
from tests.runners.players import Dice, OneByOne

ARGUMENTS = (
    *("run", "--config-dir", "own folder", "agent@a=sleepy", "opening_plies=2", "games=100"),
    *("archive.root=games here", "archive.shard_games=10", "archive.shard_seconds=0.2", "threads=2"),
)
Rows = Mapping[str, pl.DataFrame]
DEADLINE = 60  # seconds that nothing here takes


def furnish(folder: Path) -> Path:
    """The player's module and yaml, where the command is typed; returns the module's folder."""
    (folder / "own folder/agent").mkdir(parents=True)
    (folder / "own folder/agent/sleepy.yaml").write_text("_target_: sleepy_player.Sleepy\n")
    (folder / "own folder/sleepy_player.py").write_text(SLEEPY)
    return folder / "own folder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is typed."""
    monkeypatch.syspath_prepend(furnish(tmp_path))
    return tmp_path


@pytest.fixture
def expected(folder: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """The rows of the command that nobody interrupts."""
    with monkeypatch.context() as elsewhere:
        furnish(folder / "uninterrupted")
        elsewhere.chdir(folder / "uninterrupted")
        assert qarena(*ARGUMENTS).code == 0
    found = rows(folder / "uninterrupted/games here")
    assert len(found["games"]) == 100
    return found


def start_slow(folder: Path, pause: float) -> subprocess.Popen[str]:
    """The command in a process of its own, slowed down."""
    return start(folder, *ARGUMENTS, PYTHONPATH=str(folder / "own folder"), PAUSE=str(pause))


def files(folder: Path) -> int:
    """The number of ranges that count, unless they were joined meanwhile."""
    return len(list(folder.glob("games here/games/*/*.parquet")))


def check_rows(folder: Path, expected: Rows) -> None:
    """The archive holds what it would hold without interruption."""
    assert_same_rows(rows(folder / "games here"), expected)
    assert verify(Archive.open(folder / "games here")).problems == []


def test_ctrl_c_keeps_what_is_in_flight_and_prints_the_command_that_resumes(
    folder: Path, qarena: Qarena, expected: Rows
) -> None:
    with start_slow(folder, pause=0.002) as process:
        wait_for(process, lambda: files(folder) >= 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "Ask the archive" not in out
    kept = re.search(r"holds ([\d,]+) games", out)
    assert kept is not None
    with open_archive(folder / "games here") as archive:
        assert archive.sql("SELECT status, games FROM runs").rows() == [("interrupted", int(kept[1]))]
    assert 4 <= int(kept[1]) < 100
    assert verify(Archive.open(folder / "games here")).problems == []

    program, *arguments = resuming(err)
    assert (program, *arguments) == ("qarena", *ARGUMENTS)
    done = qarena(*arguments)
    assert done.code == 0
    assert f"{100 - int(kept[1])} games in" in done.out
    check_rows(folder, expected)


@pytest.mark.slow
def test_ctrl_c_held_down_until_the_end_does_not_change_the_exit_code(folder: Path, qarena: Qarena) -> None:
    with start_slow(folder, pause=0.002) as process:
        wait_for(process, lambda: files(folder) >= 1)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert verify(Archive.open(folder / "games here")).problems == []


class Listener(Watcher):
    """Does ``when_idle`` whenever it hears that no game ends, with the number of turns."""

    def __init__(self, when_idle: Callable[[int], None]) -> None:
        super().__init__()
        self.when_idle = when_idle

    def idle(self, turns: int) -> None:
        self.when_idle(turns)


class Waiting(OneByOne):
    """Waits in its fortieth turn until it is released."""

    turns = 0
    go_on = threading.Event()

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        Waiting.turns += 1
        if Waiting.turns == 40:
            assert self.go_on.wait(20)
        return super().choose(position, rng)


@pytest.fixture
def quickly_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "POLL_SECONDS", 0.01)


def asked_of(kind: type, root: Path, *overrides: str) -> Callable[..., object]:
    """Plays games of a class of this module against ``dumb``, watched."""
    agent = f"{{agent:random,_target_:{__name__}.{kind.__name__},name:it}}"
    asked = stored_at(root, request(f"agents=[{agent},dumb]", *overrides))
    return lambda stop, watcher: execute(asked, "", stop, watcher)


@pytest.mark.usefixtures("quickly_idle")
def test_while_a_turn_takes_long_turns_are_told_and_finished_games_are_stored(tmp_path: Path) -> None:
    told = []

    def when_idle(turns: int) -> None:
        told.append(turns)
        if list(tmp_path.glob("games/*/*.parquet")) and turns > 40:  # those of dumb count too
            Waiting.go_on.set()

    watcher = Listener(when_idle)
    outcome = asked_of(Waiting, tmp_path, "games=20", "threads=1", "archive.shard_seconds=0.02")(
        threading.Event(), watcher
    )
    assert Waiting.go_on.is_set()
    assert sorted(told) == told
    assert watcher.games == 20
    assert outcome.played == 20  # type: ignore[attr-defined]


class Endless(OneByOne):
    """Does not return from its fortieth turn before the test is over."""

    turns = 0
    over = threading.Event()

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        Endless.turns += 1
        if Endless.turns >= 40:
            self.over.wait(20)
        return super().choose(position, rng)


@pytest.mark.usefixtures("quickly_idle")
def test_one_ctrl_c_ends_a_run_whose_agent_never_returns_and_keeps_its_finished_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "GIVE_UP_SECONDS", 0.1)
    stop = threading.Event()
    watcher = Listener(lambda turns: stop.set() if turns > 40 else None)
    outcome = asked_of(Endless, tmp_path, "games=200", "threads=1")(stop, watcher)
    Endless.over.set()
    found = rows(tmp_path)["games"]
    assert outcome.interrupted  # type: ignore[attr-defined]
    assert 0 < len(found) == outcome.played < 200  # type: ignore[attr-defined]
    numbers = (found["game_id"] & (2**32 - 1)).to_list()
    assert numbers == list(range(len(numbers)))  # the first games, whether short or long
    assert verify(Archive.open(tmp_path)).problems == []


def test_a_stop_cuts_a_block_of_slow_agents_soon() -> None:
    arena = BatchEngine(CLASSIC, [Dice(), Random()], ["it", "random"], [(0, 1)], seed=3, run=3)
    turns = iter(range(1000))
    assert arena.play_block(Order(0, 0, 60), lambda: next(turns) >= 20) is None
    assert next(turns) == 21


class Vandal(OneByOne):
    """Removes all files of games in its hundredth turn."""

    turns = 0
    root = Path()

    def choose(self, position: PositionView, rng: np.random.Generator) -> tuple[int, int]:
        Vandal.turns += 1
        if Vandal.turns == 100:
            deadline = time.monotonic() + 20
            while not (found := [*self.root.glob("games/*/*.parquet")]):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            for path in found:
                path.unlink()
        return super().choose(position, rng)


@pytest.mark.usefixtures("quickly_idle")
def test_files_that_vanish_while_a_run_is_played_end_it_with_one_line(tmp_path: Path) -> None:
    Vandal.root = tmp_path
    with pytest.raises(
        FailureError, match=r"units 0 to \d+ of run [0-9a-f]{12} were written to archive .*somebody"
    ) as e:
        asked_of(Vandal, tmp_path, "games=60", "threads=1", "archive.shard_seconds=0")(threading.Event(), Watcher())
    assert "\n" not in str(e.value)
    record = Archive.open(tmp_path).run(Archive.open(tmp_path).recorded()[0])
    assert record is not None
    assert record.status == "interrupted"
    asked_of(Vandal, tmp_path, "games=60", "threads=1")(threading.Event(), Watcher())
    assert len(rows(tmp_path)["games"]) == 60


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_ends_the_process_even_if_nothing_else_does(presses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left, ended, before = [], threading.Event(), signal.getsignal(signal.SIGINT)

    def leave(code: int) -> None:
        left.append(code)
        ended.set()

    monkeypatch.setattr(interruption, "STOP_SECONDS" if presses == 1 else "LAST_SECONDS", 0.01)
    monkeypatch.setattr(interruption, "leave", leave)
    with interruption.interruptible() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        if presses == 2:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert ended.wait(8)  # an agent in the main thread may go on after any exception
        if presses == 2:
            signal.raise_signal(signal.SIGINT)  # a third one changes nothing
    assert signal.getsignal(signal.SIGINT) is before
    assert left == [130]


SLEEPER = """
import pathlib
import time

class Sleeper:
    def __init__(self, game=None):
        pass

    def choose_piece(self):
        pathlib.Path(__file__).with_name("asleep").touch()
        while True:
            try:
                time.sleep(3600)
            except BaseException:
                pass

    def place_piece(self):
        return self.choose_piece()

    def choose(self, position, rng):
        return self.choose_piece()
"""
POLITO = "polito(folder=own,player=sleeper.Sleeper)"
NATIVE = "{agent: native, isolation: process}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        ("run", POLITO, "random", "games=100"),
        ("run", "native", "random", "games=100"),
        ("run", f"agents=[{NATIVE},random]", "games=100"),
        ("run", "random", "native", "executor=processes"),
        ("train", "trainer=q_placement", "trainer.opponent=native", "policy.name=x"),
        ("sprt", POLITO, "random"),
    ],
    ids=lambda asked: " ".join(asked[:2]),
)
def test_one_ctrl_c_ends_any_run_within_ten_seconds(asked: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/native.yaml").write_text("_target_: sleeper.Sleeper\n")
    (tmp_path / "own/sleeper.py").write_text(SLEEPER)
    with start(tmp_path, *asked, "--config-dir", "own") as process:
        wait_for(process, (tmp_path / "own/asleep").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
    assert process.returncode == 130


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python calls the handler between two steps of a program
        pass


class Dying:
    """Hears the second Ctrl-C while it is finalized: Python prints exceptions from there, and goes on."""

    def __del__(self) -> None:
        press_ctrl_c()


def test_a_ctrl_c_in_a_finalizer_prints_nothing_and_other_errors_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("mine")

    printed: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: printed.append(found.exc_type))
    with unprinted_interrupts(), interruptible() as stop:
        press_ctrl_c()
        assert stop.is_set()
        Dying()
        assert printed == []
        Failing()
    assert printed == [ValueError]
