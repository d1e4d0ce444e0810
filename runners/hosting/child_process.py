"""A process that answers messages for a run: it lives no longer than the run, and can be ended at any moment."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import msgspec

from agents.base import LateError
from runners.hosting.framing import HEADER, MOST_BYTES, write_message

NO_ANSWER = "its process wrote what is no answer"


class ProcessDiedError(Exception):
    """The process of an agent ended, or wrote what is no answer, instead of answering."""

    place = "its process"


class ChildProcess:
    """``python OPTIONS -m PROGRAM QUESTIONS ANSWERS LIFELINE``, the last three being numbers of open pipes.

    The program begins with ``framing.belong_to_run(LIFELINE)``.
    """

    def __init__(
        self,
        options: Sequence[str],
        program: str,
        shared: Sequence[int] = (),
        stdout: IO[Any] | int | None = None,
        stderr: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``shared``: descriptors that it has too, whose numbers are further arguments; ``variables``: environment."""
        questions, self._to = os.pipe()
        self._from, replies = os.pipe()
        lifeline, self._lifeline = os.pipe()
        theirs = questions, replies, lifeline
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(  # noqa: S603  (this program)
            [sys.executable, *options, "-m", program, *map(str, (*theirs, *shared))],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(*theirs, *shared),
            process_group=0,  # Ctrl-C is for the run
            env={**os.environ, "PYTHONPATH": path, **(variables or {})},
        )
        for descriptor in theirs:
            os.close(descriptor)

    @contextmanager
    def ended_if_it_fails(self) -> Iterator[None]:
        """End the process if the context raises anything."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def write(self, kind: int, content: bytes) -> None:
        """Send a message. Raises ``ProcessDiedError``."""
        try:
            write_message(self._to, kind, content)
        except OSError as error:
            raise ProcessDiedError(self._death()) from error

    def read(self, seconds: float | None = None) -> tuple[int, bytes]:
        """The kind and the content of its next message. Raises ``ProcessDiedError`` and ``LateError``."""
        deadline = None if seconds is None else time.monotonic() + seconds
        kind, length = HEADER.unpack(self._bytes(HEADER.size, deadline))
        if length > MOST_BYTES:
            raise ProcessDiedError(NO_ANSWER)
        return kind, self._bytes(length, deadline)

    def has_message(self, seconds: float | None) -> bool:
        """Whether it begins a message, or ends, within ``seconds``; None: wait until it does."""
        return bool(select.select([self._from], [], [], seconds)[0])

    def _bytes(self, length: int, deadline: float | None) -> bytes:
        parts = []
        while length:
            if not self.has_message(None if deadline is None else max(0.0, deadline - time.monotonic())):
                raise LateError
            part = os.read(self._from, length)
            if not part:
                raise ProcessDiedError(self._death())
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _death(self) -> str:
        """The way in which the process ended."""
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "its process closed its pipes"
        if code >= 0:
            return f"its process ended with exit code {code}"
        return f"its process was ended by signal {-code} ({_signal_name(-code)})"

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

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


def has_descriptor(stream: IO[Any]) -> bool:
    """Whether a stream is a file: under some test runners and notebooks standard error is not."""
    try:
        stream.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True


def decoded(content: bytes, type_: type[Any]) -> Any:
    """The content of a message as a struct. Raises ``ProcessDiedError``."""
    try:
        return msgspec.json.decode(content, type=type_)
    except msgspec.MsgspecError as error:
        raise ProcessDiedError(NO_ANSWER) from error
