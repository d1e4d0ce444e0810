"""Ends that somebody asks for: Ctrl-C, SIGTERM (``kill``, a scheduler), SIGHUP (a closed terminal).

The first asks to stop and ends everything within ten seconds, whatever computes. A further Ctrl-C ends it within two.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # that ask to end
TERMINATION_SIGNALS = SIGNALS[1:]
SHELL_BASE = 128  # the exit code after a signal is this plus its number, by the shell's convention
STOP_SECONDS = 9.0  # after the first signal, for games that end soon and what must be left in order
AGAIN_SECONDS = 3.0  # after SIGTERM or SIGHUP, for what does not end at the first ``KeyboardInterrupt``
IMPORT_SECONDS = 0.05  # after which it is seen whether a module is still being imported
LAST_SECONDS = 1.5  # after the second Ctrl-C, for what must be left in order
WORK_THREAD_PREFIX = "work"  # prefix of the names of threads that nobody waits for: a turn of an agent may never return
GIVEN_UP_MESSAGE = (
    "interrupted: what was still computing has been given up; the archive has everything that was written, and the "
    "same command goes on from there"
)
IMPORT_MACHINERY_FILE = "<frozen importlib._bootstrap>"  # the file of Python's own functions that import
SHOW_CURSOR = "\x1b[?25h"  # a progress bar has hidden it

SignalHandler = Callable[[int, FrameType | None], None]


class _StopRequest:
    """What this process knows about its end: which signal asked first, and which descriptors a terminal had."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_urgent = False  # an exception was raised that nothing may swallow: nothing more is to begin
        self.terminals: list[int] = []
        self.may_exit = True  # False in the process of a user of the library, such as a notebook's

    def reset(self) -> None:
        """Forget what was asked of the command before; note which of the standard streams are terminals."""
        self.signal, self.is_urgent = None, False
        self.terminals = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def record_signal(self, signal_number: int) -> None:
        """Note a signal. After SIGHUP the terminal may be gone: what is printed then is dropped, and raises nothing."""
        self.signal = self.signal or signal_number
        if signal_number == signal.SIGHUP:
            for descriptor in [lost for lost in self.terminals if not os.isatty(lost)]:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


_request = _StopRequest()


def is_stop_requested() -> bool:
    """Return whether a signal has asked this command to end."""
    return _request.signal is not None


def exit_code() -> int:
    """Return the exit code of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return SHELL_BASE + (_request.signal or signal.SIGINT)


class _ProcessHandler:
    """A handler of signals that only this process has: a process that an agent forks has the default instead.

    Else the agent could not end that process by ``terminate()``.
    """

    def __init__(self, handler: SignalHandler) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        _request.record_signal(number)
        self._handler(number, frame)


def _restore_defaults() -> None:
    for number in TERMINATION_SIGNALS:
        if isinstance(signal.getsignal(number), _ProcessHandler):
            signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_restore_defaults)


@contextmanager
def handle_signals(handler: SignalHandler, *signal_numbers: int) -> Iterator[None]:
    """Inside the context a function handles signals that ask to end; of a thread other than the main one, none.

    SIGTERM or SIGHUP that was ignored when the process began stays ignored, as ``nohup`` wants it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own, before = _ProcessHandler(handler), {number: signal.getsignal(number) for number in signal_numbers}
    for number in signal_numbers:
        if before[number] is not None and (before[number] != signal.SIG_IGN or number == signal.SIGINT):
            signal.signal(number, own)
    try:
        yield
    finally:
        for number in signal_numbers:
            if signal.getsignal(number) is own:  # else the end has begun, which nothing stops any more
                signal.signal(number, before[number])


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that the first signal sets (in the main thread only); Ctrl-C after that raises ``KeyboardInterrupt``.

    The process ends if the context is not left within ``STOP_SECONDS`` after the first, or ``LAST_SECONDS`` after that
    Ctrl-C. A turn that never returns, or a disk that does not answer, cannot be stopped in another way.
    Every file is whole or absent at any moment. A further SIGTERM or SIGHUP changes nothing: a terminal that is closed
    and the shell in it send one each, and ``timeout`` sends two. Inside ``keep_process`` only Ctrl-C is handled, and
    nothing ends the process.
    """
    if _request.is_urgent:
        raise KeyboardInterrupt
    stop, insisted = threading.Event(), threading.Event()
    may_exit = _request.may_exit
    ends = [
        threading.Timer(seconds, exit_with_message, (GIVEN_UP_MESSAGE,)) for seconds in (STOP_SECONDS, LAST_SECONDS)
    ]
    for end in ends:
        end.daemon = True

    def request_stop(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if number == signal.SIGINT and not insisted.is_set():
                insisted.set()
                if may_exit:
                    ends[1].start()
                raise KeyboardInterrupt
            return
        stop.set()
        if may_exit:
            ends[0].start()
        asked = "" if number == signal.SIGINT else f"{signal.Signals(number).name}: "
        with suppress(OSError):  # nobody reads it any more; the games count all the same
            sys.stderr.write(f"{asked}finishing the games that end soon; Ctrl-C again drops those in progress\n")

    with handle_signals(request_stop, *(SIGNALS if may_exit else SIGNALS[:1])):
        try:
            yield stop
        finally:
            for end in ends:
                end.cancel()


@contextmanager
def keep_process() -> Iterator[None]:
    """Inside the context no signal that is handled here ends the process, because it is a user's: a notebook's, say."""
    _request.signal, _request.may_exit = None, False
    try:
        yield
    finally:
        _request.may_exit = True


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Inside the context, which is a whole program, a signal to end becomes ``exit_code``, whenever it comes.

    Raises ``SystemExit``. The process ends at once if a thread that nobody waits for still runs.
    """
    _request.reset()
    raising, defaults = _InterruptRaiser(), {signal.default_int_handler, signal.SIG_DFL}
    with handle_signals(raising, *(number for number in SIGNALS if signal.getsignal(number) in defaults)):
        try:
            with silence_unraisable_interrupts():
                yield
        except SystemExit as left:
            if has_working_threads():
                flush_and_exit(left.code if isinstance(left.code, int) else int(left.code is not None))
            if left.code == exit_code():
                _ignore_interrupts()
            raise
        except KeyboardInterrupt:  # a further one, while the first is answered
            _ignore_interrupts()
            raise SystemExit(exit_code()) from None
        finally:
            raising.cancel_timers()
            _request.is_urgent = False


class _InterruptRaiser:
    """A handler that raises ``KeyboardInterrupt`` once a second at most.

    Keys that are held down must not interrupt the handling of the first: Python would end by the signal. While a module
    is imported the exception waits, because libraries in C that are imported by half complain when the process ends.
    A person whose Ctrl-C is lost, in a finalizer or in a library that swallows it, presses again. Nobody repeats a
    SIGTERM or SIGHUP, so it is repeated here, and at last the process ends all the same.
    """

    SECONDS = 1.0

    def __init__(self) -> None:
        self._last: float | None = None  # when it raised
        self._first: float | None = None  # when it was called
        self._import: threading.Timer | None = None  # after which it is seen whether a module is still imported
        self._timers: list[threading.Timer] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._last is not None and now - self._last < self.SECONDS:
            return
        self._first = self._first or now
        if self._can_postpone(number) and now - self._first < AGAIN_SECONDS and _is_importing(frame):
            self._import = self._start_timer(IMPORT_SECONDS, signal.pthread_kill, threading.main_thread().ident, number)
            return
        self._last = now
        if number in TERMINATION_SIGNALS and not _request.is_urgent:
            _request.is_urgent = True
            self._start_timer(AGAIN_SECONDS, signal.pthread_kill, threading.main_thread().ident, number)
            self._start_timer(STOP_SECONDS, exit_with_message, GIVEN_UP_MESSAGE)
        raise KeyboardInterrupt

    def _can_postpone(self, signal_number: int) -> bool:
        """Whether this is not a person's second Ctrl-C: what a module does when it is imported may never end."""
        return signal_number in TERMINATION_SIGNALS or self._import is None or not self._import.is_alive()

    def _start_timer(self, seconds: float, call: Callable[..., Any], *arguments: Any) -> threading.Timer:
        timer = threading.Timer(seconds, call, arguments)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
        return timer

    def cancel_timers(self) -> None:
        """The program has ended."""
        for timer in self._timers:
            timer.cancel()


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORT_MACHINERY_FILE:
            return True
        frame = frame.f_back
    return False


@contextmanager
def silence_unraisable_interrupts() -> Iterator[None]:
    """Inside the context Python does not print a ``KeyboardInterrupt`` of code whose exceptions it can only print.

    A Ctrl-C that comes while such code runs, a finalizer or a callback of the collector, is lost; another one is heard.
    """
    complain = sys.unraisablehook

    def hook(found: UnraisableHookArgs) -> None:
        if found.exc_type is not KeyboardInterrupt:
            complain(found)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = complain


def _ignore_interrupts() -> None:
    """From here on another signal to end does not change the exit code."""
    # Not SIG_IGN at once: processes started later would inherit it. Not the function alone: Python restores the
    # signals' defaults while it ends, and its last tenth of a second would then be killed.
    for number in SIGNALS:
        signal.signal(number, lambda _signal, _frame: None)
        atexit.register(signal.signal, number, signal.SIG_IGN)


def exit_with_message(message: str, code: int | None = None) -> None:
    """End the process, without waiting for any of its threads. The last line says why.

    ``code``: None is that of an interrupted command.
    """
    with suppress(OSError, ValueError):  # nobody reads it any more
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)
        sys.stderr.write(f"{message}\n")
    flush_and_exit(exit_code() if code is None else code)


def flush_and_exit(code: int) -> None:
    """End the process without waiting for its threads, once its output is written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or nobody reads it any more
            stream.flush()
    os._exit(code)


def has_working_threads() -> bool:
    """Whether a thread that nobody waits for still runs: the process must then end without waiting for its threads."""
    return any(thread.daemon and thread.name.startswith(WORK_THREAD_PREFIX) for thread in threading.enumerate())
