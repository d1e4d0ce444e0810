"""Limits of a question: memory, space on the disk, time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import duckdb

from analytics.files.backend import bytes_of
from quarto.errors import RequestError

MEMORY = "70%"  # of the machine's; a larger question spills to the temporary folder
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]i?B|%)")  # what DuckDB takes
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Limits:
    """Limits of a question. Raises ``RequestError`` for a value that is no amount of memory or time."""

    memory: str = MEMORY  # 1GiB, 70%; what needs more is spilled to the disk
    spill: str | None = None  # 10GiB; None: nine tenths of what is free
    seconds: float | None = None  # None: no limit
    stopped: Event | None = None  # set from any thread, it ends the question and all that follow
    options: bool = True  # whoever asks sets these by options of the command line, which errors then name

    def __post_init__(self) -> None:
        _check_amount("memory", self.memory, "1GiB, 500MB or 70%")
        if self.spill is not None:
            _check_amount("spill", self.spill, "10GiB or 500MB")
            if self.spill.endswith("%"):
                raise RequestError(f"spill {self.spill!r} is a share, not an amount: write 10GiB or 500MB")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise RequestError(f"timeout {self.seconds:g} is not a time: write a number of seconds above 0")

    @contextmanager
    def kept(self, connection: duckdb.DuckDBPyConnection, spilled: Path, broken: list[RequestError]) -> Iterator[None]:
        """Interrupt what the connection does inside the context at a limit, and add the error to ``broken``.

        DuckDB 2.0 does not keep its own setting ``max_temp_directory_size``: it spilled 740 MB where 5 were allowed. So
        the folder is measured twenty times a second.
        """
        if self.seconds is None and self.spill is None and self.stopped is None:
            yield
            return
        done = Event()
        watch = Thread(target=self._watch, args=(connection, spilled, done, broken), daemon=True)
        watch.start()
        try:
            yield
        finally:
            done.set()
            watch.join()

    def _watch(
        self, connection: duckdb.DuckDBPyConnection, spilled: Path, done: Event, broken: list[RequestError]
    ) -> None:
        end = math.inf if self.seconds is None else time.monotonic() + self.seconds
        most = math.inf if self.spill is None else bytes_of(self.spill)
        while not done.wait(min(_LOOK_SECONDS, max(0.0, end - time.monotonic()) or _LOOK_SECONDS)):
            if not broken and time.monotonic() >= end:
                broken.append(self.late())
            if not broken and most < math.inf and _size_of(spilled) > most:
                broken.append(
                    RequestError(
                        f"SQL: the question spills more than {self.spill} to the disk: "
                        f"{self._more('allow more (--spill), or more memory (--memory), or ')}ask about fewer games"
                    )
                )
            if not broken and self.stopped is not None and self.stopped.is_set():
                broken.append(RequestError("SQL: the question was stopped"))
            if broken:
                connection.interrupt()  # again and again: one between two statements is lost

    def late(self) -> RequestError:
        """The error for a question that takes longer than it may."""
        return RequestError(
            f"SQL: the question took longer than {self.seconds:g} seconds: "
            f"{self._more('allow more (--timeout), or ')}ask about fewer games"
        )

    def explained(self, complaint: str) -> RequestError | None:
        """The error for DuckDB's message if the question needs too much memory; None if it does not."""
        if not complaint.startswith("Out of Memory Error"):
            return None
        remedy = self._more("raise the limit (--memory 4GiB), or ")
        return RequestError(f"SQL: the question needs more memory than it may use: {remedy}ask about fewer games")

    def _more(self, remedy: str) -> str:
        return remedy if self.options else ""


def _check_amount(name: str, text: str, examples: str) -> None:
    found = _AMOUNT.fullmatch(text)
    if not found or not float(found[1]):
        raise RequestError(f"{name} {text!r} is not an amount of memory: write {examples}")


def _size_of(folder: Path) -> int:
    """The bytes on the disk of the files in a folder, 0 if it does not exist."""
    total = 0
    with suppress(OSError):  # files come and go
        for file in folder.iterdir():
            total += file.stat().st_blocks * 512
    return total


NO_LIMITS = Limits()  # but for memory
