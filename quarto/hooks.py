"""A callback that an application may set: the core itself prints nothing.

This module imports nothing heavy, so that a command line can set the callback before it knows whether it needs kernels.
"""

from __future__ import annotations

from collections.abc import Callable


def ignore() -> None:
    """Do nothing: a callback where nobody has set one."""


before_compiling: Callable[[], None] = ignore  # called before numba compiles a function that the cache lacks
