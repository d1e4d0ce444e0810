"""Output for people: results go to standard output, and notes and the progress of long work go to standard error."""

from __future__ import annotations

import contextvars
import io
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any

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
from analytics.questions.columns import Table, format_count_per_second, format_duration
from analytics.questions.columns import escape_hidden_characters as escape_hidden_characters  # noqa: PLC0414  (for all who print)
from analytics.report.text_tables import build_escaped_table as build_escaped_table  # noqa: PLC0414  (for all who print)
from analytics.report.text_tables import print_fitting_tables
from analytics.store.texts import format_count_with_noun

if TYPE_CHECKING:
    from analytics.questions.selection import GameFilter


class _StandardOutputExitingOnBrokenPipe(Console):
    """A console on standard output that ends the program quietly if the reader closes the pipe, as ``| head`` does."""

    def on_broken_pipe(self) -> None:
        """End the program with exit code 0."""
        raise SystemExit(0)


def build_output_console() -> Console:
    """Build a console that prints results to standard output."""
    return _StandardOutputExitingOnBrokenPipe(highlight=False, emoji=False)  # so that a label is not read as an emoji


def print_line(text: str) -> None:
    """Print one line of a result to standard output, without markup or wrapping."""
    build_output_console().print(escape_hidden_characters(text), markup=False, soft_wrap=True)


def print_note(text: str, stream: IO[str] | None = None) -> None:
    """Print text that is not part of a result to standard error or to ``stream``, without markup or wrapping."""
    console = Console(file=stream, stderr=True, highlight=False, emoji=False, soft_wrap=True)
    console.print(escape_hidden_characters(text), markup=False)


def print_tables(*choices: Sequence[Table], wide: bool | None = None) -> None:
    """Print the first of several choices of tables that fits the terminal, as ``print_fitting_tables`` does."""
    print_fitting_tables(build_output_console(), choices, wide)


def find_program() -> str:
    """Return the word that starts this program in a shell: ``qarena`` if it is on ``PATH``, and otherwise its path."""
    script = Path(sys.executable).with_name("qarena")
    if shutil.which("qarena") or not script.exists():
        return "qarena"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def format_games_time_and_speed(games: int, seconds: float) -> str:
    """Format a line with the number of games played, the seconds that they took, and the number of games per second."""
    pace = format_count_per_second(games, seconds)
    return f"{format_count_with_noun(games, 'game')} in {seconds:.1f} s, {pace} games a second with every ply on disk"


def format_shell_line(words: Iterable[str]) -> str:
    """Join words to one line for a shell, with quotes where necessary.

    A word that contains single quotes is put in double quotes if this is safe.
    """
    return " ".join(map(_quote_shell_word, words))


def _quote_shell_word(word: str) -> str:
    """Quote a word for a shell if necessary; see ``format_shell_line``."""
    is_safe_in_double_quotes = "'" in word and not set('"$`\\!\n') & set(
        word
    )  # characters with a meaning in double quotes
    return f'"{word}"' if is_safe_in_double_quotes else shlex.quote(word)


def format_sql_command(question: str, root: PurePath) -> str:
    """Format the command line that asks the archive at ``root`` a question in SQL."""
    return f'{find_program()} sql{format_archive_option(root)} "{question}"'


def format_annotate_command(root: PurePath, games: GameFilter, choices: bool = False) -> str:
    """Format the command line that annotates the games that match a filter, together with all games in the same files.

    ``root`` is the archive of the games. With ``choices``, the command has the option ``--choices``.
    """
    from analytics.questions.sql.views import quote_text_or_number  # no command that succeeds needs it

    conditions = [] if games.where is None else [games.where]
    if games.agent is not None:
        conditions.append(f"{quote_text_or_number(games.agent)} IN (agent_0, agent_1)")
    if games.rules is not None:
        conditions.append(f"rules = {quote_text_or_number(games.rules)}")
    words = ["annotate", *(word for run_id in games.runs for word in ("--run", run_id))]
    words += ["--where", " AND ".join(conditions)] if conditions else []
    return f"qarena {format_shell_line(words)}{format_archive_option(root)}{' --choices' if choices else ''}"


# Progress: a bar on a terminal and in a notebook; elsewhere a line soon and then one a minute; and early on, how to ask
# for less.

MEASURED_SECONDS = 5.0  # of work, from which the time for the rest is estimated
LONG_SECONDS = 60.0  # the shortest estimate that is printed


class LongTimeNotice:
    """A note that the work on some games will take long, and how to ask for fewer. It is printed at most once."""

    def __init__(self, fewer_games_hint: str, read_seconds: Callable[[], float]) -> None:
        """``fewer_games_hint`` continues the note; ``read_seconds`` returns the seconds of work so far."""
        self._hint, self._read_seconds, self._is_due = fewer_games_hint, read_seconds, True

    def print_if_due(self, done_games: int, total_games: int) -> None:
        """Print the note if, at the pace so far, the rest of ``total_games`` will take long.

        ``done_games`` is the number of games that are done.
        """
        seconds = self._read_seconds()
        if not (self._is_due and done_games and seconds >= MEASURED_SECONDS):
            return
        self._is_due = False
        remaining_seconds = seconds * (total_games - done_games) / done_games
        if remaining_seconds >= LONG_SECONDS:
            rest = format_count_with_noun(total_games - done_games, "game")
            print_note(
                f"The {rest} left take about {format_duration(remaining_seconds)}{self._hint} (you can "
                "stop at any time, because the same command goes on)"
            )


FIRST_NOTE_SECONDS = 0.5  # until the first line of progress without a terminal: shorter work prints its result alone
NOTE_SECONDS = 60.0  # between two lines of progress without a terminal
NOTEBOOK_WIDTH = 80  # characters of a bar in a notebook
NOTEBOOK_SECONDS = 0.5  # until a notebook shows a bar, and between two states of the bar


class ProgressBar:
    """A progress bar with the number of finished units of work. All methods may be called from any thread."""

    def __init__(self, bar: Progress, description: str, is_shown: bool, unit: str) -> None:
        """Add a task to ``bar``, hidden until ``start`` is called.

        ``is_shown`` says whether the bar is on a terminal.
        """
        self.is_shown = is_shown
        self._bar, self._description, self._unit = bar, description, unit
        self._shows_turns = False  # beside the description
        self._start: tuple[float, int] = 0.0, 0  # the time of ``start``, and the units that were finished then
        self._task = bar.add_task(description, total=None, visible=False)

    def start(self, total: int | None, done: int = 0) -> None:
        """Show the bar with ``total`` units of work, of which ``done`` are already finished.

        ``total`` is None if it is not known.
        """
        self._start = time.monotonic(), done
        self._bar.update(self._task, total=total, completed=done, visible=True)

    def advance(self, count: int = 1) -> None:
        """Add ``count`` to the number of finished units."""
        if self._shows_turns:
            self.set_description(self._description)
        self._bar.update(self._task, advance=count)

    def report_turns(self, turns: int) -> None:
        """Show the number of turns taken so far beside the description, as a sign of progress while a unit takes long.

        If no turn has been taken, the description stays as it is.
        """
        if turns:
            text = f"{self._description}, {format_count_with_noun(turns, 'turn')}"
            self._bar.update(self._task, description=text)
            self._shows_turns = True

    def set_done(self, done: int) -> None:
        """Set the number of finished units."""
        self._bar.update(self._task, completed=done)

    def set_description(self, text: str) -> None:
        """Replace the description in front of the bar."""
        self._description, self._shows_turns = text, False
        self._bar.update(self._task, description=text)

    def print_notes_until(self, done: threading.Event) -> None:
        """Print a line of progress every ``NOTE_SECONDS`` until ``done`` is set, even if nothing has changed.

        The first line, after ``FIRST_NOTE_SECONDS``, only says what is being done.
        """
        if not done.wait(FIRST_NOTE_SECONDS):
            print_note(f"{self._bar.tasks[0].description} …", self._bar.console.file)
        while not done.wait(NOTE_SECONDS):
            task = self._bar.tasks[0]
            total = "" if task.total is None else f" of {task.total:,.0f}"
            count = f" {task.completed:,.0f}{total} {self._unit}" if task.visible else ""
            seconds = self._estimate_seconds_left(task)
            remaining = f", about {format_duration(seconds)} left" if seconds >= NOTE_SECONDS else ""
            print_note(f"{task.description}:{count} after {task.elapsed or 0:.0f} s{remaining}", self._bar.console.file)

    def _estimate_seconds_left(self, task: Task) -> float:
        """Estimate the time left by the pace since ``start``; 0 if there is no pace yet, or no total.

        The bar itself goes by the last seconds, but matches of a league differ so much in pace that such estimates
        jump from one line to the next.
        """
        start, done_before = self._start
        done = task.completed - done_before
        if task.total is None or done <= 0:
            return 0.0
        return (task.total - task.completed) * (time.monotonic() - start) / done

    def display_in_notebook_until(self, done: threading.Event) -> None:
        """Show the bar in the output of the notebook's cell until ``done`` is set, and then remove it.

        Rich's own display for notebooks needs another package, ipywidgets, and so shows nothing without it. Short work
        shows no bar.
        """
        display: Any = import_module("IPython.display").display
        handle = None
        while not done.wait(NOTEBOOK_SECONDS):
            output = {"text/plain": self._render_text()}
            if handle is None:
                handle = display(output, raw=True, display_id=True)
            else:
                handle.update(output, raw=True)
        if handle is not None:
            handle.update({"text/plain": ""}, raw=True)

    def _render_text(self) -> str:
        """Render the bar as text; before ``start`` it is the description alone."""
        if not self._bar.tasks[0].visible:
            return f"{self._bar.tasks[0].description} …"
        text = io.StringIO()
        console = Console(file=text, width=NOTEBOOK_WIDTH, color_system=None, force_jupyter=False, emoji=False)
        console.print(self._bar.get_renderable())
        return text.getvalue().rstrip()


@contextmanager
def show_progress_bar_or_notes(description: str, unit: str, visible: bool = True) -> Iterator[ProgressBar]:
    """Show a bar on a terminal or in a notebook; elsewhere print lines of progress.

    The first line appears after ``FIRST_NOTE_SECONDS``, the others every ``NOTE_SECONDS``. The bar shows the number of
    finished units, the units per second, and the time left, or the elapsed time if the total is unknown. Nothing is
    shown if ``visible`` is False.
    """
    terminal = Console(file=sys.stderr)  # the present one, even if sys.stderr is replaced meanwhile
    is_shown = visible and terminal.is_terminal
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(40, terminal.width // 5)),
        TaskProgressColumn(),
        _CountAndSpeedColumn(unit),
        _TimeColumn(compact=True, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=terminal, transient=True, disable=not is_shown) as bar:
        progress_bar, done = ProgressBar(bar, description, is_shown, unit), threading.Event()
        report = progress_bar.display_in_notebook_until if terminal.is_jupyter else progress_bar.print_notes_until
        # The context says which cell of a notebook is running.
        notes = threading.Thread(target=contextvars.copy_context().run, args=(report, done), daemon=True)
        if visible and not is_shown:
            notes.start()
        try:
            yield progress_bar
        finally:
            done.set()
            if notes.ident:
                notes.join()  # no line comes after the result


class _CountAndSpeedColumn(ProgressColumn):
    """The column of a progress bar with the finished units, the total if it is known, and the units per second."""

    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f"/{task.total:,.0f}"
        speed = task.finished_speed or task.speed or 0
        return Text(f"{task.completed:,.0f}{total} {self._unit}, {speed:,.{0 if speed >= 10 else 1}f}/s")


class _TimeColumn(TimeRemainingColumn):
    """The column of a progress bar with the time left, or with the elapsed time if the total is unknown."""

    def render(self, task: Task) -> Text:
        return TimeElapsedColumn().render(task) if task.total is None else super().render(task)
