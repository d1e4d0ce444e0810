"""Output for people: results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from analytics.query.results import Crosstable, PairingResult, Standing
    from analytics.statistics.intervals import Estimate
    from runners.arena.experiment import Outcome

DEFAULT_ROOT = Path("data/archive")
INTERRUPTED = 130  # the exit code after Ctrl-C, by the shell's convention: 128 + SIGINT

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
    values: list[str]
    right: bool = True  # numbers


def tabulated(columns: Sequence[Column], title: str | None = None) -> Table:
    """A table of these columns. Its text is not wrapped, not cut, and not read as markup."""
    table = Table(title=title and escaped(title), title_justify="left")
    sides: list[JustifyMethod] = ["right" if column.right else "left" for column in columns]
    for column, side in zip(columns, sides, strict=True):
        table.add_column(Text(escaped(column.heading), justify=side), no_wrap=True)
    for row in zip(*(column.values for column in columns), strict=True):
        table.add_row(*(Text(escaped(value), justify=side) for value, side in zip(row, sides, strict=True)))
    return table


def show(*choices: Sequence[Table]) -> None:
    """Print the first choice of tables that fits the width of the terminal, the last choice if none fits.

    Without a terminal (in a pipe) print the first choice at full width.
    """
    console = out()
    unbounded = console.options.update(width=1 << 20)
    widths = [max(Measurement.get(console, unbounded, table).maximum for table in tables) for tables in choices]
    fitting = [i for i, width in enumerate(widths) if width <= console.width] if console.is_terminal else [0]
    chosen = fitting[0] if fitting else len(choices) - 1
    console.width = max(console.width, widths[chosen])
    for table in choices[chosen]:
        console.print(table, crop=False)


def program() -> str:
    """The command that starts this program: its name if that is on ``PATH``, else its path."""
    script = Path(sys.executable).with_name("qarena")
    if shutil.which("qarena") or not script.exists():
        return "qarena"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def show_outcome(outcome: Outcome) -> None:
    """Print the tables of a run, its speed, and commands that ask about its games."""
    if not outcome.results:
        print_note(f"run {outcome.run_id} has no games yet")
        return
    if len(outcome.results) > 1:
        from analytics.query.results import crosstable

        show_crosstable(crosstable(outcome.results))
    _show_pairings(outcome.results)
    print_line(_summary(outcome))
    if not outcome.interrupted:
        print_line("Ask the archive:")
        for question in QUESTIONS:
            print_line(f"  {sql_command(question, outcome.root)}")


def _summary(outcome: Outcome) -> str:
    total = sum(result.games for result in outcome.results)
    where = f"run {outcome.run_id} in {outcome.root} holds {total:,} games"
    if outcome.played == 0:
        return f"Nothing to play: {where}."
    return f"{speed(outcome.played, outcome.seconds)}; {where}."


def speed(games: int, seconds: float) -> str:
    """The number of games played, the time they took, and the games a second."""
    return f"{games:,} games in {seconds:.1f} s, {games / seconds:,.0f} games a second with every ply on disk"


def sql_command(question: str, root: Path) -> str:
    """The command line that asks the archive at ``root`` a question in SQL."""
    archive = "" if root == DEFAULT_ROOT else f" --archive {shlex.quote(str(root))}"
    return f'{program()} sql{archive} "{question}"'


def percent(share: float) -> str:
    """A share (0 to 1) in percent."""
    return f"{100 * share:.2f}"


def interval(estimate: Estimate) -> str:
    """An interval of shares (0 to 1) in percent."""
    return f"{100 * estimate.low:.2f}–{100 * estimate.high:.2f}"  # noqa: RUF001  (a range is set with an en dash)


def ranked(agents: Sequence[str]) -> list[Column]:
    """The columns of places and agents, best first."""
    return [Column("", [str(place) for place in range(1, len(agents) + 1)]), Column("agent", [*agents], right=False)]


def show_crosstable(table: Crosstable) -> None:
    """Print agents by score, and the mean score of each agent (row) against each other agent (column) in percent."""
    standings = table.standings
    agents = ranked([each.agent for each in standings])
    totals = [
        Column("score", [percent(each.score.mean) for each in standings]),
        Column("95 % interval", [interval(each.score) for each in standings]),
        Column("games", [f"{each.games:,}" for each in standings]),
        Column("win", [percent(each.wins / each.games) for each in standings]),
        Column("draw", [percent(each.draws / each.games) for each in standings]),
        Column("loss", [percent(each.losses / each.games) for each in standings]),
    ]
    if any(each.forfeits for each in standings):
        totals.append(Column("forfeits", [f"{each.forfeits:,}" for each in standings]))
    matrix = [Column(agent, [_against(each, agent) for each in standings]) for agent in table.agents]
    title = "Crosstable (score in %, win 1, draw ½)"
    show([tabulated(agents + totals + matrix, title)], [tabulated(agents + totals, title), tabulated(agents + matrix)])


def _against(standing: Standing, agent: str) -> str:
    return percent(standing.against[agent]) if agent in standing.against else "·"


def pairing_columns(pairing_results: Sequence[PairingResult]) -> list[Column]:
    """Columns of pairings; wins and losses are those of the first agent."""
    return [
        Column("first", [each.first for each in pairing_results], right=False),
        Column("second", [each.second for each in pairing_results], right=False),
        Column("games", [f"{each.games:,}" for each in pairing_results]),
        Column("win", [percent(each.win_rate.mean) for each in pairing_results]),
        Column("95 % interval", [interval(each.win_rate) for each in pairing_results]),
        Column("draw", [percent(each.draws / each.games) for each in pairing_results]),
        Column("loss", [percent(each.losses / each.games) for each in pairing_results]),
    ]


def forfeit_columns(pairing_results: Sequence[PairingResult]) -> list[Column]:
    """The column of the forfeits by the first and the second agent; none if there was no forfeit."""
    if not any(sum(each.forfeits) for each in pairing_results):
        return []
    return [Column("forfeits", [f"{each.forfeits[0]:,} : {each.forfeits[1]:,}" for each in pairing_results])]


def _show_pairings(pairing_results: Sequence[PairingResult]) -> None:
    needed, extra = pairing_columns(pairing_results), []
    for seat in (0, 1):
        wins = [each.in_seat(seat)[2] / max(1, sum(each.in_seat(seat))) for each in pairing_results]
        extra.append(Column(f"win in seat {seat}", [percent(share) for share in wins]))
    extra.append(Column("plies", [f"{each.mean_plies:.2f}" for each in pairing_results]))
    needed += forfeit_columns(pairing_results)
    title = "Pairings (the first agent's view, in %)"
    show([tabulated(needed + extra, title)], [tabulated(needed, title)])
