"""Carries out a command where ``ulimit -v`` limits memory: what libraries do then cannot be caught in their process."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable


def limit() -> int | None:
    """The bytes that this process may map; None: no limit."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def advice() -> str:
    """Advice for when memory is short; empty where memory is not limited."""
    most = limit()
    return "" if most is None else f"this process may use {most // 1024:,} KiB of memory: raise 'ulimit -v'"


def carry_out(command: Callable[[], None]) -> None:
    """Carry out a command; under a limit of memory in a child, so that one line says how a library aborted it.

    C++ and Rust abort when an allocation fails. Must be called before any thread is started.
    """
    if limit() is None:
        command()
        return
    child = os.fork()
    if child == 0:
        command()
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child, too
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        name = signal.Signals(-code).name
        sys.stderr.write(f"error: a library ended the command by {name}, probably for want of memory; {advice()}\n")
        code = 1 if name in ("SIGABRT", "SIGSEGV", "SIGBUS") else 128 - code
    raise SystemExit(code)
