"""The program of every child process: ``python -m runners.hosting.subprocess_program MODULE:FUNCTION MEGABYTES PIPES``.

``FUNCTION`` of ``MODULE`` gets the first request. It returns the answer, and the function that gets all other requests:
that one returns an answer, or None if there is none. Requests and answers are a JSON value and bytes. Nothing is
unpickled. This needs the standard library of Python 3.7 only: a player's own interpreter may run it.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Optional, Tuple

from quarto.errors import to_error_details

HEADER = struct.Struct("<BIQ")  # kind of the message, bytes of its JSON value, further bytes
REQUEST, ANSWER, FAILURE = range(3)
TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
Message = Tuple[Any, bytes]
RequestHandler = Callable[[Any, bytes], Optional[Message]]
HandlerFactory = Callable[[Any, bytes], Tuple[Message, RequestHandler]]


def write_message(descriptor: int, kind: int, value: Any, content: bytes) -> None:
    """Write a message to a pipe. Raises ``OSError``."""
    text = json.dumps(value).encode()
    message = memoryview(HEADER.pack(kind, len(text), len(content)) + text + content)
    while message:
        message = message[os.write(descriptor, message) :]


def _read_bytes(descriptor: int, length: int) -> bytes:
    """Read from a pipe. Raises ``EOFError`` if it ends."""
    parts = []
    while length:
        part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def bind_to_run(lifeline: int) -> None:
    """Let this process live no longer than its run, leave signals to the run, and go first where memory runs out.

    A signal to end may come to all processes of a group, or of a service: the run then ends this one when it is ready.
    Nothing is ever written on ``lifeline``: when its other end closes, the kernel of Linux ends this process, whatever
    Python is doing then, and what it started in its process group, if that is its own. Other kernels ignore this signal
    by default, so there Python ends it when it comes to it.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL if sys.platform == "linux" else lambda *_: os._exit(1))
    leads = os.getpgrp() == os.getpid()
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid() if leads else os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in TERMINATION_SIGNALS:
        signal.signal(number, _ignore_termination)
    os.register_at_fork(after_in_child=_restore_terminations)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _ignore_termination(*_: Any) -> None:
    """Do nothing. Not SIG_IGN, which programs that an agent starts would inherit: it could not terminate them."""


def _restore_terminations() -> None:
    """Let a copy of this process, which an agent has made, be terminated."""
    for number in TERMINATION_SIGNALS:
        if signal.getsignal(number) is _ignore_termination:
            signal.signal(number, signal.SIG_DFL)


def describe_exit(code: int) -> str:
    """The end of a process, given its exit code."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in {*signal.Signals} else "unknown"
    return f"its process was ended by signal {-code} ({name})"


def _limit_additional_memory(megabytes: int) -> None:
    """Let this process take at most so much more address space than it has now."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    """Serve requests until they end. MEGABYTES is empty if memory has no limit."""
    served, megabytes = sys.argv[1:3]
    requests, answers, lifeline = map(int, sys.argv[3:])
    bind_to_run(lifeline)
    serve: RequestHandler | None = None
    answer: Message | None
    with suppress(EOFError):
        while True:
            _, text, further = HEADER.unpack(_read_bytes(requests, HEADER.size))
            value, content = json.loads(_read_bytes(requests, text)), _read_bytes(requests, further)
            try:
                if serve is None:
                    answer, serve = _import_factory_and_limit_memory(served, megabytes)(value, content)
                else:
                    answer = serve(value, content)
            except BaseException as error:  # noqa: BLE001  (strangers' code may raise anything; the parent reports it)
                write_message(answers, FAILURE, asdict(to_error_details(error)), b"")
            else:
                if answer is not None:
                    write_message(answers, ANSWER, *answer)


def _import_factory_and_limit_memory(factory_path: str, megabytes: str) -> HandlerFactory:
    module, _, function = factory_path.partition(":")
    begin: HandlerFactory = getattr(importlib.import_module(module), function)
    if megabytes and sys.platform == "linux":
        _limit_additional_memory(int(megabytes))
    return begin


if __name__ == "__main__":
    main()
