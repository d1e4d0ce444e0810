"""Limits of an agent in Python: keys of every agent, as its name is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quarto.errors import RequestError, nearest

ISOLATIONS = ("thread", "process")


@dataclass(frozen=True)
class AgentLimits:
    """The time and memory that an agent may take. Raises ``RequestError`` for a value that is not possible."""

    turn_seconds: float | None = None  # by the clock, for a turn; a longer one ends its game as 'forfeit_time'
    isolation: str = "thread"  # a process of its own can be ended, and takes nothing with it when it dies
    megabytes: int | None = None  # of memory that the process may take beyond Python and the libraries

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATIONS:
            raise RequestError(f"isolation={self.isolation} does not exist{nearest(str(self.isolation), ISOLATIONS)}")
        for key, kinds in (("turn_seconds", (int, float)), ("megabytes", (int,))):
            value = getattr(self, key)
            if value is not None and (type(value) not in kinds or not value > 0):
                raise RequestError(f"{key}={value} is not a number above 0, or null for no limit")
        if self.megabytes is not None and self.isolation != "process":
            raise RequestError(
                f"megabytes={self.megabytes} limits a process: set isolation=process too, or leave it out"
            )

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return self != AgentLimits()

    def as_mapping(self) -> dict[str, Any]:
        """Those that affect games, as JSON values. Isolation does not: it decides only whether a run survives."""
        limits = {"turn_seconds": self.turn_seconds, "megabytes": self.megabytes}
        return {key: value for key, value in limits.items() if value is not None}


LIMITS = tuple(AgentLimits.__dataclass_fields__)


def limits_of(what: str, settings: Mapping[str, Any]) -> AgentLimits:
    """The limits among the keys of an agent; null is none. ``what`` names the agent in messages."""
    try:
        return AgentLimits(**{key: settings[key] for key in LIMITS if settings.get(key) is not None})
    except RequestError as error:
        raise RequestError(f"{what}: {error}") from error


def jitted_with_limits(label: str) -> RequestError:
    """The error for an agent that has limits and is jitted."""
    return RequestError(
        f"agent '{label}' is jitted: turn_seconds and isolation are for agents in Python, whose turns can be ended; "
        "leave them out"
    )
