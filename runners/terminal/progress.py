"""Progress of long work: one line on standard error where that is a terminal, nothing elsewhere."""

from __future__ import annotations

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


class ProgressBar:
    """A count of units of work that are done, shown from ``start`` on. All methods may be called from any thread."""

    def __init__(self, bar: Progress | None, description: str) -> None:
        """Without ``bar`` nothing is shown."""
        self._bar = bar
        self._description = description
        self._task = bar.add_task(description, total=None, visible=False) if bar else None

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal to show it on."""
        return self._bar is not None

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
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, **fields)


@contextmanager
def progress_bar(description: str, unit: str, wanted: bool = True) -> Iterator[ProgressBar]:
    """A bar with the count of units, units a second, and the time left (the time spent if the total is not known)."""
    terminal = Console(stderr=True)
    if not (wanted and terminal.is_terminal):
        yield ProgressBar(None, description)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(40, terminal.width // 5)),
        TaskProgressColumn(),
        _Count(unit),
        _Time(compact=True, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=terminal, transient=True) as bar:
        yield ProgressBar(bar, description)


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
