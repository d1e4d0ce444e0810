"""The heap of the C library keeps the memory that one file of games has freed for the next file."""

from __future__ import annotations

import ctypes
import functools

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's ``mallopt``, see its manual page
KEPT_BYTES = 1 << 26  # free memory at the end of a thread's heap that is not returned to the system
HEAP_BLOCK_BYTES = 1 << 25  # smaller blocks come from the heap; glibc allows no more


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep freed memory, if it is glibc. The setting holds for the whole process.

    A file of games needs twenty megabytes for a tenth of a second. glibc would return them to the system when the file
    is written, and the system would clear and map them again, page by page, for the next file: a twelfth of the time of
    playing and writing random games.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
