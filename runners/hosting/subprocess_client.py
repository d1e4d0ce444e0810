"""A subprocess that serves requests, one at a time, in messages: see ``subprocess_program``."""

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
from runners.hosting.compile_clock import CompileClock, build_deadline
from runners.hosting.subprocess_program import ANSWER, FAILURE, HEADER, REQUEST, write_message
from runners.hosting.subprocesses import DEVNULL, NO_LIMITS, STDERR, LimitedProcess, Limits, describe_exit

PROGRAM = (sys.executable, "-P", "-m", "runners.hosting.subprocess_program")
DEATH_SECONDS = 1.0  # in which a process that has closed its pipes is seen to end
NO_ANSWER_MESSAGE = "its process wrote what is no answer"
T = TypeVar("T")


class SubprocessDiedError(Exception):
    """A child ended, or wrote what is no answer, instead of answering."""

    raised_at = "its process"


class Subprocess:
    """A process that serves requests by a function, as ``subprocess_program`` says.

    A child that dies, is late or writes nonsense is ended: it must not be asked again.
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
    ) -> None:
        """Start a process and send its first request: ``setup`` and ``content``.

        ``factory_path``: ``module:function``; ``limits``: of memory beyond what its imports take, and of the bytes of
        an answer; ``program``: the command of ``subprocess_program``; ``variables``: environment;
        ``shared_descriptors``: open files that it has too, under the same numbers; ``is_quiet``: what it prints is
        dropped instead of going to standard error; ``clock``: in which it records the time of compiling, under the same
        number, and which is closed with it. Raises ``SubprocessDiedError``.
        """
        requests, self._to = os.pipe()
        self._from, answers = os.pipe()
        self._clock, self._max_bytes = clock, limits.output_bytes
        try:
            self._process = LimitedProcess(
                program or PROGRAM,
                [factory_path, str(requests), str(answers)],
                limits,
                shared_descriptors=[requests, answers, *shared_descriptors, *([clock.descriptor] if clock else [])],
                variables=variables,
                stdout=DEVNULL if is_quiet else STDERR,
                stderr=DEVNULL if is_quiet else None,
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(requests)
            os.close(answers)
        self.send(setup, content)

    def request(
        self, value: Any, content: bytes, response_type: type[T], seconds: float | None = None
    ) -> tuple[T, bytes]:
        """The answer to a request, as ``receive`` gives it."""
        self.send(value, content)
        return self.receive(response_type, seconds)

    def send(self, value: Any, content: bytes = b"") -> None:
        """Send a request. Raises ``SubprocessDiedError``."""
        with self._stop_on_error():
            try:
                write_message(self._to, REQUEST, value, content)
            except OSError:
                self._raise_died()

    def receive(self, response_type: type[T], seconds: float | None = None) -> tuple[T, bytes]:
        """Its next answer: a value of ``response_type``, and bytes.

        Raises ``RemoteError`` for what its function raised, ``SubprocessDiedError``, and ``TurnTimeoutError`` after
        ``seconds`` in which it did not compile.
        """
        with self._stop_on_error():
            deadline = None if seconds is None else build_deadline(seconds, self._clock)
            message, text, further = HEADER.unpack(self._read_bytes(HEADER.size, deadline))
            if message not in (ANSWER, FAILURE) or text + further > self._max_bytes:
                raise SubprocessDiedError(NO_ANSWER_MESSAGE)
            value, content = self._read_bytes(text, deadline), self._read_bytes(further, deadline)
            try:
                if message == ANSWER:
                    return msgspec.json.decode(value, type=preload_msgspec_type(response_type)), content
                failed = msgspec.json.decode(value, type=preload_msgspec_type(ErrorDetails))
            except msgspec.MsgspecError:
                raise SubprocessDiedError(NO_ANSWER_MESSAGE) from None
        raise RemoteError(failed)

    def has_response(self, seconds: float | None) -> bool:
        """Whether it begins an answer, or ends, within ``seconds``; None: wait until it does."""
        return bool(select.select([self._from], [], [], seconds)[0])

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def stop(self) -> None:
        """End it and the processes that it started, without grace: it has nothing to lose. May be called again."""
        self._process.stop()
        self._close_pipes()

    def _close_pipes(self) -> None:
        pipes, self._to, self._from = (self._to, self._from), -1, -1
        for descriptor in pipes:
            with suppress(OSError):  # it is closed
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

    def _read_bytes(self, length: int, deadline: Callable[[], float] | None) -> bytes:
        parts = []
        while length:
            while not self.has_response(None if deadline is None else max(0.0, deadline() - time.monotonic())):
                if deadline is not None and deadline() <= time.monotonic():
                    raise TurnTimeoutError
            part = os.read(self._from, length)
            if not part:
                self._raise_died()
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _raise_died(self) -> NoReturn:
        """Raise ``SubprocessDiedError`` with the way in which the process ended."""
        code = self._process.wait(DEATH_SECONDS)
        raise SubprocessDiedError("its process closed its pipes" if code is None else describe_exit(code))


def stop_all(subprocesses: Iterable[Subprocess]) -> None:
    """End several."""
    for child in subprocesses:
        child.stop()
