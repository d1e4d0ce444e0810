"""The run's side of a subprocess that serves requests, one at a time: see ``subprocess_program``."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

import msgspec

from agents.base.agent import TurnTimeoutError
from analytics.store.records import preload_msgspec_type
from quarto.errors import ErrorDetails, RemoteError
from runners.hosting.compile_clock import CompileClock, build_monotonic_deadline_function
from runners.hosting.game_time import ProcessorTimer, TurnTimer
from runners.hosting.subprocess_program import ANSWER, FAILURE, HEADER, REQUEST, write_message
from runners.hosting.subprocesses import DEVNULL, NO_LIMITS, STDERR, LimitedProcess, Limits, Sandbox, describe_exit

PROGRAM = (sys.executable, "-P", "-m", "runners.hosting.subprocess_program")
DEATH_SECONDS = 1.0  # time in which a process that has closed its pipes should end
NO_ANSWER_MESSAGE = "its process wrote what is no answer"
T = TypeVar("T")


class SubprocessDiedError(Exception):
    """The error raised if a subprocess ends, or writes something other than a response."""

    raised_at = "its process"


class Subprocess:
    """A process in which a function handles requests, as ``subprocess_program`` describes.

    A process that dies, is late or writes invalid data is ended, and must not be sent further requests.
    """

    def __init__(  # noqa: PLR0913, PLR0917  (each is a fact about the process)
        self,
        factory_path: str,
        setup: Any,
        content: bytes = b"",
        limits: Limits = NO_LIMITS,
        program: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        shared_descriptors: Sequence[int] = (),
        is_quiet: bool = False,
        clock: CompileClock | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Start a process and send its first request.

        Args:
            factory_path: ``module:function`` of the function that builds the handler.
            setup: JSON value of the first request.
            content: Bytes of the first request.
            limits: Limits on the memory that the process uses in addition to what its imports take, and on the size of
                a response in bytes.
            program: Command that runs ``subprocess_program``; by default, the current Python interpreter runs it.
            variables: Additional environment variables.
            shared_descriptors: Open files that the subprocess inherits under the same numbers.
            is_quiet: Whether the process's output is dropped; otherwise it goes to standard error.
            clock: Clock in which the process records the time that it spends compiling. It is closed with the process.
            sandbox: Sandbox in which the process runs.

        Raises:
            SubprocessDiedError: The process ended at once.

        """
        request_end, self._request_pipe = os.pipe()
        self._response_pipe, response_end = os.pipe()
        self._clock, self._max_bytes, self._is_sandboxed = clock, limits.output_bytes, sandbox is not None
        self._processor_timer: ProcessorTimer | None = None
        try:
            self._process = LimitedProcess(
                program or PROGRAM,
                [factory_path, str(request_end), str(response_end)],
                limits,
                shared_descriptors=[
                    request_end,
                    response_end,
                    *shared_descriptors,
                    *([clock.descriptor] if clock else []),
                ],
                variables=variables,
                sandbox=sandbox,
                stdout=DEVNULL if is_quiet else STDERR,
                stderr=DEVNULL if is_quiet else None,
            )
        except BaseException:
            self._close_pipes_and_clock()
            raise
        finally:
            os.close(request_end)
            os.close(response_end)
        self.send(setup, content)

    def request(
        self,
        value: Any,
        content: bytes,
        response_type: type[T],
        seconds: float | None = None,
        turn_timer: TurnTimer | None = None,
    ) -> tuple[T, bytes]:
        """Send a request, and return the response as ``receive`` does."""
        self.send(value, content)
        return self.receive(response_type, seconds, turn_timer)

    def send(self, value: Any, content: bytes = b"") -> None:
        """Send a request. Raises ``SubprocessDiedError`` if the process has ended."""
        with self._stop_on_error():
            try:
                write_message(self._request_pipe, REQUEST, value, content)
            except OSError:
                self._raise_died()

    def receive(
        self, response_type: type[T], seconds: float | None = None, turn_timer: TurnTimer | None = None
    ) -> tuple[T, bytes]:
        """Return the next response: a value of ``response_type``, and bytes.

        Raises:
            RemoteError: The handler raised an error.
            SubprocessDiedError: The process ended, or wrote something other than a response.
            TurnTimeoutError: No response came within ``seconds``, not counting the time spent on compiling.
            GameTimeoutError: The processor time of ``turn_timer`` was used up before the response came.

        """
        with self._stop_on_error():
            deadline = None if seconds is None else build_monotonic_deadline_function(seconds, self._clock)
            kind, value_size, content_size = HEADER.unpack(self._read_bytes(HEADER.size, deadline, turn_timer))
            if kind not in (ANSWER, FAILURE) or value_size + content_size > self._max_bytes:
                raise SubprocessDiedError(NO_ANSWER_MESSAGE)
            value = self._read_bytes(value_size, deadline, turn_timer)
            content = self._read_bytes(content_size, deadline, turn_timer)
            try:
                if kind == ANSWER:
                    return msgspec.json.decode(value, type=preload_msgspec_type(response_type)), content
                details = msgspec.json.decode(value, type=preload_msgspec_type(ErrorDetails))
            except msgspec.MsgspecError:
                raise SubprocessDiedError(NO_ANSWER_MESSAGE) from None
        raise RemoteError(details)

    def has_response(self, seconds: float | None) -> bool:
        """Wait at most ``seconds``, and return whether a response has begun or the process has ended.

        If ``seconds`` is None, wait until one of the two happens.
        """
        return bool(select.select([self._response_pipe], [], [], seconds)[0])

    def send_signal(self, number: int) -> None:
        """Send the process the signal with this number."""
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def stop(self) -> None:
        """Kill the process and its children, and close the pipes. Calling this again is harmless.

        The process gets no time to end by itself, because it has no data that could be lost.
        """
        self._process.stop()
        self._close_pipes_and_clock()

    def _close_pipes_and_clock(self) -> None:
        pipes, self._request_pipe, self._response_pipe = (self._request_pipe, self._response_pipe), -1, -1
        for descriptor in pipes:
            with suppress(OSError):  # the pipe is closed
                os.close(descriptor)
        if self._clock is not None:
            self._clock.close()

    @contextmanager
    def _stop_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.stop()
            raise

    @property
    def processor_timer(self) -> ProcessorTimer:
        """The timer of the process's processor time, which this property starts when it is first read."""
        if self._processor_timer is None:
            self._processor_timer = ProcessorTimer(self.pid, self._is_sandboxed, self._clock)
        return self._processor_timer

    def _read_bytes(
        self, length: int, deadline: Callable[[], float] | None, turn_timer: TurnTimer | None = None
    ) -> bytes:
        chunks = []
        while length:
            wait_seconds = [] if turn_timer is None else [turn_timer.first_wait_seconds]
            while not self.has_response(_find_shortest_wait(deadline, wait_seconds)):
                if deadline is not None and deadline() <= time.monotonic():
                    raise TurnTimeoutError
                wait_seconds = [] if turn_timer is None else [turn_timer.find_next_wait_seconds()]
            chunk = os.read(self._response_pipe, length)
            if not chunk:
                self._raise_died()
            chunks.append(chunk)
            length -= len(chunk)
        return b"".join(chunks)

    def _raise_died(self) -> NoReturn:
        """Raise a ``SubprocessDiedError`` that describes how the process ended."""
        code = self._process.wait_and_kill_group(DEATH_SECONDS)
        raise SubprocessDiedError("its process closed its pipes" if code is None else describe_exit(code))


def _find_shortest_wait(deadline: Callable[[], float] | None, wait_seconds: Sequence[float]) -> float | None:
    """Return the shortest of the times until the deadline and of ``wait_seconds``, or None if there are none."""
    deadlines = [] if deadline is None else [max(0.0, deadline() - time.monotonic())]
    return min([*deadlines, *wait_seconds], default=None)


def stop_all(subprocesses: Iterable[Subprocess]) -> None:
    """End several subprocesses."""
    for subprocess in subprocesses:
        subprocess.stop()
