"""A player in Python that plays in processes of its own, which may die, hang or take too much memory."""

from __future__ import annotations

import sys
import weakref
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agents.base import LateError
from agents.learning.policy import Policy
from agents.lift import PythonPlayer, check_choosers
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.rng import Streams
from quarto.rules import Rules
from runners.hosting.child_process import NO_ANSWER, ChildProcess, ProcessDiedError, decoded, has_descriptor
from runners.hosting.framing import ANSWERED, ASKED, COLUMN, FAILED, SETUP
from runners.hosting.messages import ROW_BYTES, Column, Failed, Ready, RemoteError, Setup, batch_bytes

PROGRAM = "runners.arena.agent_process"


class IsolatedPlayer(PythonPlayer):
    """An agent in processes of its own: one for each thread that asks at the same time.

    One that dies costs the game that it was asked about. One that is late, or writes nonsense, is ended. In either
    case another one takes its place, which makes the agent anew.
    """

    def __init__(self, setup: Setup, columns: list[bytes], seconds: float | None, rules: Rules) -> None:
        """Raises ``RequestError`` for an agent that cannot be made, is jitted or does not play the rules."""
        super().__init__(None)
        self._setup, self._columns, self._seconds = setup, columns, seconds
        self._idle: list[_Process] = []  # the last one is asked next
        weakref.finalize(self, _end_all, self._idle)
        first = self._start()
        self._idle.append(first)
        if first.ready.jitted:
            raise RequestError(refused(setup.label))
        check_choosers(first.ready.choosers, rules, setup.label)
        self.alone = seconds is not None and not first.ready.batches

    def _answers(self, batch: Batch, rng: Streams) -> tuple[Any, Any]:
        """Cells and gifts. Raises ``RemoteError``, ``ProcessDiedError`` and ``LateError``."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = self._start()
        size = len(rng.seeds)
        try:
            answer = process.answer(batch_bytes(batch, rng), None if self._seconds is None else self._seconds * size)
        except LateError:
            process.end()
            raise LateError(f"its turn took longer than turn_seconds={self._seconds:g}") from None
        except BaseException:
            process.end()
            raise
        self._idle.append(process)
        if isinstance(answer, Failed):
            raise RemoteError(answer)
        return answer[:size], answer[size:]

    def _start(self) -> _Process:
        return _Process(self._setup, self._columns)


def refused(label: str) -> str:
    """The message for an agent that has limits and is jitted."""
    return (
        f"agent '{label}' is jitted: turn_seconds and isolation are for agents in Python, whose turns can be ended; "
        "leave them out"
    )


def setup_of(
    label: str, target: str, params: dict[str, Any], policy: Policy | None, rules: Rules | None, megabytes: int | None
) -> tuple[Setup, list[bytes]]:
    """The message that has an agent made, and the columns of its policy."""
    table = {} if policy is None else {name: np.ascontiguousarray(column) for name, column in policy.table.items()}
    setup = Setup(
        label,
        target,
        params,
        None if rules is None else asdict(rules),
        megabytes,
        None if policy is None else policy.kind,
        {} if policy is None else dict(policy.parameters),
        [Column(name, column.dtype.str) for name, column in table.items()],
    )
    return setup, [column.tobytes() for column in table.values()]


def data_files(setup: Setup, columns: list[bytes]) -> list[str]:
    """The files that an agent names as its data: only its own process makes it. Raises ``RequestError``."""
    process = _Process(setup, columns)
    process.end()
    return process.ready.data_files


class _Process(ChildProcess):
    """A process with an agent."""

    def __init__(self, setup: Setup, columns: list[bytes]) -> None:
        """Raises ``RequestError`` if the agent cannot be made there."""
        # Standard output is for results.
        super().__init__([], PROGRAM, stdout=sys.stderr if has_descriptor(sys.stderr) else None)
        with self.ended_if_it_fails():
            self.ready = self._set_up(setup, columns)

    def _set_up(self, setup: Setup, columns: list[bytes]) -> Ready:
        try:
            for kind, content in ((SETUP, msgspec.json.encode(setup)), *((COLUMN, column) for column in columns)):
                self.write(kind, content)
            kind, content = self.read()
        except ProcessDiedError as error:
            raise RequestError(f"agent '{setup.label}' cannot be made in a process of its own: {error}") from error
        if kind == FAILED:
            failed = decoded(content, Failed)
            text = failed.text if failed.ours else f"agent '{setup.label}' cannot be made: {failed.kind}: {failed.text}"
            raise RequestError(text)
        ready: Ready = decoded(content, Ready)
        return ready

    def answer(self, question: bytes, seconds: float | None) -> NDArray[np.int64] | Failed:
        """The answers to a batch, cells then gifts. Raises ``ProcessDiedError`` and ``LateError``."""
        self.write(ASKED, question)
        kind, content = self.read(seconds)
        if kind == FAILED:
            failed: Failed = decoded(content, Failed)
            return failed
        if kind != ANSWERED or len(content) != 2 * np.dtype(np.int64).itemsize * (len(question) // ROW_BYTES):
            raise ProcessDiedError(NO_ANSWER)
        return np.frombuffer(content, np.int64)


def _end_all(processes: list[_Process]) -> None:
    for process in processes:
        process.end()
