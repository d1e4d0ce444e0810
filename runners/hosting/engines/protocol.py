"""The lines of the engine protocol, version 1, as docs/engines.md describes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.notation import PIECE_DIGITS, format_cell, parse_cell, parse_position
from quarto.position import PackedPosition
from quarto.rules import ATTRIBUTES, CELLS, NONE, SIDE, Rules

GREETING = "quarto 1"
READY = b"ready"
QUIT = b"quit\n"
SEED_DIGITS = 16

_POSITION = b"position ..../..../..../.... - " + b"0" * SEED_DIGITS + b"\n"
_CELLS_AT = np.array([9 + cell + cell // SIDE for cell in range(CELLS)])  # indices of the cells in ``_POSITION``
_HAND_AT, _SEED_AT = 29, 31
_DIGITS = np.frombuffer(b"-" + PIECE_DIGITS.encode(), np.uint8)  # by piece + 1

# The turn (cell, gift) of every possible answer.
TURNS_BY_LINE: dict[bytes, tuple[int, int]] = {
    f"turn {cell} {piece}".encode(): (number, gift)
    for number, cell in enumerate(["-", *map(format_cell, range(CELLS))], NONE)
    for gift, piece in enumerate(["-", *PIECE_DIGITS], NONE)
}
TURN_TEXTS = {turn: line.decode() for line, turn in TURNS_BY_LINE.items()}


def format_rules_line(rules: Rules) -> str:
    """Format rules as ``rules NAME CHOOSER LINE…``; each LINE is the four cells of a winning line."""
    lines = ("".join(map(format_cell, line)) for line in rules.lines)
    return " ".join(["rules", rules.name, rules.chooser, *lines])


def format_position_lines(batch: Batch, seeds: NDArray[np.uint64]) -> bytes:
    """Format ``B`` positions, each as a line ``position ROWS HAND SEED``; ``seeds`` is [B] uint64."""
    text = np.tile(np.frombuffer(_POSITION, np.uint8), (len(seeds), 1))
    cells = np.arange(CELLS)
    pieces = np.zeros((len(seeds), CELLS), np.int8)
    for attribute in range(ATTRIBUTES):
        bits = batch.lanes[:, None] >> (cells + CELLS * attribute).astype(np.uint64) & np.uint64(1)
        pieces |= bits.astype(np.int8) << attribute
    occupied = (batch.occupied[:, None] >> cells.astype(np.uint16) & np.uint16(1)).astype(bool)
    text[:, _CELLS_AT] = np.where(occupied, _DIGITS[pieces + 1], ord("."))
    text[:, _HAND_AT] = _DIGITS[batch.hand + 1]
    digits = seeds.astype(">u8").tobytes().hex().encode()
    text[:, _SEED_AT:-1] = np.frombuffer(digits, np.uint8).reshape(-1, SEED_DIGITS)
    return text.tobytes()


class SeededPosition(NamedTuple):
    """A position, and the seed for the turn in that position."""

    position: PackedPosition
    seed: int  # uint64


def parse_position_and_seed(text: str) -> SeededPosition:
    """Parse ``ROWS HAND [SEED]``; the seed is 0 by default. Raises ``RequestError`` for any other text."""
    words = text.split()
    seed = words.pop() if len(words) == 3 else "0"
    try:
        number = int(seed, 16)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 4 * SEED_DIGITS:
        raise RequestError(f"seed {seed!r} is not a number of at most {SEED_DIGITS} hex digits")
    return SeededPosition(parse_position(" ".join(words))[0], number)


class RulesFields(NamedTuple):
    """The parts of a rules line. Parts that the line leaves out are empty."""

    name: str
    chooser: str
    lines: set[frozenset[int]]  # the cells of each winning line


def parse_rules(text: str) -> RulesFields:
    """Parse ``NAME [CHOOSER [LINE…]]``. Raises ``RequestError`` for a LINE that does not consist of cells."""
    name, *rest = text.split() or [""]
    chooser, *lines = rest or [""]
    return RulesFields(name, chooser, {frozenset(_parse_cells(line)) for line in lines})


def check_optional_seconds(text: str) -> None:
    """Raise ``RequestError`` unless the text after ``go`` is empty or a positive number of seconds."""
    try:
        if not text or 0 < float(text) < math.inf:
            return
    except ValueError:
        pass
    raise RequestError(f"'go {text}': {text!r} is not a number of seconds above 0")


def _parse_cells(line: str) -> Iterator[int]:
    for start in range(0, len(line), 2):
        yield parse_cell(line[start : start + 2])


def describe_expected_turn(position: PackedPosition, rules: Rules) -> str:
    """Describe, for messages, the form that the answer to a position must have."""
    if position.hand == NONE and not rules.mover_chooses:
        return "'turn - PIECE', such as 'turn - 7'"
    if position.available.bit_count() <= int(rules.mover_chooses) and not rules.mover_chooses:
        return "'turn CELL -', such as 'turn b2 -'"
    return "'turn CELL PIECE', such as 'turn b2 7'"
