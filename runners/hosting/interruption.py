"""How a command ends on request: Ctrl-C, SIGTERM (``kill``, a scheduler), SIGHUP (a closed terminal).

The first signal asks the command to stop, and ends the process within ten seconds, whatever is still being computed. A
second Ctrl-C ends the process within two seconds.
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

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # signals that ask a command to end
TERMINATION_SIGNALS = SIGNALS[1:]
SHELL_BASE = 128  # the exit code after a signal is this plus its number, by the shell's convention
STOP_SECONDS = 9.0  # time after the first signal for games that end soon, and for leaving files in order
AGAIN_SECONDS = 3.0  # time after SIGTERM or SIGHUP until ``KeyboardInterrupt`` is raised again
IMPORT_SECONDS = 0.05  # interval between two checks whether a module is still being imported
LAST_SECONDS = 1.5  # time after the second Ctrl-C for leaving files in order
WORK_THREAD_PREFIX = "work"  # begins the names of threads that nobody waits for: an agent's turn may never return
GIVEN_UP_MESSAGE = (
    "interrupted: what was still computing has been given up; the archive has everything that was written, and the "
    "same command goes on from there"
)
IMPORT_MACHINERY_FILE = "<frozen importlib._bootstrap>"  # the file of Python's own functions that import
SHOW_CURSOR = "\x1b[?25h"  # undoes a progress bar, which hides the cursor

SignalHandler = Callable[[int, FrameType | None], None]


class _StopRequest:
    """The state of a request to end this process: the first signal, and which descriptors were terminals."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_urgent = False  # after SIGTERM or SIGHUP has raised ``KeyboardInterrupt``, no work may begin
        self.terminals: list[int] = []
        self.may_exit = True  # False in the process of a user of the library, such as a notebook's

    def reset_and_note_terminals(self) -> None:
        """Forget the signals to the previous command, and note which of the standard streams are terminals."""
        self.signal, self.is_urgent = None, False
        self.terminals = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def record_signal_and_redirect_closed_terminals(self, signal_number: int) -> None:
        """Record a signal.

        After SIGHUP, a terminal may be gone. Its descriptors are then redirected to the null device, so that writing
        does not fail.
        """
        self.signal = self.signal or signal_number
        if signal_number == signal.SIGHUP:
            for descriptor in [descriptor for descriptor in self.terminals if not os.isatty(descriptor)]:
                null_descriptor = os.open(os.devnull, os.O_RDWR)
                os.dup2(null_descriptor, descriptor)
                os.close(null_descriptor)


_request = _StopRequest()


def is_stop_requested() -> bool:
    """Return whether a signal has asked this command to end."""
    return _request.signal is not None


def exit_code() -> int:
    """Return the exit code of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return SHELL_BASE + (_request.signal or signal.SIGINT)


class _ProcessHandler:
    """A signal handler for this process only; a process that an agent forks has the default handler.

    If the forked process kept this handler, the agent could not end it by ``terminate()``.
    """

    def __init__(self, handler: SignalHandler) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        _request.record_signal_and_redirect_closed_terminals(number)
        self._handler(number, frame)


def _restore_defaults_in_fork() -> None:
    for number in TERMINATION_SIGNALS:
        if isinstance(signal.getsignal(number), _ProcessHandler):
            signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_restore_defaults_in_fork)


@contextmanager
def handle_signals(handler: SignalHandler, *signal_numbers: int) -> Iterator[None]:
    """Let ``handler`` handle the given signals while the context lasts, if this is the main thread.

    SIGTERM or SIGHUP stays ignored if it was ignored when the process began, because ``nohup`` relies on this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process_handler, old_handlers = (
        _ProcessHandler(handler),
        {number: signal.getsignal(number) for number in signal_numbers},
    )
    for number in signal_numbers:
        if old_handlers[number] is not None and (old_handlers[number] != signal.SIG_IGN or number == signal.SIGINT):
            signal.signal(number, process_handler)
    try:
        yield
    finally:
        for number in signal_numbers:
            if signal.getsignal(number) is process_handler:  # otherwise the process is ending, which nothing may stop
                signal.signal(number, old_handlers[number])


@contextmanager
def stop_on_signal_then_interrupt_then_exit() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; the next Ctrl-C raises ``KeyboardInterrupt``.

    Signals are handled in the main thread only. The process ends if the context is not left within ``STOP_SECONDS``
    after the first signal, or within ``LAST_SECONDS`` after the second Ctrl-C: there is no other way to stop a turn
    that never returns, or a disk that does not answer. Ending the process is harmless, because at any moment every file
    is either complete or absent.

    A further SIGTERM or SIGHUP changes nothing, because one event often sends two. When a terminal is closed, both the
    terminal and its shell send SIGHUP, and ``timeout`` sends its signal twice. Inside ``prevent_exit_on_signals``, only
    Ctrl-C is handled, and nothing ends the process.
    """
    if _request.is_urgent:
        raise KeyboardInterrupt
    stop, insisted = threading.Event(), threading.Event()
    may_exit = _request.may_exit
    timers = [
        threading.Timer(seconds, exit_with_message, (GIVEN_UP_MESSAGE,)) for seconds in (STOP_SECONDS, LAST_SECONDS)
    ]
    for timer in timers:
        timer.daemon = True

    def request_stop_then_interrupt(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if number == signal.SIGINT and not insisted.is_set():
                insisted.set()
                if may_exit:
                    timers[1].start()
                raise KeyboardInterrupt
            return
        stop.set()
        if may_exit:
            timers[0].start()
        prefix = "" if number == signal.SIGINT else f"{signal.Signals(number).name}: "
        with suppress(OSError):  # standard error may be closed; the games count all the same
            sys.stderr.write(f"{prefix}finishing the games that end soon; Ctrl-C again drops those in progress\n")

    with handle_signals(request_stop_then_interrupt, *(SIGNALS if may_exit else SIGNALS[:1])):
        try:
            yield stop
        finally:
            for timer in timers:
                timer.cancel()


@contextmanager
def prevent_exit_on_signals() -> Iterator[None]:
    """Keep handled signals from ending the process while the context lasts.

    This is for a process that belongs to a user of the library, such as the process of a notebook.
    """
    _request.signal, _request.may_exit = None, False
    try:
        yield
    finally:
        _request.may_exit = True


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """End the program with ``exit_code`` if a signal asks it to end while the context lasts.

    This is meant to surround a whole program. The program ends with ``SystemExit``. If an abandoned thread is still
    running, it ends at once instead, without waiting for that thread.
    """
    _request.reset_and_note_terminals()
    raiser, defaults = _InterruptRaiser(), {signal.default_int_handler, signal.SIG_DFL}
    with handle_signals(raiser, *(number for number in SIGNALS if signal.getsignal(number) in defaults)):
        try:
            with silence_unraisable_interrupts():
                yield
        except SystemExit as exit_error:
            if has_abandoned_threads():
                flush_and_exit(
                    exit_error.code if isinstance(exit_error.code, int) else int(exit_error.code is not None)
                )
            if exit_error.code == exit_code():
                _ignore_interrupts()
            raise
        except KeyboardInterrupt:  # a second one, while the first is handled
            _ignore_interrupts()
            raise SystemExit(exit_code()) from None
        finally:
            raiser.cancel_timers()
            _request.is_urgent = False


class _InterruptRaiser:
    """A signal handler that raises ``KeyboardInterrupt`` at most once a second.

    If Ctrl-C is held down, the repeated signals must not interrupt the handling of the first one, because that would
    end Python. While a module is being imported, the exception is postponed, because half-imported C libraries complain
    when the process ends.

    A Ctrl-C may be lost in a finalizer, or in a library that swallows it; the person then presses Ctrl-C again. Nobody
    repeats a SIGTERM or SIGHUP, so this class sends it once more, and finally ends the process in any case.
    """

    SECONDS = 1.0

    def __init__(self) -> None:
        self._last: float | None = None  # time of the last exception
        self._first: float | None = None  # time of the first call
        self._import: threading.Timer | None = None  # repeats a postponed signal
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
        """Return whether a signal may wait until an import ends.

        Every signal may, except a person's second Ctrl-C.
        """
        return signal_number in TERMINATION_SIGNALS or self._import is None or not self._import.is_alive()

    def _start_timer(self, seconds: float, call: Callable[..., Any], *arguments: Any) -> threading.Timer:
        timer = threading.Timer(seconds, call, arguments)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
        return timer

    def cancel_timers(self) -> None:
        """Cancel all timers, because the program has ended."""
        for timer in self._timers:
            timer.cancel()


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a stack frame is executed as part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORT_MACHINERY_FILE:
            return True
        frame = frame.f_back
    return False


@contextmanager
def silence_unraisable_interrupts() -> Iterator[None]:
    """While the context lasts, keep Python from printing each ``KeyboardInterrupt`` that it cannot raise.

    A Ctrl-C that arrives during a finalizer or a callback of the garbage collector is lost; the next one takes effect.
    """
    old_hook = sys.unraisablehook

    def hook(unraisable: UnraisableHookArgs) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            old_hook(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = old_hook


def _ignore_interrupts() -> None:
    """Ignore further signals that ask the process to end, so that they do not change the exit code."""
    # Not SIG_IGN at once: processes started later would inherit it. Not the function alone: Python restores the
    # signals' defaults while it ends, and its last tenth of a second would then be killed.
    for number in SIGNALS:
        signal.signal(number, lambda _signal, _frame: None)
        atexit.register(signal.signal, number, signal.SIG_IGN)


def exit_with_message(message: str, code: int | None = None) -> None:
    """Print ``message``, which says why the process ends, and end the process without waiting for its threads.

    If ``code`` is None, the exit code is that of an interrupted command.
    """
    with suppress(OSError, ValueError):  # standard error may be closed
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)
        sys.stderr.write(f"{message}\n")
    flush_and_exit(exit_code() if code is None else code)


def flush_and_exit(code: int) -> None:
    """Write out all buffered output, and end the process without waiting for its threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the stream may be closed
            stream.flush()
    os._exit(code)


def has_abandoned_threads() -> bool:
    """Return whether a thread that nobody waits for is still running, so that the process must end without it."""
    return any(thread.daemon and thread.name.startswith(WORK_THREAD_PREFIX) for thread in threading.enumerate())
