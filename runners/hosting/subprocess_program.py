"""The program of a subprocess that serves requests, see ``subprocess_client``.

Its arguments are BINDING MODULE:FUNCTION REQUESTS RESPONSES: see ``subprocesses.bind`` for the first; the last two are
descriptors of pipes. ``FUNCTION`` of ``MODULE`` gets the first request and returns a ``Handler``: the first response,
and the function that handles all further requests. A request or response is a JSON value and bytes; nothing is
unpickled. The module needs only the standard library of Python 3.7, because a player's own interpreter may run it.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Callable, NamedTuple, Optional, Tuple

from quarto.errors import to_error_details
from runners.hosting.subprocesses import Limits, apply_memory_and_processor_limits, bind

HEADER = struct.Struct("<BIQ")  # kind of the message, size of its JSON value, size of its further content
REQUEST, ANSWER, FAILURE = range(3)
Message = Tuple[Any, bytes]
RequestHandler = Callable[[Any, bytes], Optional[Message]]  # returns a response; None to send none


class Handler(NamedTuple):
    """The response to the first request, and the function that handles all further requests."""

    first_response: Message
    handle_request: RequestHandler


HandlerFactory = Callable[[Any, bytes], Handler]


def write_message(descriptor: int, kind: int, value: Any, content: bytes) -> None:
    """Write a message to a pipe: ``kind`` (REQUEST, ANSWER or FAILURE), a JSON value, and bytes.

    Raises ``OSError`` if the pipe is closed.
    """
    text = json.dumps(value).encode()
    message = memoryview(HEADER.pack(kind, len(text), len(content)) + text + content)
    while message:
        message = message[os.write(descriptor, message) :]


def _read_bytes(descriptor: int, length: int) -> bytes:
    """Read ``length`` bytes from a pipe. Raises ``EOFError`` if the pipe ends earlier."""
    chunks = []
    while length:
        chunk = os.read(descriptor, min(length, 1 << 20))
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def main() -> None:
    """Handle requests until the pipe through which they come is closed.

    The first request builds the handler, which then handles all further requests.
    """
    binding, factory_path, *pipes = sys.argv[1:]
    request_pipe, response_pipe = map(int, pipes)
    limits = bind(binding)
    handle_request: RequestHandler | None = None
    response: Message | None
    with suppress(EOFError):
        while True:
            _, value_size, content_size = HEADER.unpack(_read_bytes(request_pipe, HEADER.size))
            value, content = json.loads(_read_bytes(request_pipe, value_size)), _read_bytes(request_pipe, content_size)
            try:
                if handle_request is None:
                    response, handle_request = _import_factory_and_apply_limits(factory_path, limits)(value, content)
                else:
                    response = handle_request(value, content)
            except BaseException as error:  # noqa: BLE001  (strangers' code may raise anything; the parent reports it)
                write_message(response_pipe, FAILURE, asdict(to_error_details(error)), b"")
            else:
                if response is not None:
                    write_message(response_pipe, ANSWER, *response)


def _import_factory_and_apply_limits(factory_path: str, limits: Limits) -> HandlerFactory:
    module, _, function = factory_path.partition(":")
    factory: HandlerFactory = getattr(importlib.import_module(module), function)
    apply_memory_and_processor_limits(limits, counts_memory_in_use=False)
    return factory


if __name__ == "__main__":
    main()
