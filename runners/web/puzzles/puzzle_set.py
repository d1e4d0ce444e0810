"""The puzzles that ship, as the pages list them: by theme and level, and in the order in which they follow one another.

Pages name each puzzle by its id, so that the script can add the results that the browser keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Annotated, NamedTuple

from fastapi import Depends, Query

from analytics.exact.puzzle_themes import THEMES, NumberedPuzzle, PuzzleFilter, number_puzzles, select_puzzles
from analytics.exact.puzzles import LEVELS, load_shipped_puzzles
from runners.web.agents_and_rules import AgentsAndRules
from runners.web.archive import urls
from runners.web.site import Site

PUZZLES_PATH = "/puzzles"


class PuzzleCount(NamedTuple):
    """The puzzles of a theme and a level."""

    ids: str  # separated by spaces
    puzzle_count: int
    url: str
    is_selected: bool


class ThemeRow(NamedTuple):
    """A row of the table of puzzles: a theme, with its puzzles of any level and of each level."""

    title: str
    meaning: str
    counts: list[PuzzleCount]


class PuzzleLink(NamedTuple):
    """A link to a puzzle, with the id by which browsers remember it."""

    number: int
    puzzle_id: str
    url: str


class PuzzleSet:
    """The puzzles that ship, with their classes."""

    def __init__(self, site: Site) -> None:
        self._choices = site.get_or_create_service(AgentsAndRules)

    @cached_property
    def puzzles(self) -> list[NumberedPuzzle]:
        """All puzzles, the easy ones first."""
        puzzles = load_shipped_puzzles()
        return number_puzzles(puzzles, {name: self._choices.load_rules(name) for name in {p.rules for p in puzzles}})

    @cached_property
    def ids(self) -> str:
        """The ids of all puzzles, separated by spaces."""
        return _format_ids(self.puzzles)

    def select(self, wanted: PuzzleFilter) -> list[NumberedPuzzle]:
        """Select the puzzles that a filter wants.

        Raises ``RequestError`` if there is no such theme, and ``NotFoundError`` if no puzzle meets the filter.
        """
        return select_puzzles(self.puzzles, wanted)

    def build_theme_rows(self, wanted: PuzzleFilter) -> list[ThemeRow]:
        """Build the table of puzzles by theme and level. The cell that ``wanted`` selects is marked."""
        rows = [ThemeRow("All puzzles", "", self._count_by_level("", wanted))]
        return rows + [
            ThemeRow(theme.title, theme.meaning, self._count_by_level(name, wanted)) for name, theme in THEMES.items()
        ]

    def _count_by_level(self, theme: str, wanted: PuzzleFilter) -> list[PuzzleCount]:
        counts = []
        for level in (0, *LEVELS):
            cell_filter = PuzzleFilter(theme, level, wanted.rules)
            puzzles = [puzzle for puzzle in self.puzzles if cell_filter.matches(puzzle)]
            url = build_overview_url(cell_filter)
            counts.append(PuzzleCount(_format_ids(puzzles), len(puzzles), url, cell_filter == wanted))
        return counts


def read_filter_of_address(
    theme: str = "", level: Annotated[int, Query(ge=0, le=LEVELS[-1])] = 0, rules: str = ""
) -> PuzzleFilter:
    """Return the filter that an address names. Its theme and its rules are not checked."""
    return PuzzleFilter(theme, level, rules)


WantedPuzzles = Annotated[PuzzleFilter, Depends(read_filter_of_address)]


def build_overview_url(wanted: PuzzleFilter) -> str:
    """Build the address of the list of the puzzles that meet a filter."""
    return urls.build_url(PUZZLES_PATH, _build_filter_query(wanted))


def build_puzzle_url(number: int, wanted: PuzzleFilter, **query: object) -> str:
    """Build the address of a puzzle's page, after which the puzzles that meet a filter follow."""
    return urls.build_url(f"{PUZZLES_PATH}/{number}", query | _build_filter_query(wanted))


def _build_filter_query(wanted: PuzzleFilter) -> dict[str, object]:
    return {name: value or None for name, value in wanted._asdict().items()}


def _format_ids(puzzles: Sequence[NumberedPuzzle]) -> str:
    return " ".join(puzzle.puzzle_id for puzzle in puzzles)


def build_links(puzzles: Sequence[NumberedPuzzle], wanted: PuzzleFilter) -> list[PuzzleLink]:
    """Build a link to each puzzle."""
    return [PuzzleLink(puzzle.number, puzzle.puzzle_id, build_puzzle_url(puzzle.number, wanted)) for puzzle in puzzles]


def group_links_by_level(puzzles: Sequence[NumberedPuzzle], wanted: PuzzleFilter) -> dict[int, list[PuzzleLink]]:
    """Build a link to each puzzle, and group the links by level. The puzzles are sorted by level."""
    return {
        level: build_links(list(of_level), wanted) for level, of_level in groupby(puzzles, lambda puzzle: puzzle.level)
    }


def sort_from_next(puzzles: Sequence[NumberedPuzzle], number: int) -> list[NumberedPuzzle]:
    """Return the puzzles after puzzle ``number`` in the order of their numbers, and then those before it."""
    later = [puzzle for puzzle in puzzles if puzzle.number > number]
    return later + [puzzle for puzzle in puzzles if puzzle.number < number]


def format_order(puzzles: Sequence[NumberedPuzzle]) -> str:
    """Format puzzles in their order as the script reads them: ``38:0123abcd 39:4567cdef``."""
    return " ".join(f"{puzzle.number}:{puzzle.puzzle_id}" for puzzle in puzzles)


def describe_filter(wanted: PuzzleFilter) -> str:
    """Describe the puzzles that a filter wants, such as ``Saves of level 2``."""
    title = THEMES[wanted.theme].title if wanted.theme else "Puzzles" if wanted.text else "All puzzles"
    level = f" of level {wanted.level}" if wanted.level else ""
    rules = f", {wanted.rules} rules" if wanted.rules else ""
    return f"{title}{level}{rules}"
