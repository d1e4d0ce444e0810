"""Shared parts of the slow twins of derived policies: games as lists, afterstates as dictionary keys."""

from __future__ import annotations

from typing import NamedTuple

from quarto.canonical import canonical_position
from quarto.position import PackedPosition, board, position_from_plies
from quarto.rules import Rules
from tests import naive
from tests.naive import NONE, Board

Key = tuple[int, int]  # lanes as a signed number, and occupied, of the canonical form (proven in tests/quarto)


class Game(NamedTuple):
    """A game as it was logged."""

    plies: list[tuple[int, int]]  # piece, cell
    winner: int  # seat, or -1
    opening: int
    labels: tuple[str, str] = ("one", "other")  # by seat


class Step(NamedTuple):
    """The afterstate of the turn that gave the piece of a ply."""

    key: Key
    position: PackedPosition  # the board, and the piece in the opponent's hand
    board: Board
    hand: int
    mover: int  # who made the turn


def position_of(board: Board, hand: int) -> PackedPosition:
    """Return a board and a piece in hand; nothing else of a position matters here."""
    pieces = [(piece, cell) for cell, piece in enumerate(board) if piece != NONE]
    lanes = sum((piece >> attribute & 1) << (16 * attribute + cell) for piece, cell in pieces for attribute in range(4))
    return PackedPosition(lanes, sum(1 << cell for _, cell in pieces), 0, hand, NONE)


def key_of(position: PackedPosition, rules: Rules) -> Key:
    form = canonical_position(position, rules)
    return form.lanes - (form.lanes >> 63 << 64), form.occupied


def steps(game: Game, rules: Rules) -> list[Step]:
    found = []
    for ply, (piece, _) in enumerate(game.plies):
        position = position_from_plies(game.plies[:ply], piece)
        found.append(Step(key_of(position, rules), position, board(position), piece, ply % 2))
    return found


def result_for(seat: int, game: Game) -> int:
    return 0 if game.winner == -1 else 1 if game.winner == seat else -1


def turns(position: PackedPosition) -> list[PackedPosition]:
    """List the afterstates of all turns with a piece in hand, by cell and gift; a last placement has no gift."""
    found = []
    for cell in range(16):
        if not position.occupied >> cell & 1:
            lanes = position.lanes | sum((position.hand >> a & 1) << (16 * a + cell) for a in range(4))
            after = position._replace(lanes=lanes, occupied=position.occupied | 1 << cell)
            gifts = [gift for gift in range(16) if position.available >> gift & 1]
            found += [after._replace(hand=gift, available=after.available & ~(1 << gift)) for gift in gifts]
    return found


def wins(step: Step, rules: Rules) -> bool:
    return bool(naive.winning_cells(step.board, step.hand, rules))
