"""Output for people: results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from analytics import DEFAULT_ARCHIVE

if TYPE_CHECKING:
    from analytics.results.pairings import Crosstable, PairingResult, Standing
    from analytics.statistics.intervals import Estimate
    from runners.arena.playing import Outcome

_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

QUESTIONS = (
    "SELECT agent_0, agent_1, avg((winner = 0)::int) AS seat_0_wins FROM games GROUP BY ALL ORDER BY ALL",
    "SELECT cell, avg(outcome) AS mean_outcome, count(*) AS games FROM plies WHERE ply = 0 GROUP BY cell ORDER BY cell",
    "SELECT plies, ending, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL",
)


class _StandardOutput(Console):
    """Standard output. A reader that closes the pipe early (``| head``) is no error."""

    def on_broken_pipe(self) -> None:
        raise SystemExit(0)


def out() -> Console:
    """The console for results: standard output."""
    return _StandardOutput(highlight=False)


def escaped(text: str) -> str:
    """A text in which what a terminal would obey, or hide, is visible: control and bidirectional characters.

    Line ends stay. A label may hold ESC sequences, and labels come from anybody's archive.
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_line(text: str) -> None:
    """Print text of a result to standard output as it is, not wrapped."""
    out().print(escaped(text), markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print text that is not a result to standard error as it is, not wrapped."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escaped(text), markup=False)


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    values: Sequence[str]
    right: bool = True  # numbers
    spare: int = 0  # where the terminal is too narrow, the columns with the highest go first, those with 0 never

    @property
    def width(self) -> int:
        """The width of the widest text."""
        return max(map(cell_len, (self.heading, *self.values)))

    @property
    def folds(self) -> bool:
        """Whether it has texts long enough to go on in the next line."""
        return not self.right and self.width > FOLDED

    @property
    def least_width(self) -> int:
        """The width with long texts in several lines."""
        return FOLDED if self.folds else self.width


FOLDED = 24  # a text this long or shorter stays in one line
FRAME = 3  # the width of a column's frame; the table has one line more


@dataclass(frozen=True)
class Table:
    """A table for people. Its text is not cut, and not read as markup."""

    columns: Sequence[Column]
    title: str | None = None
    folded: bool = False  # long texts go on in the next line if the table is too wide
    left_out: Sequence[str] = ()  # headings of columns

    @property
    def width(self) -> int:
        """The width with each text in one line."""
        return 1 + sum(column.width + FRAME for column in self.columns)

    def narrowed(self, width: int) -> Table:
        """The table without as many of its spare columns as have to go for it to fit, long texts folded."""
        going = sorted((column.spare, place) for place, column in enumerate(self.columns) if column.spare)
        taken, gone = 1 + sum(column.least_width + FRAME for column in self.columns), list[int]()
        while going and taken > width:
            gone.append(going.pop()[1])
            taken -= self.columns[gone[-1]].least_width + FRAME
        kept = [column for place, column in enumerate(self.columns) if place not in {*gone}]
        return Table(kept, self.title, True, [self.columns[place].heading for place in sorted(gone)])

    def __rich__(self) -> RichTable:
        table = RichTable(title=self.title, title_justify="left")
        sides: list[JustifyMethod] = ["right" if column.right else "left" for column in self.columns]
        for column, side in zip(self.columns, sides, strict=True):
            folds = self.folded and column.folds
            least = FOLDED if folds else None
            table.add_column(Text(column.heading, justify=side), no_wrap=not folds, overflow="fold", min_width=least)
        for row in zip(*(column.values for column in self.columns), strict=True):
            table.add_row(*(Text(value, justify=side) for value, side in zip(row, sides, strict=True)))
        return table


def drawn(table: Table) -> Iterator[str]:
    """The lines of a table without a title at full width, as Rich draws it; Rich takes a millisecond a row."""
    columns = table.columns
    texts = [(each.heading, *each.values) for each in columns]
    widths = [max(cell_len(line) for text in column for line in text.split("\n")) for column in texts]

    def ruled(left: str, rule: str, between: str, right: str) -> str:
        return left + between.join(rule * (width + 2) for width in widths) + right

    def lines(row: Sequence[str], edge: str) -> Iterator[str]:
        cells = [text.split("\n") for text in row]
        for line in range(max(map(len, cells), default=0)):
            parts = [each[line] if line < len(each) else "" for each in cells]
            padded = (
                " " * (width - cell_len(part)) + part if each.right else part + " " * (width - cell_len(part))
                for part, width, each in zip(parts, widths, columns, strict=True)
            )
            yield f"{edge} {f' {edge} '.join(padded)} {edge}"

    yield ruled("┏", "━", "┳", "┓")
    yield from lines([each.heading for each in columns], "┃")
    yield ruled("┡", "━", "╇", "┩")
    for row in zip(*(each.values for each in columns), strict=True):
        yield from lines(row, "│")
    yield ruled("└", "─", "┴", "┘")


def tabulated(columns: Sequence[Column], title: str | None = None) -> Table:
    """A table of these columns, in whose texts a terminal obeys nothing."""
    visible = [
        column._replace(heading=escaped(column.heading), values=[escaped(value) for value in column.values])
        for column in columns
    ]
    return Table(visible, title and escaped(title))


def show(*choices: Sequence[Table], wide: bool | None = None) -> None:
    """Print the first choice of tables that fits the terminal; if none does, the last one without spare columns.

    A line then names the columns that are left out. Without a terminal (in a pipe), or if ``wide``, print the first
    choice at full width. ``wide`` is None where the command has no option ``--wide``.
    """
    console = out()
    fitting = [tables for tables in choices if max(table.width for table in tables) <= console.width]
    if wide or not console.is_terminal:
        _print(console, choices[0])
    elif fitting:
        _print(console, fitting[0])
    else:
        narrow = [table.narrowed(console.width) for table in choices[-1]]
        _print(console, narrow)
        _print_left_out(console, [heading for table in narrow for heading in table.left_out], wide is not None)


def _print(console: Console, tables: Sequence[Table]) -> None:
    width = console.width
    for table in tables:
        least = 1 + sum((column.least_width if table.folded else column.width) + FRAME for column in table.columns)
        console.width = max(width, least)
        console.print(table, crop=False)
    console.width = width


def _print_left_out(console: Console, headings: Sequence[str], has_option: bool) -> None:
    """Name the columns that did not fit, and a way to see them."""
    if headings:
        more = len(headings) - MOST_NAMED
        named = ", ".join(headings[:MOST_NAMED]) + (f" and {more:,} more columns" if more > 0 else "")
        how = "--wide shows them" if has_option else "a wider terminal shows them, or | less -S"
        console.print(f"Left out to fit {console.width} columns: {named} ({how}).", markup=False, soft_wrap=True)


MOST_NAMED = 6  # columns that are left out


def program() -> str:
    """The command that starts this program: its name if that is on ``PATH``, else its path."""
    script = Path(sys.executable).with_name("qarena")
    if shutil.which("qarena") or not script.exists():
        return "qarena"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def show_outcome(outcome: Outcome, log: Path) -> None:
    """Print the tables of a run, its speed, and commands that ask about its games; ``log`` tells of misbehaviour."""
    for line in outcome.misbehaviour:
        print_note(line)
    if outcome.misbehaviour:
        print_note(f"more in {os.path.relpath(log)}")
    if not outcome.results:
        print_note(f"run {outcome.run_id} has no games yet")
        return
    if len(outcome.results) > 1:
        from analytics.results.pairings import crosstable

        # Intervals of agents need the games where pairings share openings; the tables of a run take tallies alone.
        shared = any(each.by_pairs for each in outcome.results)
        show_crosstable(crosstable(outcome.results), intervals=not shared)
        if shared:
            command = f"{program()} crosstable --run {outcome.run_id}{archive_option(outcome.root)}"
            print_line(f"Pairings share openings; intervals over openings: {command}")
    _show_pairings(outcome.results)
    print_line(_summary(outcome))
    if not outcome.interrupted:
        print_line("Ask the archive:")
        for question in QUESTIONS:
            print_line(f"  {sql_command(question, outcome.root)}")


def _summary(outcome: Outcome) -> str:
    total = sum(result.games for result in outcome.results)
    where = f"run {outcome.run_id} in {outcome.root} holds {total:,} games, fingerprint {outcome.fingerprint:016x}"
    if outcome.played == 0:
        return f"Nothing to play: {where}."
    return f"{speed(outcome.played, outcome.seconds)}; {where}."


def speed(games: int, seconds: float) -> str:
    """The number of games played, the time they took, and the games a second."""
    return f"{games:,} games in {seconds:.1f} s, {games / seconds:,.0f} games a second with every ply on disk"


def shell_line(words: Iterable[str]) -> str:
    """Words as a line for a shell, with double quotes around a word that has single ones in it."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    plain = "'" in word and not set('"$`\\!\n') & set(word)  # what means something between double quotes
    return f'"{word}"' if plain else shlex.quote(word)


def sql_command(question: str, root: PurePath) -> str:
    """The command line that asks the archive at ``root`` a question in SQL."""
    return f'{program()} sql{archive_option(root)} "{question}"'


def archive_option(root: PurePath) -> str:
    """The option that names the archive at ``root``, with a space in front; nothing for the default one."""
    return "" if root == DEFAULT_ARCHIVE else f" --archive {shlex.quote(str(root))}"


def percent(share: float) -> str:
    """A share (0 to 1) in percent."""
    return f"{100 * share:.2f}"


def interval(estimate: Estimate) -> str:
    """An interval of shares (0 to 1) in percent."""
    return f"{100 * estimate.low:.2f}–{100 * estimate.high:.2f}"  # noqa: RUF001  (a range is set with an en dash)


def ranked(agents: Sequence[str]) -> list[Column]:
    """The columns of places and agents, best first."""
    return [Column("", [str(place) for place in range(1, len(agents) + 1)]), Column("agent", [*agents], right=False)]


def show_crosstable(table: Crosstable, intervals: bool = True, wide: bool | None = None) -> None:
    """Print agents by score, and the mean score of each agent (row) against each other agent (column) in percent."""
    standings = table.standings
    agents = ranked([each.agent for each in standings])
    totals = [
        Column("score", [percent(each.score.mean) for each in standings]),
        *([Column("95 % interval", [interval(each.score) for each in standings], spare=1)] if intervals else []),
        Column("games", [f"{each.games:,}" for each in standings], spare=2),
        Column("win", [percent(each.wins / each.games) for each in standings], spare=4),
        Column("draw", [percent(each.draws / each.games) for each in standings], spare=5),
        Column("loss", [percent(each.losses / each.games) for each in standings], spare=4),
    ]
    if any(each.forfeits for each in standings):
        totals.append(Column("forfeits", [f"{each.forfeits:,}" for each in standings], spare=3))
    matrix = [
        Column(agent, [_against(each, agent) for each in standings], spare=place)
        for place, agent in enumerate(table.agents)
    ]
    title = "Crosstable (score in %, win 1, draw ½)"
    by_place = [column._replace(heading=f"v {place}") for place, column in enumerate(matrix, 1)]
    whole, totals_alone = tabulated(agents + totals + matrix, title), tabulated(agents + totals, title)
    apart = [[totals_alone, tabulated(agents + others)] for others in (matrix, by_place)]
    show([whole], *apart, wide=wide)


def _against(standing: Standing, agent: str) -> str:
    """A mean score in percent; a dot for the agent itself, a dash if the two never met."""
    if agent == standing.agent:
        return "·"
    return percent(standing.against[agent]) if agent in standing.against else "–"  # noqa: RUF001


def pairing_columns(pairing_results: Sequence[PairingResult]) -> list[Column]:
    """Columns of pairings; wins and losses are those of the first agent."""
    return [
        Column("first", [each.first for each in pairing_results], right=False),
        Column("second", [each.second for each in pairing_results], right=False),
        Column("games", [f"{each.games:,}" for each in pairing_results], spare=2),
        Column("win", [percent(each.win_rate.mean) for each in pairing_results]),
        Column("95 % interval", [interval(each.win_rate) for each in pairing_results], spare=3),
        Column("draw", [percent(each.draws / each.games) for each in pairing_results], spare=5),
        Column("loss", [percent(each.losses / each.games) for each in pairing_results], spare=4),
    ]


def forfeit_columns(pairing_results: Sequence[PairingResult]) -> list[Column]:
    """The column of the forfeits by the first and the second agent; none if there was no forfeit."""
    if not any(sum(each.forfeits) for each in pairing_results):
        return []
    return [Column("forfeits", [f"{each.forfeits[0]:,} : {each.forfeits[1]:,}" for each in pairing_results], spare=1)]


def _show_pairings(pairing_results: Sequence[PairingResult]) -> None:
    columns = [*pairing_columns(pairing_results), *forfeit_columns(pairing_results)]
    for seat in (0, 1):
        wins = [each.in_seat(seat)[2] / max(1, sum(each.in_seat(seat))) for each in pairing_results]
        columns.append(Column(f"win in seat {seat}", [percent(share) for share in wins], spare=7))
    columns.append(Column("plies", [f"{each.mean_plies:.2f}" for each in pairing_results], spare=6))
    show([tabulated(columns, "Pairings (the first agent's view, in %)")])
