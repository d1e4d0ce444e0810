"""The address of a game's page: who plays, and every decision of the person so far.

The agent's turns are not in it: they follow from the rest, so an address cannot claim a turn that the agent never took.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError

PATH = "/play/game"
RESIGN = "resign"
MOST_MOVES = 33  # gifts and placements of one person, and a resignation

_DECISION = re.compile(rf"[0-9A-F]|[a-d][1-4]|[0-9A-F]@[a-d][1-4]|{RESIGN}")
_ID = re.compile(r"[\w-]{22}")


class GameSetup(NamedTuple):
    """The players and settings of a game."""

    agent: str  # label
    rules: str
    seat: int  # the person's
    seed: int
    name: str  # the person's


class GameAddress(NamedTuple):
    """A game and the person's decisions."""

    setup: GameSetup
    number: int  # in its run
    id: str  # a random one, by which this server knows the game
    moves: tuple[str, ...] = ()  # cells, pieces, piece@cell where the mover chooses, ``resign``

    def query(self) -> dict[str, object]:
        """The values of the address by name."""
        made = {**self.setup._asdict(), "number": self.number, "id": self.id}
        return made | ({"moves": ".".join(self.moves)} if self.moves else {})

    def after(self, decision: str) -> GameAddress:
        """The address after one more decision. Raises ``RequestError`` for a text that cannot be one."""
        return self._replace(moves=checked_moves([*self.moves, decision]))

    @property
    def beginning(self) -> GameAddress:
        return self._replace(moves=())


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(16)


def checked_setup(values: Mapping[str, str]) -> GameSetup:
    """The setup among the values of a form or an address. Raises ``RequestError`` for what is missing or wrong."""
    seat = whole(values, "seat", 1)
    return GameSetup(
        _text(values, "agent"), values.get("rules") or "classic", seat, whole(values, "seed"), _text(values, "name")
    )


def parse_address(values: Mapping[str, str]) -> GameAddress:
    """The address of a game. Raises ``RequestError`` naming the value that is missing or wrong."""
    identity = values.get("id", "")
    if not _ID.fullmatch(identity):
        raise RequestError(f"id {identity[:40]!r} is not that of a game: begin a new game")
    moves = values.get("moves", "")
    words = checked_moves(moves.split(".") if moves else [])
    return GameAddress(checked_setup(values), whole(values, "number", MAX_PAIRS - 1), identity, words)


def checked_moves(words: list[str]) -> tuple[str, ...]:
    """Decisions in the form of an address. Whether they are legal, the game itself will tell."""
    if len(words) > MOST_MOVES:
        raise RequestError(f"{len(words)} decisions are more than a game has")
    for word in words:
        if not _DECISION.fullmatch(word):
            raise RequestError(f"{word[:40]!r} is not a decision: a cell a1 to d4, a piece 0 to F, or {RESIGN}")
    return tuple(words)


def whole(values: Mapping[str, str], name: str, most: int = (1 << 63) - 1) -> int:
    """The whole number of a name. Raises ``RequestError`` for any other text and beyond ``most``."""
    text = values.get(name, "")
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > most:
        raise RequestError(f"{name} {text[:40]!r} is not a whole number from 0 to {most}")
    return int(text)


def _text(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "").strip()
    if not text or len(text) > 200:
        raise RequestError(f"{name} {text[:40]!r} is not a text of 1 to 200 characters")
    return text
