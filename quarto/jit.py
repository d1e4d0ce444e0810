"""The jit decorators of the project, and the directory that keeps what they compile.

numba's own cache does not notice an edit in a callee of another file. The cache therefore lives in a directory named
by a hash of every source file that can change a kernel: after such an edit the old machine code is not looked at.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from quarto.sources import fingerprint_of, kernel_sources, outside_fingerprint

F = TypeVar("F", bound=Callable[..., Any])


# Casts inside kernels. numba finds NumPy's types behind these names; a type checker is told what a kernel's annotations
# say, that machine words are ints, and so checks kernels like any other function.
int64 = cast("Callable[[Any], int]", np.int64)
uint64 = cast("Callable[[Any], int]", np.uint64)
float64 = cast("Callable[[Any], float]", np.float64)


@functools.cache
def cache_directory(outside: str = "") -> Path:
    """Where compiled kernels are kept: ``$QARENA_CACHE``, else the user's cache folder, else a temporary one.

    The last part of the path names the sources (``outside`` those of an agent from elsewhere), the Python and the numba
    they were compiled by.
    """
    stamp = hashlib.sha256(
        f"{fingerprint_of(kernel_sources())} {outside} {sys.version} {numba.__version__} {sys.prefix}".encode()
    ).hexdigest()[:16]
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    chosen = Path(os.environ.get("QARENA_CACHE") or user_cache / "quarto-arena") / "kernels" / stamp
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        writable = os.access(chosen, os.W_OK)
    except OSError:
        writable = False
    if writable:
        return chosen
    # A read-only home: compile anew in each process, in a private folder. Never in a shared one that another user could
    # have filled: numba unpickles what it finds there.
    chosen = Path(tempfile.mkdtemp(prefix="quarto-arena-"))
    atexit.register(shutil.rmtree, chosen, ignore_errors=True)
    return chosen


def kernel(signature: Any = None) -> Callable[[F], F]:
    """Compile a function that Python calls: cached on disk, without the interpreter lock, divisions as in NumPy.

    With ``signature`` it is compiled (or read from the cache) at once, for those argument types only.
    """

    def decorate(function: F) -> F:
        before = numba.config.CACHE_DIR
        outside = outside_fingerprint(Path(function.__code__.co_filename))
        numba.config.CACHE_DIR = str(cache_directory(outside))  # read while numba decorates: other code keeps its own
        try:
            compiled: F = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function)
        finally:
            numba.config.CACHE_DIR = before
        return compiled

    return decorate


def inlined(function: F) -> F:
    """Compile a small function that only kernels call; LLVM is told to inline it, so it costs no call."""
    compiled: F = numba.njit(forceinline=True, error_model="numpy")(function)
    return compiled
