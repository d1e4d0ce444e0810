"""What people see of a solved position: turns by name, the best of them, a grid, a frame."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pytest

from quarto.rules import NONE
from quarto.solver.solution import (
    LEGEND,
    SHORT_LEGEND,
    Solution,
    SolvedTurn,
    group_turns_by_cell_best_first,
    turn_sort_key,
)

WON = Solution(
    1,
    1,
    (SolvedTurn(2, 7, 1, 3), SolvedTurn(2, 12, 0, 2), SolvedTurn(10, NONE, 1, 1), SolvedTurn(15, 7, -1, 2)),
)
LOST = Solution(-1, 4, (SolvedTurn(NONE, 3, -1, 2), SolvedTurn(NONE, 4, -1, 4), SolvedTurn(NONE, 15, -1, 4)))


@dataclass(frozen=True)
class Case:
    solution: Solution
    best: list[str]
    text: str
    grid: list[str]


CASES = [
    Case(
        WON,
        ["c3"],
        "value 1, won in 1 placement; 1 of 4 turns is best: c3",
        ["         7  C", "c3  +1   ·  ·", "c1   ·  +3  =", "d4   ·  -2  ·"],
    ),
    Case(
        LOST,
        ["4", "F"],
        "value -1, lost in 4 placements; 2 of 3 turns are best: 4, F",
        ["   3   4   F", "  -2  -4  -4"],
    ),
    Case(
        Solution(0, None, tuple(SolvedTurn(cell, 9, 0, None) for cell in range(7))),
        ["a1 9", "b1 9", "c1 9", "d1 9", "a2 9", "b2 9", "c2 9"],
        "value 0, drawn; 7 of 7 turns are best: a1 9, b1 9, c1 9, d1 9, a2 9, …",
        ["    9", *(f"{cell}  =" for cell in ("a1", "b1", "c1", "d1", "a2", "b2", "c2"))],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=["won", "lost", "drawn"])
def test_a_solution_shows_its_turns_by_name(case: Case) -> None:
    solution = case.solution
    assert [turn.text for turn in solution.best] == case.best
    assert repr(solution) == f"<{case.text}>"
    first, *grid, legend = str(solution).splitlines()
    assert (first, grid) == (case.text, case.grid)
    assert legend.endswith(SHORT_LEGEND if solution.distance is None else LEGEND)
    html = solution._repr_html_()
    assert case.text in html
    assert html.count("<strong>") == len(case.best)
    assert html.count("<tr>") == len(case.grid)
    assert solution.frame.schema == {
        "cell": pl.String,
        "gift": pl.String,
        "value": pl.Int64,
        "distance": pl.Int64,
        "best": pl.Boolean,
    }
    assert solution.frame.height == len(solution.turns)
    assert solution.frame["best"].sum() == len(case.best)


def test_cells_and_gifts_of_a_frame_are_names() -> None:
    assert WON.frame.rows() == [
        ("c1", "7", 1, 3, False),
        ("c1", "C", 0, 2, False),
        ("c3", None, 1, 1, True),
        ("d4", "7", -1, 2, False),
    ]
    assert LOST.frame.select("cell", "gift").rows() == [(None, "3"), (None, "4"), (None, "F")]


def test_a_solution_without_turns_shows_its_value() -> None:
    solution = Solution(0, 8, ())
    assert (repr(solution), str(solution)) == ("<value 0, drawn in 8 placements>", "value 0, drawn in 8 placements")
    assert (solution.best, solution.frame.height) == ((), 0)
    assert solution._repr_html_() == "<p>value 0, drawn in 8 placements</p>"


def test_turns_are_named_and_sorted() -> None:
    assert repr(WON.turns[0]) == "<c1 7: value 1, won in 3 placements>"
    assert [turn.text for turn in sorted(WON.turns, key=turn_sort_key)] == ["c3", "c1 7", "c1 C", "d4 7"]
    assert [*group_turns_by_cell_best_first(WON.turns)] == [10, 2, 15]
    assert [*group_turns_by_cell_best_first(LOST.turns)[NONE]] == [4, 15, 3]
