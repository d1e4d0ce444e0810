"""Progress of long work on standard error: a bar on a terminal; elsewhere a line a minute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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

NOTE_SECONDS = 60.0  # between two lines where there is no terminal


class ProgressBar:
    """A count of units of work that are done, shown from ``start`` on. All methods may be called from any thread."""

    def __init__(self, bar: Progress, description: str, is_shown: bool, unit: str) -> None:
        """``is_shown``: the bar is on a terminal."""
        self.is_shown = is_shown
        self._bar, self._description, self._unit = bar, description, unit
        self._task = bar.add_task(description, total=None, visible=False)

    def start(self, total: int | None, done: int = 0) -> None:
        """Show the bar: ``total`` units of work (None: unknown), of which ``done`` are done already."""
        self._bar.update(self._task, total=total, completed=done, visible=True)

    def advance(self, count: int = 1) -> None:
        """``count`` more units are done."""
        self._bar.update(self._task, advance=count)

    def idle(self, turns: int) -> None:
        """Nothing has been done for a while, but ``turns`` turns have been taken: show that."""
        if turns:
            self.describe(f"{self._description}, {turns:,} turns")

    def reach(self, done: int) -> None:
        """``done`` units are done by now."""
        self._bar.update(self._task, completed=done)

    def describe(self, text: str) -> None:
        """Replace the description in front of the bar."""
        self._bar.update(self._task, description=text)

    def note_until(self, done: threading.Event) -> None:
        """Print a line every ``NOTE_SECONDS``, also while nothing is done."""
        while not done.wait(NOTE_SECONDS):
            task = self._bar.tasks[0]
            total = "" if task.total is None else f" of {task.total:,.0f}"
            count = f" {task.completed:,.0f}{total} {self._unit}" if task.visible else ""
            print_note(f"{task.description}:{count} after {task.elapsed or 0:.0f} s")


@contextmanager
def progress_bar(description: str, unit: str, wanted: bool = True) -> Iterator[ProgressBar]:
    """A bar with the count of units, units a second, and the time left (the time spent if the total is not known).

    Where there is no terminal, a line every ``NOTE_SECONDS``.
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
        found, done = ProgressBar(bar, description, shown, unit), threading.Event()
        if wanted and not shown:
            threading.Thread(target=found.note_until, args=(done,), daemon=True).start()
        try:
            yield found
        finally:
            done.set()


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
