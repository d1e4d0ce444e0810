"""The handler of the subprocesses in the tests. It imports little, because each subprocess imports it."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from quarto.errors import FailureError
from runners.hosting.subprocess_program import Handler, Message


def build_handler(setup: dict[str, Any], content: bytes) -> Handler:
    """Start a process, and return a handler that does what each request names."""
    if "refuse" in setup:
        raise FailureError(setup["refuse"])
    sleeper = subprocess.Popen(["sleep", "60"])

    def answer(value: str, payload: bytes) -> Message | None:
        match value:
            case "raise":
                raise ValueError(f"a lone \udc80 and {len(payload)} bytes")
            case "sleep":
                time.sleep(60)
            case "nothing":
                return None
            case "number":
                return 7, b""
        return value, payload[::-1]

    return Handler((sleeper.pid, content * 2), answer)
