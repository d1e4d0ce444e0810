"""Kernels are loaded from numba's cache without first preparing numba to compile.

Before numba reads machine code from its cache, it imports all that it can compile, SciPy among it, and registers a few
thousand functions. That takes a third of a second of processor time, which is a quarter of a short command. Machine
code that was compiled earlier needs only numba's runtime, which allocates arrays. numba prepares itself again before
each compilation, so a kernel that the cache lacks is compiled as usual.

numba does not document the classes that are used here. Therefore this is done only with a version with which the tests
have passed; with another version numba loads its cache as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numba

TESTED_VERSION = 0, 68


@contextmanager
def load_without_preparing_to_compile() -> Iterator[None]:
    """Let the dispatchers that numba builds in this context load cached machine code without preparing to compile.

    Only one thread may be in this context.
    """
    if numba.version_info.short != TESTED_VERSION:
        yield
        return
    dispatcher: Any = import_module("numba.core.dispatcher")
    usual_cache = dispatcher.FunctionCache
    dispatcher.FunctionCache = _build_cache_class()
    try:
        yield
    finally:
        dispatcher.FunctionCache = usual_cache


@functools.cache
def _build_cache_class() -> Any:
    """Build the class of numba's caches that load machine code without preparing numba to compile."""
    from numba.core.caching import FunctionCache
    from numba.core.runtime.nrt import rtsys

    class KernelCache(FunctionCache):  # type: ignore[misc]
        """A cache of numba that loads machine code without preparing numba to compile."""

        def load_overload(self, signature: Any, target_context: Any) -> Any:
            """Return what numba compiled for ``signature`` in an earlier process, or None if the cache has nothing."""
            rtsys.initialize(target_context)
            compiled = super().load_overload(signature, _PreparedContext(target_context))
            return None if compiled is None else compiled._replace(target_context=target_context)

    return KernelCache


class _PreparedContext:
    """numba's target context, except that ``refresh``, which prepares it to compile, does nothing."""

    def __init__(self, target_context: Any) -> None:
        self._target_context = target_context

    def refresh(self) -> None:
        """Register nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target_context, name)
