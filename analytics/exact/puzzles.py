"""Puzzles: positions in which exactly one turn keeps the value. Finding, choosing, writing and reading them.

A turn is a cell and a gift. In a puzzle the player to move can win, and one turn alone does; or he can draw, and every
other turn loses. A win at once is no puzzle. Two turns that a symmetry of the position exchanges count as two, so such
positions are not puzzles either. ``data/README.md`` describes the file.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

from quarto.errors import RequestError
from quarto.notation import format_cell, format_piece, format_position, parse_cell, parse_piece, parse_position
from quarto.position import PackedPosition, board
from quarto.rules import CELLS, NONE
from quarto.solver.solver import Solver

LEVELS = range(1, 6)
LEVEL_BOUNDS = (0.3, 0.4, 0.5, 0.6)  # of difficulty, between the levels
GOAL_VALUES = {"win": 1, "draw": 0}
COLUMN_MEANINGS = {
    "position": "before the turn, with a piece in hand, then the name of the rules unless they are classic",
    "turn": "the only one that keeps the value: the cell, then the gift",
    "value": "of that turn for the player: win or draw",
    "depth": "placements until the win, or until the last of the other turns has lost",
    "missed": "the share of the tries of a panel of agents in which they chose another turn",
    "level": "1 to 5, by depth and missed",
}
COLUMNS = tuple(COLUMN_MEANINGS)
Item = TypeVar("Item")


class Puzzle(NamedTuple):
    """A position with a piece in hand, the only turn that keeps its value, and its difficulty."""

    position: PackedPosition
    rules: str  # their name
    cell: int
    gift: int
    value: int  # of the turn: 1 won, 0 drawn
    depth: int  # placements until the win, or until the last of the other turns has lost
    missed: float  # the share of the tries of a panel of agents in which they chose another turn

    @property
    def text(self) -> str:
        """The position as a text, as ``format_position`` writes it."""
        return format_position(self.position, self.rules)

    @property
    def turn(self) -> str:
        """The only turn that keeps the value, as a text such as ``b2 7``."""
        return f"{format_cell(self.cell)} {format_piece(self.gift)}"

    @property
    def goal(self) -> str:
        """The goal of the turn, ``win`` or ``draw``."""
        return next(name for name, value in GOAL_VALUES.items() if value == self.value)

    @property
    def difficulty(self) -> float:
        """The difficulty, from 0 to 1: the mean of ``missed`` and of ``depth`` / 16.

        ``missed`` is the share of failed attempts by a panel of agents. ``depth`` is the number of placements until the
        game is over under perfect play: if the turn wins, with this turn; if it draws, with the losing turn that delays
        the loss longest.
        """
        return (self.missed + self.depth / CELLS) / 2

    @property
    def level(self) -> int:
        """The level, from 1 (easy) to 5 (hard), which follows from the difficulty."""
        return 1 + sum(self.difficulty >= bound for bound in LEVEL_BOUNDS)


class OnlyTurn(NamedTuple):
    """The only turn in a position that keeps the value, together with this value and the depth of the position.

    The depth is the number of placements until the game is over under perfect play. If the turn draws, all other turns
    lose; the depth then applies to the one of them that delays the loss longest.
    """

    cell: int
    gift: int
    value: int
    depth: int  # see ``Puzzle``


def find_only_turn_if_puzzle(solver: Solver, position: PackedPosition) -> OnlyTurn | None:
    """Return the only turn that keeps the value of the position, or None if there are several.

    Also return None if the position is lost, or if the piece in hand wins at once.
    """
    turns = solver.turns(position, distance=False)
    value = max(turn.value for turn in turns)
    kept = [turn for turn in turns if turn.value == value]
    if value < 0 or len(kept) > 1 or kept[0].gift == NONE:
        return None
    if value > 0:
        depth = solver.distance(position, value)
    else:
        depth = max((turn.distance or 0 for turn in solver.turns(position) if turn.value < 0), default=0)
    return OnlyTurn(kept[0].cell, kept[0].gift, value, depth)


def select_varied_easiest_first(puzzles: Iterable[Puzzle], count: int) -> list[Puzzle]:
    """Select at most ``count`` puzzles, spread evenly over the levels.

    Within a level, they are spread evenly over the combinations of a value and a number of pieces. A group that has too
    few puzzles contributes all of them. The result is sorted from easy to hard, and does not depend on the order of
    ``puzzles``.
    """
    groups: dict[int, dict[tuple[int, int], list[Puzzle]]] = {level: {} for level in LEVELS}
    for puzzle in sorted(puzzles, key=lambda item: hashlib.sha256(item.text.encode()).digest()):
        kind = puzzle.position.occupied.bit_count(), puzzle.value
        groups[puzzle.level].setdefault(kind, []).append(puzzle)
    by_level = [interleave([of_level[kind] for kind in sorted(of_level)]) for of_level in groups.values()]
    return sorted(interleave(by_level)[:count], key=lambda item: (item.level, item.difficulty, item.text))


def interleave(lists: Sequence[Sequence[Item]]) -> list[Item]:
    """Interleave lists: first the first item of each list, then the second of each, and so on."""
    return [item for item in chain.from_iterable(zip_longest(*lists)) if item is not None]


def format_csv(puzzles: Iterable[Puzzle]) -> bytes:
    """Format puzzles as the bytes of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for puzzle in puzzles:
        writer.writerow((puzzle.text, puzzle.turn, puzzle.goal, puzzle.depth, f"{puzzle.missed:.3f}", puzzle.level))
    return text.getvalue().encode()


@cache
def load_shipped_puzzles() -> list[Puzzle]:
    """Load the puzzles that this project ships."""
    return parse_puzzles(
        (files("analytics.exact") / "puzzle_sets" / "puzzles.csv").read_text(encoding="utf-8"), "puzzles.csv"
    )


def parse_puzzles(text: str, name: str) -> list[Puzzle]:
    """Parse the puzzles in the text of a file, whose name for messages is ``name``.

    Raises ``RequestError`` for the first invalid line.
    """
    rows = csv.DictReader(text.splitlines())
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise RequestError(f"{name} is not a set of puzzles: its first line is not {','.join(COLUMNS)}")
    return [_parse_puzzle(row, f"{name}, line {rows.line_num}") for row in rows]


def _parse_puzzle(row: dict[str, str], location: str) -> Puzzle:
    try:
        position, rules = parse_position(row["position"])
        cell, gift = row["turn"].split()
        turn, numbers = (parse_cell(cell), parse_piece(gift)), (GOAL_VALUES[row["value"]], int(row["depth"]))
        puzzle = Puzzle(position, rules, *turn, *numbers, float(row["missed"]))
    except (RequestError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RequestError(f"{location} is not a puzzle: {error}") from error
    if position.hand == NONE or board(position)[puzzle.cell] != NONE or not position.available >> puzzle.gift & 1:
        raise RequestError(f"{location} is not a puzzle: {puzzle.turn} is not a turn in {puzzle.text}")
    return puzzle
