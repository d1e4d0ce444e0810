"""Messages between a run and the process of an agent: a kind, a length, and bytes. Nothing is unpickled."""

from __future__ import annotations

import os
import struct
from typing import Any

import msgspec
import numpy as np

from quarto.batch import Batch
from quarto.rng import Streams

HEADER = struct.Struct("<BI")  # kind, bytes that follow
MOST_BYTES = 1 << 26
SETUP, COLUMN, ASKED, READY, ANSWERED, FAILED = range(6)

DTYPES = (np.uint64, np.uint16, np.uint16, np.int8, np.int8, np.uint64)  # of a batch's fields, then of the seeds
ROW_BYTES = sum(np.dtype(each).itemsize for each in DTYPES)


class Column(msgspec.Struct):
    """A column of a policy's table, whose values follow as bytes."""

    name: str
    dtype: str


class Setup(msgspec.Struct):
    """The agent to make: the fields of ``AgentSpec`` and ``Policy``."""

    label: str
    target: str
    params: dict[str, Any]
    rules: dict[str, Any] | None  # None: it will not play
    megabytes: int | None
    policy_kind: str | None
    policy_parameters: dict[str, float]
    columns: list[Column]


class Ready(msgspec.Struct):
    """The agent is made."""

    batches: bool  # it takes whole batches
    choosers: list[str]
    jitted: bool
    data_files: list[str]


class Failed(msgspec.Struct):
    """What the agent raised."""

    kind: str
    text: str
    place: str
    traceback: str
    ours: bool  # an ``ArenaError``, whose text is for the user


def batch_bytes(batch: Batch, rng: Streams) -> bytes:
    """A question as bytes."""
    return b"".join(np.ascontiguousarray(each).tobytes() for each in (*batch, rng.seeds))


def batch_of(question: bytes) -> tuple[Batch, Streams]:
    """A question from its bytes."""
    size, start = len(question) // ROW_BYTES, 0
    fields: list[Any] = []
    for dtype in DTYPES:
        fields.append(np.frombuffer(question, dtype, size, start).copy())
        start += fields[-1].nbytes
    return Batch(*fields[:-1]), Streams(fields[-1])


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
