"""A person's game against an agent: the session, the dialogue, the screens, hints and the log."""

from __future__ import annotations

from quarto.errors import RequestError


class Human:
    """The class that represents a person in the records of an archive; a person's label is ``human:NAME``.

    It cannot be instantiated, because people play only through ``qarena play`` and in the browser.
    """

    def __init__(self) -> None:
        raise RequestError("a person cannot be an agent of a run: people play by qarena play AGENT")
