"""Output for people: results go to standard output; notes and the progress of long work go to standard error."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

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

from analytics import format_archive_option
from analytics.questions.columns import Table, format_count_per_second, format_count_with_noun, format_duration
from analytics.questions.columns import escape_hidden_characters as escape_hidden_characters  # noqa: PLC0414  (for all who print)
from analytics.report.text_tables import build_table as build_table  # noqa: PLC0414  (for all who print)
from analytics.report.text_tables import print_fitting_tables

if TYPE_CHECKING:
    from analytics.questions.selection import GameFilter


class _StandardOutput(Console):
    """A console on standard output that accepts a reader that closes the pipe early (``| head``)."""

    def on_broken_pipe(self) -> None:
        raise SystemExit(0)


def build_output_console() -> Console:
    """Build the console that prints results to standard output."""
    return _StandardOutput(highlight=False, emoji=False)  # so that a label is not read as an emoji


def print_line(text: str) -> None:
    """Print a line of a result to standard output, unchanged and not wrapped."""
    build_output_console().print(escape_hidden_characters(text), markup=False, soft_wrap=True)


def print_note(text: str, stream: IO[str] | None = None) -> None:
    """Print text that is no result to standard error, or to ``stream``, unchanged and not wrapped."""
    console = Console(file=stream, stderr=True, highlight=False, emoji=False, soft_wrap=True)
    console.print(escape_hidden_characters(text), markup=False)


def print_tables(*choices: Sequence[Table], wide: bool | None = None) -> None:
    """Print the first choice of tables that fits the terminal (see ``print_fitting_tables``)."""
    print_fitting_tables(build_output_console(), choices, wide)


def find_program() -> str:
    """Return the command that starts this program: its name if that is on ``PATH``, otherwise its path."""
    script = Path(sys.executable).with_name("qarena")
    if shutil.which("qarena") or not script.exists():
        return "qarena"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def format_speed(games: int, seconds: float) -> str:
    """Format the number of games played, the time that they took, and the games a second."""
    pace = format_count_per_second(games, seconds)
    return f"{format_count_with_noun(games, 'game')} in {seconds:.1f} s, {pace} games a second with every ply on disk"


def format_shell_line(words: Iterable[str]) -> str:
    """Join words to a line for a shell; words that contain single quotes are put in double quotes."""
    return " ".join(map(_quote_shell_word, words))


def _quote_shell_word(word: str) -> str:
    is_safe_in_double_quotes = "'" in word and not set('"$`\\!\n') & set(
        word
    )  # characters with a meaning in double quotes
    return f'"{word}"' if is_safe_in_double_quotes else shlex.quote(word)


def format_sql_command(question: str, root: PurePath) -> str:
    """Format the command line that asks the archive at ``root`` a question in SQL."""
    return f'{find_program()} sql{format_archive_option(root)} "{question}"'


def format_annotate_command(root: PurePath, games: GameFilter, choices: bool = False) -> str:
    """Format the command line that annotates the games of a filter, besides other games in the same files."""
    from analytics.questions.sql.views import quote_literal  # no command that succeeds needs it

    conditions = [] if games.where is None else [games.where]
    if games.agent is not None:
        conditions.append(f"{quote_literal(games.agent)} IN (agent_0, agent_1)")
    if games.rules is not None:
        conditions.append(f"rules = {quote_literal(games.rules)}")
    words = ["annotate", *(word for run_id in games.runs for word in ("--run", run_id))]
    words += ["--where", " AND ".join(conditions)] if conditions else []
    return f"qarena {format_shell_line(words)}{format_archive_option(root)}{' --choices' if choices else ''}"


# Progress: a bar on a terminal; elsewhere a line a minute.

NOTE_SECONDS = 60.0  # between two lines of progress without a terminal


class ProgressBar:
    """A bar with the count of finished units of work. All methods may be called from any thread."""

    def __init__(self, bar: Progress, description: str, is_shown: bool, unit: str) -> None:
        """Add a task to ``bar``; it is hidden until ``start``. ``is_shown`` says that the bar is on a terminal."""
        self.is_shown = is_shown
        self._bar, self._description, self._unit = bar, description, unit
        self._task = bar.add_task(description, total=None, visible=False)

    def start(self, total: int | None, done: int = 0) -> None:
        """Show the bar with ``total`` units of work (None if unknown), of which ``done`` are finished already."""
        self._bar.update(self._task, total=total, completed=done, visible=True)

    def advance(self, count: int = 1) -> None:
        """Add ``count`` to the number of finished units."""
        self._bar.update(self._task, advance=count)

    def report_turns(self, turns: int) -> None:
        """Show the number of turns taken so far, for a time in which no unit is finished."""
        if turns:
            self.set_description(f"{self._description}, {turns:,} turns")

    def set_done(self, done: int) -> None:
        """Set the number of finished units."""
        self._bar.update(self._task, completed=done)

    def set_description(self, text: str) -> None:
        """Replace the description in front of the bar."""
        self._bar.update(self._task, description=text)

    def print_notes_until(self, done: threading.Event) -> None:
        """Print a line every ``NOTE_SECONDS`` until ``done`` is set, even while no unit is finished."""
        while not done.wait(NOTE_SECONDS):
            task = self._bar.tasks[0]
            total = "" if task.total is None else f" of {task.total:,.0f}"
            count = f" {task.completed:,.0f}{total} {self._unit}" if task.visible else ""
            seconds = task.time_remaining or 0.0
            remaining = f", about {format_duration(seconds)} left" if seconds >= NOTE_SECONDS else ""
            print_note(f"{task.description}:{count} after {task.elapsed or 0:.0f} s{remaining}", self._bar.console.file)


@contextmanager
def show_progress_bar(description: str, unit: str, visible: bool = True) -> Iterator[ProgressBar]:
    """Show a bar with the count of units, units a second, and the time left (elapsed time if the total is unknown).

    Without a terminal, a line is printed every ``NOTE_SECONDS``. ``visible=False`` shows nothing.
    """
    terminal = Console(file=sys.stderr)  # the present one, even if sys.stderr is replaced meanwhile
    is_shown = visible and terminal.is_terminal
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(40, terminal.width // 5)),
        TaskProgressColumn(),
        _CountColumn(unit),
        _TimeColumn(compact=True, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=terminal, transient=True, disable=not is_shown) as bar:
        progress_bar, done = ProgressBar(bar, description, is_shown, unit), threading.Event()
        notes = threading.Thread(target=progress_bar.print_notes_until, args=(done,), daemon=True)
        if visible and not is_shown:
            notes.start()
        try:
            yield progress_bar
        finally:
            done.set()
            if notes.ident:
                notes.join()  # no line comes after the result


class _CountColumn(ProgressColumn):
    """The number of finished units, the total if it is known, and units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f"/{task.total:,.0f}"
        speed = task.finished_speed or task.speed or 0
        return Text(f"{task.completed:,.0f}{total} {self._unit}, {speed:,.{0 if speed >= 10 else 1}f}/s")


class _TimeColumn(TimeRemainingColumn):
    """The time left, or the elapsed time if the total is unknown."""

    def render(self, task: Task) -> Text:
        return TimeElapsedColumn().render(task) if task.total is None else super().render(task)
