"""The slow, obvious solver: plays every game there is from a position on, remembering nothing but whole positions."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from quarto.position import PackedPosition, board
from quarto.rules import Rules
from tests.naive import NONE, finishes_line


class Solved(NamedTuple):
    value: int  # for the player to act
    distance: int  # placements until the end


Turn = tuple[int, int]  # cell, gift


def solve_turns(cells: tuple[int, ...], hand: int, rules: Rules) -> dict[Turn, Solved]:
    """Return every turn of the player to act, and its value for them."""
    pieces = [piece for piece in range(16) if piece not in cells and piece != hand]
    if hand == NONE and not rules.mover_chooses:
        return {(NONE, gift): opposite(solve(cells, gift, rules), 0) for gift in pieces}
    values = {}
    for piece in pieces if hand == NONE else [hand]:
        for cell in [cell for cell in range(16) if cells[cell] == NONE]:
            after = (*cells[:cell], piece, *cells[cell + 1 :])
            rest = [other for other in pieces if other != piece]
            own = piece if rules.mover_chooses else NONE
            if finishes_line(list(cells), piece, cell, rules):
                values[cell, own] = Solved(1, 1)
            elif not rest:
                values[cell, own] = Solved(0, 1)
            elif rules.mover_chooses:
                values[cell, piece] = opposite(solve(after, NONE, rules), 1)
            else:
                for gift in rest:
                    values[cell, gift] = opposite(solve(after, gift, rules), 1)
    return values


def opposite(solved: Solved, placements: int) -> Solved:
    """Return the value of a position for the player who left it to the opponent, this many placements earlier."""
    return Solved(-solved.value, solved.distance + placements)


@cache
def solve(cells: tuple[int, ...], hand: int, rules: Rules) -> Solved:
    """Return the value of a live position; who wins hurries, who loses delays."""
    outcomes = solve_turns(cells, hand, rules).values()
    if not outcomes:
        return Solved(0, 0)
    value = max(outcome.value for outcome in outcomes)
    distances = [outcome.distance for outcome in outcomes if outcome.value == value]
    return Solved(value, max(distances) if value < 0 else min(distances))


def solve_position(position: PackedPosition, rules: Rules) -> Solved:
    return solve(tuple(board(position)), position.hand, rules)


def list_turns(position: PackedPosition, rules: Rules) -> dict[Turn, Solved]:
    return solve_turns(tuple(board(position)), position.hand, rules)
