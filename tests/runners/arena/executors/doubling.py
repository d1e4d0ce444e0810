"""A task that takes no time, and worse. It imports nothing heavy."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from quarto.errors import FailureError, RequestError
from runners.arena.executors.base import StopSignal, Task, Worker
from runners.hosting.interruption import SIGNALS

Part = tuple[int, str]  # a number, and what is to happen to it


@dataclass(frozen=True)
class Doubling(Task[Part, int]):
    """Doubles numbers."""

    folder: str

    def build_worker(self) -> Worker[Part, int]:
        (Path(self.folder) / f"made-{os.getpid()}-{time.monotonic_ns()}").touch()
        return self.double

    def double(self, part: Part, stop: StopSignal) -> int:
        """Carry out a chunk."""
        number, what = part
        died = Path(self.folder) / f"died-{number}"
        if what == "die" or (what == "die once" and not died.exists()):
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        errors: dict[str, Exception] = {
            "refuse": RequestError(f"{number} is not even"),
            "fail": FailureError(f"{number} is too much"),
            "break": KeyError(number),
        }
        if what in errors:
            raise errors[what]
        for signal_number in SIGNALS if what == "signal" else ():
            os.kill(os.getpid(), signal_number)
        if what == "warn":
            logging.getLogger("tests.numbers").warning("this is a number")
        while what == "wait" and not stop.is_set():
            time.sleep(0.001)
        while what == "hang":
            time.sleep(0.001)
        return 2 * number
