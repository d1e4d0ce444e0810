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
from runners.web.addresses import checked_words, whole

PATH = "/play/game"
RESIGN = "resign"
MOST_MOVES = 33  # gifts and placements of one person, and a resignation

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
        return self._replace(moves=_moves([*self.moves, decision]))

    @property
    def beginning(self) -> GameAddress:
        return self._replace(moves=())


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(16)


def checked_setup(values: Mapping[str, str]) -> GameSetup:
    """The setup among the values of a form or an address. Raises ``RequestError`` for what is missing or wrong."""
    seat, seed = whole(values, "seat", 1), whole(values, "seed")
    return GameSetup(_text(values, "agent"), values.get("rules") or "classic", seat, seed, _text(values, "name"))


def parse_address(values: Mapping[str, str]) -> GameAddress:
    """The address of a game. Raises ``RequestError`` naming the value that is missing or wrong."""
    identity, moves = values.get("id", ""), values.get("moves", "")
    if not _ID.fullmatch(identity):
        raise RequestError(f"id {identity[:40]!r} is not that of a game: begin a new game")
    words = _moves(moves.split(".") if moves else [])
    return GameAddress(checked_setup(values), whole(values, "number", MAX_PAIRS - 1), identity, words)


def _moves(words: list[str]) -> tuple[str, ...]:
    return checked_words("moves", words, MOST_MOVES, RESIGN)


def _text(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "").strip()
    if not text or len(text) > 200:
        raise RequestError(f"{name} {text[:40]!r} is not a text of 1 to 200 characters")
    return text
