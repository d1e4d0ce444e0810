"""Checks of a configuration's keys and values, with messages that name the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from quarto.errors import RequestError, nearest

MAX_OPENING_PLIES = 15
MAX_SEED = (1 << 63) - 1


def check_keys(node: Iterable[Any], schema: type[Any], prefix: str = "") -> None:
    """Raises ``RequestError`` unless ``node`` has exactly the fields of the dataclass ``schema`` as keys.

    Hydra's own check does not see ``+key=`` and ``~key``. ``prefix`` is that of the node's keys, for messages.
    """
    valid, keys = [each.name for each in fields(schema)], [str(key) for key in node]
    for key in keys:
        if key not in (*valid, "hydra"):
            raise RequestError(f"key '{prefix}{key}' does not exist{nearest(key, valid)}")
    for key in valid:
        if key not in keys:
            raise RequestError(f"~{prefix}{key} removes a key that every run needs: leave this override out")


def check_range(key: str, value: float, least: float, most: float) -> None:
    """Raises ``RequestError`` unless ``least <= value <= most``."""
    if not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise RequestError(f"{key}={value} is out of range: it must be {bound}")


def check_choice(key: str, value: str, valid: Sequence[str]) -> None:
    """Raises ``RequestError`` unless ``value`` is one of ``valid``."""
    if value not in valid:
        raise RequestError(f"{key}={value} does not exist{nearest(str(value), valid)}")


def rounding_notes(key: str, asked: int, games: int) -> tuple[str, ...]:
    """The remark for the user that an odd number of games was rounded up to ``games``; none if it was not."""
    if asked == games:
        return ()
    return (f"{key}={asked} is odd; games come in pairs with the seats swapped, so {games} will be played",)
