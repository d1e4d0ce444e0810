"""Messages over pipes between a run and a process of its own making: a kind, a length, and bytes.

The standard library only: such a process may import this before it imports anything else.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from contextlib import suppress
from pathlib import Path

HEADER = struct.Struct("<BI")  # kind, bytes that follow
MOST_BYTES = 1 << 26
SETUP, COLUMN, START, ASKED, READY, ANSWERED, FAILED, STOP = range(8)


def write_message(descriptor: int, kind: int, content: bytes) -> None:
    """Write a message to a pipe. Raises ``OSError``."""
    message = memoryview(HEADER.pack(kind, len(content)) + content)
    while message:
        message = message[os.write(descriptor, message) :]


def read_message(descriptor: int) -> tuple[int, bytes]:
    """Read a message from a pipe. Raises ``EOFError`` if it ends, ``OSError``."""
    kind, length = HEADER.unpack(_read(descriptor, HEADER.size))
    return kind, _read(descriptor, length)


def _read(descriptor: int, length: int) -> bytes:
    parts = []
    while length:
        part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def belong_to_run(lifeline: int) -> None:
    """Let this process live no longer than its run, leave Ctrl-C to the run, and go first where memory runs out.

    Nothing is ever written on ``lifeline``: when its other end closes, the kernel ends this process, whatever Python is
    doing then.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def limit_memory(megabytes: int) -> None:
    """Let this process take at most so much more address space than it has now."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
