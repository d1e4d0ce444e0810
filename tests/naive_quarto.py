"""The slow, obvious twins of symmetries and counting. A board is a list of 16 pieces, ``NONE`` where empty."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from math import factorial
from pathlib import Path
from typing import Any

from hypothesis import strategies

from quarto.position import PackedPosition, position_from_plies
from quarto.rules import Rules
from tests.naive import NONE, PRESETS, Board, lines

ORACLES: dict[str, Any] = json.loads((Path(__file__).parent / "oracles.json").read_text(encoding="utf-8"))

ATTRIBUTE_ORDERS = list(permutations(range(4)))
ARRANGEMENTS = 16 * 15 * 14 * 13  # of four different pieces on four cells


# Positions


@strategies.composite
def plies_and_hand(draw: strategies.DrawFn, most: int = 15) -> tuple[list[tuple[int, int]], int]:
    """Draw any (piece, cell) plies, lines or not, and a piece in hand or none."""
    count = draw(strategies.integers(0, most))
    pieces = draw(strategies.permutations(range(16)))
    cells = draw(strategies.permutations(range(16)))
    hand = pieces[count] if count < 16 and draw(strategies.booleans()) else NONE
    return list(zip(pieces[:count], cells[:count], strict=True)), hand


def positions(most: int = 15) -> strategies.SearchStrategy[PackedPosition]:
    return plies_and_hand(most).map(lambda drawn: position_from_plies(*drawn))


preset_rules = strategies.sampled_from(list(PRESETS.values()))


# Symmetries


def automorphisms(family: set[int], order: Sequence[int]) -> int:
    """Count the permutations of 16 points that keep the first of ``order`` and map a family of 4-sets onto itself.

    The sets are 16-bit masks; the order of the points sets the speed only.
    """
    images = {order[0]: order[0]}

    def count() -> int:
        if len(images) == 16:
            return 1
        point, total = order[len(images)], 0
        threes = [
            (sum(1 << other for other in three) | 1 << point in family, sum(1 << images[other] for other in three))
            for three in combinations(images, 3)
        ]
        for image in set(range(16)) - set(images.values()):
            if all((three | 1 << image in family) == in_family for in_family, three in threes):
                images[point] = image
                total += count()
                del images[point]
        return total

    return count()


def change_piece(piece: int, xor: int, attributes: Sequence[int]) -> int:
    """Apply XOR, then move attribute ``attributes[i]`` to place ``i``."""
    return sum((((piece ^ xor) >> attribute) & 1) << place for place, attribute in enumerate(attributes))


def change_board(board: Board, cells: Sequence[int], xor: int, attributes: Sequence[int]) -> Board:
    """Move cell ``c`` to ``cells[c]``, and change the piece on it."""
    image = [NONE] * 16
    for cell, piece in enumerate(board):
        image[cells[cell]] = piece if piece == NONE else change_piece(piece, xor, attributes)
    return image


def build_occupied(board: Board) -> int:
    return sum(1 << cell for cell, piece in enumerate(board) if piece != NONE)


def build_lanes(board: Board) -> int:
    return sum(
        (piece >> a & 1) << (16 * a + cell) for cell, piece in enumerate(board) if piece != NONE for a in range(4)
    )


def images(board: Board, hand: int, permutations: Sequence[Sequence[int]]) -> Iterator[tuple[Board, int]]:
    """Return the board and the hand under all symmetries."""
    for cells in permutations:
        for xor in range(16):
            for attributes in ATTRIBUTE_ORDERS:
                moved_hand = hand if hand == NONE else change_piece(hand, xor, attributes)
                yield change_board(board, cells, xor, attributes), moved_hand


def least_image(board: Board, hand: int, permutations: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return (occupied, lanes) of the canonical form as defined: the least of all images, with hand 0 if any."""
    moved = {tuple(cells): build_occupied(change_board(board, cells, 0, range(4))) for cells in permutations}
    least = min(moved.values())
    candidates = images(board, hand, [cells for cells, occupied in moved.items() if occupied == least])
    return least, min(build_lanes(image) for image, moved_hand in candidates if moved_hand in (NONE, 0))


# Counting


def sharing_sets() -> list[tuple[int, ...]]:
    """Return the sets of four pieces that share an attribute value."""
    return [
        four
        for four in combinations(range(16), 4)
        if any(len({piece >> attribute & 1 for piece in four}) == 1 for attribute in range(4))
    ]


def live_prefixes(rules: Rules, plies: int) -> int:
    """Count live prefixes of up to five plies from the rules alone.

    A board of five pieces has room for one line at most, and every order of the plies of a live board is a live prefix.
    """
    assert plies <= 5
    line_cells = [set(line) for line in lines(rules)]
    free = factorial(16) // factorial(16 - plies)  # ways to put pieces on the chosen cells
    lined = (ARRANGEMENTS - 24 * len(sharing_sets())) * factorial(12) // factorial(16 - plies) if plies > 3 else free
    boards = sum(
        lined if any(line <= set(cells) for line in line_cells) else free for cells in combinations(range(16), plies)
    )
    return boards * factorial(plies)
