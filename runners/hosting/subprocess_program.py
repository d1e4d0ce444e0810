"""The program of a subprocess that serves requests, see ``subprocess_client``.

Its arguments are BINDING MODULE:FUNCTION REQUESTS ANSWERS, see ``subprocesses.bind``; the last two are pipes.
``FUNCTION`` of ``MODULE`` gets the first request. It returns the answer, and the function that gets all other requests:
that one returns an answer, or None if there is none. Requests and answers are a JSON value and bytes. Nothing is
unpickled. This needs the standard library of Python 3.7 only: a player's own interpreter may run it.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Callable, Optional, Tuple

from quarto.errors import to_error_details
from runners.hosting.subprocesses import Limits, apply_limits, bind

HEADER = struct.Struct("<BIQ")  # kind of the message, bytes of its JSON value, further bytes
REQUEST, ANSWER, FAILURE = range(3)
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


def main() -> None:
    """Serve requests until they end."""
    binding, served, *pipes = sys.argv[1:]
    requests, answers = map(int, pipes)
    limits = bind(binding)
    serve: RequestHandler | None = None
    answer: Message | None
    with suppress(EOFError):
        while True:
            _, text, further = HEADER.unpack(_read_bytes(requests, HEADER.size))
            value, content = json.loads(_read_bytes(requests, text)), _read_bytes(requests, further)
            try:
                if serve is None:
                    answer, serve = _import_factory_and_apply_limits(served, limits)(value, content)
                else:
                    answer = serve(value, content)
            except BaseException as error:  # noqa: BLE001  (strangers' code may raise anything; the parent reports it)
                write_message(answers, FAILURE, asdict(to_error_details(error)), b"")
            else:
                if answer is not None:
                    write_message(answers, ANSWER, *answer)


def _import_factory_and_apply_limits(factory_path: str, limits: Limits) -> HandlerFactory:
    module, _, function = factory_path.partition(":")
    begin: HandlerFactory = getattr(importlib.import_module(module), function)
    apply_limits(limits, present_counts=False)
    return begin


if __name__ == "__main__":
    main()
