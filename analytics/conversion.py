"""Types into which msgspec converts values, made ready so that any number of threads may use them."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_ready = set[Any]()
_lock = threading.Lock()


def known(kind: type[T]) -> type[T]:
    """The type, after msgspec has read the declarations of its fields; to be written wherever msgspec is given a type.

    msgspec reads them when a type is used first, and stores them before they are complete. A second thread that uses
    the type at that moment ends the process (msgspec 0.22). So one thread reads, and the others wait.
    """
    if kind not in _ready:
        with _lock:
            msgspec.json.Decoder(kind)
            _ready.add(kind)
    return kind
