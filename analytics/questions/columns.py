"""Results as tables for people: columns with their headings, units and digits.

A result is a Polars frame. The functions of this module turn a frame into columns of texts, so that the terminal,
reports, pages and Markdown show the same tables. ``analytics.questions.quantities`` defines the unit and the form of
each quantity. If a heading does not name the unit, the title of its table does. ``escape_hidden_characters`` makes
hidden characters visible in every text that is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from analytics.store.texts import HIDDEN_CHARACTERS, escape_hidden

if TYPE_CHECKING:
    import polars as pl

RUN_DIGITS = 6  # of a run's id in the name of a game
DIAGONAL = "·"  # where the row and the column have the same agent
MINUS = "\N{MINUS SIGN}"
MISSING = "–"  # noqa: RUF001  (an en dash: there is no value)
SEAT_ROLES = ("gives the first piece", "places it")  # what each seat does first
SEAT_ROLES_MOVER = ("places the second piece", "the first")  # where the mover chooses the piece


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the colours, links, notes and the like that pages show with the text."""

    text: str
    prefix: str = ""  # stands before the mark of the colour
    colour: int | None = None  # the number of an agent's colour, shown as a small square
    tint: float | None = None  # background colour, from -1 (worse) to 1 (better)
    code: bool = False
    hint: str = ""  # shown when the pointer rests on the cell
    notes: tuple[int, ...] = ()  # numbers of notes at the end of the page, as links
    is_diagonal: bool = False  # where the row and the column of a crosstable are the same agent
    piece: int | None = None  # drawn beside the text
    link: str = ""  # address that the text leads to; reports have none
    parts: tuple[Cell, ...] = ()  # each with a link of its own, before the text
    checkbox: str = ""  # the value of a checkbox named ``run`` before the text

    def __str__(self) -> str:
        return f"{self.prefix}{self.text or (DIAGONAL if self.is_diagonal else '')}"


class SortLink(NamedTuple):
    """Where the heading of a column leads on a page that can sort its rows."""

    url: str
    direction: str  # of the rows now: ascending, descending, or "" if they are sorted otherwise


class ResultColumn(NamedTuple):
    """A column of a table for people."""

    heading: str
    texts: Sequence[Any]  # in tables for a page, also cells with links and colours
    right_aligned: bool = True  # numbers
    drop_priority: int = 0  # a table that is too wide drops the column of the highest priority first; 0: never
    rotated: bool = False  # pages write the heading upwards, because the column is narrow: one of a crosstable
    sort: SortLink | None = None  # on pages

    @property
    def cells(self) -> list[Cell]:
        """The texts of the column, each converted to a cell."""
        return [text if isinstance(text, Cell) else Cell(text) for text in self.texts]


@dataclass(frozen=True)
class Table:
    """A table for people; its first column names the rows."""

    title: str
    columns: Sequence[ResultColumn] = ()
    splits: Sequence[Sequence[Table]] = ()  # narrower tables that together have the same content, the widest first
    legend: str = ""  # what the columns mean, in a line below

    @property
    def text_rows(self) -> list[tuple[Any, ...]]:
        """The rows of the table, as tuples of texts or, in tables for a page, of cells."""
        return [*zip(*(column.texts for column in self.columns), strict=True)]

    @property
    def cell_rows(self) -> list[tuple[Cell, ...]]:
        """The rows of the table, with each text converted to a cell."""
        return [*zip(*(column.cells for column in self.columns), strict=True)]

    @property
    def markdown(self) -> str:
        """The table in Markdown, without its title."""
        sides = "|".join("---:" if column.right_aligned else "---" for column in self.columns)
        head, *rows = (
            f"| {' | '.join(row)} |" for row in ([column.heading for column in self.columns], *self.text_rows)
        )
        return "\n".join([head, f"|{sides}|", *rows])


# The forms of values.

VALUE_NAMES = {1: "win", 0: "draw", -1: "loss"}  # of exact values


def format_duration(seconds: float) -> str:
    """Format a duration, rounded down: in minutes below 2 hours, in hours below 2 days, and otherwise in days.

    For example, 5,400 seconds are ``90 min``.
    """
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"


def format_count_per_second(count: float, seconds: float) -> str:
    """Format the number of events a second, for ``count`` events in ``seconds`` seconds; 0 seconds give a dash."""
    return f"{count / seconds:,.0f}" if seconds > 0 else MISSING


def format_percent(share: float) -> str:
    """Format a share or a score (0 to 1) in percent, with two decimals and without a percent sign."""
    return f"{100 * share:.2f}"


def format_percent_whole(share: float) -> str:
    """Format a share or a score (0 to 1) in whole percent, for columns that have no room for decimals."""
    return f"{100 * share:.0f}"


def format_percent_tenths_below_ten(share: float) -> str:
    """Format a share (0 to 1) in percent, with one decimal below 10 % and without decimals otherwise."""
    return format_percent_whole(share) if share >= 0.0995 else format_percent_tenths(share)


def format_percent_tenths(share: float) -> str:
    """Format a share (0 to 1) in percent, with one decimal and without a percent sign.

    Probabilities from bootstrap samples have this form, because more digits would be noise.
    """
    return f"{100 * share:.1f}"


def format_half_points(regret: float) -> str:
    """Format a regret in half-points (0 to 2) with four decimals."""
    return f"{regret:.4f}"


def format_elo(rating: float) -> str:
    """Format a rating or a difference of ratings with one decimal.

    An infinite rating, on which the games set no bound, is written as ∞, with a minus sign if it is negative.
    """
    if math.isinf(rating):
        return "∞" if rating > 0 else f"{MINUS}∞"
    return format_decimals(rating, 1) if round(rating, 1) else "0.0"


def format_expected_value(value: float) -> str:
    """Format a value from -1 (a certain loss) to 1 (a certain win), with its sign and three decimals."""
    return format_signed(value, 3)


def format_value_error(error: float) -> str:
    """Format the root mean square error of expected values, with three decimals."""
    return f"{error:.3f}"


def format_p_value(p: float) -> str:
    """Format a p-value with three decimals, or as ``<0.001`` if it is smaller than that.

    A p-value is the probability of a difference at least as large as the observed one if only chance were at work.
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def format_plies(plies: float) -> str:
    """Format a mean number of plies with two decimals."""
    return f"{plies:.2f}"


def format_count(number: float) -> str:
    """Format a number of games or other things with thousands separators; a float is rounded to a whole number."""
    return f"{number:,.0f}" if isinstance(number, float) else f"{number:,}"


def format_seconds(seconds: float) -> str:
    """Format a time in seconds with three significant digits, or in whole seconds from 1,000 seconds up."""
    return format_count(round(seconds)) if seconds >= 1000 else format_significant(seconds, 3)


def format_significant(value: float, digits: int = 4, minus: str = MINUS) -> str:
    """Format a number of unknown unit to ``digits`` significant digits.

    A number whose magnitude is between 1e-9 and 1e9 has no exponent. ``minus`` is the character for the minus sign. A
    number with an exponent has hyphens instead.
    """
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-9 <= abs(value) < 1e9:
        text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", minus) if "e" not in text else text


def format_short_game_name(run_id: str, game_id: int) -> str:
    """Format the name of a logged game for ``qarena show``: the first digits of the run's id, then the game's id."""
    return f"{run_id[:RUN_DIGITS]} {game_id}"


def format_decimals(value: float, digits: int) -> str:
    """Format a number with ``digits`` decimals; the minus sign is a true one."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def format_signed(value: float, digits: int) -> str:
    """Format a number with its sign and ``digits`` decimals.

    The minus sign is a true one, and a number that rounds to 0 has no sign.
    """
    text = f"{value:+.{digits}f}".replace("-", MINUS)
    return text if text.strip(f"+0.{MINUS}") else text[1:]


def format_interval(low: float, high: float, format_value: Callable[[float], str] = format_percent) -> str:
    """Format an interval as its two ends with a dash between them.

    If ``format_value`` is ``format_elo``, the word "to" replaces the dash, because ratings may be negative.
    """
    return (
        f"{format_value(low)} to {format_value(high)}"
        if format_value is format_elo
        else f"{format_value(low)}–{format_value(high)}"  # noqa: RUF001
    )


# Columns.


def text_column(heading: str, texts: Iterable[Any]) -> ResultColumn:
    """Build a column of texts or, in a table for a page, of ready-made ``Cell`` objects."""
    return ResultColumn(heading, [*texts], right_aligned=False)


def number_column(
    heading: str, values: Iterable[Any], format_value: Callable[[Any], str] = format_count, drop_priority: int = 0
) -> ResultColumn:
    """Build a column of numbers, each formatted with ``format_value``; None is shown as a dash.

    ``drop_priority`` says which columns a table that is too wide drops first: those of the highest priority, but never
    those of priority 0.
    """
    return ResultColumn(
        heading, [MISSING if value is None else format_value(value) for value in values], drop_priority=drop_priority
    )


def interval_column(
    lows: Iterable[float | None],
    highs: Iterable[float | None],
    format_value: Callable[[float], str] = format_percent,
    drop_priority: int = 0,
) -> ResultColumn:
    """Build a column of 95 % intervals; an interval is shown as a dash if either of its ends is None."""
    ends = zip(lows, highs, strict=True)
    texts = [MISSING if low is None or high is None else format_interval(low, high, format_value) for low, high in ends]
    return ResultColumn("95 % interval", texts, drop_priority=drop_priority)


def numbered_agent_columns(agents: Sequence[str], ranks: Iterable[int | None] | None = None) -> list[ResultColumn]:
    """Build a column of ranks and a column of agents, in the order of ``agents``, which is best first.

    If ``ranks`` is None, the first column numbers the rows from 1. An agent whose rank is None has a dash.
    """
    return [number_column("", range(1, len(agents) + 1) if ranks is None else ranks), text_column("agent", agents)]


def imposed_plies_columns(counts: Iterable[int]) -> list[ResultColumn]:
    """Build the column with the numbers of imposed plies, as a list; the list is empty if all of them are 0."""
    numbers = [*counts]
    return [number_column("imposed plies", numbers)] if any(numbers) else []


def link_column(
    heading: str, texts: Iterable[str], addresses: Iterable[str], code: bool = False, right_aligned: bool = False
) -> ResultColumn:
    """Build a column of texts, each of which links to the address at the same index.

    With ``code``, pages show the texts as code.
    """
    cells = [Cell(text, link=address, code=code) for text, address in zip(texts, addresses, strict=True)]
    return ResultColumn(heading, cells, right_aligned)


def property_columns(properties: Mapping[str, str | Cell], code_names: Collection[str] = ()) -> list[ResultColumn]:
    """Build a column with the names of properties and a column with their values.

    Pages show a value as code if ``code_names`` has the name of its property.
    """
    texts = [Cell(f"{value}", code=True) if name in code_names else value for name, value in properties.items()]
    return [text_column("property", properties), text_column("value", texts)]


# Results.


def standing_columns_without_agents(frame: pl.DataFrame, with_intervals: bool = True) -> list[ResultColumn]:
    """Build the columns of a crosstable's standings, without the names of the agents.

    ``frame`` is the result of ``analytics.questions.pairings.Crosstable.to_frame``. Without ``with_intervals``, the
    column of 95 % intervals is left out.
    """
    return [
        number_column("score", frame["score"], format_percent),
        *([interval_column(frame["low"], frame["high"], drop_priority=1)] if with_intervals else []),
        number_column("games", frame["games"], drop_priority=2),
        *_result_share_columns(frame),
        *([number_column("forfeits", frame["forfeits"], drop_priority=3)] if frame["forfeits"].sum() else []),
    ]


MAX_OPPONENTS = 40  # columns of a table of agents against agents: nobody reads 90,000 cells of 300 agents


def score_against_top_opponents_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build a column for each of the first ``MAX_OPPONENTS`` agents, with every agent's mean score against that agent.

    ``frame`` is the result of ``analytics.questions.pairings.Crosstable.to_frame``.
    """
    return [
        _column_with_diagonal(
            agent, agent, frame["agent"], frame[f"v {agent}"], format_percent, drop_priority
        )._replace(rotated=True)
        for drop_priority, agent in enumerate(frame["agent"][:MAX_OPPONENTS])
    ]


def superiority_over_top_agents_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build columns with the probability that the row's agent is stronger than the column's agent.

    There is a column for each of the first ``MAX_OPPONENTS`` agents. ``frame`` is the result of
    ``analytics.questions.ratings.Ratings.to_frame``.
    """
    return [
        _column_with_diagonal(
            f"> {agent}", agent, frame["agent"], frame[f"above {agent}"], format_percent_tenths, drop_priority
        )
        for drop_priority, agent in enumerate(frame["agent"][:MAX_OPPONENTS])
    ]


def _column_with_diagonal(
    heading: str,
    column_agent: str,
    row_agents: Iterable[str],
    values: Iterable[float | None],
    format_value: Callable[[float], str],
    drop_priority: int,
) -> ResultColumn:
    column = number_column(heading, values, format_value, drop_priority)
    texts = [DIAGONAL if agent == column_agent else text for agent, text in zip(row_agents, column.texts, strict=True)]
    return column._replace(texts=texts)


def pairing_columns(frame: pl.DataFrame, with_scores: bool = True) -> list[ResultColumn]:
    """Build the columns of pairings from the first agent's point of view.

    ``frame`` is the result of ``analytics.questions.pairings.pairings_frame``. Without ``with_scores``, the columns of
    the mean score and its interval are left out.
    """
    forfeits = frame.select("first_forfeits", "second_forfeits") if "first_forfeits" in frame.columns else frame.clear()
    scores = [
        number_column("score", frame["score"], format_percent),
        interval_column(frame["score_low"], frame["score_high"], drop_priority=1),
    ]
    return [
        text_column("first", frame["first"]),
        *([number_column("its seat", frame["seat"])] if "seat" in frame.columns else []),
        text_column("second", frame["second"]),
        number_column("games", frame["games"], drop_priority=2),
        *(scores if with_scores else []),
        number_column("win", frame["win_rate"], format_percent),
        interval_column(frame["win_rate_low"], frame["win_rate_high"], drop_priority=3),
        *_result_share_columns(frame)[1:],
        *(
            [ResultColumn("forfeits", [f"{one:,} : {two:,}" for one, two in forfeits.iter_rows()], drop_priority=1)]
            if sum(map(sum, forfeits.iter_rows()))
            else []
        ),
    ]


def _result_share_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build three columns: the shares of games won, drawn and lost."""
    kinds = (("win", "wins", 4), ("draw", "draws", 5), ("loss", "losses", 4))
    return [
        number_column(heading, frame[name] / frame["games"], format_percent, drop_priority)
        for heading, name, drop_priority in kinds
    ]


def describe_seat_roles(mover_chooses: bool) -> str:
    """Describe what each seat does first in a game, for the note below a table with columns by seat.

    ``mover_chooses`` says whether the rules let the mover choose the piece.
    """
    zero, one = SEAT_ROLES_MOVER if mover_chooses else SEAT_ROLES
    return f"Seat 0 {zero}, seat 1 {one}."


def rating_columns_without_agents(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build the columns of ratings, without the names of the agents.

    ``frame`` is the result of ``analytics.questions.ratings.Ratings.to_frame``.
    """
    return [
        ResultColumn("Elo", ["?" if rating is None else format_elo(rating) for rating in frame["elo"]]),
        ResultColumn(
            "95 % interval",
            [_format_elo_interval_or_reason_missing(*row) for row in frame.select("elo", "low", "high").rows()],
            drop_priority=1,
        ),
        number_column("games", frame["games"], drop_priority=2),
        *([number_column("group", frame["group"] + 1)] if frame["group"].n_unique() > 1 else []),
    ]


def _format_elo_interval_or_reason_missing(rating: float | None, low: float | None, high: float | None) -> str:
    if rating is None or math.isinf(rating):
        return "no bound"
    return "not sampled" if low is None or high is None else format_interval(low, high, format_elo)


def regret_and_blunder_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build the columns of regret and blunders, with a column for the ply if any row is about a single ply.

    ``frame`` is the result of ``analytics.questions.mistakes.summarise_decisions``.
    """
    by_ply = frame["ply"].null_count() < len(frame)
    return [
        text_column("agent", frame["agent"]),
        text_column("decision", frame["kind"]),
        *([number_column("ply", frame["ply"])] if by_ply else []),
        number_column("decisions", frame["decisions"]),
        number_column("mean regret", frame["regret"], format_half_points),
        interval_column(frame["regret_low"], frame["regret_high"], format_half_points, drop_priority=1),
        number_column("blunders, %", frame["blunders"], format_percent),
        interval_column(frame["blunders_low"], frame["blunders_high"], drop_priority=2),
    ]


def opening_columns(frame: pl.DataFrame) -> list[ResultColumn]:
    """Build the columns of the decisions in a position and of the results that followed these decisions.

    ``frame`` is the result of ``analytics.questions.openings.explore_position``.
    """
    names = [name for name in ("position", "piece", "cell", "gift") if name in frame.columns]
    columns = [text_column(name, [value or "·" for value in frame[name]]) for name in names]
    columns += [number_column("alike", frame["alike"], drop_priority=2), number_column("games", frame["games"])]
    columns.append(number_column("share", frame["share"], format_percent, drop_priority=1))
    columns.append(number_column("score", frame["score"], format_percent))
    for name, drop_priority in (("win", 0), ("draw", 5), ("loss", 4)):
        columns.append(number_column(name, frame[f"{name}_rate"], format_percent, drop_priority))
        columns.append(interval_column(frame[f"{name}_low"], frame[f"{name}_high"], drop_priority=drop_priority + 3))
    return columns


# Texts come from anybody: a label from another person's archive, any text from a question in SQL. So no text may send
# commands to a terminal, nor be a formula in a spreadsheet.

# Spreadsheets read a cell that begins with one of these signs as a formula. Some do so for the full-width signs of
# Chinese and Japanese, too.
_FORMULA = "^[=+@\n\uff1d\uff0b\uff0d\uff20-]"
# A spreadsheet would turn ids such as 12345e678901 and 000123 into other numbers.
_NUMERAL = r"^[0-9.,]*[0-9][0-9.,]*([eE][+-]?[0-9]+)?$"
_HIDDEN_IN_CELLS = f"[{HIDDEN_CHARACTERS}--\n]"  # in Rust's syntax; line ends stay


def escape_hidden_characters(text: str) -> str:
    """Return ``text`` with hidden characters replaced by escapes; line breaks are kept.

    Hidden characters are control characters and characters that have no width, change the direction of writing or
    separate lines.
    """
    return escape_hidden(text, keep="\n")


def to_escaped_csv(frame: pl.DataFrame, header: bool = True, for_spreadsheet: bool = False) -> bytes:
    """Return a frame as comma-separated values (UTF-8), with hidden characters replaced by escapes.

    ``escape_hidden_characters`` says which characters these are. With ``for_spreadsheet``, an apostrophe is put before
    each text that a spreadsheet would read as a formula or a number. Columns of numbers are not changed.
    """
    import polars as pl  # the command line imports this module, and few commands write tables

    names = pl.Series(frame.columns, dtype=pl.String)
    texts = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    escaped = texts.with_columns(
        _escape_texts(column, for_spreadsheet) for column in texts if column.dtype == pl.String
    )
    escaped.columns = _escape_texts(names, for_spreadsheet).to_list()
    return escaped.write_csv(include_header=header).encode()


def _escape_texts(texts: pl.Series, for_spreadsheet: bool) -> pl.Series:
    import polars as pl

    if texts.str.contains(_HIDDEN_IN_CELLS).any():
        texts = texts.map_elements(escape_hidden_characters, pl.String)
    if not for_spreadsheet:
        return texts
    misread = texts.str.contains(f"{_FORMULA}|{_NUMERAL}")
    return pl.select(pl.when(misread).then("'" + texts).otherwise(texts).alias(texts.name)).to_series()
