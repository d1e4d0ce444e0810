"""What a person sees: results to stdout, everything else to stderr."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from analytics.query.results import Crosstable, PairingResult, Standing
    from analytics.statistics.intervals import Estimate
    from runners.arena.experiment import Outcome, Progress

DEFAULT_ROOT = Path("data/archive")

QUESTIONS = (
    "SELECT agent_0, agent_1, avg((winner = 0)::int) AS seat_0_wins FROM games GROUP BY ALL ORDER BY ALL",
    "SELECT cell, avg(outcome) AS mean_outcome, count(*) AS games FROM plies WHERE ply = 0 GROUP BY cell ORDER BY cell",
    "SELECT plies, ending, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL",
)


class _Out(Console):
    """Standard output; whoever stops reading it early (``| head``) has seen enough."""

    def on_broken_pipe(self) -> None:
        raise SystemExit(0)


def out() -> Console:
    """Where results go."""
    return _Out(highlight=False)


def say(text: str) -> None:
    """Tell the user something that is not a result."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


class Column(NamedTuple):
    """A column of a table, before it is known whether there is room for it."""

    heading: str
    values: list[str]
    right: bool = True  # numbers


def tabulated(columns: Sequence[Column], title: str | None = None) -> Table:
    """Columns as a table in which nothing is folded, cut or taken for markup."""
    table = Table(title=title, title_justify="left")
    sides: list[JustifyMethod] = ["right" if column.right else "left" for column in columns]
    for column, side in zip(columns, sides, strict=True):
        table.add_column(Text(column.heading, justify=side), no_wrap=True)
    for row in zip(*(column.values for column in columns), strict=True):
        table.add_row(*(Text(value, justify=side) for value, side in zip(row, sides, strict=True)))
    return table


def show(*choices: Sequence[Table]) -> None:
    """Print the first choice of tables that is no wider than the terminal or, if none is, the last one all the same.

    Piped there is no terminal, and the first choice is printed as wide as it needs.
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
    """How this program is called from here: by its name, or by its path where the name alone would not be found."""
    script = Path(sys.executable).with_name("qarena")
    if shutil.which("qarena") or not script.exists():
        return "qarena"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} {self._unit}/s")


class _Bar:
    """A progress bar as ``execute`` wants one."""

    def __init__(self, bar: RichProgress, doing: str) -> None:
        self._bar = bar
        self._task = bar.add_task(doing, total=None, visible=False)

    def start(self, games: int) -> None:
        self._bar.update(self._task, total=games, visible=True)

    def advance(self, games: int) -> None:
        self._bar.advance(self._task, games)


@contextmanager
def progress(wanted: bool = True, doing: str = "playing", unit: str = "games") -> Iterator[Progress | None]:
    """A bar with games (or what ``unit`` says) a second and the time left, on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        _Speed(unit),
        TimeRemainingColumn(compact=True),
    )
    with RichProgress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar, doing)


def show_outcome(outcome: Outcome) -> None:
    """The tables of a run, what it took, and what to ask next."""
    if not outcome.results:
        say(f"run {outcome.run_id} has no games yet")
        return
    if len(outcome.results) > 1:
        from analytics.query.results import crosstable

        show_crosstable(crosstable(outcome.results))
    _show_pairings(outcome.results)
    console = out()
    console.print(_what_it_took(outcome), markup=False, soft_wrap=True)
    if not outcome.interrupted:
        console.print("Ask the archive:", markup=False)
        for question in QUESTIONS:
            console.print(f"  {sql_command(question, outcome.root)}", markup=False, soft_wrap=True)


def _what_it_took(outcome: Outcome) -> str:
    total = sum(result.games for result in outcome.results)
    where = f"run {outcome.run_id} in {outcome.root} holds {total:,} games"
    if outcome.played == 0:
        return f"Nothing to play: {where}."
    speed = outcome.played / outcome.seconds
    took = f"{outcome.played:,} games in {outcome.seconds:.1f} s, {speed:,.0f} games a second with every ply on disk"
    return f"{took}; {where}."


def sql_command(question: str, root: Path) -> str:
    """The command that asks the archive at ``root`` a question."""
    archive = "" if root == DEFAULT_ROOT else f" --archive {shlex.quote(str(root))}"
    return f'{program()} sql{archive} "{question}"'


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.2f}"


def interval(estimate: Estimate) -> str:
    """An interval of shares as percentages."""
    return f"{100 * estimate.low:.2f}–{100 * estimate.high:.2f}"  # noqa: RUF001  (a range is set with an en dash)


def show_crosstable(table: Crosstable) -> None:
    """Agents by score; in the matrix, the row's mean score in percent against the column."""
    standings = table.standings
    agents = [
        Column("", [str(place) for place in range(1, len(standings) + 1)]),
        Column("agent", [each.agent for each in standings], right=False),
    ]
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
    """Each pairing as its first agent sees it."""
    return [
        Column("first", [each.first for each in pairing_results], right=False),
        Column("second", [each.second for each in pairing_results], right=False),
        Column("games", [f"{each.games:,}" for each in pairing_results]),
        Column("win", [percent(each.win_rate.mean) for each in pairing_results]),
        Column("95 % interval", [interval(each.win_rate) for each in pairing_results]),
        Column("draw", [percent(each.draws / each.games) for each in pairing_results]),
        Column("loss", [percent(each.losses / each.games) for each in pairing_results]),
    ]


def _show_pairings(pairing_results: Sequence[PairingResult]) -> None:
    needed, extra = pairing_columns(pairing_results), []
    for seat in (0, 1):
        wins = [each.in_seat(seat)[2] / max(1, sum(each.in_seat(seat))) for each in pairing_results]
        extra.append(Column(f"win in seat {seat}", [percent(share) for share in wins]))
    extra.append(Column("plies", [f"{each.mean_plies:.2f}" for each in pairing_results]))
    if any(sum(each.forfeits) for each in pairing_results):
        needed.append(Column("forfeits", [f"{each.forfeits[0]:,} : {each.forfeits[1]:,}" for each in pairing_results]))
    title = "Pairings (the first agent's view, in %)"
    show([tabulated(needed + extra, title)], [tabulated(needed, title)])
