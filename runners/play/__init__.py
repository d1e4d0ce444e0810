"""A person at the terminal against an agent: the game as a value, the session, what is drawn, what is logged."""

from __future__ import annotations

from quarto.errors import RequestError


class Human:
    """The class that the archive names for a person, whose label is ``human:NAME``.

    It cannot be made: a person plays by `qarena play`, and whatever asks for one elsewhere is told so by
    ``RequestError``.
    """

    def __init__(self) -> None:
        raise RequestError("a person is asked at a terminal: qarena play AGENT")
