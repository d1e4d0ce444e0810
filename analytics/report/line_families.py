"""The lines of a rule set by family, with examples to draw: rows and columns, diagonals, squares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from analytics.report.board_svg import render_stroke_path
from quarto.rules import CELLS, CLASSIC, SIDE, Line, Rules

FAMILY_GAP = "   "  # between two boards in plain text


class LineFamily(NamedTuple):
    """The lines of one kind that rules have."""

    name: str  # such as "rows and columns"
    line_count: int
    examples: tuple[Line, ...]  # disjoint or crossing lines that show the kind in a picture

    @property
    def text(self) -> str:
        """The number and the kind of the lines, such as ``9 squares of 2x2``."""
        return f"{self.line_count} {self.name}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The examples as SVG paths, in units of a cell."""
        return tuple(render_stroke_path(line) for line in self.examples)


# By the field of ``Rules`` that switches a family on and its value: the name of the family, and the indices of lines of
# the family that show what it is. Of lines that wrap around the board, one that does so is among them.
_FAMILIES: Mapping[str, Mapping[object, tuple[str, tuple[int, ...]]]] = {
    "rows_and_columns": {True: ("rows and columns", (1, 6))},
    "diagonals": {"main": ("diagonals", (0, 1)), "broken": ("broken diagonals", (1, 5))},
    "squares": {
        "plain": ("squares of 2x2", (0, 5)),
        "wrapped": ("wrapped squares of 2x2", (5, 15)),
    },
}


@cache
def list_line_families(rules: Rules) -> tuple[LineFamily, ...]:
    """List the families of lines that rules have, in the order of ``Rules.lines``."""
    families = []
    for field, family_by_value in _FAMILIES.items():
        value = getattr(rules, field)
        if value in family_by_value:
            name, indices = family_by_value[value]
            lines = Rules(
                rows_and_columns=field == "rows_and_columns",
                diagonals=rules.diagonals if field == "diagonals" else "none",
                squares=rules.squares if field == "squares" else "none",
            ).lines
            families.append(LineFamily(name, len(lines), tuple(lines[index] for index in indices)))
    return tuple(families)


@cache
def list_families_unlike_classic(rules: Rules) -> tuple[LineFamily, ...]:
    """List the families of lines that rules have and the classic rules lack."""
    classic = list_line_families(CLASSIC)
    return tuple(family for family in list_line_families(rules) if family not in classic)


def render_line_families(rules: Rules) -> list[str]:
    """Render the families of lines as plain text: a small board for each of them, with the cells of its examples.

    The cells of the first example are ``o``, those of the second ``x``, and a cell of both is ``*``.
    """
    columns = [[family.text, *_render_example_board(family.examples)] for family in list_line_families(rules)]
    widths = [max(map(len, column)) for column in columns]
    return [
        FAMILY_GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in zip_longest(*columns, fillvalue="")
    ]


def _render_example_board(examples: tuple[Line, ...]) -> list[str]:
    marks = ["*" if all(cell in line for line in examples) else "." for cell in range(CELLS)]
    for line, mark in zip(examples, "ox", strict=True):
        for cell in line:
            marks[cell] = mark if marks[cell] == "." else marks[cell]
    return [" ".join(marks[first : first + SIDE]) for first in range(0, CELLS, SIDE)]
