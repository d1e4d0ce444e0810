"""The processor time of a game is limited by what the system measures, over all its turns and in all its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from agents.base.agent import AgentLimits, GameTimeoutError
from quarto.errors import RequestError
from runners.arena.spec import AgentSpec
from runners.hosting import game_time
from runners.hosting.game_time import GameBudgets, ProcessorTimer, RemotePlayer
from tests.marks import seldom
from tests.runners.hosting.test_sandbox import NEEDS_SANDBOX, Entry, entry, play

__all__ = ["entry"]  # a fixture
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processor time of other processes is read on Linux")
BURN = "import time\nwhile time.process_time() < {}: pass\nprint(flush=True)\ntime.sleep(1000)"


class FakeTimer(ProcessorTimer):
    """A timer with as much time as a test says."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def peek_seconds(self) -> float:
        return self.seconds

    def take_seconds(self) -> float:
        return self.seconds


def use(budgets: GameBudgets, slot: int | None, seconds: float) -> float:
    """Let a turn use so much, and return how much its game had before."""
    timer = FakeTimer()
    with budgets.charge_turn(slot, timer) as turn_timer:
        timer.seconds = seconds
        return turn_timer.seconds


def test_a_game_has_what_its_earlier_turns_left() -> None:
    budgets = GameBudgets(10)
    assert [use(budgets, slot, 4) for slot in (0, 0, 1, None, None)] == [10, 6, 10, 10, 10]
    with pytest.raises(GameTimeoutError, match=r"^game_seconds=10$"):
        use(budgets, 0, 4)
    budgets.restart([0])
    assert [use(budgets, slot, 1) for slot in (0, 1)] == [10, 6]
    budgets.restart()
    assert use(budgets, 1, 1) == 10


def test_a_turn_is_asked_about_again_until_its_time_is_used_up() -> None:
    timer = FakeTimer()
    turn_timer = game_time.TurnTimer(timer, 1.0, 5.0)
    assert 0 < turn_timer.find_next_wait_seconds() == turn_timer.first_wait_seconds <= 1
    timer.seconds = 0.999999
    assert turn_timer.find_next_wait_seconds() == game_time.MIN_CHECK_SECONDS
    timer.seconds = 1.0
    with pytest.raises(GameTimeoutError, match="game_seconds=5"):
        turn_timer.find_next_wait_seconds()


@pytest.mark.parametrize("is_child", [False, True])
def test_the_time_of_a_process_and_its_children_is_measured(is_child: bool) -> None:
    command = [sys.executable, "-I", "-S", "-c", BURN.format(0.2)]
    if is_child:
        command = ["sh", "-c", '"$@"; exit', "sh", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        process.stdout.readline()
        timer = ProcessorTimer(process.pid, is_supervisor=False)
        assert timer.peek_seconds() < 0.1  # what was used before does not count
        assert timer._read_seconds() >= 0.2
        assert (ProcessorTimer(process.pid, is_supervisor=True)._read_seconds() >= 0.2) is is_child
        os.killpg(process.pid, signal.SIGKILL)


@NEEDS_SANDBOX
@pytest.mark.parametrize("isolation", ["process", "sandbox"])
@pytest.mark.parametrize("kind", ["engine", *seldom("polito", "agent")])
def test_a_turn_that_computes_without_end_forfeits_its_game(entry: Entry, kind: str, isolation: str) -> None:
    processes = 80 if isolation == "sandbox" else None
    agent = entry.build(kind, "burn_time", isolation=isolation, processes=processes, game_seconds=0.3)
    endings, reason = play(agent)
    assert endings == ["forfeit_time"] * 2
    assert re.search(r"agent 'it' used up the processor time of a game, game_seconds=0.3, first in position", reason)


def test_waiting_uses_no_processor_time(entry: Entry) -> None:
    agent = entry.build("engine", "sleep", isolation="process", processes=None, game_seconds=0.5, turn_seconds=None)
    endings, reason = play(agent)
    assert not any("forfeit" in ending for ending in endings), reason


def test_each_thread_has_its_own_games() -> None:
    player = RemotePlayer(3.0)
    fork = player.fork()
    assert fork is not player
    assert fork._budgets is not player._budgets
    assert fork._lock is player._lock
    unlimited = RemotePlayer(None)
    assert unlimited.fork() is unlimited


def test_the_limit_needs_a_process_and_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = AgentSpec("it", "a.B", {}, limits=AgentLimits(game_seconds=3), trusted=True)
    with pytest.raises(RequestError, match="agent 'it': game_seconds=3 limits a process: set isolation=process too"):
        spec.build()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(RequestError, match="game_seconds=3: processor time can be limited on Linux only"):
        GameBudgets(3)
