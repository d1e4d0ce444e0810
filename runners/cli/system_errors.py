"""Errors that the system raises, with remedies, and standard streams that are closed or full."""

from __future__ import annotations

import errno
import os
import resource
import sys
from contextlib import suppress
from typing import IO, cast

import typer

OUTPUT_FAILURE = "a file or the output cannot be written"  # the system does not say which
REMEDIES = {
    errno.ENOSPC: "free some space, or write somewhere else",
    errno.EDQUOT: "free some of your quota, or write somewhere else",
    errno.EFBIG: "raise the limit on the size of files ('ulimit -f')",
    errno.EIO: "its device or terminal is gone or damaged; write somewhere else",
    errno.EACCES: "let this user read and write there, or name another place",
    errno.EPERM: "let this user read and write there, or name another place",
    errno.EROFS: "name another place",
    errno.ENOENT: "it was removed while in use; give the same command again",
    errno.ENOTDIR: "a file stands where a folder is needed; remove it, or name another place",
    errno.EISDIR: "a folder stands where a file is needed; remove it, or name another place",
    errno.EEXIST: "a file stands where a folder is needed; remove it, or name another place",
    errno.ELOOP: "a symbolic link leads back to itself; remove it, or name another place",
    errno.ENAMETOOLONG: "write a shorter name",
    errno.EAGAIN: "end other programs, or raise the limit on processes ('ulimit -u')",
    errno.ENOMEM: "end other programs, or ask for less",
}
OUTPUT_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # errors that concern output if they name no file


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed before the program began.

    Otherwise, the first files that the program opens would get the descriptor numbers of these streams, and printing
    would write into an archive.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= 2:
        nowhere = os.open(os.devnull, os.O_RDWR)
    os.close(nowhere)
    for descriptor, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  (the stream stays open)


def print_error(text: str) -> None:
    """Print a line on standard error.

    If the line cannot be written, that error is ignored, so that the program still ends with its exit code.
    """
    with suppress(OSError, ValueError):
        typer.echo(text, err=True)


def explain_system_error(error: BaseException) -> str | None:
    """Return one line that explains an operating system's error and names a remedy, or None for any other error."""
    if isinstance(error, MemoryError):
        return "there is not enough memory: end other programs, ask for less, or raise 'ulimit -v' if it is set"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "no thread can be started: raise 'ulimit -u' or 'ulimit -v' if they are set, or ask for fewer threads"
    if not isinstance(error, OSError) or error.errno is None:
        return None
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many files are open: raise their limit ('ulimit -n', now {limit:,}), or ask for fewer workers"
    remedy = REMEDIES.get(error.errno)
    if remedy is None:
        return None
    reason = os.strerror(error.errno).lower()
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}: {remedy}"
    return f"{OUTPUT_FAILURE}: {reason}: {remedy}" if error.errno in OUTPUT_ERRNOS else None


def flush_standard_output() -> None:
    """Flush standard output. Raises ``OSError`` if that fails; Python itself would ignore the failure at exit."""
    cast("IO[str]", sys.stdout).flush()
