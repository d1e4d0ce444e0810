"""Errors that a user can meet, each with one line of text. The command line turns them into exit codes.

A player's own interpreter imports this module too (``runners/hosting/polito/``): it may be Python 3.7.
"""

from __future__ import annotations

import difflib
import functools
import os
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_VALUE_CHARACTERS = 80
PROJECT_FOLDERS = tuple(f"{Path(__file__).parents[1]}/{name}/" for name in ("quarto", "agents", "analytics", "runners"))


class Advice(str):  # noqa: SLOT000  (its parts are attributes)
    """A remark with the command that helps, as text, which also knows the call of Python that helps instead.

    Attributes:
        text: The remark alone.
        command: What helps on the command line, such as ``'qarena annotate' judges them``.
        call: What helps in Python, such as ``runners.annotate() judges them``.
        separator: What stands between the remark and the advice in the text of an error.

    """

    text: str
    command: str
    call: str
    separator: str

    def __new__(cls, text: str, command: str, call: str, separator: str = ": ") -> Advice:  # noqa: PYI034  (``Self`` is newer)
        """Build the remark from its parts."""
        advice = super().__new__(cls, f"{text} ({command})")
        advice.text, advice.command, advice.call, advice.separator = text, command, call, separator
        return advice

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the class and the parts, from which a copy in another process is built."""
        return type(self), (self.text, self.command, self.call, self.separator)

    @property
    def for_python(self) -> str:
        """The remark with the Python call instead of the command."""
        return f"{self.text} ({self.call})"


class ArenaError(Exception):
    """An error whose text is one line for the user: the wrong value, the likely cause, and what to do.

    If the text is an ``Advice``, users of Python read its call, and users of the command line read its command.
    """

    exit_code = 1

    def __str__(self) -> str:
        remark = self.args[0] if self.args else ""
        return f"{remark.text}{remark.separator}{remark.call}" if isinstance(remark, Advice) else super().__str__()

    @property
    def for_command_line(self) -> str:
        """The text of the error for users of the command line."""
        remark = self.remark
        return f"{remark.text}{remark.separator}{remark.command}" if isinstance(remark, Advice) else remark

    @property
    def remark(self) -> str:
        """The text of the error, as an ``Advice`` if it is one."""
        return self.args[0] if self.args and isinstance(self.args[0], Advice) else str(self)


class RequestError(ArenaError):
    """An error raised when a request cannot be met as written (exit code 2). Nothing was changed."""

    exit_code = 2


class NotFoundError(RequestError):
    """An error raised when the run, game, policy or sweep that a request names does not exist."""


class FailureError(ArenaError):
    """An error raised when a correct request could not be carried out (exit code 1).

    Everything committed before the failure is kept.
    """

    exit_code = 1


class AnswerError(TypeError):
    """An error raised when an agent's method cannot be called, or when its answer has the wrong form.

    ``call`` is the method or its name, and ``text`` says what is wrong.
    """

    def __init__(self, call: Callable[..., Any] | str, text: str) -> None:
        super().__init__(f"{getattr(call, '__name__', call)} {text}")
        code = getattr(call, "__code__", None)
        self.raised_at = f"{code.co_filename}:{code.co_firstlineno}" if code else ""

    @classmethod
    def from_answer(cls, call: Callable[..., Any], answer: object, expected: str) -> AnswerError:
        """Build the error for an answer that does not have the expected form.

        ``call`` is the method that returned ``answer``, and ``expected`` describes the form.
        """
        return cls(call, f"returned {repr(answer)[:100]}, not {expected}")


def is_ctrl_c_in_main_thread(error: BaseException) -> bool:
    """Return whether an exception is the user's Ctrl-C.

    Ctrl-C reaches the main thread only, so a ``KeyboardInterrupt`` in any other thread was raised by the code of that
    thread.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def describe_value(value: object) -> str:
    """Return the text of a value for a message or, if it is longer than a few words, the kind of the value."""
    text = repr(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS and "\n" not in text else f"<{type(value).__name__}>"


def suggest_valid_names(name: str, valid: Iterable[str]) -> str:
    """Return the end of a message about the wrong name ``name``: the nearest valid name, if any, and all valid names.

    The text has the form ``"; did you mean 'x'? valid: x, y"``.
    """
    names = sorted(set(valid))
    return f"; {describe_nearest_name(name, names)}valid: {', '.join(names) or 'none'}"


def describe_nearest_name(name: str, valid: Iterable[str], likeness: float = 0.5) -> str:
    """Return ``"did you mean 'x'? "`` with the valid name that is most similar to ``name``.

    The text is empty if the similarity of every valid name is below ``likeness`` (0 to 1).
    """
    close = difflib.get_close_matches(name, sorted(set(valid)), n=1, cutoff=likeness)
    return f"did you mean {close[0]!r}? " if close else ""


class MissingExtraError(RequestError, ImportError):
    """An error raised when a library that belongs to one of the project's extras is not installed."""


@contextmanager
def require_extra(extra: str, needed_by: str) -> Iterator[None]:
    """Raise ``MissingExtraError`` if an import inside this context fails because a library is missing.

    ``extra`` is the extra that installs the library, and ``needed_by`` names the feature that needs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        raise MissingExtraError(f"{needed_by} needs {library}: {describe_extra_installation(extra)}") from error


def describe_extra_installation(extra: str) -> str:
    """Return instructions for installing one of the project's extras, with the command to use in a clone."""
    return f"install its extra: in a clone, .venv/bin/pip install -e '.[{extra}]'"


# Exceptions of agents and of other processes.


@dataclass
class ErrorDetails:
    """A description of an exception that can be sent to another process."""

    kind: str
    text: str
    raised_at: str  # file and line
    traceback: str
    exit_code: int | None  # of an ``ArenaError``, whose text is for the user


class RemoteError(Exception):
    """An exception that was raised in another process."""

    def __init__(self, details: ErrorDetails) -> None:
        super().__init__(f"{details.kind}: {details.text}")
        self.details = details
        self.raised_at = details.raised_at
        self.add_note(details.traceback)

    def restore_or_wrap_arena_error(self, subject: str) -> ArenaError:
        """Return the original error if it was an ``ArenaError``, and otherwise a ``RequestError`` about ``subject``.

        The original error is built anew as a ``RequestError`` or a ``FailureError`` with the same text. An error about
        ``subject``, for example an agent, says that it cannot be made, and why.
        """
        if self.details.exit_code is None:
            return RequestError(f"{subject} cannot be made: {self}")
        kind = RequestError if self.details.exit_code == RequestError.exit_code else FailureError
        return kind(self.details.text)


def to_error_details(error: BaseException) -> ErrorDetails:
    """Describe an exception in a form that can be sent to another process."""
    trace = _escape_surrogates("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    code = error.exit_code if isinstance(error, ArenaError) else None
    remark = error.remark if isinstance(error, ArenaError) else str(error)
    text = remark if isinstance(remark, Advice) else _escape_surrogates(remark)
    return ErrorDetails(type(error).__name__, text, describe_author_error_location(error), trace, code)


def _escape_surrogates(text: str) -> str:
    """Return the text with an escape for each code point that UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()


def describe_author_error_location(error: BaseException) -> str:
    """Return the file and line at which an agent's exception arose, or ``an unknown line``.

    The line is the innermost one of the author's code in the traceback or, if there is none, the innermost line of this
    project. The path of a file below the current folder is relative to that folder.
    """
    location: str | None = getattr(error, "raised_at", None)  # of an answer, or of an exception in another process
    if location is None and isinstance(error, SyntaxError):
        location = f"{error.filename}:{error.lineno}"
    if location is None:
        lines = [(f.filename, f"{f.filename}:{f.lineno}") for f in traceback.extract_tb(error.__traceback__)]
        lines = [(file, line) for file, line in lines if not _is_library_or_non_python_file(file)]
        author_lines = [line for file, line in lines if not file.startswith(PROJECT_FOLDERS)]
        location = author_lines[-1] if author_lines else lines[-1][1] if lines else "an unknown line"
    current_folder = f"{Path.cwd()}{os.sep}"
    return location[len(current_folder) :] if location.startswith(current_folder) else location


def _is_library_or_non_python_file(file: str) -> bool:
    """Return whether a file belongs to Python or to an installed library, or is not a Python file.

    Files that are not Python files count too, because C extensions put the names of their sources into tracebacks.
    """
    return not file.endswith(".py") or file.startswith(_list_library_folders()) or "-packages" in file


@functools.lru_cache(maxsize=1)
def _list_library_folders() -> tuple[str, ...]:
    """Return the folders of Python's standard library and of installed packages. Finding these folders takes 10 ms."""
    return tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def format_error_with_location(error: BaseException) -> str:
    """Return one line with the type and the text of an exception, and the file and line of its source.

    The type and the text are cut off after 500 characters.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text:.500} ({describe_author_error_location(error)})"
