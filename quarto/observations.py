"""Positions as arrays of 0 and 1, the same for every environment and for agents that learned in one.

An observation is int8 [17, 8]. It has a row for each of the cells 0 to 15, a row for the hand, and a column for each
attribute value. Columns 0 to 3 are 1 if the piece is square, solid, coloured, high, columns 4 to 7 if it is not. The
row of an empty cell, or of an empty hand, is 0: an empty hand shows that a piece is to be chosen. An action mask is
int8 [16], 1 where an action is legal. The legal actions are the empty cells if there is a piece in hand, else the
pieces left.

A whole turn has one number, ``CHOICES * cell + gift``, 0 to 288. Cell 16 stands for no placement (a gift alone), and
gift 16 for no gift, because the placement ends the game. If the mover chooses the piece, the gift is the piece that is
placed.

``StepwiseGame`` is a game that goes on by one decision at a time, in plain Python. A turn has two phases of one seat:
it places the piece in hand, then it gives the next one. Both have sixteen actions with the same numbers. An action is a
cell while there is a piece in hand, and a piece while there is none.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.jit import inline_function, int64, kernel
from quarto.position import ALL_CELLS, ALL_PIECES, PackedPosition, board, piece_at
from quarto.rules import ATTRIBUTES, CELLS, CLASSIC, NONE, PIECES, RULE_TABLES, Rules
from quarto.threats import winning_cells

ACTIONS = 16  # in either phase
HAND = CELLS  # index of the piece in hand, after the pieces on the cells
MAX_DECISIONS = PIECES + CELLS  # of a game


@functools.cache
def _list_line_masks_by_cell(rules: Rules) -> tuple[tuple[int, ...], ...]:
    """Return, for each cell, the lines through it as 16-bit masks of cells."""
    masks = [(line, sum(1 << cell for cell in line)) for line in rules.lines]
    return tuple(tuple(mask for line, mask in masks if cell in line) for cell in range(CELLS))


class StepwiseGame:
    """A game that begins with the empty board and proceeds by one decision at a time.

    Seat 0 gives the first piece and seat 1 places it. Under rules by which the mover chooses the piece, seat 1 begins,
    and a turn consists of two decisions of one seat: it chooses a piece, which is then in hand, and places it.
    """

    __slots__ = ("available", "lanes", "last_cell", "occupied", "over", "pieces", "plies", "rules", "seat", "winner")

    def __init__(self, rules: Rules = CLASSIC) -> None:
        self.rules = rules
        self.lanes = self.occupied = 0  # as in Position
        self.available = ALL_PIECES
        self.last_cell = NONE
        self.pieces = [NONE] * (CELLS + 1)  # the piece on each cell and, last, the piece in hand
        self.plies: list[tuple[int, int]] = []  # (piece, cell)
        self.seat = int(rules.mover_chooses)  # the seat that decides next or, after the end, decided last
        self.over = False
        self.winner = NONE  # seat

    @property
    def hand(self) -> int:
        """The piece in hand, or NONE."""
        return self.pieces[HAND]

    @property
    def legal_action_mask(self) -> int:
        """The legal actions as 16 bits, 0 after the end of the game.

        The actions are the empty cells if there is a piece in hand, and otherwise the pieces left.
        """
        if self.over:
            return 0
        return self.available if self.pieces[HAND] == NONE else ~self.occupied & ALL_CELLS

    @property
    def position(self) -> PackedPosition:
        return PackedPosition(self.lanes, self.occupied, self.available, self.pieces[HAND], self.last_cell)

    @property
    def turn_number(self) -> int:
        """The index in the game (0 to 16) of the turn to which the next decision belongs.

        Turn 0 gives the first piece, and turn ``k + 1`` places the piece of ply ``k``.
        """
        return len(self.plies) + (self.pieces[HAND] != NONE or self.rules.mover_chooses)

    def copy(self) -> StepwiseGame:
        """Return an independent copy of the game."""
        other = StepwiseGame.__new__(StepwiseGame)
        for name in StepwiseGame.__slots__:
            setattr(other, name, getattr(self, name))
        other.pieces, other.plies = self.pieces[:], self.plies[:]
        return other

    def __deepcopy__(self, _memo: dict[int, Any]) -> StepwiseGame:
        return self.copy()

    def act(self, action: int) -> None:
        """Carry out a decision of the seat to act. Raises ``ValueError`` for an illegal action."""
        if not (0 <= action < ACTIONS and self.legal_action_mask >> action & 1):
            legal = [candidate for candidate in range(ACTIONS) if self.legal_action_mask >> candidate & 1]
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
        lines = [line for line in _list_line_masks_by_cell(self.rules)[cell] if line & ~self.occupied == 0]
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


ROWS_OF_PIECES = CELLS + 1
VALUES = 2 * ATTRIBUTES
SHAPE = (ROWS_OF_PIECES, VALUES)

NO_CELL, NO_GIFT = CELLS, PIECES  # in the number of a turn that only gives, or only places
GIFT_CODES = PIECES + 1
TURN_CODES = GIFT_CODES * (CELLS + 1)  # 289

_ATTRIBUTE_BITS = (np.arange(PIECES)[:, None] >> np.arange(ATTRIBUTES)) & 1
# [17, 8] int8: the values of each piece, and 0 for NONE, which Python counts as the last row.
PIECE_FEATURES = np.concatenate(
    [np.concatenate([_ATTRIBUTE_BITS, 1 - _ATTRIBUTE_BITS], axis=1), np.zeros((1, VALUES), np.int64)]
).astype(np.int8)
BYTE_BITS = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(
    np.int8
)  # [256, 8] the bits of each byte, the lowest first
PIECE_FEATURE_WORDS = PIECE_FEATURES.view(np.uint64)[:, 0]  # [17] each row as one word, which is written at once
BYTE_BIT_WORDS = BYTE_BITS.view(np.uint64)[:, 0]  # [256]


def encode_one_row_per_piece(pieces: Sequence[int]) -> NDArray[np.int8]:
    """Encode pieces as an observation: [17, 8] int8.

    ``pieces`` holds the pieces on cells 0 to 15 and then the piece in hand; ``NONE`` stands for an empty cell or for no
    piece in hand. The observation has a row for each of these 17 entries and a column for each attribute value.
    """
    observation: NDArray[np.int8] = PIECE_FEATURES[pieces]
    return observation


def encode_board_and_hand(position: PackedPosition) -> NDArray[np.int8]:
    """Encode the board and the hand of a position as an observation: [17, 8] int8."""
    return encode_one_row_per_piece([*board(position), position.hand])


def unpack_mask(bits: int) -> NDArray[np.int8]:
    """Return the lowest 16 bits of ``bits`` as numbers 0 and 1, the lowest bit first: [16] int8."""
    return BYTE_BITS[[bits & 255, bits >> 8]].reshape(ACTIONS)


# The arrays of a batch. Their entries may lie apart in memory, as the fields of records do.
LANES_TYPE, MASKS_TYPE, INT8_ARRAY_TYPE = (
    types.Array(number_type, 1, "A") for number_type in (types.uint64, types.uint16, types.int8)
)
ROWS_TYPE = types.uint64[:, ::1]
RULES_TYPE = numba.from_dtype(RULE_TABLES)


@kernel(types.void(LANES_TYPE, MASKS_TYPE, MASKS_TYPE, INT8_ARRAY_TYPE, ROWS_TYPE, ROWS_TYPE))
def _fill_observations(lanes: Any, occupied: Any, available: Any, hand: Any, observations: Any, masks: Any) -> None:
    for i in range(lanes.shape[0]):
        cells, piece = int64(occupied[i]), int64(hand[i])
        for cell in range(CELLS):
            here = (cells >> cell) & 1
            observations[i, cell] = PIECE_FEATURE_WORDS[piece_at(lanes[i], cell) * here + PIECES * (1 - here)]
        observations[i, HAND] = PIECE_FEATURE_WORDS[piece if piece >= 0 else PIECES]
        legal = int64(available[i]) if piece < 0 else ~cells & ALL_CELLS
        masks[i, 0] = BYTE_BIT_WORDS[legal & 255]
        masks[i, 1] = BYTE_BIT_WORDS[legal >> 8]


def encode_observations_and_masks(batch: Batch) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return the observations, [B, 17, 8] int8, and the action masks, [B, 16] int8, of a batch of positions."""
    size = len(batch.lanes)
    observations, masks = np.empty((size, ROWS_OF_PIECES), np.uint64), np.empty((size, 2), np.uint64)
    _fill_observations(batch.lanes, batch.occupied, batch.available, batch.hand, observations, masks)
    return observations.view(np.int8).reshape(size, *SHAPE), masks.view(np.int8)


@inline_function
def is_legal_turn(turn: int, lanes: int, occupied: int, available: int, hand: int, rules: Any) -> bool:
    """Return whether the turn with the code ``turn`` is legal in a position.

    The code is ``17 * cell + gift`` (0 to 288), where cell 16 means no placement and gift 16 means no gift.
    """
    cell, gift = turn // GIFT_CODES, turn % GIFT_CODES
    gives = gift < PIECES and (available >> (gift & 15)) & 1 == 1
    if turn < 0 or turn >= TURN_CODES or (cell < CELLS and (occupied >> cell) & 1):
        return False
    if hand < 0:
        return gives and (cell < CELLS) == (rules.mover_chooses != 0)
    ends = available == 0 or (winning_cells(lanes, occupied, hand, rules) >> cell) & 1
    return cell < CELLS and (gift == NO_GIFT if ends else gives)


@inline_function
def mark_legal_turns(
    lanes: int, occupied: int, available: int, hand: int, rules: Any, cleared_mask: NDArray[np.bool_]
) -> None:
    """Set ``cleared_mask[n]`` to True for the code ``n`` of each legal turn.

    ``cleared_mask`` is [289] bool, and the caller must have set all of its entries to False. The code of a turn is ``17
    * cell + gift`` (0 to 288), where cell 16 means no placement and gift 16 means no gift.
    """
    wins = winning_cells(lanes, occupied, hand, rules) if hand >= 0 else int64(0)
    gives_only = hand < 0 and rules.mover_chooses == 0
    for cell in range(CELLS + 1):
        if gives_only != (cell == NO_CELL) or (occupied >> cell) & 1:
            continue
        if hand >= 0 and (available == 0 or (wins >> cell) & 1):
            cleared_mask[GIFT_CODES * cell + NO_GIFT] = True
        else:
            for piece in range(PIECES):
                cleared_mask[GIFT_CODES * cell + piece] = (available >> piece) & 1 == 1


@kernel(
    types.void(
        LANES_TYPE, MASKS_TYPE, MASKS_TYPE, INT8_ARRAY_TYPE, RULES_TYPE, types.int8[:, ::1], types.boolean[:, ::1]
    )
)
def _fill_pieces_and_legal_turns(
    lanes: Any, occupied: Any, available: Any, hand: Any, rules: Any, pieces: Any, legal: Any
) -> None:
    for i in range(lanes.shape[0]):
        cells, pieces_left, piece = int64(occupied[i]), int64(available[i]), int64(hand[i])
        for cell in range(CELLS):
            pieces[i, cell] = piece_at(lanes[i], cell) if (cells >> cell) & 1 else int64(NONE)
        pieces[i, HAND] = piece
        mark_legal_turns(lanes[i], cells, pieces_left, piece, rules, legal[i])


def encode_pieces_and_legal_turns(batch: Batch, rules: Rules) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return the pieces and the legal turns in a batch of positions. No position may have a finished line.

    The pieces are [B, 17] int8: the pieces on cells 0 to 15 and then the piece in hand; -1 stands for an empty cell or
    for no piece in hand. The legal turns are [B, 289] bool, indexed by the turn's code: see ``mark_legal_turns``.
    """
    size = len(batch.lanes)
    pieces, legal = np.empty((size, ROWS_OF_PIECES), np.int8), np.zeros((size, TURN_CODES), np.bool_)
    _fill_pieces_and_legal_turns(batch.lanes, batch.occupied, batch.available, batch.hand, rules.tables, pieces, legal)
    return pieces, legal


RULES_MODULE = "runners.config.yaml_options"


def resolve_rules(rules: Rules | str) -> Rules:
    """Return ``rules`` itself or, if it is a name, the rules in ``conf/rules/NAME.yaml``.

    Raises ``RequestError`` for a name that does not exist.
    """
    if isinstance(rules, Rules):
        return rules
    loaded_rules: Rules = import_module(RULES_MODULE).load_rules(rules)
    return loaded_rules
