"""The parts of a page as values: sections with their tables and figures. Templates turn them into HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from analytics.report.style import Picture, inline
from analytics.results.columns import ResultColumn

STRONGEST_TINT = 0.45  # opacity: text on it can be read on light and on dark paper
BETTER, WORSE = "0,114,178", "213,94,0"  # red, green, blue


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and what distinguishes it from plain text."""

    text: str
    prefix: str = ""  # stands before the mark of the colour
    colour: int | None = None  # the number of an agent's colour, shown as a small square
    tint: float | None = None  # background colour, from -1 (worse) to 1 (better)
    code: bool = False
    hint: str = ""  # shown when the pointer rests on the cell
    notes: tuple[int, ...] = ()  # numbers of notes at the end of the page, as links
    itself: bool = False  # where the row and the column of a crosstable are the same agent
    piece: int | None = None  # drawn beside the text
    link: str = ""  # address that the text leads to; reports have none
    parts: tuple[Cell, ...] = ()  # of pages: each with a link of its own, before the text

    @property
    def background(self) -> str | None:
        """The tint as a colour of CSS."""
        if self.tint is None:
            return None
        return f"rgba({BETTER if self.tint > 0 else WORSE},{STRONGEST_TINT * min(1.0, abs(self.tint)):.2f})"


def linked(
    heading: str, texts: Iterable[str], addresses: Iterable[str], code: bool = False, right: bool = False
) -> ResultColumn:
    """A column of texts that lead to addresses."""
    cells = [Cell(text, link=address, code=code) for text, address in zip(texts, addresses, strict=True)]
    return ResultColumn(heading, cells, right)


@dataclass(frozen=True)
class PageTable:
    """A table of a page. Its first column names its rows; numbers are aligned to the right."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    left_columns: Sequence[int] = ()  # further columns that are aligned to the left

    @classmethod
    def of(cls, caption: str, columns: Sequence[ResultColumn]) -> PageTable:
        """The table of some columns."""
        left = tuple(number for number, column in enumerate(columns) if not column.right)
        rows = [*zip(*(column.texts for column in columns), strict=True)]
        return cls(caption, [column.heading for column in columns], rows, left)

    @property
    def left(self) -> set[int]:
        """All columns that are aligned to the left."""
        return {0, *self.left_columns}

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, every text as a ``Cell``."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A chart under its title. It is drawn when it is first shown: that takes a tenth of a second."""

    title: str
    picture: Picture
    name: str  # of its ids in a page
    note: str = ""
    colour: int | None = None  # the number of the colour of the agent that it is about

    @cached_property
    def svg(self) -> str:
        """The chart as SVG for the middle of a page."""
        return inline(self.picture, self.name)


@dataclass(frozen=True)
class ReportSection:
    """A part of a report. ``missing``, if not empty, says why there is nothing to show."""

    title: str
    note: str = ""  # how to read it
    table: PageTable | None = None
    figures: Sequence[Figure] = ()
    numbers: PageTable | None = None  # the figures' values, shown on request
    beside: bool = False  # figures and table side by side
    missing: str = ""
    legend: Sequence[str] = ()  # of the figures: results, and "random play"

    @property
    def anchor(self) -> str:
        """The section's id in the page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())
