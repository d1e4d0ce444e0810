"""The setting by which the C library keeps freed memory."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from runners.arena import heap


@pytest.mark.parametrize("has_mallopt", [True, False])
def test_freed_memory_is_kept_where_the_c_library_can(monkeypatch: pytest.MonkeyPatch, has_mallopt: bool) -> None:
    calls: list[tuple[int, int]] = []
    library: Any = SimpleNamespace()
    if has_mallopt:
        library.mallopt = lambda parameter, value: calls.append((parameter, value))
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    heap.keep_freed_memory.__wrapped__()
    assert calls == ([(-1, 1 << 26), (-3, 1 << 25)] if has_mallopt else [])
