"""Agents with a time limit for their turns, which they take in a thread of this process."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from agents.base.agent import Agent, KernelAgent, SomeTurnsFailedError, TurnTimeoutError
from agents.base.player import (
    PythonAgent,
    PythonPlayer,
    check_choosers,
    list_accepted_choosers,
    prepare_python_agent,
    to_turns,
)
from analytics.store.texts import format_count_with_noun
from quarto.batch import Batch, Evaluations
from quarto.rng import Streams
from quarto.rules import NONE, Rules
from runners.hosting.compile_clock import (
    build_monotonic_deadline_function,
    get_process_clock,
    load_batch_view_kernels,
)
from runners.hosting.guarded_agent import StuckError, build_jitted_error
from runners.hosting.interruption import WORK_THREAD_PREFIX

MAX_NUMBER = (1 << 63) - 1  # that an array of int64 holds
MAX_STUCK_TURNS = 4  # the most turns that go on after their time, because each takes a share of the interpreter


class TimedAgent:
    """An agent with a time limit of ``seconds`` for each turn.

    Another agent, which ``build_agent`` builds, chooses the turns.
    """

    def __init__(self, build_agent: Callable[[], Agent], seconds: float) -> None:
        self._build_agent, self._seconds = build_agent, seconds

    @cached_property
    def data_files(self) -> Sequence[Any]:
        """The files that the agent names as its data. Raises ``RequestError`` if the agent cannot be built."""
        files: Sequence[Any] = getattr(self._build_agent(), "data_files", ())
        return files

    def build_player(self, rules: Rules, label: str) -> TimedPlayer:
        """Build the agent's player. Raises ``RequestError`` if the agent is jitted or does not play by these rules."""

        def build_agent() -> PythonAgent:
            agent = self._build_agent()
            if isinstance(agent, KernelAgent):
                raise build_jitted_error(label)
            check_choosers(list_accepted_choosers(agent), rules, label)
            player = prepare_python_agent(agent, rules, label)
            if player.takes_batches:
                load_batch_view_kernels(rules)
            return player

        return TimedPlayer(build_agent, self._seconds, label)


class TimedPlayer(PythonPlayer):
    """A player whose turns may take ``seconds`` each, by the wall clock.

    A turn that exceeds the limit cannot be stopped. Its thread and its agent are therefore abandoned, and
    ``build_agent`` builds another agent for the next turn. A batch may take ``seconds`` for each of its positions.
    """

    def __init__(self, build_agent: Callable[[], PythonAgent], seconds: float, label: str) -> None:
        first = build_agent()
        super().__init__(first)
        self.copy_obstacle = "its turns are limited by the clock, so they cannot be repeated"
        self._takes_batches = first.takes_batches
        self._build_agent = build_agent
        self._seconds = seconds
        self._label = label
        self._agent_thread: _AgentThread | None = _AgentThread(first)
        self._stuck_threads: list[_AgentThread] = []

    def _choose_turns(self, batch: Batch, rng: Streams, evaluations: Evaluations | None) -> tuple[Any, Any]:
        """Return the agent's cells [B] and gifts [B] for ``B`` positions, and fill in ``evaluations`` if given.

        Raises ``StuckError``. If the agent takes whole batches, also raises ``TurnTimeoutError`` and what the agent
        raises; otherwise ``SomeTurnsFailedError``, which has these errors.
        """
        size = len(rng.seeds)
        batch, rng = batch.copy(), Streams(rng.seeds.copy())  # copies, because the response may be late
        own_evaluations = Evaluations.blank(size)
        if self._takes_batches:
            with self._lock:
                ((response, _),) = self._request_turns([(batch, rng, own_evaluations)], self._seconds * size)
            if isinstance(response, BaseException):
                raise response
            if evaluations is not None:
                evaluations.put(slice(None), own_evaluations)
            return response
        turns = [
            (batch.select_range(i, i + 1), Streams(rng.seeds[i : i + 1]), own_evaluations.select(slice(i, i + 1)))
            for i in range(size)
        ]
        responses: list[TimedResponse] = []
        with self._lock:
            while len(responses) < size:
                responses += self._request_turns(turns[len(responses) :], self._seconds)
        if evaluations is not None:
            evaluations.put(slice(None), own_evaluations)
        return self._join_turns(responses, rng, evaluations)

    def _request_turns(self, requests: Sequence[TurnRequest], seconds: float) -> list[TimedResponse]:
        """Return the responses to requests for turns, up to and including the first that takes more than ``seconds``.

        Raises ``StuckError``.
        """
        agent_thread = self._agent_thread = self._agent_thread or _AgentThread(self._build_agent())
        responses = agent_thread.request_turns(requests, seconds)
        if len(responses) < len(requests):
            self._abandon_thread_and_check_stuck_count(agent_thread)
            responses.append(TimedResponse(self._build_late_error(), seconds))
        return [
            TimedResponse(self._build_late_error(), taken) if taken > seconds else TimedResponse(response, taken)
            for response, taken in responses
        ]

    def _build_late_error(self) -> TurnTimeoutError:
        return TurnTimeoutError(f"turn_seconds={self._seconds:g}")

    def _join_turns(
        self, responses: Sequence[TimedResponse], rng: Streams, evaluations: Evaluations | None
    ) -> tuple[Any, Any]:
        """Return the cells [B] and gifts [B] of ``B`` responses, each of which has one turn.

        Raises ``SomeTurnsFailedError`` if some have none. The turns that failed have no evaluation but their time.
        """
        cells, gifts = np.full((2, len(responses)), NONE)
        failures = dict[int, BaseException]()
        for i, (response, seconds) in enumerate(responses):
            if isinstance(response, BaseException):
                failures[i] = response
                if evaluations is not None:
                    evaluations.put(slice(i, i + 1), Evaluations.blank(1))
                    evaluations.microseconds[i] = round(1e6 * seconds)
            else:
                cells[i], gifts[i] = (np.clip(numbers[0], -MAX_NUMBER, MAX_NUMBER) for numbers in response)
        if failures:
            raise SomeTurnsFailedError(to_turns(cells, gifts, rng, self.unusual), failures)
        return cells, gifts

    def _abandon_thread_and_check_stuck_count(self, agent_thread: _AgentThread) -> None:
        self._agent_thread = None
        self._stuck_threads = [thread for thread in (*self._stuck_threads, agent_thread) if thread.is_busy]
        if len(self._stuck_threads) >= MAX_STUCK_TURNS:
            raise StuckError(
                f"agent '{self._label}' has {format_count_with_noun(len(self._stuck_threads), 'turn')} "
                "that took longer than "
                f"turn_seconds={self._seconds:g} and still compute: only a process can be ended, so set its key "
                "isolation=process; finished games are in the archive"
            )


class _Work:
    """What one thread requests of another: turns one after the other, with a time limit for each.

    A lock guards it, so that a turn either has a response or is late.
    """

    def __init__(self, requests: Sequence[TurnRequest], seconds: float) -> None:
        self.requests = requests
        self._lock = threading.Lock()
        self._seconds, self._responses, self._is_abandoned = seconds, list[TimedResponse](), False
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._deadline = build_monotonic_deadline_function(self._seconds, get_process_clock())
        self._start = time.monotonic()

    def add_response(self, response: TurnResponse) -> bool:
        """Add the response to the current request, and return whether somebody waits for the next one."""
        with self._lock:
            if self._is_abandoned:
                return False
            now = time.monotonic()
            seconds = now - self._start
            if seconds > self._seconds:
                seconds = self._seconds + now - self._deadline()  # without the time of compiling
            self._responses.append(TimedResponse(response, seconds))
            self._begin_turn()
            return True

    def get_remaining_seconds(self) -> float:
        """Return the time until the current turn is late."""
        with self._lock:
            return self._deadline() - time.monotonic()

    def abandon_if_late(self) -> bool:
        """End the work after the current turn if that turn is late, and return whether it is late."""
        with self._lock:
            self._is_abandoned = len(self._responses) < len(self.requests) and self._deadline() <= time.monotonic()
            return self._is_abandoned

    @property
    def responses(self) -> list[TimedResponse]:
        """The responses so far. Nobody may be working any more, or the work must be abandoned."""
        return self._responses


class _AgentThread:
    """A thread in which an agent chooses turns. The thread ends when this object is garbage-collected."""

    def __init__(self, agent: PythonAgent) -> None:
        self._works = SimpleQueue[_Work | None]()
        self._ends = SimpleQueue[None]()
        self._thread = threading.Thread(
            target=_serve_requests, args=(agent, self._works, self._ends), name="turns", daemon=True
        )
        self._thread.start()
        weakref.finalize(self, self._works.put, None)

    @property
    def is_busy(self) -> bool:
        """Whether the thread is still computing turns that nobody waits for."""
        return self._thread.is_alive()

    def request_turns(self, requests: Sequence[TurnRequest], seconds: float) -> list[TimedResponse]:
        """Return the agent's response to each request, up to the first that takes longer than ``seconds``.

        If a response is missing, the thread must not be used again. The evaluations in the requests are filled in along
        with the turns.
        """
        work = _Work(requests, seconds)
        self._works.put(work)
        while not work.abandon_if_late():
            with suppress(Empty):
                self._ends.get(timeout=max(work.get_remaining_seconds(), 0.0))
                return work.responses
        self._works.put(None)
        self._thread.name = f"{WORK_THREAD_PREFIX} on"  # nobody waits for this thread
        return work.responses


TurnRequest = tuple[Batch, Streams, Evaluations]
TurnResponse = tuple[Any, Any] | BaseException  # cells and gifts, or what the agent raised


class TimedResponse(NamedTuple):
    """The response to a request for turns, and the time that it took."""

    response: TurnResponse
    seconds: float  # without the time of compiling kernels


def _serve_requests(agent: PythonAgent, works: SimpleQueue[_Work | None], ends: SimpleQueue[None]) -> None:
    while (work := works.get()) is not None:
        for request in work.requests:
            try:
                response: TurnResponse = agent.choose_turns(*request)
            except BaseException as error:  # noqa: BLE001  (raised again where the request came from)
                response = error
            if not work.add_response(response):
                break
        else:
            ends.put(None)
