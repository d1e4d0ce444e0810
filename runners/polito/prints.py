"""Output of the process: the first bytes are kept, the rest is dropped."""

from __future__ import annotations

import io
import sys
from contextlib import suppress


class KeptOutput(io.RawIOBase):
    """Keeps the first ``most`` bytes that are written."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview | bytes) -> int:  # type: ignore[override]
        """Take all of ``data``, and keep what there is room for."""
        if self._left > 0:
            part = bytes(data[: self._left])
            self._left -= len(part)
            self._parts.append(part if self._left else part + b"\n(no more is kept)")
        return len(data)

    def take(self) -> str:
        """The text kept since the last call."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a player may have closed it or replaced it by anything
                stream.flush()
        text = b"".join(self._parts).decode(errors="backslashreplace")
        self._parts.clear()
        return text


def swallow(most: int) -> KeptOutput:
    """From now on standard output and error of Python code are kept so."""
    kept = KeptOutput(most)
    raw: io.RawIOBase = kept
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace") for _ in range(2)
    )
    return kept
