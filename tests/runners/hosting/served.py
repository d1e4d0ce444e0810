"""The work of the children of the tests. It imports little, because each child imports it."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from quarto.errors import FailureError
from runners.hosting.subprocess_program import Message, RequestHandler


def build_handler(setup: dict[str, Any], content: bytes) -> tuple[Message, RequestHandler]:
    """Does what each request names, in a child."""
    if "refuse" in setup:
        raise FailureError(setup["refuse"])
    started = subprocess.Popen(["sleep", "60"])

    def answer(value: str, further: bytes) -> Message | None:
        match value:
            case "raise":
                raise ValueError(f"a lone \udc80 and {len(further)} bytes")
            case "sleep":
                time.sleep(60)
            case "nothing":
                return None
            case "number":
                return 7, b""
        return value, further[::-1]

    return (started.pid, content * 2), answer
