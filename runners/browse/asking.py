"""Questions in SQL from strangers, each answered within limits by a process that can be ended.

DuckDB's own limits are not enough for a page that anybody may fill in: ``len(range(1000000000))`` took 8 GB where 256
MB were allowed, and ``levenshtein`` of two long texts went on for 84 seconds after DuckDB was told to stop. A process
answers instead whose address space the system limits and which is ended when its time is up; the next question starts
another one. What a question may read, ``analytics.sql.vocabulary`` decides.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from queue import Empty, LifoQueue

import polars as pl

from agents.base import LateError
from quarto.errors import FailureError, RequestError
from runners.browse.busy import BusyError
from runners.hosting.child_process import ChildProcess, ProcessDiedError
from runners.hosting.framing import ANSWERED, ASKED, FAILED, MOST_BYTES, READY, SETUP

PROGRAM = "runners.browse.sql_process"
GRACE_SECONDS = 1.0  # between DuckDB's interruption and the end of the process
OPEN_SECONDS = 120.0  # that opening the archive may take
MOST_TEXT = 20_000  # characters of a question


@dataclass(frozen=True)
class AskLimits:
    """Limits of a question and of all questions together."""

    rows: int = 10_000
    bytes: int = 32_000_000  # of an answer
    seconds: float = 10.0
    memory: str = "512MiB"  # of DuckDB
    spill: str = "1GiB"
    megabytes: int = 2_048  # of address space that the process may take in addition to what it has at the beginning
    processes: int = 2  # questions that are answered at once
    waiting_seconds: float = 30.0  # for a process: then the question is refused

    def __post_init__(self) -> None:
        assert self.bytes < MOST_BYTES  # noqa: S101  (a constant)


class SqlAnswer:
    """The rows of an answer, at most as many as the limit."""

    def __init__(self, frame: pl.DataFrame, most: int) -> None:
        self.cut = frame.height > most  # there are more rows
        self.frame = frame.head(most)


class Asking:
    """Answers questions to an archive. Safe for threads."""

    def __init__(self, archive: PurePath, limits: AskLimits | None = None) -> None:
        self._archive = archive
        self.limits = limits or AskLimits()
        self._slots: LifoQueue[_Slot] = LifoQueue()  # the one used last has its archive open
        self._all = [_Slot(self._start) for _ in range(self.limits.processes)]
        for slot in self._all:
            self._slots.put(slot)

    def ask(self, question: str) -> SqlAnswer:
        """The answer to a question.

        Raises ``RequestError`` for a question that is not allowed, wrong, or beyond a limit; ``FailureError`` for a
        damaged archive, ``BusyError`` while too many other questions are answered.
        """
        if not question.strip():
            raise RequestError("SQL: there is no question: write a SELECT, or take one of the questions below")
        if "\0" in question:
            raise RequestError("SQL: the question holds the character with number 0: leave it out")
        if len(question) > MOST_TEXT:
            raise RequestError(f"SQL: the question has {len(question):,} characters, more than {MOST_TEXT:,}")
        try:
            slot = self._slots.get(timeout=self.limits.waiting_seconds)
        except Empty:
            raise BusyError("the server is answering other questions in SQL: ask again in a moment") from None
        try:
            return SqlAnswer(self._answer(slot, question), self.limits.rows)
        finally:
            self._slots.put(slot)

    def close(self) -> None:
        """End the processes."""
        for slot in self._all:
            slot.end()

    def _start(self) -> ChildProcess:
        # One arena of memory: each thread's own would take 64 MB of the address space.
        process = ChildProcess([], PROGRAM, stderr=subprocess.DEVNULL, variables={"MALLOC_ARENA_MAX": "1"})
        limits = self.limits
        setup = {
            "archive": str(self._archive),
            **{name: getattr(limits, name) for name in ("rows", "bytes", "seconds", "memory", "spill", "megabytes")},
        }
        process.write(SETUP, json.dumps(setup).encode())
        return process

    def _answer(self, slot: _Slot, question: str) -> pl.DataFrame:
        process = slot.process()
        opened = False
        try:
            process.write(ASKED, question.encode(errors="replace"))
            kind, content = process.read(OPEN_SECONDS)
            if kind == READY:
                opened = True
                kind, content = process.read(self.limits.seconds + GRACE_SECONDS)
            if kind == ANSWERED:
                return pl.read_ipc(io.BytesIO(content))
            if kind != FAILED:
                raise ProcessDiedError(f"message {kind}")  # noqa: TRY301  (handled as any other end)
        except LateError:
            slot.end()
            raise self._late(opened) from None
        except ProcessDiedError as error:
            slot.end()
            raise self._died(opened, error) from None
        except BaseException:
            slot.end()
            raise
        found = json.loads(content)
        raise (RequestError if found["wrong"] else FailureError)(found["line"])

    def _late(self, opened: bool) -> RequestError | FailureError:
        if not opened:
            return FailureError(f"the archive took longer than {OPEN_SECONDS:g} seconds to open: ask again in a moment")
        return RequestError(
            f"SQL: the question took longer than {self.limits.seconds:g} seconds: ask about fewer games"
        )

    def _died(self, opened: bool, error: ProcessDiedError) -> RequestError | FailureError:
        if not opened:
            return FailureError(f"the archive could not be opened for the question ({error})")
        return RequestError(f"SQL: the question needs more memory than it may use ({error}): ask about fewer games")


class _Slot:
    """The place of a process, started when it is needed."""

    def __init__(self, start: Callable[[], ChildProcess]) -> None:
        self._start = start
        self._process: ChildProcess | None = None

    def process(self) -> ChildProcess:
        if self._process is None:
            self._process = self._start()
        return self._process

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                process.end()
