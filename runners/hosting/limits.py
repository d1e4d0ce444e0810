"""Limits of an agent in Python: keys of every agent, as its name is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quarto.errors import RequestError, nearest

ISOLATIONS = ("thread", "process")


@dataclass(frozen=True)
class Limits:
    """The time and memory that an agent may take. Raises ``RequestError`` for a value that is not possible."""

    turn_seconds: float | None = None  # by the clock, for a turn; a longer one ends its game as 'forfeit_time'
    isolation: str = ISOLATIONS[0]  # a process of its own can be ended, and takes nothing with it when it dies
    megabytes: int | None = None  # of memory that the process may take beyond Python and the libraries

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise RequestError(f"isolation={self.isolation} does not exist{nearest(str(self.isolation), ISOLATIONS)}")
        for key, kinds in (("turn_seconds", (int, float)), ("megabytes", (int,))):
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or not value > 0):
                raise RequestError(f"{key}={value} is not a number above 0, or null for no limit")
        if self.megabytes is not None and self.isolation != "process":
            raise RequestError(
                f"megabytes={self.megabytes} limits a process: set isolation=process too, or leave it out"
            )

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return self != Limits()

    def as_mapping(self) -> dict[str, Any]:
        """Those that affect games, as JSON values. Isolation does not: it decides only whether a run survives."""
        limits = {"turn_seconds": self.turn_seconds, "megabytes": self.megabytes}
        return {key: value for key, value in limits.items() if value is not None}


def limits_of(what: str, settings: Mapping[str, Any]) -> Limits:
    """The limits among the keys of an agent; null is none. ``what`` names the agent in messages."""
    try:
        return Limits(**{key: settings[key] for key in LIMITS if settings.get(key) is not None})
    except RequestError as error:
        raise RequestError(f"{what}: {error}") from error


LIMITS = tuple(Limits.__dataclass_fields__)
