"""The contents of messages between a run and the process of an agent. Nothing is unpickled."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from quarto.batch import Batch
from quarto.rng import Streams

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
    """The exception that the agent raised."""

    kind: str
    text: str
    place: str
    traceback: str
    ours: bool  # an ``ArenaError``, whose text is for the user


class RemoteError(Exception):
    """An exception in the process of an agent."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(f"{failed.kind}: {failed.text}")
        self.place = failed.place
        self.add_note(failed.traceback)


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
