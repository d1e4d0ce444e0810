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
from typing import IO

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
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
from rich.table import Table as RichTable
from rich.text import Text

from analytics import format_archive_option
from analytics.questions.columns import ResultColumn, Table, format_duration, format_noun, format_pace
from analytics.questions.columns import escape_text as escape_text  # noqa: PLC0414  (for all who print)


class _StandardOutput(Console):
    """Standard output. A reader that closes the pipe early (``| head``) is no error."""

    def on_broken_pipe(self) -> None:
        raise SystemExit(0)


def build_output_console() -> Console:
    """The console for results: standard output."""
    return _StandardOutput(highlight=False, emoji=False)  # a label is no code of an emoji


def print_line(text: str) -> None:
    """Print text of a result to standard output as it is, not wrapped."""
    build_output_console().print(escape_text(text), markup=False, soft_wrap=True)


def print_note(text: str, screen: IO[str] | None = None) -> None:
    """Print text that is not a result to standard error, or to ``screen``, as it is, not wrapped."""
    console = Console(file=screen, stderr=True, highlight=False, emoji=False, soft_wrap=True)
    console.print(escape_text(text), markup=False)


FOLD_WIDTH = 24  # a text this long or shorter stays in one line
FRAME_WIDTH = 3  # the width of a column's frame; the table has one line more


def compute_column_width(column: ResultColumn) -> int:
    """The width of the widest text."""
    return max(map(cell_len, (column.heading, *column.texts)))


def is_foldable(column: ResultColumn) -> bool:
    """Whether it has texts long enough to go on in the next line."""
    return not column.right and compute_column_width(column) > FOLD_WIDTH


def compute_min_width(column: ResultColumn) -> int:
    """The width with long texts in several lines."""
    return FOLD_WIDTH if is_foldable(column) else compute_column_width(column)


def compute_table_width(table: Table) -> int:
    """The width with each text in one line."""
    return 1 + sum(compute_column_width(column) + FRAME_WIDTH for column in table.columns)


def drop_spare_columns(table: Table, width: int) -> tuple[Table, list[str]]:
    """The table without as many of its spare columns as have to go for it to fit, long texts folded; their headings."""
    columns = table.columns
    going = sorted((column.drop_priority, index) for index, column in enumerate(columns) if column.drop_priority)
    taken, gone = 1 + sum(compute_min_width(column) + FRAME_WIDTH for column in columns), list[int]()
    while going and taken > width:
        gone.append(going.pop()[1])
        taken -= compute_min_width(columns[gone[-1]]) + FRAME_WIDTH
    kept = [column for index, column in enumerate(columns) if index not in {*gone}]
    return Table(table.title, kept), [columns[index].heading for index in sorted(gone)]


def build_rich_table(table: Table, folded: bool = False) -> RichTable:
    """The table for Rich, whose text is not cut and not read as markup; ``folded``: long texts go on below."""
    made = RichTable(title=Text(table.title, "table.title") if table.title else None, title_justify="left")
    sides: list[JustifyMethod] = ["right" if column.right else "left" for column in table.columns]
    for column, side in zip(table.columns, sides, strict=True):
        folds_here = folded and is_foldable(column)
        least = FOLD_WIDTH if folds_here else None
        made.add_column(Text(column.heading, justify=side), no_wrap=not folds_here, overflow="fold", min_width=least)
    for row in table.rows:
        made.add_row(*(Text(value, justify=side) for value, side in zip(row, sides, strict=True)))
    return made


def render_plain_table(table: Table) -> Iterator[str]:
    """The lines of a table without a title at full width, as Rich draws it; Rich takes a millisecond a row."""
    columns = table.columns
    texts = [(each.heading, *each.texts) for each in columns]
    widths = [max(cell_len(line) for text in column for line in text.split("\n")) for column in texts]

    def render_rule(left: str, rule: str, between: str, right: str) -> str:
        return left + between.join(rule * (width + 2) for width in widths) + right

    def render_row(row: Sequence[str], edge: str) -> Iterator[str]:
        cells = [text.split("\n") for text in row]
        for line in range(max(map(len, cells), default=0)):
            parts = [each[line] if line < len(each) else "" for each in cells]
            padded = (
                " " * (width - cell_len(part)) + part if each.right else part + " " * (width - cell_len(part))
                for part, width, each in zip(parts, widths, columns, strict=True)
            )
            yield f"{edge} {f' {edge} '.join(padded)} {edge}"

    yield render_rule("┏", "━", "┳", "┓")
    yield from render_row([each.heading for each in columns], "┃")
    yield render_rule("┡", "━", "╇", "┩")
    for row in table.rows:
        yield from render_row(row, "│")
    yield render_rule("└", "─", "┴", "┘")


def build_table(columns: Sequence[ResultColumn], title: str = "") -> Table:
    """A table of these columns, in whose texts a terminal obeys nothing."""
    visible = [
        column._replace(heading=escape_text(column.heading), texts=[escape_text(f"{text}") for text in column.texts])
        for column in columns
    ]
    return Table(escape_text(title), visible)


def print_tables(*choices: Sequence[Table], wide: bool | None = None) -> None:
    """Print the first choice of tables that fits the terminal; if none does, the last one without spare columns.

    A line then names the columns that are left out. Without a terminal (in a pipe), or if ``wide``, print the first
    choice at full width. ``wide`` is None where the command has no option ``--wide``.
    """
    console = build_output_console()
    fitting = [tables for tables in choices if max(map(compute_table_width, tables)) <= console.width]
    if wide or not console.is_terminal:
        _print_at_width(console, choices[0])
    elif fitting:
        _print_at_width(console, fitting[0])
    else:
        narrow = [drop_spare_columns(table, console.width) for table in choices[-1]]
        _print_at_width(console, [table for table, _ in narrow], folded=True)
        _print_dropped_columns(console, [heading for _, gone in narrow for heading in gone], wide is not None)


def _print_at_width(console: Console, tables: Sequence[Table], folded: bool = False) -> None:
    width = console.width
    for table in tables:
        if not folded and _renders_as_plain(console, table):
            title = [table.title.ljust(compute_table_width(table) - cell_len(table.title) + len(table.title))]
            console.out("\n".join([*(title if table.title else []), *render_plain_table(table)]), highlight=False)
            continue
        least = 1 + sum(
            (compute_min_width(column) if folded else compute_column_width(column)) + FRAME_WIDTH
            for column in table.columns
        )
        console.width = max(width, least)
        console.print(build_rich_table(table, folded), crop=False)
    console.width = width


def _renders_as_plain(console: Console, table: Table) -> bool:
    """Return whether ``drawn`` gives what Rich would print: nothing is bold, boxes are not ASCII, the title fits.

    Rich takes 80 microseconds a cell, and tables of hundreds of agents have thousands.
    """
    return not (console.is_terminal or console.options.ascii_only) and cell_len(table.title) <= compute_table_width(
        table
    )


def _print_dropped_columns(console: Console, headings: Sequence[str], has_option: bool) -> None:
    """Name the columns that did not fit, and a way to see them."""
    if headings:
        more = len(headings) - MAX_NAMED_COLUMNS
        named = ", ".join(headings[:MAX_NAMED_COLUMNS]) + (f" and {more:,} more columns" if more > 0 else "")
        how = "--wide shows them" if has_option else "a wider terminal shows them, or | less -S"
        console.print(f"Left out to fit {console.width} columns: {named} ({how}).", markup=False, soft_wrap=True)


MAX_NAMED_COLUMNS = 6  # columns that are left out


def find_program() -> str:
    """The command that starts this program: its name if that is on ``PATH``, else its path."""
    script = Path(sys.executable).with_name("qarena")
    if shutil.which("qarena") or not script.exists():
        return "qarena"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def format_speed(games: int, seconds: float) -> str:
    """The number of games played, the time they took, and the games a second."""
    pace = format_pace(games, seconds)
    return f"{format_noun(games, 'game')} in {seconds:.1f} s, {pace} games a second with every ply on disk"


def format_shell_line(words: Iterable[str]) -> str:
    """Words as a line for a shell, with double quotes around a word that has single ones in it."""
    return " ".join(map(_quote_shell_word, words))


def _quote_shell_word(word: str) -> str:
    plain = "'" in word and not set('"$`\\!\n') & set(word)  # what means something between double quotes
    return f'"{word}"' if plain else shlex.quote(word)


def format_sql_command(question: str, root: PurePath) -> str:
    """The command line that asks the archive at ``root`` a question in SQL."""
    return f'{find_program()} sql{format_archive_option(root)} "{question}"'


# Progress: a bar on a terminal; elsewhere a line a minute.

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

    def report_turns(self, turns: int) -> None:
        """Nothing has been done for a while, but ``turns`` turns have been taken: show that."""
        if turns:
            self.set_description(f"{self._description}, {turns:,} turns")

    def set_done(self, done: int) -> None:
        """``done`` units are done by now."""
        self._bar.update(self._task, completed=done)

    def set_description(self, text: str) -> None:
        """Replace the description in front of the bar."""
        self._bar.update(self._task, description=text)

    def print_notes_until(self, done: threading.Event) -> None:
        """Print a line every ``NOTE_SECONDS``, also while nothing is done."""
        while not done.wait(NOTE_SECONDS):
            task = self._bar.tasks[0]
            total = "" if task.total is None else f" of {task.total:,.0f}"
            count = f" {task.completed:,.0f}{total} {self._unit}" if task.visible else ""
            seconds = task.time_remaining or 0.0
            left = f", about {format_duration(seconds)} left" if seconds >= NOTE_SECONDS else ""
            print_note(f"{task.description}:{count} after {task.elapsed or 0:.0f} s{left}", self._bar.console.file)


@contextmanager
def show_progress_bar(description: str, unit: str, wanted: bool = True) -> Iterator[ProgressBar]:
    """A bar with the count of units, units a second, and the time left (the time spent if the total is not known).

    Where there is no terminal, a line every ``NOTE_SECONDS``.
    """
    terminal = Console(file=sys.stderr)  # this one, also while another is put in its place
    shown = wanted and terminal.is_terminal
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(40, terminal.width // 5)),
        TaskProgressColumn(),
        _CountColumn(unit),
        _TimeColumn(compact=True, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=terminal, transient=True, disable=not shown) as bar:
        found, done = ProgressBar(bar, description, shown, unit), threading.Event()
        notes = threading.Thread(target=found.print_notes_until, args=(done,), daemon=True)
        if wanted and not shown:
            notes.start()
        try:
            yield found
        finally:
            done.set()
            if notes.ident:
                notes.join()  # no line comes after the result


class _CountColumn(ProgressColumn):
    """Units done, all units if that is known, and units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f"/{task.total:,.0f}"
        speed = task.finished_speed or task.speed or 0
        return Text(f"{task.completed:,.0f}{total} {self._unit}, {speed:,.{0 if speed >= 10 else 1}f}/s")


class _TimeColumn(TimeRemainingColumn):
    """The time left, or the time spent where the total is not known."""

    def render(self, task: Task) -> Text:
        return TimeElapsedColumn().render(task) if task.total is None else super().render(task)
