"""The functions that run on a Ray cluster: a task, and the signal by which all tasks are asked to stop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

from runners.executors import serving

POLL_SECONDS = 0.5  # after which a task looks whether it is to stop


class Signal:
    """An actor: ``wait`` ends when somebody has called ``set``."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for ``set``."""
        await self._event.wait()

    async def set(self) -> None:
        """Let all who wait go on."""
        self._event.set()


def carry_out(setup: str, part: str, stopping: list[Any]) -> Iterator[str]:
    """Carry out a part (JSON) by the worker of a setup: messages, the first of them empty, when it has begun.

    It is asked to stop when the object is there to which ``stopping`` holds a reference.
    """
    yield ""
    stop, said = threading.Event(), SimpleQueue[str | None]()

    def work() -> None:
        try:
            serving.carry_out(setup, json.loads(part), stop, said.put)
        finally:
            said.put(None)

    def listen() -> None:
        import ray

        while working.is_alive() and not stop.is_set():
            if ray.wait(stopping, timeout=POLL_SECONDS, fetch_local=False)[0]:
                stop.set()

    working = threading.Thread(target=work, daemon=True)
    working.start()
    threading.Thread(target=listen, daemon=True).start()
    while (text := said.get()) is not None:  # Ray wants a generator of this function's own
        yield text
