"""Workers without processes: they say what they would say elsewhere, in JSON. What they are told is plain data too."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator

from runners.executors import serving
from runners.executors.base import Work
from runners.executors.workers import Heard, Lost, Tasks, Workers


class Inline(Workers):
    """Carries out one task after the other; ``parts`` counts them. The first is lost once it has been carried out."""

    parts = 0  # of all objects

    def here(self, threads: int) -> int:
        return threads

    def ready(self, threads: int) -> int:
        return threads

    def _results(
        self, setup: str, tasks: Tasks, workers: int, stop: threading.Event, work: Work
    ) -> Generator[Heard | Lost, None, None]:
        lost = False
        for task in tasks:
            said: list[str] = []
            serving.carry_out(setup, json.loads(json.dumps(task.part)), stop, said.append)
            yield from map(Heard, said)
            Inline.parts += 1
            if not lost:
                lost = True
                yield Lost(task, "it is a test")
