"""Interrupted runs and slow agents: finished games are stored, and the same command ends up with the same rows."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from agents.random import Random
from analytics import open_archive
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError
from quarto.rules import CLASSIC
from quarto.views import Position
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.execution import execute_request
from runners.arena.executors import base
from runners.hosting import interruption
from runners.hosting.interruption import (
    exit_on_interrupt,
    silence_unraisable_interrupts,
    stop_on_signal_then_interrupt_then_exit,
)
from tests.marks import seldom
from tests.runners.conftest import Qarena
from tests.runners.experiments import (
    QARENA,
    SLEEPY,
    Watcher,
    assert_same_rows,
    build_run_request,
    build_shell_environment,
    parse_resuming_command,
    read_archive_rows,
    start_qarena,
    store_at,
    wait_for,
)
from tests.runners.players import Dice, OneByOne

ARGUMENTS = (
    *("run", "--config-dir", "own folder", "agent@a=sleepy", "opening_plies=2", "games=100"),
    *("archive.root=games here", "archive.shard_games=10", "archive.shard_seconds=0.2", "threads=2"),
)
Rows = Mapping[str, pl.DataFrame]
DEADLINE = 60  # seconds that nothing here takes


def write_player(folder: Path) -> Path:
    """Write the player's module and yaml where the command is typed; return the module's folder."""
    (folder / "own folder/agent").mkdir(parents=True)
    (folder / "own folder/agent/sleepy.yaml").write_text("_target_: sleepy_player.Sleepy\n")
    (folder / "own folder/sleepy_player.py").write_text(SLEEPY)
    return folder / "own folder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder where the command is typed."""
    monkeypatch.syspath_prepend(write_player(tmp_path))
    return tmp_path


@pytest.fixture
def expected(folder: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Return the rows of the command without an interruption."""
    with monkeypatch.context() as elsewhere:
        write_player(folder / "uninterrupted")
        elsewhere.chdir(folder / "uninterrupted")
        assert qarena(*ARGUMENTS).code == 0
    expected_rows = read_archive_rows(folder / "uninterrupted/games here")
    assert len(expected_rows["games"]) == 100
    return expected_rows


def start_slowly(folder: Path, pause: float, *more: str) -> subprocess.Popen[str]:
    """Start the command, slowed down, in a process that leads a group of its own."""
    environment = build_shell_environment(PYTHONPATH=str(folder / "own folder"), PAUSE=str(pause))
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([QARENA, *ARGUMENTS, *more], cwd=folder, env=environment, process_group=0, **pipes)


def count_files(folder: Path) -> int:
    """Return the number of files of games, which is the number of effective ranges until files are compacted."""
    return len(list(folder.glob("games here/games/*/*.parquet")))


def check_rows(folder: Path, expected: Rows) -> None:
    """Check that the archive holds what it would hold without an interruption."""
    assert_same_rows(read_archive_rows(folder / "games here"), expected)
    assert verify_archive(ArchiveStore.open(folder / "games here")).problems == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), *seldom((signal.SIGINT, 130), (signal.SIGHUP, 129))]
)
def test_a_signal_keeps_what_is_in_flight_and_prints_the_command_that_resumes(
    number: signal.Signals, code: int, folder: Path, qarena: Qarena, expected: Rows
) -> None:
    with start_slowly(folder, pause=0.002) as process:
        wait_for(process, lambda: count_files(folder) >= 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == code
    assert "Traceback" not in out + err
    assert "Ask the archive" not in out
    match = re.search(r"holds ([\d,]+) games", out)
    assert match is not None
    with open_archive(folder / "games here") as archive:
        assert archive.sql("SELECT status, games FROM runs").rows() == [("interrupted", int(match[1]))]
    assert 4 <= int(match[1]) < 100
    assert verify_archive(ArchiveStore.open(folder / "games here")).problems == []

    program, *arguments = parse_resuming_command(err)
    assert (program, *arguments) == ("qarena", *ARGUMENTS)
    result = qarena(*arguments)
    assert result.code == 0
    assert f"{100 - int(match[1])} games in" in result.out
    check_rows(folder, expected)


@pytest.mark.slow
def test_ctrl_c_held_down_until_the_end_does_not_change_the_exit_code(folder: Path, qarena: Qarena) -> None:
    with start_slowly(folder, pause=0.002) as process:
        wait_for(process, lambda: count_files(folder) >= 1)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert verify_archive(ArchiveStore.open(folder / "games here")).problems == []


class Listener(Watcher):
    """A watcher that calls ``when_idle`` with the number of turns whenever no game has ended for a while."""

    def __init__(self, when_idle: Callable[[int], None]) -> None:
        super().__init__()
        self.when_idle = when_idle

    def report_turns(self, turns: int) -> None:
        self.when_idle(turns)


class Waiting(OneByOne):
    """Waits in its fortieth turn until it is released."""

    turns = 0
    go_on = threading.Event()

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        Waiting.turns += 1
        if Waiting.turns == 40:
            assert self.go_on.wait(20)
        return super().choose(position, rng)


@pytest.fixture
def quickly_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "POLL_SECONDS", 0.01)


def build_run(kind: type, root: Path, *overrides: str) -> Callable[..., object]:
    """Return a function that plays games of a class of this module against ``dumb``, watched."""
    agent = f"{{agent:random,_target_:{__name__}.{kind.__name__},name:it}}"
    run_request = store_at(root, build_run_request(f"agents=[{agent},dumb]", *overrides))
    return lambda stop, watcher: execute_request(run_request, "", stop, watcher)


@pytest.mark.usefixtures("quickly_idle")
def test_while_a_turn_takes_long_turns_are_told_and_finished_games_are_stored(tmp_path: Path) -> None:
    turn_counts = []

    def when_idle(turns: int) -> None:
        turn_counts.append(turns)
        if list(tmp_path.glob("games/*/*.parquet")) and turns > 40:  # those of dumb count too
            Waiting.go_on.set()

    watcher = Listener(when_idle)
    outcome = build_run(Waiting, tmp_path, "games=20", "threads=1", "archive.shard_seconds=0.02")(
        threading.Event(), watcher
    )
    assert Waiting.go_on.is_set()
    assert sorted(turn_counts) == turn_counts
    assert watcher.games == 20
    assert outcome.played == 20  # type: ignore[attr-defined]


class Endless(OneByOne):
    """Does not return from its fortieth turn before the test is over."""

    turns = 0
    over = threading.Event()

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
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
    outcome = build_run(Endless, tmp_path, "games=200", "threads=1")(stop, watcher)
    Endless.over.set()
    games = read_archive_rows(tmp_path)["games"]
    assert outcome.interrupted  # type: ignore[attr-defined]
    assert 0 < len(games) == outcome.played < 200  # type: ignore[attr-defined]
    numbers = (games["game_id"] & (2**32 - 1)).to_list()
    assert numbers == list(range(len(numbers)))  # the first games, whether short or long
    assert verify_archive(ArchiveStore.open(tmp_path)).problems == []


def test_a_stop_cuts_a_block_of_slow_agents_soon() -> None:
    arena = BatchEngine(CLASSIC, [Dice(), Random()], ["it", "random"], [(0, 1)], seed=3, run=3)
    turns = iter(range(1000))
    assert arena.play_block(PairRange(0, 0, 60), lambda: next(turns) >= 20) is None
    assert next(turns) == 21


class Vandal(OneByOne):
    """Removes all files of games in its hundredth turn."""

    turns = 0
    root = Path()

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        Vandal.turns += 1
        if Vandal.turns == 100:
            deadline = time.monotonic() + 20
            while not (paths := [*self.root.glob("games/*/*.parquet")]):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            for path in paths:
                path.unlink()
        return super().choose(position, rng)


@pytest.mark.usefixtures("quickly_idle")
def test_files_that_vanish_while_a_run_is_played_end_it_with_one_line(tmp_path: Path) -> None:
    Vandal.root = tmp_path
    with pytest.raises(
        FailureError, match=r"units 0 to \d+ of run [0-9a-f]{12} were written to archive .*something removes files"
    ) as e:
        build_run(Vandal, tmp_path, "games=60", "threads=1", "archive.shard_seconds=0")(threading.Event(), Watcher())
    assert "\n" not in str(e.value)
    record = ArchiveStore.open(tmp_path).find_run(ArchiveStore.open(tmp_path).list_recorded_run_ids()[0])
    assert record is not None
    assert record.status == "interrupted"
    build_run(Vandal, tmp_path, "games=60", "threads=1")(threading.Event(), Watcher())
    assert len(read_archive_rows(tmp_path)["games"]) == 60


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_to_the_whole_group_is_for_the_run_alone(
    number: signal.Signals, code: int, folder: Path, qarena: Qarena, expected: Rows
) -> None:
    with start_slowly(folder, 0.002, "executor=processes") as process:
        wait_for(process, lambda: count_files(folder) >= 2)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == code
    lines = [line for line in err.splitlines() if line != "playing …"]
    assert len(lines) == 3  # what it is doing, and how to go on: nothing of lost workers or leaks
    assert qarena(*parse_resuming_command(err)[1:]).code == 0
    check_rows(folder, expected)


@pytest.mark.slow
def test_workers_of_a_killed_run_end_without_a_word(folder: Path) -> None:
    with start_slowly(folder, 0.002, "executor=processes") as process:
        wait_for(process, lambda: count_files(folder) >= 1)
        process.kill()
        _, err = process.communicate(timeout=DEADLINE)  # until the last process has closed its output
    assert err in {"", "playing …\n"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid, of util-linux")
def test_a_terminal_that_is_closed_ends_a_run_like_ctrl_c(folder: Path) -> None:
    ours, theirs = os.openpty()
    environment = build_shell_environment(PYTHONPATH=str(folder / "own folder"), PAUSE="0.002")
    program = ["setsid", "--ctty", QARENA, *ARGUMENTS]
    with subprocess.Popen(program, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        while count_files(folder) < 2:
            assert process.poll() is None
            assert os.read(ours, 1 << 16)
        os.close(ours)
        assert process.wait(DEADLINE) == 129
    archive = ArchiveStore.open(folder / "games here")
    assert [record.status for record in archive.load_runs()] == ["interrupted"]
    assert verify_archive(archive).problems == []


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_ends_the_process_even_if_nothing_else_does(presses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exit_codes, ended, handler_before = [], threading.Event(), signal.getsignal(signal.SIGINT)

    def leave(code: int) -> None:
        exit_codes.append(code)
        ended.set()

    monkeypatch.setattr(interruption, "STOP_SECONDS" if presses == 1 else "LAST_SECONDS", 0.01)
    monkeypatch.setattr(interruption, "flush_and_exit", leave)
    with interruption.stop_on_signal_then_interrupt_then_exit() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        if presses == 2:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert ended.wait(8)  # an agent in the main thread may go on after any exception
        if presses == 2:
            signal.raise_signal(signal.SIGINT)  # a third one changes nothing
    assert signal.getsignal(signal.SIGINT) is handler_before
    assert exit_codes == [130]


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
    "arguments",
    [
        ("run", POLITO, "random", "games=100"),
        ("run", "native", "random", "games=100"),
        ("run", f"agents=[{NATIVE},random]", "games=100"),
        ("run", "random", "native", "executor=processes"),
        ("train", "trainer=q_placement", "trainer.opponent=native", "policy.name=x"),
        ("sprt", POLITO, "random"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_one_ctrl_c_ends_any_run_within_ten_seconds(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "own/agent").mkdir(parents=True)
    (tmp_path / "own/agent/native.yaml").write_text("_target_: sleeper.Sleeper\n")
    (tmp_path / "own/sleeper.py").write_text(SLEEPER)
    with start_qarena(tmp_path, *arguments, "--config-dir", "own") as process:
        wait_for(process, (tmp_path / "own/asleep").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
    assert process.returncode == 130


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python calls the handler between two steps of a program
        pass


class Dying:
    """An object whose finalizer presses Ctrl-C a second time: Python prints exceptions from there, and goes on."""

    def __del__(self) -> None:
        press_ctrl_c()


def test_a_ctrl_c_in_a_finalizer_prints_nothing_and_other_errors_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("mine")

    printed: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: printed.append(unraisable.exc_type))
    with silence_unraisable_interrupts(), stop_on_signal_then_interrupt_then_exit() as stop:
        press_ctrl_c()
        assert stop.is_set()
        Dying()
        assert printed == []
        Failing()
    assert printed == [ValueError]


# Signals in a command.


@pytest.fixture
def handlers() -> Iterator[None]:
    """Set the handlers of a command in a terminal, also under nohup, and restore those of the tests."""
    old_handlers = {number: signal.getsignal(number) for number in interruption.SIGNALS}
    for number in interruption.TERMINATION_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in old_handlers.items():
        signal.signal(number, handler)


@contextmanager
def expect_exit(code: int) -> Iterator[None]:
    """Run the context's body as a command, and check that it ends with this exit code."""
    with pytest.raises(SystemExit) as caught, exit_on_interrupt():
        yield
    assert caught.value.code == code


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_any_command_ends_with_the_code_of_the_first_signal_whether_it_can_stop_or_not(
    number: signal.Signals, code: int
) -> None:
    with expect_exit(code):
        signal.raise_signal(number)
    with expect_exit(code), stop_on_signal_then_interrupt_then_exit() as stop:
        signal.raise_signal(number)
        assert stop.is_set()
        signal.raise_signal(signal.SIGTERM)  # a scheduler that insists; and a second Ctrl-C would be a person's
        sys.exit(interruption.exit_code())


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_was_ignored_when_the_command_began_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    with exit_on_interrupt(), stop_on_signal_then_interrupt_then_exit() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_comes_during_an_import_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    signalling = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsum(range(1000))\nis_whole = True\n"
    (tmp_path / "signalling.py").write_text(signalling)
    with expect_exit(143):
        importlib.import_module("signalling")
        threading.Event().wait(DEADLINE)
    assert sys.modules.pop("signalling").is_whole


@pytest.mark.usefixtures("handlers")
def test_an_import_that_never_ends_is_interrupted_by_the_second_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    press = "os.kill(os.getpid(), signal.SIGINT)\nsum(range(1000))\n"
    (tmp_path / "endless.py").write_text(f"import os, signal, threading\n{press}{press}threading.Event().wait()\n")
    with expect_exit(130):
        importlib.import_module("endless")


def swallow_sigterm() -> None:
    """Ask this process to end, and swallow the exception, as some libraries do."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.usefixtures("handlers")
def test_after_a_swallowed_sigterm_nothing_more_begins() -> None:
    stops = list[threading.Event]()
    with expect_exit(143):
        swallow_sigterm()
        with stop_on_signal_then_interrupt_then_exit() as stop:
            stops.append(stop)
    assert stops == []
    with stop_on_signal_then_interrupt_then_exit() as stop:  # of another command in this process
        assert not stop.is_set()


@pytest.mark.usefixtures("handlers")
def test_a_swallowed_sigterm_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(interruption._InterruptRaiser, "SECONDS", 0.0)
    with expect_exit(143):
        swallow_sigterm()
        threading.Event().wait(DEADLINE)


@pytest.mark.usefixtures("handlers")
def test_a_process_that_an_agent_forks_can_be_terminated() -> None:
    with exit_on_interrupt():
        copy = os.fork()
        if not copy:
            os._exit(sum(signal.getsignal(number) is not signal.SIG_DFL for number in interruption.TERMINATION_SIGNALS))
        _, status = os.waitpid(copy, 0)
    assert os.waitstatus_to_exitcode(status) == 0
