"""The lines of a rule set in pictures: each family of lines with an example, for pages that name rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from analytics.report.board_svg import render_stroke_path
from analytics.store.texts import format_count_with_noun
from quarto.rules import CLASSIC, SIDE, Line, Rules


class FamilyPicture(NamedTuple):
    """The lines of one form, such as rows and columns, with one or two of them as examples."""

    text: str  # as in "8 rows and columns"
    paths: tuple[str, ...]  # SVG paths of the examples, in units of a cell


@cache
def list_line_families(rules: Rules) -> tuple[FamilyPicture, ...]:
    """Return the families of lines of a rule set."""
    families: list[FamilyPicture] = []
    if rules.rows_and_columns:
        lines = _list_lines(rows_and_columns=True)
        families.append(_build_family(lines, "row or column", "rows and columns", (lines[1], lines[SIDE + 2])))
    if rules.diagonals != "none":
        lines = _list_lines(diagonals=rules.diagonals)
        if rules.diagonals == "main":
            families.append(_build_family(lines, "diagonal", "diagonals", lines))
        else:
            broken = lines[1], lines[SIDE + 1]
            families.append(_build_family(lines, "diagonal", "diagonals, over the edge too", broken))
    if rules.squares != "none":
        lines = _list_lines(squares=rules.squares)
        if rules.squares == "plain":
            families.append(_build_family(lines, "square", "squares of 2 by 2", (lines[SIDE],)))
        else:
            families.append(_build_family(lines, "square", "squares of 2 by 2, over the edge too", (lines[SIDE - 1],)))
    return tuple(families)


@cache
def list_families_unlike_classic(rules: Rules) -> tuple[FamilyPicture, ...]:
    """Return the families of lines that a rule set has and the classic rules lack."""
    classic = list_line_families(CLASSIC)
    return tuple(family for family in list_line_families(rules) if family not in classic)


def _list_lines(*, rows_and_columns: bool = False, diagonals: str = "none", squares: str = "none") -> tuple[Line, ...]:
    return Rules("family", rows_and_columns, diagonals, squares).lines


def _build_family(lines: Sequence[Line], noun: str, nouns: str, examples: Sequence[Line]) -> FamilyPicture:
    return FamilyPicture(
        format_count_with_noun(len(lines), noun, nouns), tuple(render_stroke_path(line) for line in examples)
    )
