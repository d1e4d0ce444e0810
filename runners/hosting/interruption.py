"""Ctrl-C: the first asks to stop, the second ends everything within two seconds, whatever still computes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130  # the exit code after Ctrl-C, by the shell's convention: 128 + SIGINT
LAST_SECONDS = 1.5  # after the second Ctrl-C, for what must be left in order
WORKING = "work"  # prefix of the names of threads that nobody waits for: a turn of an agent may never return
SHOW_CURSOR = "\x1b[?25h"  # a progress bar has hidden it


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets (in the main thread only); a second Ctrl-C raises ``KeyboardInterrupt``.

    If the context is not left within ``LAST_SECONDS`` after that, the process ends: an agent's turn that never returns,
    or a disk that does not answer, cannot be stopped in another way. Every file is whole or absent at any moment.
    """
    stop, insisted = threading.Event(), threading.Event()
    end = threading.Timer(LAST_SECONDS, end_at_once)
    end.daemon = True

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        if insisted.is_set():
            return
        if stop.is_set():
            insisted.set()
            end.start()
            raise KeyboardInterrupt
        stop.set()
        sys.stderr.write("finishing the games that end soon; Ctrl-C again drops those in progress\n")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, ask_to_stop)
    try:
        yield stop
    finally:
        end.cancel()
        signal.signal(signal.SIGINT, before)


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


def end_at_once() -> None:
    """End the process, without waiting for any of its threads."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
    sys.stderr.write(
        "interrupted: what was still computing has been given up; the archive has everything that was written, and "
        "the same command goes on from there\n"
    )
    leave(INTERRUPTED)


def leave(code: int) -> None:
    """End the process without waiting for its threads, once its output is written."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def still_working() -> bool:
    """Whether a thread that nobody waits for still runs: the process must then end without waiting for its threads."""
    return any(thread.daemon and thread.name.startswith(WORKING) for thread in threading.enumerate())
