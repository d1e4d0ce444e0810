"""Ctrl-C: the first asks to stop and ends everything within ten seconds, the second within two, whatever computes."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130  # the exit code after Ctrl-C, by the shell's convention: 128 + SIGINT
STOP_SECONDS = 9.0  # after the first Ctrl-C, for games that end soon and what must be left in order
LAST_SECONDS = 1.5  # after the second Ctrl-C, for what must be left in order
WORKING = "work"  # prefix of the names of threads that nobody waits for: a turn of an agent may never return
GIVEN_UP = (
    "interrupted: what was still computing has been given up; the archive has everything that was written, and the "
    "same command goes on from there"
)
SHOW_CURSOR = "\x1b[?25h"  # a progress bar has hidden it


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets (in the main thread only); a second Ctrl-C raises ``KeyboardInterrupt``.

    The process ends if the context is not left within ``STOP_SECONDS`` after the first, or ``LAST_SECONDS`` after the
    second. A turn that never returns, or a disk that does not answer, cannot be stopped in another way.
    Every file is whole or absent at any moment.
    """
    stop, insisted = threading.Event(), threading.Event()
    ends = [threading.Timer(seconds, end_at_once, (GIVEN_UP,)) for seconds in (STOP_SECONDS, LAST_SECONDS)]
    for end in ends:
        end.daemon = True

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        if insisted.is_set():
            return
        if stop.is_set():
            insisted.set()
            ends[1].start()
            raise KeyboardInterrupt
        stop.set()
        ends[0].start()
        sys.stderr.write("finishing the games that end soon; Ctrl-C again drops those in progress\n")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, ask_to_stop)
    try:
        yield stop
    finally:
        for end in ends:
            end.cancel()
        signal.signal(signal.SIGINT, before)


@contextmanager
def answered_interrupts() -> Iterator[None]:
    """Inside the context, which is a whole program, Ctrl-C becomes the exit code 130, whenever it comes.

    Raises ``SystemExit``. The process ends at once if a thread that nobody waits for still runs.
    """
    handler, before = _OneOfABurst(), signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        with unprinted_interrupts():
            yield
    except SystemExit as left:
        if still_working():
            leave(left.code if isinstance(left.code, int) else int(left.code is not None))
        if left.code == INTERRUPTED:
            _ignore_interrupts()
        raise
    except KeyboardInterrupt:  # a further one, while the first is answered
        _ignore_interrupts()
        raise SystemExit(INTERRUPTED) from None
    finally:
        if ours and signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


class _OneOfABurst:
    """A handler of Ctrl-C that raises ``KeyboardInterrupt`` once a second at most.

    Keys that are held down must not interrupt the handling of the first: Python would end by the signal.
    """

    SECONDS = 1.0

    def __init__(self) -> None:
        self._last: float | None = None  # when it raised

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._last is None or now - self._last >= self.SECONDS:
            self._last = now
            raise KeyboardInterrupt


@contextmanager
def unprinted_interrupts() -> Iterator[None]:
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
    """From here on another Ctrl-C does not change the exit code."""
    # Not SIG_IGN at once: processes started later would inherit it. Not the function alone: Python restores the
    # signal's default while it ends, and its last tenth of a second would then be killed.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def end_at_once(why: str, code: int = INTERRUPTED) -> None:
    """End the process, without waiting for any of its threads. The last line says why."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
    sys.stderr.write(f"{why}\n")
    leave(code)


def leave(code: int) -> None:
    """End the process without waiting for its threads, once its output is written."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def still_working() -> bool:
    """Whether a thread that nobody waits for still runs: the process must then end without waiting for its threads."""
    return any(thread.daemon and thread.name.startswith(WORKING) for thread in threading.enumerate())
