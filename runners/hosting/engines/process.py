"""An engine as a process: it gets lines on its standard input and answers with lines on its standard output."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, cast

from agents.base.agent import Evaluation, TurnTimeoutError
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.hosting.engines.protocol import GREETING, QUIT, READY, TURNS_BY_LINE, format_rules_line
from runners.hosting.subprocesses import PIPE, Limits, OutputTail, describe_exit, start_command

GREETING_SECONDS = 60.0  # an engine may load a network
FIRST_SECONDS, AGAIN_SECONDS = (
    2.0,
    6.0,
)  # for an answer before, and after, its input was ended to see one that is held back
QUIT_SECONDS = 1.0
BUFFER_BYTES = 1 << 16  # bytes that are read or written at once
MAX_LINE_BYTES = 4096  # bytes of an answer
MAX_NODES = (1 << 63) - 1  # that are stored
MAX_INFO_LINES = 10_000  # lines before a turn
SHOWN_CHARACTERS = 200  # characters of an answer or of standard error that a message repeats
MAX_ERROR_BYTES = 1 << 16  # bytes of standard error that are kept
LOGGED_LINES = 10  # lines of these that the log gets
ERROR_PATTERN = re.compile("error|panic|exception|fatal|abort|failed|assert", re.IGNORECASE)
FLUSH_HINT = "it may leave an answer out, or not flush its output"


class EngineError(Exception):
    """An engine ended, or wrote what is no answer."""

    raised_at = "its process"


class EngineProcess:
    """A running engine that has said it is ready to play by some rules."""

    def __init__(self, command: Sequence[str], rules: Rules | None, megabytes: int | None = None) -> None:
        """Start it and greet it; without rules it is not told any. Raises ``RequestError`` if that fails.

        If it is silent, its input is ended: an answer that comes then was not flushed, or is a chance. So it is started
        again, and waited for as long as the first one took and more.
        """
        self._megabytes = megabytes
        try:
            try:
                self._start(command, rules, FIRST_SECONDS)
            except TurnTimeoutError:
                held = self.stop_and_describe_silence()
                seconds = AGAIN_SECONDS if held else GREETING_SECONDS
                try:
                    self._start(command, rules, seconds)
                except TurnTimeoutError as late:
                    raise EngineError(f"{late} within {seconds:g} seconds: {held or FLUSH_HINT}") from None
        except EngineError as error:
            self.stop()
            raise RequestError(f"engine {' '.join(command)!r}: {error}") from error

    def _start(self, command: Sequence[str], rules: Rules | None, seconds: float) -> None:
        """Start and greet it. Raises ``EngineError``, ``TurnTimeoutError``."""
        self._said_before = 0  # bytes of its standard error when it was asked last
        self._said = OutputTail(MAX_ERROR_BYTES)
        self._process = start_command(
            command, Limits(self._megabytes), stdin=PIPE, stdout=PIPE, stderr=self._said.writing_end
        )
        self._said.start()
        self._to, self._from = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        os.set_blocking(self._to.fileno(), False)
        self.evaluation = Evaluation()  # of the last turn, or the next one
        self._rest = b""  # of a line that has not ended
        self._lines: list[bytes] = []  # that have come and were not asked for yet, the last one first
        for line in (GREETING, *([] if rules is None else [format_rules_line(rules)])):
            self._greet(line, seconds)

    def _greet(self, line: str, seconds: float) -> None:
        """Send a line and read up to ``ready``. Raises ``EngineError``, ``TurnTimeoutError``."""
        asked = " ".join(line.split()[:2])
        try:
            for answer in self.request_lines(f"{line}\n".encode(), seconds):
                if answer == READY:
                    return
                if not answer.startswith(b"name "):
                    instead = "" if answer.startswith(b"error") else " instead of 'ready'"
                    raise EngineError(f"it answered {asked!r} with {quote_line(answer)}{instead}")
        except TurnTimeoutError:
            raise TurnTimeoutError(f"it did not answer {asked!r}") from None

    def stop_and_describe_silence(self) -> str:
        """Why an answer has not come; empty if that is not seen. Its input is ended, and then the process."""
        if self._rest:
            self.stop()
            return f"it wrote {quote_line(self._rest)}, and no end of the line"
        self._to.close()
        try:
            with suppress(EngineError, TurnTimeoutError):
                for line in self.request_lines(b"", QUIT_SECONDS):
                    return f"{quote_line(line)} came only when its input had ended, so it does not flush its output"
            return ""
        finally:
            self.stop()

    def request_turns(self, content: bytes, seconds: float | None) -> Iterator[tuple[int, int] | bytes]:
        """The answers to positions and ``go``: (cell, gift) each, or a line that is no turn.

        ``evaluation`` is what it reported of the last one.

        Raises ``EngineError`` when it ends, ``TurnTimeoutError`` for a turn that takes longer than ``seconds``.
        """
        if not self._lines and select.select([self._from], [], [], 0)[0]:
            self._read_lines()  # it has ended, or written what nobody asked for
        if self._lines or self._rest:
            raise EngineError(
                f"it wrote {quote_line(self._lines[-1] if self._lines else self._rest)} without being asked"
            )
        self._said_before = self._said.size
        informed, self.evaluation = 0, Evaluation()
        for line in self.request_lines(content, seconds):
            turn = TURNS_BY_LINE.get(line)
            if turn is not None:
                informed = 0
                yield turn
                self.evaluation = Evaluation()
            elif line.startswith(b"info "):
                informed += 1
                if informed > MAX_INFO_LINES:
                    raise EngineError(f"it wrote more than {MAX_INFO_LINES:,} lines 'info' before a turn")
                self.evaluation = _parse_info(line, self.evaluation)
            else:
                informed = 0
                yield TURNS_BY_LINE.get(normalise_line(line), line)
                self.evaluation = Evaluation()

    def request_lines(self, content: bytes, seconds: float | None) -> Iterator[bytes]:
        """Send bytes, and the lines that come then, without their ends, as long as they are asked for.

        Each line but an ``info`` has ``seconds`` of its own. Reading goes on while it is written to, so neither side
        waits for the other. Raises ``EngineError`` and ``TurnTimeoutError``.
        """
        rest = memoryview(content)
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            while self._lines:
                line = self._lines.pop()
                if len(line) > MAX_LINE_BYTES:
                    raise EngineError(f"it wrote a line of more than {MAX_LINE_BYTES:,} bytes")
                if seconds is not None and not line.startswith(b"info"):
                    deadline = time.monotonic() + seconds
                yield line
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            readable, writable, _ = select.select([self._from], [self._to] if rest else [], [], wait)
            if not readable and not writable:
                raise TurnTimeoutError
            if readable:
                self._read_lines()
            if writable:
                rest = rest[self._write(rest[:BUFFER_BYTES]) :]

    def _write(self, content: memoryview) -> int:
        try:
            return os.write(self._to.fileno(), content)
        except BlockingIOError:
            return 0
        except OSError:  # it has closed its input: reading tells how it ended
            return len(content)

    def _read_lines(self) -> None:
        part = os.read(self._from.fileno(), BUFFER_BYTES)
        if not part:
            raise self._build_end_error()
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:  # it need not end: what came before it still counts
            lines.append(self._rest)
        self._lines = [line.removesuffix(b"\r") for line in lines if line.strip()][::-1]

    def _build_end_error(self) -> EngineError:
        """The way in which it ended, and what its standard error has begun with since it was asked last.

        A note, for the log, has the last lines there.
        """
        code = self._process.wait(QUIT_SECONDS)
        if code is None:
            return EngineError("it closed its standard output")
        said = [line for line in self._said.read_since(self._said_before, QUIT_SECONDS).splitlines() if line.strip()]
        limit = f", and megabytes={self._megabytes} limits its memory" if code and self._megabytes else ""
        error = EngineError(
            f"{describe_exit(code)}{limit}{f': {_find_main_error(said):.{SHOWN_CHARACTERS}}' if said else ''}"
        )
        if said:
            error.add_note("\n".join(["The end of its standard error:", *said[-LOGGED_LINES:]]))
        return error

    def quit(self) -> bool:
        """Ask it to end; returns whether it did so in time. It has ended in any case then."""
        with suppress(OSError):
            os.write(self._to.fileno(), QUIT)
            self._to.close()
        return self._process.stop(QUIT_SECONDS, grace_signal=None)

    def stop(self) -> None:
        """End it and the processes that it started. May be called again."""
        self._process.stop()


def _find_main_error(error_lines: Sequence[str]) -> str:
    """The line that says most of why a program ended: the first that tells of an error, or the first."""
    if any(line.startswith("Traceback") for line in error_lines):  # of Python, which says it last
        return error_lines[-1]
    first = next((number for number, line in enumerate(error_lines) if ERROR_PATTERN.search(line)), 0)
    return " ".join(error_lines[first : first + 2]) if error_lines[first].endswith(":") else error_lines[first]


def _parse_info(line: bytes, earlier_evaluation: Evaluation) -> Evaluation:
    """The evaluation in an ``info``, after those of earlier lines.

    Raises ``EngineError`` for a ``value`` that is not from -1 to 1.
    """
    words, evaluation = line.split(), earlier_evaluation
    for key, text in zip(words[1::2], words[2::2], strict=False):
        with suppress(ValueError):
            if key == b"nodes" and text.isdigit():
                evaluation = evaluation._replace(visits=min(int(text), MAX_NODES))
            if key != b"value":
                continue
            if -1 <= float(text) <= 1:
                evaluation = evaluation._replace(value=float(text))
                continue
        raise EngineError(f"it wrote {quote_line(line)}, and a value is a number from -1 (lost) to 1 (won)")
    return evaluation


def normalise_line(line: bytes) -> bytes:
    """Return a line as ``TURNS_BY_LINE`` has it: words in their usual case, one space between them."""
    words = line.split()
    return b" ".join([*(word.lower() for word in words[:-1]), *(word.upper() for word in words[-1:])])


def quote_line(line: bytes) -> str:
    """A line for a message."""
    return repr(line.decode(errors="replace")[:SHOWN_CHARACTERS])
