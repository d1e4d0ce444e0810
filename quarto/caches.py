"""The folder for files that the project can make again, and the notice before something is compiled for it.

This module imports nothing heavy, so that a command line can set the notice before it knows whether it needs kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def cache_root() -> Path:
    """``$QARENA_CACHE``, else a folder in the user's cache folder; it may not exist yet."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return Path(os.environ.get("QARENA_CACHE") or user_cache / "quarto-arena")


def ignore() -> None:
    """Do nothing: a callback where nobody has set one."""


before_compiling: Callable[[], None] = ignore  # called before numba compiles a function that the cache lacks


@dataclass
class Compiling:
    """The progress of compiling in this process."""

    compiled: int = 0  # kernels that the cache lacked
    seconds: float = 0.0  # spent on compiling


compiling = Compiling()
