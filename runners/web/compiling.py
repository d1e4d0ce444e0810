"""Whether kernels are being compiled: then an answer takes a minute once, and the page says why."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from numba.core import event


class Compiling(event.Listener):  # type: ignore[misc]
    """Counts the functions that numba compiles at this moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0

    @property
    def active(self) -> bool:
        return self._depth > 0

    def on_start(self, _event: Any) -> None:
        with self._lock:
            self._depth += 1

    def on_end(self, _event: Any) -> None:
        with self._lock:
            self._depth -= 1


@cache
def compiling() -> Compiling:
    """The one of this process."""
    listener = Compiling()
    event.register("numba:compile", listener)
    return listener
