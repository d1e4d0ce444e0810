"""Arguments of calls from Python: a wrong kind of value is named in one line, and a result stands for its run."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, Union

from quarto.errors import RequestError, describe_value

if TYPE_CHECKING:
    from analytics.report.result import Result

Run = Union[str, "Result"]  # a run's id, or a result about this run only


def to_run_id_text(run: Run) -> str:
    """Return the text that names a run: the id itself, or the id of the run that a result is about.

    Raises ``RequestError`` for a result about no run or several, and for any other value.
    """
    if isinstance(run, str):
        return run
    from analytics.report.result import Result

    if isinstance(run, Result) and run.run_id:
        return run.run_id
    if isinstance(run, Result):
        raise RequestError("this result is about no run or about several: name a run by its id, see archive.runs()")
    raise RequestError(
        f"{describe_value(run)} is no run: name it by its id, or pass the result of the call that played it"
    )


def list_run_id_texts(run: Run | Iterable[Run] | None) -> list[str]:
    """Return the texts that name the runs of an argument, which is one run, several or none."""
    if run is None:
        return []
    if isinstance(run, Iterable) and not isinstance(run, str):  # such as a column of a frame
        return [*map(to_run_id_text, run)]
    return [to_run_id_text(run)]


def check_text(name: str, value: object, remedy: str) -> None:
    """Raise ``RequestError`` unless the value of the argument ``name`` is a text or None.

    The error message ends with ``remedy``, which says what to pass instead.
    """
    if value is not None and not isinstance(value, str):
        raise RequestError(f"{name}={describe_value(value)} is no text: {remedy}")


def to_whole_number(name: str, value: object) -> int:
    """Return the value of the argument ``name`` as an int.

    Raises ``RequestError`` if the value is not a whole number.
    """
    try:
        return index(value)  # type: ignore[arg-type]  # this is the check
    except TypeError as error:
        raise RequestError(f"{name}={describe_value(value)} is not a whole number") from error
