"""The seconds that a process has spent on compiling kernels: they are no part of an agent's turn.

With a cold cache, a turn may be the first to need a kernel, which takes a second or more to compile. What nearly every
agent needs is compiled before its first turn. Whoever waits for a turn, in the same process or in another one, waits
longer by the time of compiling the rest.
"""

from __future__ import annotations

import functools
import os
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from numba.core import event

from quarto.batch import Batch
from quarto.position import EMPTY
from quarto.rules import Rules
from quarto.views import BatchView, PositionView

# Seconds of compilations that have ended, and the moment when the one in progress began (0: there is none).
CLOCK_RECORD = struct.Struct("=dd")


class CompileClock:
    """The seconds of compiling of one process, in a file without a name that it shares with the one that waits."""

    def __init__(self) -> None:
        """Raises ``OSError`` if there can be no temporary file."""
        self.descriptor, path = tempfile.mkstemp()
        Path(path).unlink()
        os.pwrite(self.descriptor, CLOCK_RECORD.pack(0.0, 0.0), 0)

    def read_seconds(self) -> float:
        """Return the seconds so far, those of a compilation in progress included."""
        ended, since = CLOCK_RECORD.unpack(os.pread(self.descriptor, CLOCK_RECORD.size, 0))
        return float(ended + (time.monotonic() - since if since else 0.0))

    def close(self) -> None:
        """Close the file. May be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class _CompileRecorder(event.Listener):  # type: ignore[misc]
    """Writes when numba begins to compile what the cache lacks, and when it ends: one thread compiles at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._depth, self._ended, self._since = descriptor, 0, 0.0, 0.0

    def on_start(self, _event: event.Event) -> None:
        self._depth += 1
        if self._depth == 1:
            self._since = time.monotonic()
            self._write(self._since)

    def on_end(self, _event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._ended += time.monotonic() - self._since
            self._write(0.0)

    def _write(self, since: float) -> None:
        os.pwrite(self._descriptor, CLOCK_RECORD.pack(self._ended, since), 0)


def record_compile_time(descriptor: int) -> None:
    """Keep the seconds of this process in a file from now on, for a ``CompileClock``."""
    event.register("numba:compile", _CompileRecorder(descriptor))


@functools.cache
def get_process_clock() -> CompileClock:
    """The clock of this process."""
    clock = CompileClock()
    record_compile_time(clock.descriptor)
    return clock


def load_view_kernels(rules: Rules, for_batches: bool) -> None:
    """Have the machine code of what agents ask positions, or batches, before a turn is timed.

    Reading it from the cache takes time, too, and so does importing what numba compiles with: the clock sees neither.
    """
    view = BatchView(Batch.from_positions([EMPTY]), rules) if for_batches else PositionView(EMPTY, rules)
    view.winning_cells(0)
    view.safe_gifts()


def build_deadline(seconds: float, clock: CompileClock | None) -> Callable[[], float]:
    """Return the moment, by ``time.monotonic``, until which an answer may take ``seconds``, as a function.

    It moves on while the process of ``clock`` compiles.
    """
    end, before = time.monotonic() + seconds, clock.read_seconds() if clock else 0.0
    return lambda: end + (clock.read_seconds() - before if clock else 0.0)
