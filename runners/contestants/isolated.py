"""A player in Python that plays in processes of its own, which may die, hang or take too much memory."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import weakref
from contextlib import suppress
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
from runners.contestants.messages import (
    ANSWERED,
    ASKED,
    COLUMN,
    FAILED,
    HEADER,
    MOST_BYTES,
    ROW_BYTES,
    SETUP,
    Column,
    Failed,
    Ready,
    Setup,
    batch_bytes,
    write_message,
)

PROGRAM = "runners.arena.agent_process"


class ProcessDiedError(Exception):
    """The process of an agent ended, or wrote what is no answer, instead of answering."""

    place = "its process"


class RemoteError(Exception):
    """An exception in the process of an agent."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(f"{failed.kind}: {failed.text}")
        self.place = failed.place
        self.add_note(failed.traceback)


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


class _Process:
    """A process with an agent. It lives no longer than this object's process."""

    def __init__(self, setup: Setup, columns: list[bytes]) -> None:
        """Raises ``RequestError`` if the agent cannot be made there."""
        questions, self._to = os.pipe()
        self._from, replies = os.pipe()
        lifeline, self._lifeline = os.pipe()
        theirs = questions, replies, lifeline
        self._process = subprocess.Popen(  # noqa: S603  (this program)
            [sys.executable, "-m", PROGRAM, *map(str, theirs)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if _has_descriptor() else None,  # standard output is for results
            pass_fds=theirs,
            process_group=0,  # Ctrl-C is for the run
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for descriptor in theirs:
            os.close(descriptor)
        try:
            self.ready = self._set_up(setup, columns)
        except BaseException:
            self.end()
            raise

    def _set_up(self, setup: Setup, columns: list[bytes]) -> Ready:
        try:
            for kind, content in ((SETUP, msgspec.json.encode(setup)), *((COLUMN, column) for column in columns)):
                write_message(self._to, kind, content)
            kind, content = self._read(None)
        except (OSError, ProcessDiedError) as error:
            raise RequestError(f"agent '{setup.label}' cannot be made in a process of its own: {error}") from error
        if kind == FAILED:
            failed = _decoded(content, Failed)
            text = failed.text if failed.ours else f"agent '{setup.label}' cannot be made: {failed.kind}: {failed.text}"
            raise RequestError(text)
        ready: Ready = _decoded(content, Ready)
        return ready

    def answer(self, question: bytes, seconds: float | None) -> NDArray[np.int64] | Failed:
        """The answers to a batch, cells then gifts. Raises ``ProcessDiedError`` and ``LateError``."""
        try:
            write_message(self._to, ASKED, question)
        except OSError as error:
            raise ProcessDiedError(self._death()) from error
        kind, content = self._read(seconds)
        if kind == FAILED:
            failed: Failed = _decoded(content, Failed)
            return failed
        if kind != ANSWERED or len(content) != 2 * np.dtype(np.int64).itemsize * (len(question) // ROW_BYTES):
            raise ProcessDiedError("its process wrote what is no answer")
        return np.frombuffer(content, np.int64)

    def _read(self, seconds: float | None) -> tuple[int, bytes]:
        deadline = None if seconds is None else time.monotonic() + seconds
        kind, length = HEADER.unpack(self._bytes(HEADER.size, deadline))
        if length > MOST_BYTES:
            raise ProcessDiedError("its process wrote what is no answer")
        return kind, self._bytes(length, deadline)

    def _bytes(self, length: int, deadline: float | None) -> bytes:
        found = b""
        while len(found) < length:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._from], [], [], left)[0]:
                raise LateError
            part = os.read(self._from, length - len(found))
            if not part:
                raise ProcessDiedError(self._death())
            found += part
        return found

    def _death(self) -> str:
        """How the process ended."""
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "its process closed its pipes"
        if code >= 0:
            return f"its process ended with exit code {code}"
        return f"its process was ended by signal {-code} ({_signal_name(-code)})"

    def end(self) -> None:
        """End the process, if it has not ended."""
        self._process.kill()
        self._process.wait()
        for descriptor in (self._to, self._from, self._lifeline):
            with suppress(OSError):
                os.close(descriptor)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _has_descriptor() -> bool:
    """Whether standard error is a file: under some test runners and notebooks it is not."""
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _decoded(content: bytes, type_: type[Any]) -> Any:
    try:
        return msgspec.json.decode(content, type=type_)
    except msgspec.MsgspecError as error:
        raise ProcessDiedError("its process wrote what is no answer") from error


def _end_all(processes: list[_Process]) -> None:
    for process in processes:
        process.end()
