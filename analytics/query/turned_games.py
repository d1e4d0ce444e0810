"""Turns games by a symmetry of the rules, so that they pass through a position and a decision as these are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations

from quarto.notation import parse_cell, parse_piece
from quarto.position import Position, board
from quarto.rules import ATTRIBUTES, NONE, PIECES, Rules
from quarto.symmetry import symmetries

Ply = tuple[int, int]  # piece, cell


def turned(
    plies: Sequence[Ply], position: Position, decision: Mapping[str, str | None], rules: Rules
) -> list[Ply] | None:
    """The image of a game that passes through ``position`` and makes ``decision`` there; None if no symmetry does it.

    ``decision`` is a row of the openings explorer: ``piece``, ``cell`` and ``gift`` as texts, as far as it has them. If
    there are several images, it is the one by the first symmetry of the cells.
    """
    made = position.occupied.bit_count()
    if len(plies) <= made:
        return None
    pieces, cells = _wanted(plies, position, decision)
    target = board(position)
    for moved in symmetries(rules).cells.tolist():
        if any(target[moved[cell]] == NONE for _, cell in plies[:made]) or any(
            moved[cell] != wanted for cell, wanted in cells
        ):
            continue
        pairs = [(piece, target[moved[cell]]) for piece, cell in plies[:made]] + pieces
        for image in _piece_maps(pairs):
            return [(image[piece], moved[cell]) for piece, cell in plies]
    return None


def _wanted(
    plies: Sequence[Ply], position: Position, decision: Mapping[str, str | None]
) -> tuple[list[Ply], list[tuple[int, int]]]:
    """The pieces and the cells of a game after a position, each with its image."""
    made = position.occupied.bit_count()
    piece, cell = plies[made]
    by_gift = "cell" not in decision
    given = [(piece, position.hand)] if position.hand != NONE else []
    named = decision.get("gift" if by_gift else "piece")
    if named is not None:
        given.append((piece, parse_piece(named)))
    following = decision.get("gift")
    if not by_gift and following is not None and len(plies) > made + 1:
        given.append((plies[made + 1][0], parse_piece(following)))
    text = decision.get("cell")
    return given, [] if text is None else [(cell, parse_cell(text))]


def _piece_maps(pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """The symmetries of the pieces that take the first of each pair to the second, each as the 16 images."""
    for permuted in _attribute_orders():
        flipped = permuted[pairs[0][0]] ^ pairs[0][1] if pairs else 0
        if all(permuted[piece] ^ flipped == wanted for piece, wanted in pairs):
            yield [piece ^ flipped for piece in permuted]


@cache
def _attribute_orders() -> list[list[int]]:
    """The images of the 16 pieces under each order of the attributes; the first is the identity."""
    return [
        [sum((piece >> source & 1) << bit for bit, source in enumerate(order)) for piece in range(PIECES)]
        for order in permutations(range(ATTRIBUTES))
    ]
