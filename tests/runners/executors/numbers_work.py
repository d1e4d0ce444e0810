"""Work that takes no time, and worse. Its workers import nothing heavy."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quarto.errors import FailureError, RequestError
from runners.executors.base import Tell


class Numbers:
    """Work for tests: numbers, each with what is to happen to it, which are doubled."""

    worker = f"{__name__}:NumbersWorker"

    def __init__(self, folder: Path, parts: list[list[Any]]) -> None:
        self.taken: list[int] = []
        self._folder = folder
        self._parts = parts

    def here(self, threads: int, stop: threading.Event) -> None:
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        return {"folder": str(self._folder)}

    def parts(self, workers: int) -> Iterator[Any]:
        assert workers == 2
        yield from self._parts

    def rest(self, part: Any) -> Any | None:
        return part

    def take(self, answer: Any) -> None:
        self.taken.append(answer)

    def idle(self) -> None:
        pass


class NumbersWorker:
    """Doubles numbers."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._folder = Path(spec["folder"])

    def carry_out(self, part: Any, stop: threading.Event, tell: Tell) -> None:
        number, what = part
        died = self._folder / f"died-{number}"
        if what == "refuse":
            raise RequestError(f"{number} is not even")
        if what == "fail":
            raise FailureError(f"{number} is too much")
        if what == "break":
            raise KeyError(number)
        if what == "die" or (what == "die once" and not died.exists()):
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "wait":
            assert stop.wait(60)
        tell(2 * number)
