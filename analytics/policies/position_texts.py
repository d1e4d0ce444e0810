"""Many positions from their texts: ``...F/.3../..../.... 7``, or plies and the piece in hand, ``F@b1 3@c2 7``.

Texts of the common form, 21 characters, are read a million a second. All others are read one by one, and a wrong one
raises the error of ``quarto/notation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.notation import CLASSIC_NAME, PIECE_DIGITS, parse_game, parse_piece, parse_position
from quarto.position import ALL_PIECES, Position, from_plies
from quarto.rules import ATTRIBUTES, CELLS, NONE, SIDE

LENGTH = CELLS + SIDE - 1 + 2  # of a text of classic rules: four rows, three slashes, a space, the hand
HAND_OFFSET = LENGTH - 1
CELL_OFFSETS = np.array([cell + cell // SIDE for cell in range(CELLS)])
SEPARATORS = {4: "/", 9: "/", 14: "/", 19: " "}
WRONG = -2


def _pieces_by_character() -> NDArray[np.int8]:
    """The piece of each character: [256] int8, NONE for a dot, WRONG for what is neither."""
    pieces = np.full(256, WRONG, np.int8)
    for piece, digit in enumerate(PIECE_DIGITS):
        pieces[[ord(digit), ord(digit.lower())]] = piece
    pieces[ord(".")] = NONE
    return pieces


BY_CHARACTER = _pieces_by_character()


def positions_of(texts: Sequence[str], rules_name: str) -> Batch:
    """The positions of texts, in their order. A text may leave out the name of the rules.

    Raises ``TextError`` for the first wrong one.
    """
    quick = _quick(texts)
    batch = Batch.empty(len(texts))
    if quick.any():
        letters = np.array([text for text, common in zip(texts, quick, strict=True) if common], f"S{LENGTH}")
        found, sound = _read(letters.view(np.uint8).reshape(-1, LENGTH))
        quick[quick] = sound
        _put(batch, quick, found.chosen(sound))
    for i in np.flatnonzero(~quick).tolist():
        _put(batch, i, _parsed(texts[i], i, lambda text: _of_text(text, rules_name)))
    return batch


def _put(batch: Batch, where: Any, positions: Batch | Position) -> None:
    """Write positions into a batch: one at an index, or some where a mask is true."""
    for name in Batch._fields:
        getattr(batch, name)[where] = getattr(positions, name)


def positions_of_plies(texts: Sequence[str]) -> Batch:
    """The positions after plies, in their order: the last word of a text is the piece in hand, if it has no cell.

    Raises ``TextError`` for the first wrong one.
    """
    return Batch.of([_parsed(text, i, _of_plies) for i, text in enumerate(texts)])


def _parsed(text: str, number: int, parse: Callable[[str], Position]) -> Position:
    try:
        return parse(text)
    except RequestError as error:
        raise TextError(number, str(error)) from error


class TextError(RequestError):
    """A text that is no position, and its number among many, from 0."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number


def _of_text(text: str, rules_name: str) -> Position:
    position, name = parse_position(text)
    if name not in (rules_name, CLASSIC_NAME):
        raise RequestError(f"position {text!r} is one of rules '{name}', not of rules '{rules_name}': rules={name}")
    return position


def _of_plies(text: str) -> Position:
    words = text.split()
    hand = NONE
    if words and "@" not in words[-1]:
        hand = parse_piece(words.pop())
    plies = parse_game(" ".join(words))
    if any(piece == hand for piece, _ in plies):
        raise RequestError(f"the piece in hand, {PIECE_DIGITS[hand]}, was placed before (plies {text!r})")
    return from_plies(plies, hand)


def _quick(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each text has the common length and ASCII characters only."""
    return np.fromiter((len(text) == LENGTH and text.isascii() for text in texts), np.bool_, len(texts))


def _read(letters: NDArray[np.uint8]) -> tuple[Batch, NDArray[np.bool_]]:
    """Positions of texts [N, 21], and whether each text is one; where it is not the position means nothing."""
    sound = np.ones(len(letters), np.bool_)
    for offset, separator in SEPARATORS.items():
        sound &= letters[:, offset] == ord(separator)
    board = BY_CHARACTER[letters[:, CELL_OFFSETS]]  # [N, 16]
    hand = np.where(letters[:, HAND_OFFSET] == ord("-"), NONE, BY_CHARACTER[letters[:, HAND_OFFSET]]).astype(np.int8)
    sound &= (board != WRONG).all(axis=1) & (hand != WRONG) & (letters[:, HAND_OFFSET] != ord("."))
    batch = Batch.empty(len(letters))
    filled = board >= 0
    batch.occupied[:] = _mask(filled)
    batch.lanes[:] = 0
    for attribute in range(ATTRIBUTES):
        lane = _mask(filled & (board >> attribute & 1 == 1))
        batch.lanes[:] |= lane.astype(np.uint64) << np.uint64(CELLS * attribute)
    pieces = np.where(filled, 1 << np.maximum(board, 0).astype(np.int64), 0)
    on_board = np.bitwise_or.reduce(pieces, axis=1)
    in_hand = np.where(hand >= 0, 1 << np.maximum(hand, 0).astype(np.int64), 0)
    sound &= (np.bitwise_count(on_board) == filled.sum(axis=1)) & (on_board & in_hand == 0)
    batch.available[:] = ALL_PIECES & ~(on_board | in_hand)
    batch.hand[:], batch.last_cell[:] = hand, NONE
    return batch, sound


def _mask(bits: NDArray[np.bool_]) -> NDArray[np.uint16]:
    """Rows of 16 bits as masks: [N] uint16."""
    return np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little")).view("<u2").reshape(-1)
