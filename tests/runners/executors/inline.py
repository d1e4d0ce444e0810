"""An executor of a user's own: what would travel is pickled, and all is carried out here."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from quarto.hooks import ignore
from runners.executors.base import Answer, Executor, Part, Stop
from runners.executors.worker import answer_of, carry_out, setup_of


class Inline(Executor):
    """Carries out one part after the other; ``parts`` counts them. The first is lost once it has been carried out."""

    parts = 0  # of all objects
    shares_memory = False

    def workers(self, threads: int) -> int:
        return threads

    def here(self, threads: int) -> int:
        return threads

    def map(
        self,
        task: Callable[[Part, Stop], Answer],
        parts: Iterable[Part],
        threads: int,
        stop: threading.Event,
        idle: Callable[[], None] = ignore,
    ) -> Iterator[Answer]:
        setup, known = setup_of(task, Path.cwd()), set[str]()
        for number, part in enumerate(iter(parts)):
            if stop.is_set():
                return
            Inline.parts += 1
            for _ in range(2 if number == 0 else 1):  # what a lost worker has written is written again
                returned: Any = carry_out(setup, pickle.loads(pickle.dumps(part)), stop)  # noqa: S301  (its own)
            yield answer_of(pickle.loads(pickle.dumps(returned)), known)  # noqa: S301
