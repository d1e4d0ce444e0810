"""A task that takes no time, or fails in some way. It imports nothing heavy."""

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

Item = tuple[int, str]  # a number, and what happens to it


@dataclass(frozen=True)
class Doubling(Task[Item, int]):
    """The task that doubles numbers."""

    folder: str

    def build_worker(self) -> Worker[Item, int]:
        (Path(self.folder) / f"made-{os.getpid()}-{time.monotonic_ns()}").touch()
        return self.double

    def double(self, item: Item, stop: StopSignal) -> int:
        """Return twice the item's number, after its event has happened."""
        number, event = item
        death_file = Path(self.folder) / f"died-{number}"
        if event == "die" or (event == "die once" and not death_file.exists()):
            death_file.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        errors: dict[str, Exception] = {
            "refuse": RequestError(f"{number} is not even"),
            "fail": FailureError(f"{number} is too much"),
            "break": KeyError(number),
        }
        if event in errors:
            raise errors[event]
        for signal_number in SIGNALS if event == "signal" else ():
            os.kill(os.getpid(), signal_number)
        if event == "warn":
            logging.getLogger("tests.numbers").warning("this is a number")
        while event == "wait" and not stop.is_set():
            time.sleep(0.001)
        while event == "hang":
            time.sleep(0.001)
        return 2 * number
