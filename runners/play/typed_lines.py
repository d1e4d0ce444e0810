"""Lines of standard input that is no terminal. A wait for one hears Ctrl-C at once."""

from __future__ import annotations

import os
import select
import sys

POLL_SECONDS = 0.1
CHUNK = 1 << 16  # bytes


class TypedLines:
    """Reads standard input line by line."""

    def __init__(self) -> None:
        self._read = b""  # what was read of the lines that follow
        self._ended = False

    def next(self) -> str:
        """The next line without its end; text that cannot be decoded has question marks.

        Raises ``EOFError`` at the end of the input.
        """
        # Python's own reading is interrupted only if the system delivers the signal to this thread, and libraries that
        # play have threads too. Between these short waits Python looks whether a signal came to any thread.
        descriptor = sys.stdin.fileno()
        while b"\n" not in self._read and not self._ended:
            if select.select([descriptor], [], [], POLL_SECONDS)[0]:
                piece = os.read(descriptor, CHUNK)
                self._read += piece
                self._ended = not piece
        line, _, self._read = self._read.partition(b"\n")
        if self._ended and not line and not self._read:
            raise EOFError
        return line.decode(sys.stdin.encoding, "replace").rstrip("\r")
