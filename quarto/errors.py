"""Errors that a user can meet: one line of text each. The command line turns them into exit codes."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class ArenaError(Exception):
    """An error with one line for the user: the value, the likely cause, the remedy."""

    exit_code = 1


class RequestError(ArenaError):
    """The request cannot be met as written (exit 2): nothing was changed."""

    exit_code = 2


class NotFoundError(RequestError):
    """The run, game, policy or sweep that a request names is not there."""


class FailureError(ArenaError):
    """The request was right, but something failed (exit 1). Everything committed before is kept."""

    exit_code = 1


class AnswerError(TypeError):
    """An agent cannot be asked, or its answer has another form than it should; ``call`` is its method."""

    def __init__(self, call: Callable[..., Any], text: str) -> None:
        super().__init__(f"{getattr(call, '__name__', call)} {text}")
        code = getattr(call, "__code__", None)
        self.raised_at = f"{code.co_filename}:{code.co_firstlineno}" if code else "an unknown line"

    @classmethod
    def of_form(cls, call: Callable[..., Any], answer: object, expected: str) -> AnswerError:
        """The error for an answer that has not the expected form."""
        return cls(call, f"returned {repr(answer)[:100]}, not {expected}")


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an exception is the user's Ctrl-C, which reaches the main thread only; any other is its raiser's own."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def nearest(name: str, valid: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the closest valid name and the list of all, for the end of a message."""
    names = sorted(set(valid))
    return f"; {did_you_mean(name, names)}valid: {', '.join(names) or 'none'}"


def did_you_mean(name: str, valid: Iterable[str], likeness: float = 0.5) -> str:
    """``"did you mean 'x'? "`` with the closest valid name, or nothing if none has this ``likeness`` (0 to 1)."""
    close = difflib.get_close_matches(name, sorted(set(valid)), n=1, cutoff=likeness)
    return f"did you mean {close[0]!r}? " if close else ""


class MissingExtraError(RequestError, ImportError):
    """A library is not installed that one of the project's extras brings."""


@contextmanager
def of_extra(extra: str, needed_by: str) -> Iterator[None]:
    """Inside the context a library is imported that an extra brings. Raises ``MissingExtraError`` if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        raise MissingExtraError(f"{needed_by} needs {library}: {how_to_install(extra)}") from error


def how_to_install(extra: str) -> str:
    """The command that installs one of the project's extras."""
    return f"pip install 'quarto-arena[{extra}]', in a clone .venv/bin/pip install -e '.[{extra}]'"
