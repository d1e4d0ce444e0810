"""Positions as agents in Python see them: one or many, with cells and pieces instead of bits, and with safe pieces.

``Position`` is one position. ``BatchView`` is ``B`` positions with the same helpers as arrays; their second axis has
the cells or the pieces. Both know the rules, and both are immutable: ``with_turn`` and ``with_turns`` return new
objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.jit import int64, kernel
from quarto.notation import PIECE_DIGITS, format_position, parse_position
from quarto.position import ALL_CELLS, PackedPosition
from quarto.rules import ATTRIBUTES, CELLS, CLASSIC, NONE, PIECES, SIDE, Rules
from quarto.threats import SAFE_PIECES, safe_pieces, winning_cells

_PIECE_LANES = [sum((piece >> a & 1) << CELLS * a for a in range(ATTRIBUTES)) for piece in range(PIECES)]  # on cell 0
_SAFE_PIECES = SAFE_PIECES.tolist()  # Python reads a list faster than an array of NumPy
MAX_PRINTED_POSITIONS = 3  # positions of a batch that its text draws


_LOW_BITS = [tuple(bit for bit in range(8) if octet >> bit & 1) for octet in range(256)]  # by the lower 8 bits
_HIGH_BITS = [tuple(8 + bit for bit in bits) for bits in _LOW_BITS]  # by the upper 8 bits


def list_set_bits(mask: int) -> tuple[int, ...]:
    """Return the indices of the set bits of a 16-bit mask, ascending."""
    return _LOW_BITS[mask & 255] + _HIGH_BITS[mask >> 8]


class Position:
    """A position together with the rules by which it is played.

    Cells are 0 to 15, ``4 * row + column``; pieces are 0 to 15, ``8 * high + 4 * coloured + 2 * solid + square``; NONE
    is -1. ``packed`` is the same position as a ``PackedPosition``. ``str(position)`` is a drawing.

    Examples:
        >>> from quarto import Position
        >>> position = Position.parse("0.6F/.3A./..5./C..9 7")
        >>> position.board[0], position.hand, position.winning_cells()
        (0, 7, ())

    """

    def __init__(self, packed: PackedPosition, rules: Rules = CLASSIC) -> None:
        self.packed = packed
        self.rules = rules
        self.hand = packed.hand  # the piece to place, or NONE
        self.last_cell = packed.last_cell  # the cell that was filled last, or NONE

    @classmethod
    def parse(cls, text: str, rules: Rules = CLASSIC) -> Position:
        """Parse a position from a text such as ``...F/.3../..../.... 7``.

        Args:
            text: Four rows of pieces or dots, the piece in hand (``-`` for none) and the name of the rules, which may
                be left out for the classic rules.
            rules: The rules by which the position is played; the text must name the same rules.

        Raises:
            RequestError: The text is not a position, or it names other rules.

        Examples:
            >>> from quarto import Position
            >>> Position.parse("0123/..../..../.... 8").winning_cells()
            ()

        """
        packed, name = parse_position(text)
        if name != rules.name:
            raise RequestError(f"position {text!r} is one of rules '{name}', not of rules '{rules.name}'")
        return cls(packed, rules)

    @cached_property
    def board(self) -> tuple[int, ...]:
        """The piece on each of the 16 cells, or NONE for an empty cell."""
        pieces = [NONE] * CELLS
        for cell in list_set_bits(self.packed.occupied):
            column = self.packed.lanes >> cell  # bit 16 a: attribute a of the piece
            pieces[cell] = column & 1 | column >> 15 & 2 | column >> 30 & 4 | column >> 45 & 8
        return tuple(pieces)

    @property
    def free(self) -> tuple[int, ...]:
        """The empty cells, ascending."""
        return list_set_bits(~self.packed.occupied & ALL_CELLS)

    @property
    def available(self) -> tuple[int, ...]:
        """The pieces that are neither on the board nor in hand, ascending.

        They can be given or, if the mover chooses the piece, placed.
        """
        return list_set_bits(self.packed.available)

    def winning_cells(self, piece: int | None = None) -> tuple[int, ...]:
        """Return the empty cells on which a piece finishes a line, ascending.

        Args:
            piece: The piece, 0 to 15. None stands for the piece in hand.

        Raises:
            ValueError: ``piece`` is not in 0 to 15.

        """
        placed_piece = self.hand if piece is None else _check_number("piece", piece, PIECES)
        if placed_piece == NONE:
            return ()
        lanes, occupied, completing_cells, cells = (
            self.packed.lanes,
            self.packed.occupied,
            self.rules.completing_cells,
            0,
        )
        for attribute in range(ATTRIBUTES):
            lane = lanes >> CELLS * attribute & ALL_CELLS
            cells |= completing_cells[lane if placed_piece >> attribute & 1 else occupied & ~lane]
        return list_set_bits(cells & ~occupied)

    def safe_gifts(self, cell: int | None = None) -> tuple[int, ...]:
        """Return the available pieces with which nobody could finish a line in the next ply, ascending.

        Args:
            cell: The cell on which the piece in hand is placed first. If it is None, the piece is not placed.

        Raises:
            ValueError: ``cell`` is taken or does not exist.

        """
        lanes, occupied, _ = self._board_and_last_cell_after(cell, self.hand)
        empty, completing_cells, dangers = ~occupied, self.rules.completing_cells, 0
        for attribute in range(ATTRIBUTES):
            lane = lanes >> CELLS * attribute & ALL_CELLS
            if completing_cells[lane] & empty:
                dangers |= 1 << attribute
            if completing_cells[occupied & ~lane] & empty:
                dangers |= 1 << ATTRIBUTES + attribute
        return list_set_bits(_SAFE_PIECES[dangers] & self.packed.available)

    def with_turn(self, cell: int, gift: int = NONE) -> Position:
        """Return the position after a turn.

        Args:
            cell: The cell on which the piece in hand is placed.
            gift: The piece that is given, or NONE. Under rules by which the mover chooses the piece, ``gift`` is the
                piece that is placed.

        Raises:
            ValueError: ``cell`` is taken or does not exist, or ``gift`` is not available.

        """
        available = self.packed.available
        if gift != NONE:
            if not available >> _check_number("gift", gift, PIECES) & 1:
                raise ValueError(f"piece {gift} is not among those left in {format_position(self.packed)}")
            available &= ~(1 << int(gift))
        mover = self.rules.mover_chooses
        lanes, occupied, last_cell = self._board_and_last_cell_after(cell, int(gift) if mover else self.hand)
        return Position(PackedPosition(lanes, occupied, available, NONE if mover else int(gift), last_cell), self.rules)

    def _board_and_last_cell_after(self, cell: int | None, piece: int) -> tuple[int, int, int]:
        """Return the lanes, the occupied cells and the last cell after ``piece`` is placed on ``cell``.

        If ``cell`` is None or ``piece`` is NONE, nothing is placed and the values are those of this position. Raises
        ``ValueError`` if ``cell`` is taken or does not exist.
        """
        lanes, occupied = self.packed.lanes, self.packed.occupied
        if cell is None or piece == NONE:
            return lanes, occupied, self.last_cell
        number = _check_number("cell", cell, CELLS)
        if occupied >> number & 1:
            raise ValueError(f"cell {cell} is not empty in {format_position(self.packed)}")
        return lanes | _PIECE_LANES[piece] << number, occupied | 1 << number, number

    def __str__(self) -> str:
        cells = ["." if piece == NONE else PIECE_DIGITS[piece] for piece in self.board]
        rows = [f"{row + 1}  {' '.join(cells[SIDE * row : SIDE * (row + 1)])}" for row in range(SIDE)]
        hand = "none" if self.hand == NONE else PIECE_DIGITS[self.hand]
        pieces_left = " ".join(PIECE_DIGITS[piece] for piece in self.available) or "none"
        return "\n".join(["   a b c d", *rows, f"hand {hand}  left {pieces_left}"])

    def __repr__(self) -> str:
        return f"<{format_position(self.packed, self.rules.name)}>"


def _check_number(noun: str, number: int, count: int) -> int:
    """Return ``number`` as an int if it is at least 0 and less than ``count``.

    Raises ``ValueError`` for any other number, with a message that begins with ``noun``.
    """
    if not 0 <= number < count:
        raise ValueError(f"{noun} {number} is not in 0..{count - 1}")
    return int(number)


class BatchView:
    """``B`` positions at the same ply under the same rules: the counterpart of ``Position`` for a batch.

    The properties and methods have the same names as those of ``Position``, but work on all positions at once, with
    arrays that have a row for each position. ``packed`` is the batch as a ``Batch``. ``batch[i]`` is one position, and
    ``len(batch)`` is ``B``. ``str(batch)`` draws the first positions.
    """

    def __init__(self, packed: Batch, rules: Rules = CLASSIC) -> None:
        self.packed = packed
        self.rules = rules
        self.hand = packed.hand  # [B] int8: the piece to place, or NONE
        self.last_cell = packed.last_cell  # [B] int8: the cell that was filled last, or NONE

    @cached_property
    def board(self) -> NDArray[np.int8]:
        """The piece on each cell, or NONE for an empty cell: [B, 16] int8."""
        bits = _unpack_bits(self.packed.lanes).view(np.int8).reshape(-1, ATTRIBUTES, CELLS)
        pieces = bits[:, 0] | bits[:, 1] << 1 | bits[:, 2] << 2 | bits[:, 3] << 3
        return np.where(self.free, np.int8(NONE), pieces)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Whether each cell is empty: [B, 16] bool."""
        return ~_unpack_bits(self.packed.occupied)

    @cached_property
    def available(self) -> NDArray[np.bool_]:
        """Whether each piece can be given or, if the mover chooses the piece, placed: [B, 16] bool."""
        return _unpack_bits(self.packed.available)

    def winning_cells(self, pieces: NDArray[np.integer] | int | None = None) -> NDArray[np.bool_]:
        """Return, for each cell, whether a piece placed on it finishes a line: [B, 16] bool.

        Args:
            pieces: One piece, or [B] pieces. None stands for the pieces in hand. A number that is not a piece, such as
                NONE, finishes no line.

        """
        numbers = self._broadcast_numbers(self.hand if pieces is None else pieces)
        return _unpack_bits(_all_winning_cells(self.packed.lanes, self.packed.occupied, numbers, self.rules.tables))

    def safe_gifts(self, cells: NDArray[np.integer] | int | None = None) -> NDArray[np.bool_]:
        """Return, for each piece, whether it is available and safe: [B, 16] bool.

        A piece is safe if nobody could finish a line with it in the next ply.

        Args:
            cells: The cells on which the pieces in hand, if any, are placed first: one cell or [B] cells. NONE and None
                place nothing.

        Raises:
            ValueError: A cell is taken or does not exist.

        """
        lanes, occupied = self._place_pieces(cells, self.hand)
        return _unpack_bits(_all_safe_pieces(lanes, occupied, self.rules.tables) & self.packed.available)

    def with_turns(self, cells: NDArray[np.integer] | int, gifts: NDArray[np.integer] | int = NONE) -> BatchView:
        """Return the positions after one turn in each of them.

        Args:
            cells: The cells on which the pieces in hand are placed: one cell or [B] cells. NONE places nothing.
            gifts: The pieces that are given: one piece or [B] pieces. NONE gives nothing. Under rules by which the
                mover chooses the piece, ``gifts`` are the pieces that are placed.

        Raises:
            ValueError: A cell is taken or does not exist, or a piece is not available.

        """
        numbers, mover = self._broadcast_numbers(gifts), self.rules.mover_chooses
        masks = np.where(numbers == NONE, 0, 1 << np.clip(numbers, 0, PIECES - 1)).astype(np.uint16)
        wrong = (numbers != NONE) & ((numbers < 0) | (numbers >= PIECES) | (self.packed.available & masks == 0))
        self._check_none_wrong(wrong, "piece", numbers, "is not among those left")
        lanes, occupied = self._place_pieces(cells, numbers if mover else self.hand)
        last_cell = np.where(occupied != self.packed.occupied, self._broadcast_numbers(cells), self.last_cell).astype(
            np.int8
        )
        hand = (np.full(len(self), NONE) if mover else numbers).astype(np.int8)
        return BatchView(Batch(lanes, occupied, self.packed.available & ~masks, hand, last_cell), self.rules)

    def _place_pieces(
        self, cells: NDArray[np.integer] | int | None, pieces: NDArray[np.integer]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
        """Return the lanes and the occupied cells after ``pieces`` [B] are placed on ``cells``.

        Where the piece or the cell is NONE, nothing is placed. If ``cells`` is None, nothing is placed at all. Raises
        ``ValueError`` if a cell is taken or does not exist.
        """
        if cells is None:
            return self.packed.lanes, self.packed.occupied
        numbers = np.where(pieces == NONE, NONE, self._broadcast_numbers(cells))
        masks = np.where(numbers == NONE, 0, 1 << np.clip(numbers, 0, CELLS - 1)).astype(np.uint16)
        wrong = (numbers != NONE) & ((numbers < 0) | (numbers >= CELLS) | (self.packed.occupied & masks != 0))
        self._check_none_wrong(wrong, "cell", numbers, "is not empty")
        lanes = self.packed.lanes.copy()
        for attribute in range(ATTRIBUTES):
            has = (pieces.astype(np.uint64) >> np.uint64(attribute) & np.uint64(1)) * masks.astype(np.uint64)
            lanes |= has << np.uint64(CELLS * attribute)
        return lanes, self.packed.occupied | masks

    def _broadcast_numbers(self, numbers: NDArray[np.integer] | int) -> NDArray[np.int64]:
        """Return ``numbers``, which may be one number or one for each position, as an array [B] int64.

        Raises ``ValueError`` for any other shape.
        """
        array = np.asarray(numbers)
        if array.shape not in ((), (len(self),)):
            raise ValueError(f"an array of shape {array.shape} is neither one number nor one for each of {len(self)}")
        return np.ascontiguousarray(np.broadcast_to(array, len(self)), np.int64)

    def _check_none_wrong(self, wrong: NDArray[np.bool_], noun: str, numbers: NDArray[np.int64], fault: str) -> None:
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"{noun} {numbers[i]} {fault} in position {i}, {format_position(self.packed.position(i))}")

    def __len__(self) -> int:
        return len(self.packed.lanes)

    def __iter__(self) -> Iterator[Position]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Position:
        if not -len(self) <= i < len(self):
            raise IndexError(f"there is no position {i}: the batch has {len(self)}")
        return Position(self.packed.position(i), self.rules)

    def __str__(self) -> str:
        drawings = [str(self[i]) for i in range(min(MAX_PRINTED_POSITIONS, len(self)))]
        rest_count = len(self) - len(drawings)
        if rest_count:
            drawings.append(f"and {rest_count:,} more")
        return "\n\n".join(drawings) or "no positions"

    def __repr__(self) -> str:
        return f"<positions: {len(self):,}, rules {self.rules.name}>"


def _unpack_bits(words: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    """Return the bits of each word, the lowest first: [B, 16] bool for masks of 16 bits, [B, 64] bool for lanes."""
    octets = np.ascontiguousarray(words, words.dtype.newbyteorder("<")).view(np.uint8)
    return np.unpackbits(octets.reshape(len(words), -1), axis=1, bitorder="little").view(np.bool_)


@kernel()
def _all_winning_cells(
    lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], pieces: NDArray[np.int64], rules: Any
) -> NDArray[np.uint16]:
    masks = np.zeros(lanes.shape[0], np.uint16)
    for i in range(lanes.shape[0]):
        if 0 <= pieces[i] < PIECES:
            masks[i] = winning_cells(lanes[i], int64(occupied[i]), pieces[i], rules)
    return masks


@kernel()
def _all_safe_pieces(lanes: NDArray[np.uint64], occupied: NDArray[np.uint16], rules: Any) -> NDArray[np.uint16]:
    masks = np.zeros(lanes.shape[0], np.uint16)
    for i in range(lanes.shape[0]):
        masks[i] = safe_pieces(lanes[i], int64(occupied[i]), rules)
    return masks
