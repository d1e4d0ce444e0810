"""A game of a person against an agent: the game as a value, the session, the screens, the log."""

from __future__ import annotations

from quarto.errors import RequestError


class Human:
    """The target of a person in an archive; the label is ``human:NAME``.

    It cannot be instantiated: people play by `qarena play` only.
    """

    def __init__(self) -> None:
        raise RequestError("a person cannot be an agent of a run: people play by qarena play AGENT")
