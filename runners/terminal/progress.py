"""Progress of long work on standard error: a bar on a terminal; elsewhere nothing, or a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from runners.terminal.console import print_note

NOTE_SECONDS = 10.0  # between two lines where there is no terminal


class ProgressBar:
    """A count of units of work that are done, shown from ``start`` on. All methods may be called from any thread."""

    def __init__(self, bar: Progress, description: str, is_shown: bool, unit: str = "") -> None:
        """``is_shown``: the bar is on a terminal. If not, and ``unit`` is given, lines say how far the work is."""
        self.is_shown = is_shown
        self._bar, self._description, self._unit = bar, description, unit
        self._task = bar.add_task(description, total=None, visible=False)
        self._noted = time.monotonic()

    def start(self, total: int | None, done: int = 0) -> None:
        """Show the bar: ``total`` units of work (None: unknown), of which ``done`` are done already."""
        self._update(total=total, completed=done, visible=True)

    def advance(self, count: int = 1) -> None:
        """``count`` more units are done."""
        self._update(advance=count)

    def idle(self, turns: int) -> None:
        """Nothing has been done for a while, but ``turns`` turns have been taken: show that."""
        if turns:
            self.describe(f"{self._description}, {turns:,} turns")

    def reach(self, done: int) -> None:
        """``done`` units are done by now."""
        self._update(completed=done)

    def describe(self, text: str) -> None:
        """Replace the description in front of the bar."""
        self._update(description=text)

    def _update(self, **fields: Any) -> None:
        self._bar.update(self._task, **fields)
        now = time.monotonic()
        if self._unit and not self.is_shown and now - self._noted >= NOTE_SECONDS:
            self._noted = now
            task = self._bar.tasks[0]
            total = "" if task.total is None else f" of {task.total:,.0f}"
            done = f"{task.completed:,.0f}{total} {self._unit}"
            print_note(f"{task.description}: {done} after {task.elapsed or 0:.0f} s")


@contextmanager
def progress_bar(description: str, unit: str, wanted: bool = True, notes: bool = False) -> Iterator[ProgressBar]:
    """A bar with the count of units, units a second, and the time left (the time spent if the total is not known).

    With ``notes``, where there is no terminal, a line every ``NOTE_SECONDS``.
    """
    terminal = Console(stderr=True)
    shown = wanted and terminal.is_terminal
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(40, terminal.width // 5)),
        TaskProgressColumn(),
        _Count(unit),
        _Time(compact=True, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=terminal, transient=True, disable=not shown) as bar:
        yield ProgressBar(bar, description, shown, unit if wanted and notes else "")


class _Count(ProgressColumn):
    """Units done, all units if that is known, and units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f"/{task.total:,.0f}"
        speed = task.finished_speed or task.speed or 0
        return Text(f"{task.completed:,.0f}{total} {self._unit}, {speed:,.{0 if speed >= 10 else 1}f}/s")


class _Time(TimeRemainingColumn):
    """The time left, or the time spent where the total is not known."""

    def render(self, task: Task) -> Text:
        return TimeElapsedColumn().render(task) if task.total is None else super().render(task)
