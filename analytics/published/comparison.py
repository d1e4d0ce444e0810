"""Published figures beside ours: the rows of all tables of ``qarena reproduce``, and its Markdown document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from analytics.published import Note, PublishedFigure, Study, notes_on, studies
from analytics.published.agreement import agrees, measured_rate, published_rate
from analytics.statistics.intervals import Estimate
from analytics.statistics.tally import DRAW
from analytics.statistics.tally import Row as Counts

LEGEND = (
    "Games that the player won, in %, with 95 % intervals. “Ours by the text” plays as the study's text says, “by the "
    "code” as its program does where the two are known to differ (`faithful: true`), in the version that the figure is "
    "of. A rate agrees if it is within three points of the published rate, or if the two intervals overlap. No "
    "parameter was tuned to come closer to a published figure."
)


@dataclass(frozen=True)
class MeasuredFigure:
    """The result of a published pairing, played by two of our agents."""

    player: str  # labels
    opponent: str
    games: int  # those in which the player had the published seat
    rate: Estimate  # of wins, with draws counted as in the study
    draws: float  # share of games
    agrees: bool


@dataclass(frozen=True)
class Comparison:
    """A published figure and ours. None: not played yet, or ``code`` is not known to differ from ``text``."""

    figure: PublishedFigure
    text: MeasuredFigure | None
    code: MeasuredFigure | None

    @property
    def notes(self) -> Sequence[Note]:
        return notes_on(self.figure.figure)


def measured_figure(figure: PublishedFigure, player: str, opponent: str, results: Counts) -> MeasuredFigure:
    """The result to compare with a figure. ``results`` are ``player``'s (losses, draws, wins) in the published seat."""
    rate = measured_rate(results, figure.draws_for)
    games = sum(results)
    return MeasuredFigure(player, opponent, games, rate, results[DRAW] / max(1, games), agrees(figure, rate))


class Row(NamedTuple):
    """A comparison as texts, in the order of ``HEADINGS``."""

    figure: str
    player: str
    opponent: str
    seat: str
    published: str
    text: str
    text_agrees: str
    code: str
    code_agrees: str
    draws: str
    games: str
    note: str  # numbers of notes
    where: str  # in the study


HEADINGS = Row(*Row._fields)._replace(
    figure="",
    text="ours by the text",
    text_agrees="agrees",
    code="ours by the code",
    code_agrees="agrees",
    draws="draws published : ours",
    where="where published",
)
NUMBERS = ("published", "text", "code", "draws", "games")  # columns of numbers
NONE = "·"


@dataclass(frozen=True)
class Reproduction:
    """Comparisons and their notes, which are numbered in the order of their first use."""

    comparisons: tuple[Comparison, ...]

    @property
    def studies(self) -> Iterator[tuple[Study, list[Comparison]]]:
        """Each study that occurs, with its comparisons."""
        for study in studies():
            own = [each for each in self.comparisons if each.figure.study == study.study]
            if own:
                yield study, own

    @cached_property
    def notes(self) -> list[Note]:
        """The notes in the order of the figures that they explain; the first one has number 1."""
        return list(dict.fromkeys(note for each in self.comparisons for note in each.notes))

    def row(self, comparison: Comparison) -> Row:
        """A comparison as texts."""
        figure, ours = comparison.figure, comparison.text or comparison.code
        drawn = f"{figure.draw.text} : {100 * ours.draws:.1f}" if figure.draw and ours else NONE
        return Row(
            figure.figure,
            figure.player,
            figure.opponent,
            figure.seat,
            f"{figure.win.text} ({interval(published_rate(figure))})",
            *_ours(comparison.text),
            *_ours(comparison.code),
            drawn,
            f"{ours.games:,}" if ours else NONE,
            " ".join(str(1 + self.notes.index(note)) for note in comparison.notes),
            "; ".join(filter(None, (figure.where, figure.remark))),
        )

    def summary(self) -> str:
        """The number of figures that agree, in a sentence."""
        compared = [each for each in self.comparisons if each.text or each.code]
        text = sum(each.text is not None and each.text.agrees for each in compared)
        either = sum(any(one is not None and one.agrees for one in (each.text, each.code)) for each in compared)
        left = len(self.comparisons) - len(compared)
        counts = f"{text} of {len(compared)} published figures agree with ours by the text, {either}"
        sentence = f"{counts} by the text or by the code"
        return f"{sentence}; {left} have not been played yet" if left else sentence


def shown(rows: Sequence[Row]) -> list[str]:
    """The names of the columns that are not empty."""
    columns = zip(Row._fields, zip(*rows, strict=True), strict=True)
    return [name for name, cells in columns if any(cell not in ("", NONE) for cell in cells)]


def interval(estimate: Estimate) -> str:
    """An interval of shares as percentages."""
    return f"{100 * estimate.low:.1f}–{100 * estimate.high:.1f}"  # noqa: RUF001  (a range is set with an en dash)


def _ours(one: MeasuredFigure | None) -> tuple[str, str]:
    if one is None:
        return NONE, NONE
    return f"{100 * one.rate.mean:.1f} ({interval(one.rate)})", "yes" if one.agrees else "no"


def markdown(reproduction: Reproduction, made: str) -> str:
    """All comparisons as a Markdown document; ``made`` says by which command."""
    parts = ["# Published figures and ours", made, LEGEND, f"{reproduction.summary()}."]
    for study, comparisons in reproduction.studies:
        rows = [reproduction.row(each) for each in comparisons]
        parts += [f"## Study {study.study}: {study.title}", f"Source: {study.source}", _table(rows)]
    if reproduction.notes:
        listed = enumerate(reproduction.notes, 1)
        parts += ["## Notes", "\n".join(f"{number}. {noted(note)}" for number, note in listed)]
    return "\n\n".join(parts) + "\n"


def noted(note: Note) -> str:
    """A note after its certainty."""
    return f"{note.certainty.capitalize()}: {note.note}"


def _table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table, padded so that its source is readable."""
    columns = []
    for name in shown(rows):
        cells = [getattr(row, name) for row in (HEADINGS, *rows)]
        width, right = max(3, *map(len, cells)), name in NUMBERS
        mark = "-" * (width - 1) + ":" if right else "-" * width
        heading, *values = (cell.rjust(width) if right else cell.ljust(width) for cell in cells)
        columns.append((heading, mark, *values))
    return "\n".join("| " + " | ".join(line) + " |" for line in zip(*columns, strict=True))
