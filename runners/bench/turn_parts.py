"""What a turn is made of, for `qarena bench --turn`: an agent plays games against ``random``, as in a run.

One thread plays the games, in blocks as large as those of a run. Parts are processor time, which depends less on other
programs than the time of the clock. The thread's is read around the agent's method and around each batch of its turns;
the system knows that of the other threads of this process, and of the agent's own processes. What is left of the time
of the clock is waiting. Of several rounds the fastest counts, because noise only adds time.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import Agent, BatchAgent, GameAgent
from agents.base.player import BatchPlayer, KernelPlayer, list_accepted_choosers, prepare_python_agent
from agents.random import Random
from analytics.questions.columns import ResultColumn, Table
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch, Evaluations, Turns
from quarto.rng import Streams
from quarto.rules import Rules
from runners.arena.batch_engine import BatchEngine, Pace, PairRange
from runners.hosting.sandbox_supervisor import list_children, read_stat_fields
from runners.terminal.console import build_escaped_table

WARM_UP_SECONDS, ROUNDS, ROUND_SECONDS = 1.0, 3, 0.7
OWN_METHOD = "the agent's method"
POSITIONS_AND_CHECKS = "positions and checks of answers"
MESSAGES = "messages and checks of answers"
OWN_SYSTEM_CALLS = "system calls of this process"
OTHER_THREADS = "the agent's thread"
PROCESSES = "the agent's processes"
PROCESS_SYSTEM_CALLS = "system calls of these processes"
WAITING = "waking and waiting"
KERNEL = "the agent's kernel"
ENGINE = "the engine, and the opponent"
MIN_SHARE = 0.001  # of a round's time, which the system measures less exactly
USER_TICKS, SYSTEM_TICKS = 11, 12  # of the fields that ``read_stat_fields`` returns


class ProcessorSeconds(NamedTuple):
    """Seconds of processor time so far."""

    thread: float  # of this thread, in the program itself
    thread_system: float  # of this thread, in system calls
    other_threads: float  # of this process
    processes: float  # of the processes that this process has started, and of theirs
    processes_system: float

    def since(self, earlier: ProcessorSeconds) -> ProcessorSeconds:
        """Return the seconds since ``earlier``."""
        return ProcessorSeconds(*(now - then for now, then in zip(self, earlier, strict=True)))


@dataclass
class Stopwatch:
    """The processor time of this thread in some calls, in seconds, and the number of turns that they took."""

    seconds: float = 0.0
    turns: int = 0

    def time(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``function`` and adds its time."""

        def call(*arguments: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.thread_time() - started

        return call


class _PreparedAgent:
    """The rules that an agent in Python plays by, for an agent that stands for it."""

    def __init__(self, agent: BatchAgent | GameAgent) -> None:
        self._agent, self.choosers = agent, list_accepted_choosers(agent)

    def prepare(self, rules: Rules) -> None:
        prepare_python_agent(self._agent, rules, type(self._agent).__name__)


class TimedGameAgent(_PreparedAgent):
    """An agent whose method ``choose`` is timed by a stopwatch."""

    def __init__(self, agent: GameAgent, stopwatch: Stopwatch) -> None:
        super().__init__(agent)
        self.choose = stopwatch.time(agent.choose)


class TimedBatchAgent(_PreparedAgent):
    """An agent whose method ``play`` is timed by a stopwatch."""

    def __init__(self, agent: BatchAgent, stopwatch: Stopwatch) -> None:
        super().__init__(agent)
        self.play = stopwatch.time(agent.play)


class TimedBatchesPlayer(BatchPlayer):
    """A player that passes each batch on to another player, whose time and turns are added to a stopwatch."""

    def __init__(self, player: BatchPlayer, stopwatch: Stopwatch) -> None:
        self._player, self._stopwatch = player, stopwatch
        self.game_words, self.one_position_at_a_time = player.game_words, player.one_position_at_a_time
        self.unusual = player.unusual

    def start(self, slots: range) -> None:
        self._player.start(slots)

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        self._stopwatch.turns += len(rng.seeds)
        turns: Turns = self._stopwatch.time(self._player.play)(batch, rng, slots, evaluations)
        return turns


class RoundTimes(NamedTuple):
    """The time that one round took."""

    seconds: float  # of the wall clock
    processor: ProcessorSeconds
    pairs: int


class TurnParts(NamedTuple):
    """What a turn is made of."""

    microseconds: Mapping[str, float]  # by part
    games: int  # in a block

    def to_dict(self) -> dict[str, Any]:
        """Return the parts as a dictionary for JSON."""
        return {"games_in_a_block": self.games, "microseconds": dict(self.microseconds)}


def measure_turn_parts(agent: Agent, label: str, rules: Rules, seed: int, stop: threading.Event) -> TurnParts | None:
    """Measure what a turn of ``agent`` is made of; return None if ``stop`` is set before a round has ended.

    Raises ``RequestError`` if the agent does not play these rules.
    """
    method, batches = Stopwatch(), Stopwatch()
    if isinstance(agent, BatchAgent):
        agent = TimedBatchAgent(agent, method)
    elif isinstance(agent, GameAgent):
        agent = TimedGameAgent(agent, method)
    engine = BatchEngine(rules, [agent, Random()], [label, "random"], [(0, 1)], seed, run=seed)
    player, pairs = engine.get_player(0), _choose_pairs_as_a_run(engine, stop)
    is_jitted = isinstance(player, KernelPlayer)
    in_one_kernel = [_play_round(engine, pairs, number, stop) for number in range(ROUNDS if is_jitted else 0)]
    engine.replace_player(0, TimedBatchesPlayer(player, batches))
    rounds: list[dict[str, float]] = []
    for number in range(ROUNDS):
        method.seconds, batches.seconds, batches.turns = 0.0, 0.0, 0
        times = _play_round(engine, pairs, number, stop)
        if stop.is_set():
            break
        if is_jitted:  # which an ordinary run does not leave between two turns
            seconds_for_pair = min(times.processor.thread / times.pairs for times in in_one_kernel)
            parts = {KERNEL: batches.seconds, ENGINE: max(seconds_for_pair * times.pairs - batches.seconds, 0.0)}
        else:
            parts = _divide_round(times, method.seconds, batches.seconds)
        rounds.append({name: 1e6 * seconds / batches.turns for name, seconds in parts.items()})
    return TurnParts(min(rounds, key=lambda parts: sum(parts.values())), 2 * pairs) if rounds else None


def _choose_pairs_as_a_run(engine: BatchEngine, stop: threading.Event) -> int:
    """Play blocks until they are as large as a run's, and return their number of pairs."""
    pace, first_pair, started = Pace(), 0, time.perf_counter()
    while time.perf_counter() - started < WARM_UP_SECONDS and not stop.is_set():
        pairs = pace.next_pair_count(0)
        block = engine.play_block(PairRange(0, first_pair, pairs), stop.is_set)
        if block is not None:
            pace.add_block_time(0, pairs, block.seconds)
        first_pair += pairs
    return pace.next_pair_count(0)


def _play_round(engine: BatchEngine, pairs: int, number: int, stop: threading.Event) -> RoundTimes:
    """Play whole blocks of ``pairs`` pairs for ``ROUND_SECONDS``, the same blocks for the same ``number``."""
    first_pair, played = (number + 1) << 24, 0
    started, processor = time.perf_counter(), read_processor_seconds()
    while not played or (time.perf_counter() - started < ROUND_SECONDS and not stop.is_set()):
        engine.play_block(PairRange(0, first_pair + played, pairs), stop.is_set)
        played += pairs
    return RoundTimes(time.perf_counter() - started, read_processor_seconds().since(processor), played)


def _divide_round(times: RoundTimes, method_seconds: float, batch_seconds: float) -> dict[str, float]:
    """Split the seconds of a round into the parts of its turns.

    This thread spent ``method_seconds`` in the agent's method, if it runs in this thread, and ``batch_seconds`` in the
    agent's player.
    """
    processor = times.processor
    engine_seconds = max(processor.thread + processor.thread_system - batch_seconds, 0.0)
    if method_seconds:
        checks = batch_seconds - method_seconds
        return {OWN_METHOD: method_seconds, POSITIONS_AND_CHECKS: checks, ENGINE: engine_seconds}
    parts = {
        PROCESSES: processor.processes,
        PROCESS_SYSTEM_CALLS: processor.processes_system,
        OTHER_THREADS: processor.other_threads,
        MESSAGES: batch_seconds - min(processor.thread_system, batch_seconds),
        OWN_SYSTEM_CALLS: min(processor.thread_system, batch_seconds),
        ENGINE: engine_seconds,
    }
    parts[WAITING] = times.seconds - sum(parts.values())
    return {name: seconds for name, seconds in parts.items() if seconds > MIN_SHARE * times.seconds}


def read_processor_seconds() -> ProcessorSeconds:
    """Return the processor time so far of the calling thread, the other threads, and the processes that they started.

    Where the system does not tell system calls or processes apart, as macOS, their seconds are 0.
    """
    process = resource.getrusage(resource.RUSAGE_SELF)
    processes, processes_system = _sum_seconds_of_started_processes()
    if not hasattr(resource, "RUSAGE_THREAD"):
        seconds = time.thread_time()
        other_threads = process.ru_utime + process.ru_stime - seconds
        return ProcessorSeconds(seconds, 0.0, other_threads, processes, processes_system)
    thread = resource.getrusage(resource.RUSAGE_THREAD)
    other_threads = process.ru_utime + process.ru_stime - thread.ru_utime - thread.ru_stime
    return ProcessorSeconds(thread.ru_utime, thread.ru_stime, other_threads, processes, processes_system)


def _sum_seconds_of_started_processes() -> tuple[float, float]:
    """Return the processor time of all running descendants of this process: in programs, and in system calls.

    Both are 0 where there is no folder ``/proc``.
    """
    pids, user_ticks, system_ticks = list_children(os.getpid()), 0, 0
    while pids:
        pid = pids.pop()
        with suppress(OSError):  # the process has just ended
            fields = read_stat_fields(pid)
            user_ticks, system_ticks = user_ticks + int(fields[USER_TICKS]), system_ticks + int(fields[SYSTEM_TICKS])
            pids += list_children(pid)
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    return user_ticks / ticks_per_second, system_ticks / ticks_per_second


def build_parts_table(label: str, parts: TurnParts) -> Table:
    """Build the table of a turn's parts, with its whole in the last row."""
    total = sum(parts.microseconds.values())
    rows = {**parts.microseconds, "in all": total}
    return build_escaped_table(
        [
            ResultColumn("part of a turn", [*rows], right_aligned=False),
            ResultColumn("microseconds", [f"{value:,.2f}" for value in rows.values()]),
            ResultColumn("%", [f"{100 * value / total:.0f}" for value in rows.values()]),
        ],
        f"{label} against random, {format_count_with_noun(parts.games, 'game')} in a block, one thread: "
        "what a turn is made of",
    )
