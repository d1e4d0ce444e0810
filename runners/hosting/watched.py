"""A player in Python whose turns are timed, in threads of this process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import Any

from agents.base import Agent, KernelAgent, LateError
from agents.lift import PythonAgent, PythonPlayer, check_choosers, choosers_of, ready
from quarto.batch import Batch
from quarto.rng import Streams
from quarto.rules import Rules
from runners.hosting.guarded_agent import StuckError, jitted_with_limits
from runners.hosting.interruption import WORKING

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

    def lifted(self, rules: Rules, label: str) -> WatchedPlayer:
        """Its player. Raises ``RequestError`` for an agent that is jitted or does not play the rules."""

        def made() -> PythonAgent:
            agent = self._make()
            if isinstance(agent, KernelAgent):
                raise jitted_with_limits(label)
            check_choosers(choosers_of(agent), rules, label)
            return ready(agent, rules, label)

        return WatchedPlayer(made, self._seconds, label)


class WatchedPlayer(PythonPlayer):
    """An agent whose turns may take ``seconds`` each, by the clock.

    A turn that takes longer cannot be stopped: its thread is left alone with its agent, and another agent, from
    ``make``, takes the next turn. A whole batch may take ``seconds`` for each of its positions.
    """

    def __init__(self, make: Callable[[], PythonAgent], seconds: float, label: str) -> None:
        first = make()
        super().__init__(first)
        self.alone = not first.batches
        self._make = make
        self._seconds = seconds
        self._label = label
        self._voice: _Voice | None = _Voice(first)
        self._stuck: list[_Voice] = []

    def _answers(self, batch: Batch, rng: Streams) -> tuple[Any, Any]:
        """Cells and gifts. Raises what the agent raises, ``LateError`` and ``StuckError``."""
        size = len(rng.seeds)
        with self._lock:
            voice = self._voice = self._voice or _Voice(self._make())
            answer = voice.ask(batch, rng, self._seconds * size)
            if answer is None:
                self._abandon(voice)
                raise LateError(f"its turn took longer than turn_seconds={self._seconds:g}")
        if isinstance(answer, BaseException):
            raise answer
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

    def ask(self, batch: Batch, rng: Streams, seconds: float) -> Answer | None:
        """The answer; None: it has not come in time, and this thread must not be asked again."""
        self._questions.put((batch.copy(), Streams(rng.seeds.copy())))  # its own: it may answer much later
        try:
            return self._answers.get(timeout=seconds)
        except Empty:
            self._questions.put(None)
            self._thread.name = f"{WORKING} on"  # nobody waits for it
            return None


Answer = tuple[Any, Any] | BaseException  # cells and gifts, or what the agent raised
Answers = SimpleQueue[Answer]
Questions = SimpleQueue[tuple[Batch, Streams] | None]  # None: there are no more


def _answer_all(agent: PythonAgent, questions: Questions, found: Answers) -> None:
    while (question := questions.get()) is not None:
        try:
            answer: Answer = agent.answers(*question)
        except BaseException as error:  # noqa: BLE001  (raised again where the question came from)
            answer = error
        found.put(answer)
