"""What a person sees: results to stdout, everything else to stderr."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
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

from analytics.results import Crosstable, PairingResult, crosstable
from analytics.statistics import Estimate
from runners.config import Request
from runners.experiment import Outcome, Progress

DEFAULT_ROOT = Path("data/archive")

QUESTIONS = (
    "SELECT agent_0, agent_1, avg((winner = 0)::int) AS seat_0_wins FROM games GROUP BY ALL ORDER BY ALL",
    "SELECT cell, avg(outcome) AS mean_outcome, count(*) AS games FROM plies WHERE ply = 0 GROUP BY cell ORDER BY cell",
    "SELECT plies, ending, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL",
)


def out() -> Console:
    """Where results go. Piped, a table is as wide as it needs: nothing is folded for a terminal that is not there."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 160))


def say(text: str) -> None:
    """Tell the user something that is not a result."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:,.0f} games/s")


class _Bar:
    """A progress bar as ``execute`` wants one."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._task = bar.add_task("playing", total=None, visible=False)

    def start(self, games: int) -> None:
        self._bar.update(self._task, total=games, visible=True)

    def advance(self, games: int) -> None:
        self._bar.advance(self._task, games)


@contextmanager
def progress(request: Request) -> Iterator[Progress | None]:
    """A bar with games a second and the time left, on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not (request.progress and console.is_terminal):
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(compact=True),
    )
    with RichProgress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


def show_outcome(outcome: Outcome) -> None:
    """The tables of a run, what it took, and what to ask next."""
    console = out()
    if not outcome.results:
        say(f"run {outcome.run_id} has no games yet")
        return
    table = crosstable(outcome.results)
    if len(outcome.results) > 1:
        console.print(crosstable_of(table))
    console.print(pairings_of(outcome.results))
    console.print(_what_it_took(outcome), markup=False)
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
    return f'qarena sql{archive} "{question}"'


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.2f}"


def interval(estimate: Estimate) -> str:
    """An interval of shares as percentages."""
    return f"{100 * estimate.low:.2f}–{100 * estimate.high:.2f}"  # noqa: RUF001  (a range is set with an en dash)


def crosstable_of(standings: Crosstable) -> Table:
    """Agents by score; a cell is the row's mean score in percent against the column."""
    table = Table(title="Crosstable (score in %, win 1, draw ½)", title_justify="left")
    for heading in ("", "agent"):
        table.add_column(heading, justify="right" if not heading else "left", no_wrap=True)
    for heading in ("score", "95 % interval", "games", "win", "draw", "loss", *standings.agents):
        table.add_column(heading, justify="right", no_wrap=True)
    if any(standing.forfeits for standing in standings.standings):
        table.add_column("forfeits", justify="right", no_wrap=True, style="red")
    for place, standing in enumerate(standings.standings, 1):
        row = [
            str(place),
            standing.agent,
            percent(standing.score.mean),
            interval(standing.score),
            f"{standing.games:,}",
        ]
        row += [percent(count / standing.games) for count in (standing.wins, standing.draws, standing.losses)]
        row += [percent(standing.against[agent]) if agent in standing.against else "·" for agent in standings.agents]
        row += [f"{standing.forfeits:,}"] if any(each.forfeits for each in standings.standings) else []
        table.add_row(*row)
    return table


def pairings_of(pairing_results: Sequence[PairingResult]) -> Table:
    """Each pairing as its first agent sees it."""
    table = Table(title="Pairings (the first agent's view, in %)", title_justify="left")
    for heading in ("first", "second"):
        table.add_column(heading, no_wrap=True)
    for heading in ("games", "win", "95 % interval", "draw", "loss", "win in seat 0", "win in seat 1", "plies"):
        table.add_column(heading, justify="right", no_wrap=True)
    if any(sum(result.forfeits) for result in pairing_results):
        table.add_column("forfeits", justify="right", no_wrap=True, style="red")
    for result in pairing_results:
        seats = [result.in_seat(seat) for seat in (0, 1)]
        row = [
            result.first,
            result.second,
            f"{result.games:,}",
            percent(result.win_rate.mean),
            interval(result.win_rate),
        ]
        row += [percent(count / result.games) for count in (result.draws, result.losses)]
        row += [percent(wins / max(1, sum(seat))) for seat in seats for wins in (seat[2],)]
        row += [f"{result.mean_plies:.2f}"]
        if any(sum(each.forfeits) for each in pairing_results):
            row += [f"{result.forfeits[0]:,} : {result.forfeits[1]:,}"]
        table.add_row(*row)
    return table
