"""What Python reports to auditors while a test watches: programs that start, files that are opened, modules, code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Wanted = Callable[[str, tuple[Any, ...]], bool]
PROGRAMS = (
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "os.system",
    "pty.spawn",
)

_watchers: list[tuple[Wanted, list[str]]] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    for is_wanted, events in _watchers:
        if is_wanted(event, arguments):
            events.append(f"{event}{arguments!r:.200}")


def starts_program(event: str, _arguments: tuple[Any, ...]) -> bool:
    """Return whether an event is the start of a program."""
    return event in PROGRAMS


@contextmanager
def watch_events(is_wanted: Wanted) -> Iterator[list[str]]:
    """Record the events that are wanted, of all threads. The hook stays, as all do, and does nothing afterwards."""
    if not hasattr(sys, "_qarena_is_audited"):
        sys.addaudithook(_watch)
        sys._qarena_is_audited = True  # type: ignore[attr-defined]
    watcher = is_wanted, list[str]()
    _watchers.append(watcher)
    try:
        yield watcher[1]
    finally:
        _watchers.remove(watcher)
