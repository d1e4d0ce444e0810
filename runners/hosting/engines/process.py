"""An engine as a process: it reads lines on its standard input and answers with lines on its standard output."""

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
from runners.hosting.game_time import ProcessorTimer, TurnTimer
from runners.hosting.subprocesses import PIPE, Limits, OutputTail, Sandbox, describe_exit, start_command

GREETING_SECONDS = 60.0  # an engine may load a network
# Time for the first answer and, if it does not come, for the first answer of a second process: see ``EngineProcess``.
FIRST_SECONDS, AGAIN_SECONDS = 2.0, 6.0
QUIT_SECONDS = 1.0
BUFFER_BYTES = 1 << 16  # the most bytes that are read or written at once
MAX_LINE_BYTES = 4096  # size of an answer
MAX_NODES = (1 << 63) - 1  # the largest number of nodes that can be stored
MAX_INFO_LINES = 10_000  # lines ``info`` before a turn
SHOWN_CHARACTERS = 200  # length to which messages cut a quoted answer or line of standard error
MAX_ERROR_BYTES = 1 << 16  # size of standard error's end that is kept
LOGGED_LINES = 10  # lines of standard error's end that are logged
ERROR_PATTERN = re.compile("error|panic|exception|fatal|abort|failed|assert", re.IGNORECASE)
SHELL_EXIT_CODES = (126, 127)  # of a script whose program cannot be run, or is not found
SANDBOX_HINT = " (a program that it starts is not in the sandbox, which has the system's and those in its own folder)"
FLUSH_HINT = "it may leave an answer out, or not flush its output"


class EngineError(Exception):
    """The error raised if an engine ends, or writes something other than an answer."""

    raised_at = "its process"


class EngineProcess:
    """A running engine that is ready to play by the given rules."""

    def __init__(
        self,
        command: Sequence[str],
        rules: Rules | None,
        megabytes: int | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Start the engine and exchange greetings with it; then send it ``rules`` unless they are None.

        If the engine does not answer, its input is closed: an engine that does not flush its output sends its answer at
        that moment, which reveals this fault. Then the engine is started once more and gets more time, because it may
        just be slow. ``megabytes`` limits its memory; None means no limit. ``sandbox`` is where it runs. Raises
        ``RequestError`` if the engine does not become ready.
        """
        self._megabytes, self._sandbox = megabytes, sandbox
        self._processor_timer: ProcessorTimer | None = None
        try:
            try:
                self._start(command, rules, FIRST_SECONDS)
            except TurnTimeoutError:
                silence_reason = self.stop_and_describe_flush_fault()
                seconds = AGAIN_SECONDS if silence_reason else GREETING_SECONDS
                try:
                    self._start(command, rules, seconds)
                except TurnTimeoutError as late:
                    raise EngineError(f"{late} within {seconds:g} seconds: {silence_reason or FLUSH_HINT}") from None
        except EngineError as error:
            self.stop()
            raise RequestError(f"engine {' '.join(command)!r}: {error}") from error

    def _start(self, command: Sequence[str], rules: Rules | None, seconds: float) -> None:
        """Start the engine and exchange greetings with it; then send it ``rules`` unless they are None.

        Each answer may take ``seconds``. Raises ``EngineError`` or ``TurnTimeoutError``.
        """
        self._earlier_error_bytes = 0  # size of standard error before the last request
        self._error_output = OutputTail(MAX_ERROR_BYTES)
        self._process = start_command(
            command,
            Limits(self._megabytes),
            sandbox=self._sandbox,
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._error_output.writing_end,
        )
        self._error_output.start()
        self._input, self._output = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        os.set_blocking(self._input.fileno(), False)
        self.evaluation = Evaluation()  # of the last turn, or of the turn that comes next
        self._partial_line = b""  # beginning of a line that has not ended
        self._lines: list[bytes] = []  # lines that were not taken yet, the last one first
        for line in (GREETING, *([] if rules is None else [format_rules_line(rules)])):
            self._greet(line, seconds)

    def _greet(self, line: str, seconds: float) -> None:
        """Send the greeting or the line with the rules, and read the engine's answer up to and including ``ready``.

        Raises ``EngineError`` or ``TurnTimeoutError``.
        """
        line_start = " ".join(line.split()[:2])
        try:
            for answer in self.request_lines(f"{line}\n".encode(), seconds):
                if answer == READY:
                    return
                if not answer.startswith(b"name "):
                    instead = "" if answer.startswith(b"error") else " instead of 'ready'"
                    raise EngineError(f"it answered {line_start!r} with {quote_line(answer)}{instead}")
        except TurnTimeoutError:
            raise TurnTimeoutError(f"it did not answer {line_start!r}") from None

    def stop_and_describe_flush_fault(self) -> str:
        """Close the engine's input, end its process, and return why no answer came, or "" if the reason is unknown."""
        if self._partial_line:
            self.stop()
            return f"it wrote {quote_line(self._partial_line)}, and no end of the line"
        self._input.close()
        try:
            with suppress(EngineError, TurnTimeoutError):
                for line in self.request_lines(b"", QUIT_SECONDS):
                    return f"{quote_line(line)} came only when its input had ended, so it does not flush its output"
            return ""
        finally:
            self.stop()

    @property
    def processor_timer(self) -> ProcessorTimer:
        """The timer of the engine's processor time, which this property starts when it is first read."""
        if self._processor_timer is None:
            self._processor_timer = ProcessorTimer(self._process.pid, self._sandbox is not None)
        return self._processor_timer

    def request_turns(
        self, content: bytes, seconds: float | None, turn_timer: TurnTimer | None = None
    ) -> Iterator[tuple[int, int] | bytes]:
        """Send ``content``, which consists of positions and ``go``, and yield the answer to each position.

        An answer is a turn (cell, gift), or the engine's line if that is not a turn. The attribute ``evaluation`` then
        holds what the engine has reported about the turn that was yielded last.

        Raises ``EngineError`` if the engine ends, ``TurnTimeoutError`` if a turn takes longer than ``seconds``, and
        ``GameTimeoutError`` if the processor time of ``turn_timer`` is used up.
        """
        if not self._lines and select.select([self._output], [], [], 0)[0]:
            self._read_lines_or_raise_ended()  # the engine has ended, or written lines without a request
        if self._lines or self._partial_line:
            raise EngineError(
                f"it wrote {quote_line(self._lines[-1] if self._lines else self._partial_line)} without being asked"
            )
        self._earlier_error_bytes = self._error_output.size
        info_lines, self.evaluation = 0, Evaluation()
        for line in self.request_lines(content, seconds, turn_timer):
            turn = TURNS_BY_LINE.get(line)
            if turn is not None:
                info_lines = 0
                yield turn
                self.evaluation = Evaluation()
            elif line.startswith(b"info "):
                info_lines += 1
                if info_lines > MAX_INFO_LINES:
                    raise EngineError(f"it wrote more than {MAX_INFO_LINES:,} lines 'info' before a turn")
                self.evaluation = _parse_info(line, self.evaluation)
            else:
                info_lines = 0
                yield TURNS_BY_LINE.get(normalise_case_and_spaces(line), line)
                self.evaluation = Evaluation()

    def request_lines(
        self, content: bytes, seconds: float | None, turn_timer: TurnTimer | None = None
    ) -> Iterator[bytes]:
        """Send ``content``, then yield the lines that the engine writes, without line breaks, until the caller stops.

        Each line may take ``seconds``, including the ``info`` lines before it. Writing and reading alternate, so that
        neither side waits for the other. Raises ``EngineError`` and ``TurnTimeoutError``.
        """
        unsent = memoryview(content)
        deadline = None if seconds is None else time.monotonic() + seconds
        timer_waits = [] if turn_timer is None else [turn_timer.first_wait_seconds]
        while True:
            while self._lines:
                line = self._lines.pop()
                if len(line) > MAX_LINE_BYTES:
                    raise EngineError(f"it wrote a line of more than {MAX_LINE_BYTES:,} bytes")
                if seconds is not None and not line.startswith(b"info"):
                    deadline = time.monotonic() + seconds
                yield line
            waits = [*timer_waits, *([] if deadline is None else [max(0.0, deadline - time.monotonic())])]
            readable, writable, _ = select.select(
                [self._output], [self._input] if unsent else [], [], min(waits, default=None)
            )
            if not readable and not writable:
                if deadline is not None and deadline <= time.monotonic():
                    raise TurnTimeoutError
                timer_waits = [] if turn_timer is None else [turn_timer.find_next_wait_seconds()]
            if readable:
                self._read_lines_or_raise_ended()
            if writable:
                unsent = unsent[self._write(unsent[:BUFFER_BYTES]) :]

    def _write(self, content: memoryview) -> int:
        try:
            return os.write(self._input.fileno(), content)
        except BlockingIOError:
            return 0
        except OSError:  # the engine has closed its input; reading shows how it ended
            return len(content)

    def _read_lines_or_raise_ended(self) -> None:
        chunk = os.read(self._output.fileno(), BUFFER_BYTES)
        if not chunk:
            raise self._build_end_error()
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        if (
            len(self._partial_line) > MAX_LINE_BYTES
        ):  # a line without an end is an answer too, after the lines before it
            lines.append(self._partial_line)
        self._lines = [line.removesuffix(b"\r") for line in lines if line.strip()][::-1]

    def _build_end_error(self) -> EngineError:
        """Build an error that says how the engine ended, and with which main error message.

        Only what the engine has written to its standard error since the last request is considered. The last of these
        lines are added to the error as a note, for the log.
        """
        code = self._process.wait_and_kill_group(QUIT_SECONDS)
        if code is None:
            return EngineError("it closed its standard output")
        error_lines = [
            line
            for line in self._error_output.read_since(self._earlier_error_bytes, QUIT_SECONDS).splitlines()
            if line.strip()
        ]
        hint = f", and megabytes={self._megabytes} limits its memory" if code and self._megabytes else ""
        if self._sandbox and code in SHELL_EXIT_CODES:
            hint = SANDBOX_HINT
        cause = f": {_find_main_error(error_lines):.{SHOWN_CHARACTERS}}" if error_lines else ""
        error = EngineError(f"{describe_exit(code)}{hint}{cause}")
        if error_lines:
            error.add_note("\n".join(["The end of its standard error:", *error_lines[-LOGGED_LINES:]]))
        return error

    def quit(self) -> bool:
        """Ask the engine to end, and kill it if it does not; return whether it ended by itself in time."""
        with suppress(OSError):
            os.write(self._input.fileno(), QUIT)
            self._input.close()
        return self._process.stop(QUIT_SECONDS, grace_signal=None)

    def stop(self) -> None:
        """End the process and its children. Calling this again is harmless."""
        self._process.stop()


def _find_main_error(error_lines: Sequence[str]) -> str:
    """Return the line that best explains why a program ended.

    This is the last line of a Python traceback, or else the first line that mentions an error, or else the first line.
    """
    if any(line.startswith("Traceback") for line in error_lines):  # Python names the error last
        return error_lines[-1]
    first = next((number for number, line in enumerate(error_lines) if ERROR_PATTERN.search(line)), 0)
    return " ".join(error_lines[first : first + 2]) if error_lines[first].endswith(":") else error_lines[first]


def _parse_info(line: bytes, earlier_evaluation: Evaluation) -> Evaluation:
    """Parse an ``info`` line, and return ``earlier_evaluation`` updated with the values that the line reports.

    Raises ``EngineError`` if ``value`` is not from -1 to 1.
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


def normalise_case_and_spaces(line: bytes) -> bytes:
    """Return a line in the form that ``TURNS_BY_LINE`` uses: words in their usual case, separated by single spaces."""
    words = line.split()
    return b" ".join([*(word.lower() for word in words[:-1]), *(word.upper() for word in words[-1:])])


def quote_line(line: bytes) -> str:
    """Quote a line for a message, shortened to ``SHOWN_CHARACTERS``."""
    return repr(line.decode(errors="replace")[:SHOWN_CHARACTERS])
