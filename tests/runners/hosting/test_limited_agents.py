"""Limits of agents: a late turn costs its game; a child process may die, hang, take too much, or write nonsense."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from numba.core import event

from agents.base.agent import AgentLimits, TurnTimeoutError
from agents.base.player import BatchPlayer
from agents.dumb import Dumb
from agents.random import Random
from quarto.batch import ENDINGS, Batch
from quarto.errors import FailureError, RemoteError, RequestError
from quarto.position import EMPTY
from quarto.rng import Streams
from quarto.rules import CLASSIC
from quarto.views import BatchView, Position
from runners.arena.batch_engine import BatchEngine, PairRange
from runners.arena.spec import AgentSpec
from runners.config.yaml_options import LIMIT_KEYS
from runners.hosting.compile_clock import CompileClock, _CompileRecorder, build_monotonic_deadline_function
from runners.hosting.guarded_agent import StuckError
from runners.hosting.interruption import has_abandoned_threads
from runners.hosting.subprocess_client import Subprocess, SubprocessDiedError
from runners.hosting.timed_agents import TimedAgent, _Work
from tests.runners.experiments import build_run_request, play, read_archive_rows
from tests.runners.players import OneByOne

SERVED = "tests.runners.hosting.served:build_handler"


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]  # elsewhere than on Linux there is none
    except OSError:
        return False


def test_requests_are_answered_until_the_child_and_all_it_started_are_ended() -> None:
    served = Subprocess(SERVED, {}, b"ab")
    started, content = served.receive(int)
    assert content == b"abab"
    served.send("nothing")
    assert served.request("x" * 100_000, bytes(range(256)) * 1000, str)[1][:2] == b"\xff\xfe"
    with pytest.raises(RemoteError, match=r"ValueError: a lone .* and 3 bytes") as raised:
        served.request("raise", b"123", str)
    assert raised.value.raised_at.startswith("tests/runners/hosting/served.py:")
    assert "in answer" in raised.value.details.traceback
    assert served.request("it goes on", b"", str) == ("it goes on", b"")
    assert is_running(started) or sys.platform != "linux"
    served.stop()
    served.stop()
    deadline = time.monotonic() + 5
    while is_running(started):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels ignore the signal in programs that are not ours")
def test_what_a_child_started_ends_with_a_run_that_is_killed() -> None:
    code = (
        "import time; from runners.hosting.subprocess_client import Subprocess; "
        f"child = Subprocess({SERVED!r}, {{}}); print(child.receive(int)[0], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        started = int(run.stdout.readline())
        assert is_running(started)
        run.kill()
    deadline = time.monotonic() + 5
    while is_running(started):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("request_", "kind"), [("sleep", TurnTimeoutError), ("number", SubprocessDiedError)])
def test_a_child_that_does_not_answer_as_it_should_is_ended(request_: str, kind: type[Exception]) -> None:
    served = Subprocess(SERVED, {})
    served.receive(int)
    with pytest.raises(kind):
        served.request(request_, b"", str, seconds=0.5)
    with pytest.raises(SubprocessDiedError, match="signal 9"):
        served.send("more")


def test_an_error_for_the_user_stays_one() -> None:
    served = Subprocess(SERVED, {"refuse": "no room"})
    with pytest.raises(RemoteError) as raised:
        served.receive(int)
    served.stop()
    assert (
        type(raised.value.restore_or_wrap_arena_error("it")),
        str(raised.value.restore_or_wrap_arena_error("it")),
    ) == (
        FailureError,
        "no room",
    )
    nowhere = Subprocess("runners.nowhere:build_handler", {})
    with pytest.raises(RemoteError, match="ModuleNotFoundError"):
        nowhere.receive(int)
    nowhere.stop()


def test_the_childs_program_needs_the_standard_library_only() -> None:
    loaded = "import sys, runners.hosting.subprocess_program; print(*{'numpy', 'msgspec', 'numba'} & {*sys.modules})"
    ended = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


WILD = "tests.runners.players.Wild"


class Sluggish(OneByOne):
    """Waits in some positions until it is release_threads."""

    released = threading.Event()

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        if len(position.free) <= 14:
            self.released.wait(20)
        return super().choose(position, rng)


class SluggishBatches(Sluggish):
    def play(self, batch: BatchView, rng: Streams) -> tuple[Any, Any]:
        turns = [self.choose(batch[i], rng.generator(i)) for i in range(len(rng.seeds))]
        cells, gifts = zip(*turns, strict=True)
        return np.array(cells), np.array(gifts)


@pytest.fixture(autouse=True)
def release_threads() -> Iterator[None]:
    """Let waiting turns go on after each test, so that no thread outlives it."""
    Sluggish.released.clear()
    yield
    Sluggish.released.set()
    deadline = time.monotonic() + 5
    while has_abandoned_threads():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def play_and_list_endings(agent: Any, pairs: int = 2) -> tuple[BatchEngine, list[str]]:
    """Play games of an agent against ``dumb``; return the engine, and how the games ended."""
    engine = BatchEngine(CLASSIC, [agent, Dumb()], ["it", "dumb"], [(0, 1)], seed=3, run=3, opening_plies=2)
    return engine, [ENDINGS[ending] for ending in engine.play_block(PairRange(0, 0, pairs)).games.ending]


@pytest.mark.parametrize("kind", [Sluggish, SluggishBatches])
def test_a_late_turn_forfeits_its_game_and_is_counted(kind: type[Sluggish]) -> None:
    engine, endings = play_and_list_endings(TimedAgent(kind, seconds=0.02), pairs=1)
    assert endings == ["forfeit_time"] * 2
    (line,) = engine.describe_misbehaviour()
    assert re.fullmatch(
        r"agent 'it' took too long for a turn \(turn_seconds=0\.02\), first in position \S+ \S: 2 times", line
    )


class Compiling(OneByOne):
    """Compiles for a while in its first turn, as with a cold cache."""

    ready = False

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        if not self.ready:
            self.ready = True
            with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):  # one inside another
                time.sleep(1.5 * IN_TIME)
        return super().choose(position, rng)


IN_TIME = 0.6  # seconds of a turn


def test_compiling_is_no_part_of_a_turn() -> None:
    endings = play_and_list_endings(TimedAgent(Compiling, IN_TIME))[1]
    isolated = AgentSpec("it", f"{__name__}.Compiling", {}, limits=AgentLimits(IN_TIME, "process"), trusted=True)
    assert endings == play_and_list_endings(isolated.build())[1]
    assert "forfeit_time" not in endings


def test_a_clock_of_compiling_goes_on_while_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = CompileClock()
    recorder = _CompileRecorder(clock.descriptor)
    deadline = build_monotonic_deadline_function(5.0, clock)
    assert (clock.read_seconds(), deadline()) == (0.0, 15.0)
    recorder.on_start(None)
    now[0] = 12.0
    assert (clock.read_seconds(), deadline()) == (2.0, 17.0)
    recorder.on_end(None)
    now[0] = 20.0
    assert (clock.read_seconds(), deadline()) == (2.0, 17.0)
    assert build_monotonic_deadline_function(5.0, clock)() == 25.0
    clock.close()
    clock.close()


def test_an_agent_in_time_plays_the_same_games_with_a_limit() -> None:
    unlimited_games, limited_games = (
        play_and_list_endings(agent)[0].play_block(PairRange(0, 0, 4)).games
        for agent in (OneByOne(), TimedAgent(OneByOne, seconds=20.0))
    )
    for unlimited, limited in zip(unlimited_games, limited_games, strict=True):
        assert (unlimited == limited).all()


class Recording(OneByOne):
    """Records the seeds of its turns, raises an exception in some positions, and is late in one turn."""

    seeds: ClassVar[list[int]] = []
    late_seed: ClassVar[int | None] = None

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        self.seeds.append(int(rng.bit_generator.state["state"]["key"][0]))
        if self.seeds[-1] == self.late_seed:
            Sluggish.released.wait(20)
        if position.packed.lanes % 11 == 5:
            raise ValueError("five")
        return int(rng.choice(position.free)), int(rng.choice(position.available or [-1]))


def play_recorded(agent: Any) -> tuple[list[list[int]], list[str]]:
    """Play 40 games of a recording agent; return the cells and the ending of each, and the agent's misbehaviour."""
    Recording.seeds.clear()
    engine = BatchEngine(CLASSIC, [agent, Dumb()], ["it", "dumb"], [(0, 1)], seed=3, run=3)
    games = engine.play_block(PairRange(0, 0, 20)).games
    return [[*row, ending] for row, ending in zip(games.cells.T.tolist(), games.ending.tolist(), strict=True)], [
        *engine.describe_misbehaviour()
    ]


def test_each_turn_is_requested_once_and_a_late_one_costs_its_own_game_only(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited_games, unlimited_faults = play_recorded(Recording())
    games, faults = play_recorded(TimedAgent(Recording, seconds=20.0))
    assert (games, faults) == (unlimited_games, unlimited_faults)
    assert "raised ValueError: five" in faults[0]
    assert len(set(Recording.seeds)) == len(Recording.seeds) > 100
    monkeypatch.setattr(Recording, "late_seed", Recording.seeds[60])
    late_games, late_faults = play_recorded(TimedAgent(Recording, seconds=0.5))
    changed = [late for late, game in zip(late_games, games, strict=True) if late != game]
    assert [ENDINGS[game[-1]] for game in changed] == ["forfeit_time"]
    assert sum("took too long" in line for line in late_faults) == 1


def test_a_turn_that_ends_late_is_late_though_nobody_waited_in_vain() -> None:
    work = _Work([], seconds=0.0)  # as if another thread had kept the one that waits from waking
    time.sleep(0.001)
    assert work.add_response(ValueError("any"))
    assert work.responses[0].seconds > 0.0


def test_games_that_ended_before_too_many_turns_were_stuck_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.hosting.timed_agents.MAX_STUCK_TURNS", 5)
    sluggish = f"{{agent:random,_target_:{__name__}.Sluggish,name:it,turn_seconds:0.01}}"
    with pytest.raises(StuckError, match=r"agent 'it' has 5 turns .* isolation=process"):
        play(tmp_path, f"agents=[{sluggish},dumb]", "games=40", "opening_plies=2", "threads=1")
    games = read_archive_rows(tmp_path)["games"]
    assert len(games) >= 2
    assert set(games["ending"].cast(pl.String)) == {"forfeit_time"}


def test_a_limit_is_in_the_spec_and_isolation_is_not() -> None:
    free, timed, isolated = (
        AgentSpec("it", WILD, {}, limits=AgentLimits(**limits)).to_record()
        for limits in ({}, {"turn_seconds": 0.5}, {"isolation": "process"})
    )
    assert timed == free | {"limits": {"turn_seconds": 0.5}}
    assert isolated == free
    assert tuple(field.name for field in fields(AgentLimits)) == LIMIT_KEYS
    run_request = build_run_request("agent@a=dumb", "b.turn_seconds=0.5", "b.isolation=process")
    assert [agent.label for agent in run_request.spec.agents] == ["dumb", "random"]
    assert run_request.spec.agents[1].limits == AgentLimits(0.5, "process")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"turn_seconds": 0}, "agent 'it': turn_seconds=0 is not a number above 0"),
        ({"turn_seconds": True}, "turn_seconds=True is not a number above 0"),
        ({"turn_seconds": float("nan")}, "turn_seconds=nan"),
        ({"isolation": "proces"}, "isolation=proces does not exist; did you mean 'process'"),
        ({"megabytes": 1.5, "isolation": "process"}, "megabytes=1.5 is not"),
    ],
)
def test_a_limit_that_is_not_possible_is_refused(limits: dict[str, Any], expected: str) -> None:
    with pytest.raises(RequestError, match=re.escape(expected)):
        AgentLimits.from_mapping("agent 'it'", limits)


def test_memory_is_that_of_a_process() -> None:
    with pytest.raises(RequestError, match=r"agent 'it': megabytes=10 limits a process: set isolation=process too"):
        AgentSpec("it", WILD, {}, limits=AgentLimits(megabytes=10), trusted=True).build()


def test_a_jitted_agent_has_no_limits() -> None:
    with pytest.raises(RequestError, match="agent 'it' is jitted"):
        play_and_list_endings(TimedAgent(Random, seconds=1.0))


# A process of its own.


def build_isolated_player(**params: Any) -> BatchPlayer:
    """Build a player of the wild agent in a subprocess, with five seconds for a turn."""
    limits = AgentLimits(turn_seconds=5.0, isolation="process", megabytes=params.pop("megabytes", None))
    agent: Any = AgentSpec("wild", WILD, params, limits=limits, trusted=True).build()
    player: BatchPlayer = agent.build_player(CLASSIC, "wild")
    return player


def choose_turn(player: BatchPlayer, seed: int = 1) -> tuple[int, int]:
    turns = player.play(Batch.from_positions([EMPTY]), Streams(np.array([seed], np.uint64)))
    return int(turns.cells[0]), int(turns.gifts[0])


def test_a_process_answers_and_what_it_raises_has_a_place() -> None:
    player = build_isolated_player(what="raise")
    with pytest.raises(Exception, match="ValueError: for once") as raised:
        choose_turn(player, seed=0)
    assert re.search(r"tests/runners/players.py:\d+$", raised.value.raised_at)  # type: ignore[attr-defined]
    assert choose_turn(player) == (0, 0)  # and the same process goes on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("misdeed", "expected"),
    [
        ("exit", "ended with exit code 0"),
        ("segfault", "ended by signal 11"),
        ("close", "its process (closed its pipes|ended)"),
        ("hang", "turn_seconds=5"),
        ("memory", "MemoryError"),
        ("garbage", "no answer"),
    ],
)
def test_a_process_that_dies_or_hangs_costs_one_turn(misdeed: str, expected: str) -> None:
    player = build_isolated_player(what=misdeed, megabytes=500)
    with pytest.raises(Exception, match=expected):
        choose_turn(player, seed=0)
    assert choose_turn(player) == (0, 0)


@pytest.mark.slow
def test_an_agent_that_cannot_be_made_in_its_process_is_refused() -> None:
    with pytest.raises(RequestError, match=r"agent 'wild' has no parameter 'wat'"):
        build_isolated_player(wat=1)
    with pytest.raises(
        RequestError, match=r"cannot be made in a process of its own: its process ended with exit code 9"
    ):
        build_isolated_player(what="unmakeable")


@pytest.mark.slow
def test_a_process_ends_with_the_run_that_is_killed_however_it_hangs(tmp_path: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        player: Any = build_isolated_player(what="hang")
        os.write(write, str(player._idle[0].pid).encode())
        choose_turn(player, seed=0)
        os._exit(0)
    pid = int(os.read(read, 100))
    time.sleep(0.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
