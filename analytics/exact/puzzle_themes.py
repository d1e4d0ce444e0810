"""Themes of puzzles: what the right turn achieves, and what makes it hard to find. Selecting puzzles by them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from analytics.exact.puzzles import Puzzle
from quarto.errors import NotFoundError, RequestError, suggest_valid_names
from quarto.notation import CLASSIC_NAME
from quarto.rules import Rules
from quarto.views import Position

ID_DIGITS = 8  # of a puzzle's id


class Theme(NamedTuple):
    """A theme as people see it."""

    title: str  # as a heading
    meaning: str  # which puzzles have the theme, in one sentence


THEMES: Mapping[str, Theme] = {
    "win": Theme("Wins", "One turn wins, and no other does."),
    "save": Theme("Saves", "One turn holds the draw, and every other loses."),
    "quiet": Theme(
        "Quiet gifts",
        "After the right placement several gifts are safe, because the opponent cannot win at once with them; "
        "but only one of these gifts keeps the value.",
    ),
    "rules": Theme("Other rules", "The rules are not the classic ones."),
}


class PuzzleClass(NamedTuple):
    """What a puzzle is about, and how hard it is."""

    themes: tuple[str, ...]  # keys of ``THEMES``, in their order
    level: int  # from 1 (easy) to 5 (hard)


class NumberedPuzzle(NamedTuple):
    """A puzzle of a set, with its number, its id and its class."""

    number: int  # in the set, counted from 1
    puzzle_id: str
    puzzle: Puzzle
    themes: tuple[str, ...]
    level: int


class PuzzleFilter(NamedTuple):
    """The puzzles that somebody wants. An empty text and 0 stand for any."""

    theme: str = ""
    level: int = 0
    rules: str = ""

    @property
    def text(self) -> str:
        """The conditions in words, such as ``theme save, level 2``; "" if there are none."""
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items() if value)

    def matches(self, puzzle: NumberedPuzzle) -> bool:
        """Return whether a puzzle meets all conditions."""
        return (
            (not self.theme or self.theme in puzzle.themes)
            and (not self.rules or self.rules == puzzle.puzzle.rules)
            and (not self.level or self.level == puzzle.level)
        )


ANY_PUZZLE = PuzzleFilter()


def list_safe_gifts(puzzle: Puzzle, rules: Rules) -> tuple[int, ...]:
    """Return the gifts after the right placement with which the opponent cannot win at once, ascending.

    The right gift is one of them, because a turn that keeps a win or a draw does not lose at once.
    """
    return Position(puzzle.position, rules).safe_gifts(puzzle.cell)


def classify_puzzle(puzzle: Puzzle, rules: Rules) -> PuzzleClass:
    """Return the themes and the level of a puzzle.

    All themes follow from the puzzle's exact value and its position:

    - ``win``: the value is a win. ``save``: it is a draw, so every other turn loses.
    - ``quiet``, a quiet gift: after the right placement at least two gifts are safe, which means that the opponent
      cannot win at once with them. Only one of them keeps the value, because only one turn does, so safety alone does
      not find it. If only one gift is safe, safety forces it, and the puzzle has no quiet gift.
    - ``rules``: the rules are not the classic ones.

    The level follows from the stored depth and miss rate (``Puzzle.level``).

    Args:
        puzzle: The puzzle.
        rules: The rules that ``puzzle.rules`` names.

    """
    has_theme = {
        "win": puzzle.value > 0,
        "save": puzzle.value == 0,
        "quiet": len(list_safe_gifts(puzzle, rules)) > 1,
        "rules": puzzle.rules != CLASSIC_NAME,
    }
    return PuzzleClass(tuple(theme for theme in THEMES if has_theme[theme]), puzzle.level)


def compute_puzzle_id(puzzle: Puzzle) -> str:
    """Compute the id of a puzzle, which depends on its position and rules alone.

    A browser remembers a result by this id, so the result stays valid if the puzzle's number changes with its set.
    """
    return hashlib.sha256(puzzle.text.encode()).hexdigest()[:ID_DIGITS]


def number_puzzles(puzzles: Iterable[Puzzle], rules_by_name: Mapping[str, Rules]) -> list[NumberedPuzzle]:
    """Return the puzzles of a set with their numbers, ids and classes.

    ``rules_by_name`` has the rules that the puzzles name.
    """
    return [
        NumberedPuzzle(number, compute_puzzle_id(puzzle), puzzle, *classify_puzzle(puzzle, rules_by_name[puzzle.rules]))
        for number, puzzle in enumerate(puzzles, 1)
    ]


def select_puzzles(puzzles: Sequence[NumberedPuzzle], wanted: PuzzleFilter) -> list[NumberedPuzzle]:
    """Select the puzzles that meet the conditions of a filter.

    Raises ``RequestError`` if there is no such theme, and ``NotFoundError`` if no puzzle meets the conditions.
    """
    check_theme(wanted.theme)
    names = sorted({puzzle.puzzle.rules for puzzle in puzzles})
    if wanted.rules and wanted.rules not in names:
        shortened = wanted.rules[:40]
        raise NotFoundError(f"this set has no puzzle under rules {shortened!r}{suggest_valid_names(shortened, names)}")
    selected = [puzzle for puzzle in puzzles if wanted.matches(puzzle)]
    if not selected:
        raise NotFoundError(f"this set has no puzzle of {wanted.text}: leave out one of the conditions")
    return selected


def check_theme(theme: str) -> None:
    """Raise ``RequestError`` if ``theme`` is neither a theme nor empty."""
    if theme and theme not in THEMES:
        raise RequestError(f"theme {theme[:40]!r} does not exist{suggest_valid_names(theme[:40], THEMES)}")
