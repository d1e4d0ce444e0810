"""The addresses of games on the web: the players and settings of a game, and the person's decisions in it.

An address leaves out the agent's turns, because they follow from the rest; so nobody can invent a turn that the agent
never took.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError
from runners.web.page_rendering import check_decision_words, parse_whole_number

GAME_PATH = "/play/game"
RESIGN = "resign"
MAX_MOVES = 33  # decisions of one person in a game, at most, and a resignation

_ID = re.compile(r"[\w-]{22}")


class GameSetup(NamedTuple):
    """The players and the settings of a game."""

    agent: str  # label
    rules: str
    seat: int  # of the person
    seed: int
    name: str  # of the person
    guided: bool = False  # a first game, in which each decision is explained


class GameAddress(NamedTuple):
    """The address of a game on the web: the game and the person's decisions in it."""

    setup: GameSetup
    number: int  # of the game in its run
    id: str  # random, as ``create_web_game_id`` returns it
    moves: tuple[str, ...] = ()  # cells, pieces, piece@cell where the mover chooses, ``resign``

    def to_query(self) -> dict[str, object]:
        """Return the query parameters of the address, as a mapping from names to values."""
        guided = "yes" if self.setup.guided else None
        query = {**self.setup._asdict(), "guided": guided, "number": self.number, "id": self.id}
        return query | ({"moves": ".".join(self.moves)} if self.moves else {})

    def with_decision(self, decision: str) -> GameAddress:
        """Return the address with one more decision. Raises ``RequestError`` if the text cannot be a decision."""
        return self._replace(moves=_check_moves([*self.moves, decision]))

    @property
    def beginning(self) -> GameAddress:
        """The address of the same game before the person's first decision."""
        return self._replace(moves=())


def create_web_game_id() -> str:
    """Return a new random game id, which nobody can guess."""
    return secrets.token_urlsafe(16)


def parse_setup(values: Mapping[str, str]) -> GameSetup:
    """Parse the setup of a game from the values of a form or an address.

    Raises ``RequestError`` if a value is missing or invalid.
    """
    seat, seed = parse_whole_number(values, "seat", 1), parse_whole_number(values, "seed")
    return GameSetup(
        _parse_text_field(values, "agent"),
        values.get("rules") or "classic",
        seat,
        seed,
        _parse_text_field(values, "name"),
        values.get("guided") == "yes",
    )


def parse_address(values: Mapping[str, str]) -> GameAddress:
    """Parse the address of a game from its query parameters.

    If a value is missing or invalid, raises a ``RequestError`` that names it.
    """
    identity, moves = values.get("id", ""), values.get("moves", "")
    if not _ID.fullmatch(identity):
        raise RequestError(f"id {identity[:40]!r} is not that of a game: begin a new game")
    words = _check_moves(moves.split(".") if moves else [])
    return GameAddress(parse_setup(values), parse_whole_number(values, "number", MAX_PAIRS - 1), identity, words)


def _check_moves(words: list[str]) -> tuple[str, ...]:
    return check_decision_words("moves", words, MAX_MOVES, RESIGN)


def _parse_text_field(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "").strip()
    if not text or len(text) > 200:
        raise RequestError(f"{name} {text[:40]!r} is not a text of 1 to 200 characters")
    return text
