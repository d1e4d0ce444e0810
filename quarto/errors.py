"""What can go wrong for a user, in one line each; the command line turns these into exit codes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ArenaError(Exception):
    """Anything that a user is told in one line: the value, the likely cause, what to do."""

    exit_code = 1


class RequestError(ArenaError):
    """The request cannot be met as written (exit 2): nothing was changed."""

    exit_code = 2


class FailureError(ArenaError):
    """The request was right and something failed (exit 1): what was committed before is kept."""

    exit_code = 1


def nearest(name: str, valid: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the closest valid name and the list of all, for the end of a message."""
    names = sorted(set(valid))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} valid: {', '.join(names) or 'none'}"
