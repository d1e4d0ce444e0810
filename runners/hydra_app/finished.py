"""The outcome of a request: ``Finished``, the ``Value`` by which it is judged, and the ``Target`` of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from runners.hydra_app.objectives import Direction


class Target(NamedTuple):
    """The value that a job of a sweep returns."""

    name: str
    direction: Direction
    text: Callable[[float], str] = "{:.4f}".format  # of a value, for tables


class Value(NamedTuple):
    """The value that judges a job."""

    objective: str  # its name
    number: float
    heading: str = ""  # of its column in a sweep's table; "": its row has it already
    text: str = ""  # the number, as the table shows it


class Finished(NamedTuple):
    """The outcome of a request."""

    run_id: str | None
    show: Callable[[], None]
    interrupted: bool = False  # it is not complete
    stopped: bool = False  # because the user asked to
    value: Value | None = None  # for sweepers that optimise, and for a sweep's table
    row: Mapping[str, str] | None = None  # in a sweep's table; None: the pairings of the run are shown
    exit_code: int = 0  # of a single request that is not interrupted
