"""The program of every child process: ``python -m runners.hosting.child_program MODULE:FUNCTION MEGABYTES PIPES``.

``FUNCTION`` of ``MODULE`` gets the first request. It returns the answer, and the function that gets all other requests:
that one returns an answer, or None if there is none. Requests and answers are a JSON value and bytes. Nothing is
unpickled. This needs the standard library only: a child may import it before it imports anything else.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import struct
import sys
import sysconfig
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quarto.errors import ArenaError, FailureError, RequestError

HEADER = struct.Struct("<BIQ")  # kind of the message, bytes of its JSON value, further bytes
REQUEST, ANSWER, FAILURE = range(3)
OURS = tuple(f"{Path(__file__).parents[2]}/{name}/" for name in ("quarto", "agents", "analytics", "runners"))
Message = tuple[Any, bytes]
Serve = Callable[[Any, bytes], Message | None]
Begin = Callable[[Any, bytes], tuple[Message, Serve]]


@dataclass
class Failed:
    """An exception that was raised in a child."""

    kind: str
    text: str
    raised_at: str  # file and line
    traceback: str
    exit_code: int | None  # of an ``ArenaError``, whose text is for the user


class RemoteError(Exception):
    """An exception in a child."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(f"{failed.kind}: {failed.text}")
        self.failed = failed
        self.raised_at = failed.raised_at
        self.add_note(failed.traceback)

    def for_user(self, what: str) -> ArenaError:
        """The error of the child if it is one for the user, else one that says that ``what`` cannot be made."""
        if self.failed.exit_code is None:
            return RequestError(f"{what} cannot be made: {self}")
        kind = RequestError if self.failed.exit_code == RequestError.exit_code else FailureError
        return kind(self.failed.text)


def failed_by(error: BaseException) -> Failed:
    """An exception as it crosses to the parent."""
    trace = _printable("".join(traceback.format_exception(error)))
    code = error.exit_code if isinstance(error, ArenaError) else None
    return Failed(type(error).__name__, _printable(str(error)), raised_at(error), trace, code)


def _printable(text: str) -> str:
    """A text as UTF-8 can have it."""
    return text.encode(errors="backslashreplace").decode()


def raised_at(error: BaseException) -> str:
    """File and line where an agent's exception comes from: the innermost of its author's, else of this project's."""
    found: str | None = getattr(error, "raised_at", None)  # of an answer, or of an exception in another process
    if found is None and isinstance(error, SyntaxError):
        found = f"{error.filename}:{error.lineno}"
    if found is None:
        lines = [(f.filename, f"{f.filename}:{f.lineno}") for f in traceback.extract_tb(error.__traceback__)]
        lines = [(file, line) for file, line in lines if not _is_of_library(file)]
        theirs = [line for file, line in lines if not file.startswith(OURS)]
        found = theirs[-1] if theirs else lines[-1][1] if lines else "an unknown line"
    return found.removeprefix(f"{Path.cwd()}{os.sep}")


def _is_of_library(file: str) -> bool:
    """Whether a file is Python's or an installed library's, or no Python file: C extensions name their sources."""
    folders = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return not file.endswith(".py") or file.startswith(folders) or "-packages" in file


def one_line(error: BaseException) -> str:
    """An exception in one line, with file and line of its source."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text:.500} ({raised_at(error)})"


def write_message(descriptor: int, kind: int, value: Any, content: bytes) -> None:
    """Write a message to a pipe. Raises ``OSError``."""
    text = json.dumps(value).encode()
    message = memoryview(HEADER.pack(kind, len(text), len(content)) + text + content)
    while message:
        message = message[os.write(descriptor, message) :]


def _read_request(descriptor: int) -> Message:
    """Read a message from a pipe. Raises ``EOFError`` if it ends."""
    _, text, further = HEADER.unpack(_read(descriptor, HEADER.size))
    return json.loads(_read(descriptor, text)), _read(descriptor, further)


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


def _limit_memory(megabytes: int) -> None:
    """Let this process take at most so much more address space than it has now."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _main(served: str, megabytes: str, requests: int, answers: int, lifeline: int) -> None:
    """Serve requests until they end. ``megabytes`` is empty if memory has no limit."""
    belong_to_run(lifeline)
    serve: Serve | None = None
    answer: Message | None
    with suppress(EOFError):
        while True:
            value, content = _read_request(requests)
            try:
                if serve is None:
                    answer, serve = _imported(served, megabytes)(value, content)
                else:
                    answer = serve(value, content)
            except BaseException as error:  # noqa: BLE001  (strangers' code may raise anything; the parent reports it)
                write_message(answers, FAILURE, asdict(failed_by(error)), b"")
            else:
                if answer is not None:
                    write_message(answers, ANSWER, *answer)


def _imported(served: str, megabytes: str) -> Begin:
    module, _, function = served.partition(":")
    begin: Begin = getattr(importlib.import_module(module), function)
    if megabytes and sys.platform == "linux":
        _limit_memory(int(megabytes))
    return begin


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
