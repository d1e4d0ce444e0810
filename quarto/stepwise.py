"""A game that goes on by one decision at a time: the state of the environments for learning. Plain Python.

A turn has two phases of one seat: it places the piece in hand, then it gives the next one. Both have sixteen actions
with the same numbers. An action is a cell while there is a piece in hand, and a piece while there is none.
"""

from __future__ import annotations

import functools
from typing import Any

from quarto.position import ALL_CELLS, ALL_PIECES, Position
from quarto.rules import ATTRIBUTES, CELLS, CLASSIC, NONE, PIECES, Rules

ACTIONS = 16  # in either phase
HAND = CELLS  # index of the piece in hand, after those on the cells
MAX_DECISIONS = PIECES + CELLS  # of a game


@functools.cache
def _lines_through(rules: Rules) -> tuple[tuple[int, ...], ...]:
    """By cell: the lines through it, each as a mask of 16 cells."""
    masks = [(line, sum(1 << cell for cell in line)) for line in rules.lines]
    return tuple(tuple(mask for line, mask in masks if cell in line) for cell in range(CELLS))


class StepwiseGame:
    """A game from the empty board.

    Seat 0 gives the first piece and seat 1 places first. Where the mover chooses the piece, seat 1 begins: each turn
    takes a piece in hand and then places it.
    """

    __slots__ = ("available", "lanes", "last_cell", "occupied", "over", "pieces", "plies", "rules", "seat", "winner")

    def __init__(self, rules: Rules = CLASSIC) -> None:
        self.rules = rules
        self.lanes = self.occupied = 0  # as in Position
        self.available = ALL_PIECES
        self.last_cell = NONE
        self.pieces = [NONE] * (CELLS + 1)  # the piece on each cell and, last, the piece in hand
        self.plies: list[tuple[int, int]] = []  # (piece, cell)
        self.seat = int(rules.mover_chooses)  # which decides next, or decided last
        self.over = False
        self.winner = NONE  # seat

    @property
    def hand(self) -> int:
        """The piece in hand, or NONE."""
        return self.pieces[HAND]

    @property
    def legal(self) -> int:
        """The legal actions as 16 bits: empty cells if there is a piece in hand, else pieces left; none at the end."""
        if self.over:
            return 0
        return self.available if self.pieces[HAND] == NONE else ~self.occupied & ALL_CELLS

    @property
    def position(self) -> Position:
        return Position(self.lanes, self.occupied, self.available, self.pieces[HAND], self.last_cell)

    @property
    def turn(self) -> int:
        """The number of a turn that begins now, as in the engine: 0 gives the first piece, ``k + 1`` places ply k."""
        return len(self.plies) + (self.pieces[HAND] != NONE or self.rules.mover_chooses)

    def copy(self) -> StepwiseGame:
        """The same game, to be continued apart from this one."""
        other = StepwiseGame.__new__(StepwiseGame)
        for name in StepwiseGame.__slots__:
            setattr(other, name, getattr(self, name))
        other.pieces, other.plies = self.pieces[:], self.plies[:]
        return other

    def __deepcopy__(self, _memo: dict[int, Any]) -> StepwiseGame:
        return self.copy()

    def act(self, action: int) -> None:
        """Take a decision of the seat to decide. Raises ``ValueError`` for an action that is not legal."""
        if not (0 <= action < ACTIONS and self.legal >> action & 1):
            legal = [each for each in range(ACTIONS) if self.legal >> each & 1]
            phase = (
                "the game is over" if self.over else "a piece is chosen" if self.hand == NONE else "a cell is chosen"
            )
            raise ValueError(f"action {action} is not legal: {phase}, legal: {legal}")
        if self.pieces[HAND] == NONE:
            self.pieces[HAND] = action
            self.available &= ~(1 << action)
            self.seat ^= not self.rules.mover_chooses
        else:
            self._place(action)

    def _place(self, cell: int) -> None:
        piece = self.pieces[HAND]
        for attribute in range(ATTRIBUTES):
            self.lanes |= (piece >> attribute & 1) << (CELLS * attribute + cell)
        self.occupied |= 1 << cell
        self.pieces[cell], self.pieces[HAND] = piece, NONE
        self.last_cell = cell
        self.plies.append((piece, cell))
        if self._finishes_line(piece, cell):
            self.over, self.winner = True, self.seat
        elif self.occupied == ALL_CELLS:
            self.over = True
        elif self.rules.mover_chooses:
            self.seat ^= 1

    def _finishes_line(self, piece: int, cell: int) -> bool:
        lines = [line for line in _lines_through(self.rules)[cell] if line & ~self.occupied == 0]
        if not lines:
            return False
        for attribute in range(ATTRIBUTES):
            same = self.lanes >> CELLS * attribute
            if not piece >> attribute & 1:
                same = ~same
            for line in lines:
                if line & ~same == 0:
                    return True
        return False
