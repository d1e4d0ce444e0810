"""Limits of a player in Python: it plays in child processes, or its turns are timed in threads of this process.

A child process may die, hang or take too much memory.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
import numpy as np

from agents.base.agent import Agent, AgentLimits, KernelAgent, TurnTimeoutError
from agents.base.player import PythonAgent, PythonPlayer, check_choosers, list_choosers, set_up_python_agent
from agents.learning.policy import Policy
from quarto.batch import Batch, Evaluations
from quarto.errors import RemoteError, RequestError
from quarto.rng import Streams
from quarto.rules import Rules
from runners.hosting.compile_clock import CompileClock, build_deadline, get_process_clock, load_view_kernels
from runners.hosting.guarded_agent import StuckError, build_jitted_error
from runners.hosting.interruption import WORK_THREAD_PREFIX
from runners.hosting.subprocess_client import NO_ANSWER_MESSAGE, Subprocess, SubprocessDiedError, stop_all
from runners.hosting.subprocesses import Limits

HANDLER_FACTORY = "runners.arena.isolated_agent_handler:build_handler"
REQUEST_DTYPES = (
    np.uint64,
    np.uint16,
    np.uint16,
    np.int8,
    np.int8,
    np.uint64,
)  # of a batch's fields, then of the seeds
RESPONSE_COLUMNS = ("cells", "gifts", *Evaluations._fields)  # an int64 of each for a position
ROW_BYTES = sum(np.dtype(each).itemsize for each in REQUEST_DTYPES)


class AgentFacts(msgspec.Struct):
    """What the child says of the agent that it has made."""

    batches: bool  # it takes whole batches
    choosers: list[str]
    jitted: bool
    data_files: list[str]


class IsolatedAgent:
    """An agent that is made in child processes: the class ``target`` with ``params`` and perhaps a policy."""

    def __init__(
        self,
        label: str,
        target: str,
        params: Mapping[str, Any],
        policy: Policy | None,
        limits: AgentLimits,
        trusted: bool,
    ) -> None:
        """``trusted``: the user named the class, so that the child may import it."""
        table = {} if policy is None else {name: np.ascontiguousarray(each) for name, each in policy.table.items()}
        self.label, self.limits = label, limits
        self._content = b"".join(column.tobytes() for column in table.values())
        self._setup = {
            "label": label,
            "target": target,
            "params": dict(params),
            "trusted": trusted,
            "policy": policy
            and {
                "kind": policy.kind,
                "parameters": dict(policy.parameters),
                "columns": [(name, column.dtype.str, len(column)) for name, column in table.items()],
            },
        }
        self._unused: list[Subprocess] = []  # at most one, which has told the facts
        weakref.finalize(self, stop_all, self._unused)

    @cached_property
    def facts(self) -> AgentFacts:
        """The facts of the agent, which is made for them. Raises ``RequestError`` if it cannot be made."""
        child, facts = self._start_with_facts()
        self._unused.append(child)
        return facts

    @property
    def data_files(self) -> list[str]:
        """The files that it names as its data. Raises ``RequestError`` if it cannot be made."""
        return self.facts.data_files

    def build_player(self, rules: Rules, label: str) -> IsolatedPlayer:
        """Its player. Raises ``RequestError`` if it cannot be made, is jitted or does not play the rules."""
        return IsolatedPlayer(self, rules, label)

    def start_subprocess(self, rules: Rules) -> Subprocess:
        """A child with the agent, ready to play. Raises ``RequestError`` if the agent cannot be made there."""
        child = self._unused.pop() if self._unused else self._start_with_facts()[0]
        with self._explain_errors(child):
            child.request(asdict(rules), b"", type(None))
        return child

    def _start_with_facts(self) -> tuple[Subprocess, AgentFacts]:
        with self._explain_errors() as asked:
            clock = CompileClock()
            setup = {**self._setup, "compiling": clock.descriptor}
            asked.append(Subprocess(HANDLER_FACTORY, setup, self._content, Limits(self.limits.megabytes), clock=clock))
            return asked[0], asked[0].receive(AgentFacts)[0]

    @contextmanager
    def _explain_errors(self, *children: Subprocess) -> Iterator[list[Subprocess]]:
        """Raises ``RequestError`` for what a child raises, and for one that dies; both are ended."""
        asked, what = [*children], f"agent '{self.label}'"
        try:
            yield asked
        except SubprocessDiedError as error:
            raise RequestError(f"{what} cannot be made in a process of its own: {error}") from error
        except RemoteError as error:
            stop_all(asked)
            raise error.to_arena_error(what) from error


class IsolatedPlayer(PythonPlayer):
    """An agent in child processes: one for each thread that asks at the same time.

    A child that dies costs the game that it was asked about. One that is late, or writes nonsense, is ended. In either
    case another one takes its place, which makes the agent anew.
    """

    def __init__(self, agent: IsolatedAgent, rules: Rules, label: str) -> None:
        """Raises ``RequestError`` as ``IsolatedAgent.build_player`` does."""
        super().__init__(None)
        self._isolated, self._rules, self._seconds = agent, rules, agent.limits.turn_seconds
        if agent.facts.jitted:
            raise build_jitted_error(label)
        check_choosers(agent.facts.choosers, rules, label)
        self._idle = [agent.start_subprocess(rules)]  # the last one is asked next
        weakref.finalize(self, stop_all, self._idle)
        self.one_position_at_a_time = self._seconds is not None and not agent.facts.batches

    def _choose_turns(self, batch: Batch, rng: Streams, evaluations: Evaluations | None) -> tuple[Any, Any]:
        """Cells, gifts and evaluations. Raises ``RemoteError``, ``SubprocessDiedError`` and ``TurnTimeoutError``."""
        try:
            child = self._idle.pop()
        except IndexError:
            child = self._isolated.start_subprocess(self._rules)
        size = len(rng.seeds)
        try:
            content = child.request(None, encode_batch(batch, rng), type(None), self._seconds and self._seconds * size)[
                1
            ]
        except TurnTimeoutError:
            raise TurnTimeoutError(f"its turn took longer than turn_seconds={self._seconds:g}") from None
        except RemoteError:
            self._idle.append(child)
            raise
        if len(content) != len(RESPONSE_COLUMNS) * 8 * size:
            child.stop()
            raise SubprocessDiedError(NO_ANSWER_MESSAGE)
        self._idle.append(child)
        cells, gifts, value, visits, microseconds = np.frombuffer(content, np.int64).reshape(
            len(RESPONSE_COLUMNS), size
        )
        if evaluations is not None:
            evaluations.put(slice(None), Evaluations(value.astype(np.int32), visits, microseconds))
        return cells, gifts


def encode_batch(batch: Batch, rng: Streams) -> bytes:
    """Positions and the seeds of their turns as bytes."""
    return b"".join(np.ascontiguousarray(each).tobytes() for each in (*batch, rng.seeds))


def decode_batch(content: bytes) -> tuple[Batch, Streams]:
    """The positions and seeds in ``encode_batch``."""
    size, start = len(content) // ROW_BYTES, 0
    fields: list[Any] = []
    for dtype in REQUEST_DTYPES:
        fields.append(np.frombuffer(content, dtype, size, start).copy())
        start += fields[-1].nbytes
    return Batch(*fields[:-1]), Streams(fields[-1])


MAX_STUCK_TURNS = 4  # turns that run on after their time; each takes a share of the interpreter


class TimedAgent:
    """An agent that ``make`` makes, whose turns may take ``seconds`` each."""

    def __init__(self, build_agent: Callable[[], Agent], seconds: float) -> None:
        self._make, self._seconds = build_agent, seconds

    @cached_property
    def data_files(self) -> Sequence[Any]:
        """The files that the agent names as its data. Raises ``RequestError`` if it cannot be made."""
        found: Sequence[Any] = getattr(self._make(), "data_files", ())
        return found

    def build_player(self, rules: Rules, label: str) -> TimedPlayer:
        """Its player. Raises ``RequestError`` for an agent that is jitted or does not play the rules."""

        def build_agent() -> PythonAgent:
            agent = self._make()
            if isinstance(agent, KernelAgent):
                raise build_jitted_error(label)
            check_choosers(list_choosers(agent), rules, label)
            player = set_up_python_agent(agent, rules, label)
            load_view_kernels(rules, player.takes_batches)
            return player

        return TimedPlayer(build_agent, self._seconds, label)


class TimedPlayer(PythonPlayer):
    """An agent whose turns may take ``seconds`` each, by the clock.

    A turn that takes longer cannot be stopped: its thread is left alone with its agent, and another agent, from
    ``make``, takes the next turn. A whole batch may take ``seconds`` for each of its positions.
    """

    def __init__(self, build_agent: Callable[[], PythonAgent], seconds: float, label: str) -> None:
        first = build_agent()
        super().__init__(first)
        self.one_position_at_a_time = not first.takes_batches
        self.copy_obstacle = "its turns are limited by the clock, so they cannot be repeated"
        self._make = build_agent
        self._seconds = seconds
        self._label = label
        self._agent_thread: _AgentThread | None = _AgentThread(first)
        self._stuck: list[_AgentThread] = []

    def _choose_turns(self, batch: Batch, rng: Streams, evaluations: Evaluations | None) -> tuple[Any, Any]:
        """Cells, gifts and evaluations. Raises what the agent raises, ``TurnTimeoutError`` and ``StuckError``."""
        size = len(rng.seeds)
        with self._lock:
            voice = self._agent_thread = self._agent_thread or _AgentThread(self._make())
            reported = Evaluations.blank(size)
            answer = voice.request_turns(batch, rng, reported, self._seconds * size)
            if answer is None:
                self._abandon_thread(voice)
                raise TurnTimeoutError(f"its turn took longer than turn_seconds={self._seconds:g}")
        if isinstance(answer, BaseException):
            raise answer
        if evaluations is not None:
            evaluations.put(slice(None), reported)
        return answer

    def _abandon_thread(self, agent_thread: _AgentThread) -> None:
        self._agent_thread = None
        self._stuck = [each for each in (*self._stuck, agent_thread) if each.is_busy]
        if len(self._stuck) >= MAX_STUCK_TURNS:
            raise StuckError(
                f"agent '{self._label}' has {len(self._stuck)} turns that took longer than "
                f"turn_seconds={self._seconds:g} and still compute: only a process can be ended, so set its key "
                "isolation=process; finished games are in the archive"
            )


class _AgentThread:
    """A thread in which an agent answers. The thread ends when this object is no longer used."""

    def __init__(self, agent: PythonAgent) -> None:
        self._questions: TurnRequests = SimpleQueue()
        self._answers: TurnResponses = SimpleQueue()
        self._thread = threading.Thread(
            target=_serve_requests, args=(agent, self._questions, self._answers), name="turns", daemon=True
        )
        self._thread.start()
        weakref.finalize(self, self._questions.put, None)

    @property
    def is_busy(self) -> bool:
        """Whether it still computes an answer, although it will not be asked again."""
        return self._thread.is_alive()

    def request_turns(
        self, batch: Batch, rng: Streams, evaluations: Evaluations, seconds: float
    ) -> TurnResponse | None:
        """The answer, with its ``evaluations``; None: it is late, and this thread must not be asked again."""
        self._questions.put((batch.copy(), Streams(rng.seeds.copy()), evaluations))  # its own: it may answer much later
        deadline = build_deadline(seconds, get_process_clock())
        while (left := deadline() - time.monotonic()) > 0:
            with suppress(Empty):
                return self._answers.get(timeout=left)
        self._questions.put(None)
        self._thread.name = f"{WORK_THREAD_PREFIX} on"  # nobody waits for it
        return None


TurnResponse = tuple[Any, Any] | BaseException  # cells and gifts, or what the agent raised
TurnResponses = SimpleQueue[TurnResponse]
TurnRequests = SimpleQueue[tuple[Batch, Streams, Evaluations] | None]  # None: there are no more


def _serve_requests(agent: PythonAgent, requests: TurnRequests, responses: TurnResponses) -> None:
    while (question := requests.get()) is not None:
        try:
            answer: TurnResponse = agent.choose_turns(*question)
        except BaseException as error:  # noqa: BLE001  (raised again where the question came from)
            answer = error
        responses.put(answer)
