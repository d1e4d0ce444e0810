"""Themes of puzzles by their definitions, for each puzzle that ships; selecting puzzles by theme, level and rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analytics.exact.puzzle_themes import (
    THEMES,
    NumberedPuzzle,
    PuzzleFilter,
    classify_puzzle,
    number_puzzles,
    select_puzzles,
)
from analytics.exact.puzzles import Puzzle, load_shipped_puzzles
from analytics.report.line_families import list_line_families, render_line_families
from quarto.errors import NotFoundError, RequestError
from quarto.position import board
from quarto.rules import CLASSIC, NONE, PIECES, Rules, find_finished_lines
from tests.naive_solver import list_turns
from tests.paths import ROOT

RULES_BY_NAME = {"classic": CLASSIC, "square": Rules("square", squares="plain")}


@pytest.fixture(scope="module")
def shipped() -> list[NumberedPuzzle]:
    return number_puzzles(load_shipped_puzzles(), RULES_BY_NAME)


def list_naive_safe_gifts(puzzle: Puzzle) -> list[int]:
    """List the gifts after the right placement with which no placement of the opponent finishes a line."""
    pieces, rules = list(board(puzzle.position)), RULES_BY_NAME[puzzle.rules]
    pieces[puzzle.cell] = puzzle.position.hand
    safe = []
    for gift in set(range(PIECES)) - set(pieces):
        boards = [[*pieces[:cell], gift, *pieces[cell + 1 :]] for cell, piece in enumerate(pieces) if piece == NONE]
        if not any(find_finished_lines(after, rules) for after in boards):
            safe.append(gift)
    return safe


def test_each_shipped_puzzle_has_the_themes_that_their_definitions_say(shipped: list[NumberedPuzzle]) -> None:
    for numbered in shipped:
        puzzle, safe = numbered.puzzle, list_naive_safe_gifts(numbered.puzzle)
        assert puzzle.gift in safe, numbered
        expected = {
            "win": puzzle.goal == "win",
            "save": puzzle.goal == "draw",
            "quiet": len(safe) > 1,
            "rules": puzzle.rules == "square",
        }
        assert numbered.themes == tuple(theme for theme in THEMES if expected[theme]), numbered
    assert {theme for numbered in shipped for theme in numbered.themes} == set(THEMES)


def test_a_quiet_gift_is_the_only_safe_gift_that_keeps_the_value(shipped: list[NumberedPuzzle]) -> None:
    late = [numbered for numbered in shipped if numbered.puzzle.position.occupied.bit_count() > 10]
    quiet = [numbered.puzzle for numbered in late if "quiet" in numbered.themes]
    assert quiet
    for puzzle in quiet:
        turns = list_turns(puzzle.position, RULES_BY_NAME[puzzle.rules])
        safe = list_naive_safe_gifts(puzzle)
        assert [gift for gift in safe if turns[puzzle.cell, gift].value == puzzle.value] == [puzzle.gift]


def test_the_level_is_the_puzzles_own_and_numbers_and_ids_are_unique(shipped: list[NumberedPuzzle]) -> None:
    assert [numbered.number for numbered in shipped] == list(range(1, len(shipped) + 1))
    assert len({numbered.puzzle_id for numbered in shipped}) == len(shipped)
    for numbered in shipped:
        assert classify_puzzle(numbered.puzzle, RULES_BY_NAME[numbered.puzzle.rules]).level == numbered.puzzle.level
    moved = number_puzzles(reversed(load_shipped_puzzles()), RULES_BY_NAME)
    assert [numbered.puzzle_id for numbered in moved] == [numbered.puzzle_id for numbered in reversed(shipped)]


def test_the_page_on_puzzles_defines_each_theme_as_the_program_does() -> None:
    page = (ROOT / "docs/puzzles.md").read_text()
    for name, theme in THEMES.items():
        assert f"| `{name}` | {theme.meaning} |" in page


@pytest.mark.parametrize("theme", ["", *THEMES])
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("rules", ["", "square"])
def test_a_filter_selects_what_meets_all_its_conditions(
    shipped: list[NumberedPuzzle], theme: str, level: int, rules: str
) -> None:
    assert select_puzzles(shipped, PuzzleFilter(theme, level, rules)) == [
        numbered
        for numbered in shipped
        if theme in ("", *numbered.themes) and level in (0, numbered.level) and rules in ("", numbered.puzzle.rules)
    ]


@pytest.mark.parametrize(
    ("wanted", "error", "line"),
    [
        (PuzzleFilter("quit"), RequestError, "theme 'quit' does not exist; did you mean 'quiet'? valid: quiet, rules"),
        (PuzzleFilter(rules="torus"), NotFoundError, "this set has no puzzle under rules 'torus'; valid: classic, squ"),
        (PuzzleFilter("quiet", 1), NotFoundError, "this set has no puzzle of theme quiet, level 1: leave out one of t"),
        (PuzzleFilter("x" * 999), RequestError, f"theme '{'x' * 40}' does not exist"),
    ],
)
def test_what_no_puzzle_meets_is_refused_in_a_line(
    shipped: list[NumberedPuzzle], wanted: PuzzleFilter, error: type[RequestError], line: str
) -> None:
    with pytest.raises(error) as caught:
        select_puzzles(shipped, wanted)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_every_rule_set_is_the_sum_of_its_families_and_each_example_is_a_line() -> None:
    for diagonals in ("none", "main", "broken"):
        for squares in ("none", "plain", "wrapped"):
            for rows in (True, False):
                if rows or diagonals != "none" or squares != "none":
                    rules = Rules("some", rows, diagonals, squares)
                    families = list_line_families(rules)
                    assert sum(family.line_count for family in families) == len(rules.lines)
                    assert {line for family in families for line in family.examples} <= set(rules.lines)
                    mover = replace(rules, chooser="mover")
                    assert render_line_families(mover) == render_line_families(rules)


def test_families_that_wrap_around_show_a_line_that_does() -> None:
    assert render_line_families(Rules("some", rows_and_columns=False, diagonals="broken", squares="wrapped")) == [
        "8 broken diagonals   16 wrapped squares of 2x2",
        ". o x .              x . . x",
        ". x o .              . o o .",
        "x . . o              . o o .",
        "o . . x              x . . x",
    ]
