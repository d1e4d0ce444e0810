"""The notice that kernels are being compiled: without it a first command seems to hang."""

from __future__ import annotations

import functools
import sys

from quarto import hooks


def announce_compiling() -> None:
    """Print one line on standard error, once in this process, if it has to compile a kernel."""
    hooks.before_compiling = _notice


@functools.cache
def _notice() -> None:
    sys.stderr.write("Compiling the kernels that this command needs. This happens once and may take a minute.\n")
    sys.stderr.flush()
