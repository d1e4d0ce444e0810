"""The parts of a turn add up, and agents in Python, in threads and in processes have the parts that they should."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from agents.base.agent import Agent
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE
from quarto.views import BatchView, Position
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.bench import turn_parts
from runners.bench.turn_parts import (
    ENGINE,
    MESSAGES,
    OTHER_THREADS,
    OWN_METHOD,
    OWN_SYSTEM_CALLS,
    POSITIONS_AND_CHECKS,
    PROCESS_SYSTEM_CALLS,
    PROCESSES,
    WAITING,
    ProcessorSeconds,
    RoundTimes,
    build_parts_table,
    measure_turn_parts,
)
from runners.hosting.timed_agents import TimedAgent
from runners.terminal.console import print_tables

SPIN_SECONDS = 1e-3


class FirstChooser:
    """Takes the first cell and the first piece, after some work."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        end = time.thread_time() + SPIN_SECONDS
        while time.thread_time() < end:
            pass
        return position.free[0], position.available[0] if position.available else NONE


class FirstPlayer:
    def play(self, batch: BatchView, rng: Streams) -> tuple[np.ndarray, np.ndarray]:
        return batch.free.argmax(axis=1), batch.available.argmax(axis=1)


@pytest.fixture(autouse=True)
def _no_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_parts, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(turn_parts, "ROUND_SECONDS", 0.0)


@pytest.mark.parametrize("agent", [FirstChooser(), FirstPlayer()])
def test_an_agent_in_python_has_a_method_positions_and_an_engine(agent: Agent) -> None:
    parts = measure_turn_parts(agent, "first", CLASSIC, 1, threading.Event())
    assert parts is not None
    assert [*parts.microseconds] == [OWN_METHOD, POSITIONS_AND_CHECKS, ENGINE]
    assert min(parts.microseconds.values()) > 0
    assert parts.games == 2
    if isinstance(agent, FirstChooser):
        assert parts.microseconds[OWN_METHOD] >= 1e6 * SPIN_SECONDS


def test_a_thread_with_a_limit_works_while_this_one_waits() -> None:
    parts = measure_turn_parts(TimedAgent(FirstChooser, 60.0), "first", CLASSIC, 1, threading.Event())
    assert parts is not None
    assert parts.microseconds[OTHER_THREADS] > 1e6 * SPIN_SECONDS / 2  # which the system measures, in its own way
    assert ENGINE in parts.microseconds
    assert not {OWN_METHOD, PROCESSES} & {*parts.microseconds}


def test_the_parts_of_a_round_with_processes_are_its_time() -> None:
    processor = ProcessorSeconds(thread=2.0, thread_system=0.5, other_threads=0.0, processes=3.0, processes_system=1.0)
    parts = turn_parts._divide_round(RoundTimes(10.0, processor, 7), 0.0, 2.25)
    assert parts == {
        PROCESSES: 3.0,
        PROCESS_SYSTEM_CALLS: 1.0,
        MESSAGES: 1.75,
        OWN_SYSTEM_CALLS: 0.5,
        ENGINE: 0.25,
        WAITING: 3.5,
    }


def test_a_measurement_that_is_stopped_has_no_parts() -> None:
    stop = threading.Event()
    stop.set()
    assert measure_turn_parts(FirstPlayer(), "first", CLASSIC, 1, stop) is None


def test_the_table_ends_with_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables([build_parts_table("first", turn_parts.TurnParts({OWN_METHOD: 3.0, ENGINE: 1.0}, 512))])
    lines = capsys.readouterr().out.splitlines()
    assert "512 games in a block" in lines[0]
    assert [line.split("│")[2:4] for line in lines if "│" in line][-1] == ["         4.00 ", " 100 "]


def test_a_player_that_is_timed_takes_the_same_turns() -> None:
    batches = turn_parts.Stopwatch()
    engine = BatchEngine(CLASSIC, [FirstPlayer(), FirstPlayer()], ["a", "b"], [(0, 1)], 1, run=1)
    plain = engine.play_block(PairRange(0, 0, 3))
    engine.replace_player(0, turn_parts.TimedBatchesPlayer(engine.get_player(0), batches))
    timed = engine.play_block(PairRange(0, 0, 3))
    assert timed.games.cells.tolist() == plain.games.cells.tolist()
    assert batches.turns > 0
    assert batches.seconds > 0
