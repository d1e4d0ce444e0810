"""The time that a process has spent on compiling kernels, which is no part of an agent's turn.

With a cold cache, a turn may be the first to need a kernel, which takes a second or more to compile. The kernels that
nearly every agent needs are compiled before its first turn. Whoever waits for a turn, in the same process or in another
one, waits longer by the time of compiling the others.
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
from quarto.views import BatchView

# Seconds of finished compilations, and the moment when the one in progress began (0 if there is none).
CLOCK_RECORD = struct.Struct("=dd")


class CompileClock:
    """A clock that measures how long one process spends compiling.

    The time is kept in an unnamed temporary file. The compiling process shares this file with the process that waits
    for the compiling process's turns.
    """

    def __init__(self) -> None:
        """Create the temporary file. Raises ``OSError`` if it cannot be created."""
        self.descriptor, path = tempfile.mkstemp()
        Path(path).unlink()
        os.pwrite(self.descriptor, CLOCK_RECORD.pack(0.0, 0.0), 0)

    def read_seconds(self) -> float:
        """Return the seconds spent on compiling so far, including the compilation in progress."""
        finished_seconds, start = CLOCK_RECORD.unpack(os.pread(self.descriptor, CLOCK_RECORD.size, 0))
        return float(finished_seconds + (time.monotonic() - start if start else 0.0))

    def close(self) -> None:
        """Close the file. Repeated calls are harmless."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class _CompileRecorder(event.Listener):  # type: ignore[misc]
    """A listener that records how long numba compiles kernels that are not in the cache.

    Only one thread compiles at a time.
    """

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
    """From now on, record the time that this process spends compiling in the file with this descriptor.

    A ``CompileClock`` reads the time from this file.
    """
    event.register("numba:compile", _CompileRecorder(descriptor))


@functools.cache
def get_process_clock() -> CompileClock:
    """Return the compile clock of this process. The first call starts the clock."""
    clock = CompileClock()
    record_compile_time(clock.descriptor)
    return clock


def load_batch_view_kernels(rules: Rules) -> None:
    """Load the compiled methods of ``BatchView``, so that they are ready before turns are timed.

    Reading the kernels from the cache and importing the compiler take time that a ``CompileClock`` does not measure.
    """
    view = BatchView(Batch.from_positions([EMPTY]), rules)
    view.winning_cells(0)
    view.safe_gifts()


def build_monotonic_deadline_function(seconds: float, compile_clock: CompileClock | None) -> Callable[[], float]:
    """Return a function that returns the current deadline of a response, on the clock of ``time.monotonic``.

    The response may take ``seconds`` from now. The time that the process of ``compile_clock`` spends compiling
    meanwhile is added to the deadline; without a clock, the deadline is fixed.
    """
    end, start_seconds = time.monotonic() + seconds, compile_clock.read_seconds() if compile_clock else 0.0
    return lambda: end + (compile_clock.read_seconds() - start_seconds if compile_clock else 0.0)
