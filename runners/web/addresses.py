"""Values of an address that several pages read: numbers and decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from quarto.errors import RequestError

_DECISION = re.compile(r"[0-9A-F]|[a-d][1-4]|[0-9A-F]@[a-d][1-4]")


def whole(values: Mapping[str, str], name: str, most: int = (1 << 63) - 1, default: str = "") -> int:
    """The whole number of a name. Raises ``RequestError`` for any other text and beyond ``most``."""
    text = values.get(name) or default
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > most:
        raise RequestError(f"{name} {text[:40]!r} is not a whole number from 0 to {most}")
    return int(text)


def checked_words(name: str, words: Sequence[str], most: int, *others: str) -> tuple[str, ...]:
    """Words that have the form of decisions, or are one of ``others``. Whether they are legal, the game says.

    Raises ``RequestError`` for more than ``most`` words and for one of another form.
    """
    if len(words) > most:
        raise RequestError(f"{name}: {len(words)} decisions are more than a game has")
    for word in words:
        if not _DECISION.fullmatch(word) and word not in others:
            forms = ", ".join(("a cell a1 to d4", "a piece 0 to F", "piece@cell", *others))
            raise RequestError(f"{name}: {word[:40]!r} is not a decision: {forms}")
    return tuple(words)
