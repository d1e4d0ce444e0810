"""The cores and the memory that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

from quarto.errors import RequestError

MEBIBYTE = 1 << 20
DISTANCES_SHARE = 1.25  # a solver keeps a quarter of its table's size for distances

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_megabytes() -> float:
    """The memory in MiB that this process can take without swapping; all that is installed if that is not known."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE
    return min(megabytes for megabytes in (installed, _of_machine(), _of_group()) if megabytes is not None)


def check_tables(megabytes: float, tables: int = 1) -> None:
    """Raise ``RequestError`` unless memory has room for the tables of ``tables`` solvers, ``megabytes`` each.

    The message names the largest size that fits.
    """
    if not 0 < megabytes < float("inf"):
        raise RequestError(f"--memory {megabytes:g}MiB is not a size: write more than 0, such as 128MiB")
    available = available_megabytes()
    needed = megabytes * DISTANCES_SHARE * tables
    if needed > available:
        most = int(available / DISTANCES_SHARE / tables)
        fits = f"at most --memory {1 << (most.bit_length() - 1)}MiB fits" if most else "free some"
        raise RequestError(
            f"--memory {megabytes:g}MiB takes {needed:,.0f} MB of memory and {available:,.0f} MB are free: {fits}"
        )


def _of_machine() -> float | None:
    """The memory that Linux reports as available."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) / 1024 if sizes else None


def _of_group() -> float | None:
    """The memory that the container's limit leaves (control groups, version 2)."""
    try:
        limit, used = ((_GROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used)) / MEBIBYTE
