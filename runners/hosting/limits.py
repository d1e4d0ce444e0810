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

from agents.base.agent import Agent, AgentLimits, KernelAgent, LateError
from agents.base.player import PythonAgent, PythonPlayer, check_choosers, choosers_of, ready
from agents.learning.policy import Policy
from quarto.batch import Batch, Thoughts
from quarto.errors import RemoteError, RequestError
from quarto.rng import Streams
from quarto.rules import Rules
from runners.hosting.child import NO_ANSWER, Child, ChildDiedError, end_all
from runners.hosting.compile_clock import CompileClock, deadline_after, load_views, own_clock
from runners.hosting.guarded_agent import StuckError, jitted_with_limits
from runners.hosting.interruption import WORKING

SERVED = "runners.arena.agent_process:serve"
DTYPES = (np.uint64, np.uint16, np.uint16, np.int8, np.int8, np.uint64)  # of a batch's fields, then of the seeds
ANSWERED = ("cells", "gifts", *Thoughts._fields)  # an int64 of each for a position
ROW_BYTES = sum(np.dtype(each).itemsize for each in DTYPES)


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
        self._unused: list[Child] = []  # at most one, which has told the facts
        weakref.finalize(self, end_all, self._unused)

    @cached_property
    def facts(self) -> AgentFacts:
        """The facts of the agent, which is made for them. Raises ``RequestError`` if it cannot be made."""
        child, facts = self._made()
        self._unused.append(child)
        return facts

    @property
    def data_files(self) -> list[str]:
        """The files that it names as its data. Raises ``RequestError`` if it cannot be made."""
        return self.facts.data_files

    def lifted(self, rules: Rules, label: str) -> IsolatedPlayer:
        """Its player. Raises ``RequestError`` if it cannot be made, is jitted or does not play the rules."""
        return IsolatedPlayer(self, rules, label)

    def start(self, rules: Rules) -> Child:
        """A child with the agent, ready to play. Raises ``RequestError`` if the agent cannot be made there."""
        child = self._unused.pop() if self._unused else self._made()[0]
        with self._explained(child):
            child.ask(asdict(rules), b"", type(None))
        return child

    def _made(self) -> tuple[Child, AgentFacts]:
        with self._explained() as asked:
            clock = CompileClock()
            setup = {**self._setup, "compiling": clock.descriptor}
            asked.append(Child(SERVED, setup, self._content, self.limits.megabytes, clock=clock))
            return asked[0], asked[0].receive(AgentFacts)[0]

    @contextmanager
    def _explained(self, *children: Child) -> Iterator[list[Child]]:
        """Raises ``RequestError`` for what a child raises, and for one that dies; both are ended."""
        asked, what = [*children], f"agent '{self.label}'"
        try:
            yield asked
        except ChildDiedError as error:
            raise RequestError(f"{what} cannot be made in a process of its own: {error}") from error
        except RemoteError as error:
            end_all(asked)
            raise error.for_user(what) from error


class IsolatedPlayer(PythonPlayer):
    """An agent in child processes: one for each thread that asks at the same time.

    A child that dies costs the game that it was asked about. One that is late, or writes nonsense, is ended. In either
    case another one takes its place, which makes the agent anew.
    """

    def __init__(self, agent: IsolatedAgent, rules: Rules, label: str) -> None:
        """Raises ``RequestError`` as ``IsolatedAgent.lifted`` does."""
        super().__init__(None)
        self._isolated, self._rules, self._seconds = agent, rules, agent.limits.turn_seconds
        if agent.facts.jitted:
            raise jitted_with_limits(label)
        check_choosers(agent.facts.choosers, rules, label)
        self._idle = [agent.start(rules)]  # the last one is asked next
        weakref.finalize(self, end_all, self._idle)
        self.alone = self._seconds is not None and not agent.facts.batches

    def _answers(self, batch: Batch, rng: Streams, thoughts: Thoughts | None) -> tuple[Any, Any]:
        """Cells, gifts and thoughts. Raises ``RemoteError``, ``ChildDiedError`` and ``LateError``."""
        try:
            child = self._idle.pop()
        except IndexError:
            child = self._isolated.start(self._rules)
        size = len(rng.seeds)
        try:
            content = child.ask(None, batch_bytes(batch, rng), type(None), self._seconds and self._seconds * size)[1]
        except LateError:
            raise LateError(f"its turn took longer than turn_seconds={self._seconds:g}") from None
        except RemoteError:
            self._idle.append(child)
            raise
        if len(content) != len(ANSWERED) * 8 * size:
            child.end()
            raise ChildDiedError(NO_ANSWER)
        self._idle.append(child)
        cells, gifts, value, visits, microseconds = np.frombuffer(content, np.int64).reshape(len(ANSWERED), size)
        if thoughts is not None:
            thoughts.put(slice(None), Thoughts(value.astype(np.int32), visits, microseconds))
        return cells, gifts


def batch_bytes(batch: Batch, rng: Streams) -> bytes:
    """Positions and the seeds of their turns as bytes."""
    return b"".join(np.ascontiguousarray(each).tobytes() for each in (*batch, rng.seeds))


def batch_of(content: bytes) -> tuple[Batch, Streams]:
    """The positions and seeds in ``batch_bytes``."""
    size, start = len(content) // ROW_BYTES, 0
    fields: list[Any] = []
    for dtype in DTYPES:
        fields.append(np.frombuffer(content, dtype, size, start).copy())
        start += fields[-1].nbytes
    return Batch(*fields[:-1]), Streams(fields[-1])


MOST_STUCK = 4  # turns that run on after their time; each takes a share of the interpreter


class TimedAgent:
    """An agent that ``make`` makes, whose turns may take ``seconds`` each."""

    def __init__(self, make: Callable[[], Agent], seconds: float) -> None:
        self._make, self._seconds = make, seconds

    @cached_property
    def data_files(self) -> Sequence[Any]:
        """The files that the agent names as its data. Raises ``RequestError`` if it cannot be made."""
        found: Sequence[Any] = getattr(self._make(), "data_files", ())
        return found

    def lifted(self, rules: Rules, label: str) -> TimedPlayer:
        """Its player. Raises ``RequestError`` for an agent that is jitted or does not play the rules."""

        def made() -> PythonAgent:
            agent = self._make()
            if isinstance(agent, KernelAgent):
                raise jitted_with_limits(label)
            check_choosers(choosers_of(agent), rules, label)
            player = ready(agent, rules, label)
            load_views(rules, player.batches)
            return player

        return TimedPlayer(made, self._seconds, label)


class TimedPlayer(PythonPlayer):
    """An agent whose turns may take ``seconds`` each, by the clock.

    A turn that takes longer cannot be stopped: its thread is left alone with its agent, and another agent, from
    ``make``, takes the next turn. A whole batch may take ``seconds`` for each of its positions.
    """

    def __init__(self, make: Callable[[], PythonAgent], seconds: float, label: str) -> None:
        first = make()
        super().__init__(first)
        self.alone = not first.batches
        self.copy_obstacle = "its turns are limited by the clock, so they cannot be repeated"
        self._make = make
        self._seconds = seconds
        self._label = label
        self._voice: _Voice | None = _Voice(first)
        self._stuck: list[_Voice] = []

    def _answers(self, batch: Batch, rng: Streams, thoughts: Thoughts | None) -> tuple[Any, Any]:
        """Cells, gifts and thoughts. Raises what the agent raises, ``LateError`` and ``StuckError``."""
        size = len(rng.seeds)
        with self._lock:
            voice = self._voice = self._voice or _Voice(self._make())
            told = Thoughts.none(size)
            answer = voice.ask(batch, rng, told, self._seconds * size)
            if answer is None:
                self._abandon(voice)
                raise LateError(f"its turn took longer than turn_seconds={self._seconds:g}")
        if isinstance(answer, BaseException):
            raise answer
        if thoughts is not None:
            thoughts.put(slice(None), told)
        return answer

    def _abandon(self, voice: _Voice) -> None:
        self._voice = None
        self._stuck = [each for each in (*self._stuck, voice) if each.is_busy]
        if len(self._stuck) >= MOST_STUCK:
            raise StuckError(
                f"agent '{self._label}' has {len(self._stuck)} turns that took longer than "
                f"turn_seconds={self._seconds:g} and still compute: only a process can be ended, so set its key "
                "isolation=process; finished games are in the archive"
            )


class _Voice:
    """A thread in which an agent answers. The thread ends when this object is no longer used."""

    def __init__(self, agent: PythonAgent) -> None:
        self._questions: Questions = SimpleQueue()
        self._answers: Answers = SimpleQueue()
        self._thread = threading.Thread(
            target=_answer_all, args=(agent, self._questions, self._answers), name="turns", daemon=True
        )
        self._thread.start()
        weakref.finalize(self, self._questions.put, None)

    @property
    def is_busy(self) -> bool:
        """Whether it still computes an answer, although it will not be asked again."""
        return self._thread.is_alive()

    def ask(self, batch: Batch, rng: Streams, told: Thoughts, seconds: float) -> Answer | None:
        """The answer, and thoughts into ``told``; None: it is late, and this thread must not be asked again."""
        self._questions.put((batch.copy(), Streams(rng.seeds.copy()), told))  # its own: it may answer much later
        deadline = deadline_after(seconds, own_clock())
        while (left := deadline() - time.monotonic()) > 0:
            with suppress(Empty):
                return self._answers.get(timeout=left)
        self._questions.put(None)
        self._thread.name = f"{WORKING} on"  # nobody waits for it
        return None


Answer = tuple[Any, Any] | BaseException  # cells and gifts, or what the agent raised
Answers = SimpleQueue[Answer]
Questions = SimpleQueue[tuple[Batch, Streams, Thoughts] | None]  # None: there are no more


def _answer_all(agent: PythonAgent, questions: Questions, found: Answers) -> None:
    while (question := questions.get()) is not None:
        try:
            answer: Answer = agent.answers(*question)
        except BaseException as error:  # noqa: BLE001  (raised again where the question came from)
            answer = error
        found.put(answer)
