"""Tables as text, in the form that the terminal shows: at full width, or without the columns that do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from analytics.questions.columns import ResultColumn, Table, escape_hidden_characters, format_significant
from analytics.store.texts import format_count_with_noun

if TYPE_CHECKING:
    import polars as pl

FOLD_WIDTH = 24  # the longest text that stays in one line
FRAME_WIDTH = 3  # the width of a column's frame; the table has one line more


def compute_column_width(column: ResultColumn) -> int:
    """Compute the width of the widest text in a column, in terminal cells."""
    return max(map(cell_len, (column.heading, *column.texts)))


def is_foldable(column: ResultColumn) -> bool:
    """Return whether the texts of a column may be wrapped, because they are aligned to the left and long."""
    return not column.right_aligned and compute_column_width(column) > FOLD_WIDTH


def compute_min_width(column: ResultColumn) -> int:
    """Compute the width that a column needs if its long texts are wrapped, in terminal cells."""
    return FOLD_WIDTH if is_foldable(column) else compute_column_width(column)


def compute_table_width(table: Table) -> int:
    """Compute the width that a table needs if no text is wrapped, in terminal cells."""
    return 1 + sum(compute_column_width(column) + FRAME_WIDTH for column in table.columns)


class NarrowedTable(NamedTuple):
    """A table that was narrowed to a given width, with the headings of the columns that were dropped."""

    table: Table
    dropped_headings: list[str]


def drop_spare_columns(table: Table, width: int) -> NarrowedTable:
    """Drop columns until the table, with long texts wrapped, fits ``width``, which is in terminal cells.

    The columns with the highest ``drop_priority`` are dropped first; columns with priority 0 are never dropped.
    """
    columns = table.columns
    candidates = sorted((column.drop_priority, index) for index, column in enumerate(columns) if column.drop_priority)
    table_width, dropped = 1 + sum(compute_min_width(column) + FRAME_WIDTH for column in columns), list[int]()
    while candidates and table_width > width:
        dropped.append(candidates.pop()[1])
        table_width -= compute_min_width(columns[dropped[-1]]) + FRAME_WIDTH
    remaining = [column for index, column in enumerate(columns) if index not in {*dropped}]
    return NarrowedTable(Table(table.title, remaining), [columns[index].heading for index in sorted(dropped)])


def build_rich_table(table: Table, folded: bool = False) -> RichTable:
    """Build a table for Rich in such a way that Rich neither cuts its texts nor interprets them as markup.

    With ``folded``, long texts are wrapped.
    """
    rich_table = RichTable(title=Text(table.title, "table.title") if table.title else None, title_justify="left")
    sides: list[JustifyMethod] = ["right" if column.right_aligned else "left" for column in table.columns]
    for column, side in zip(table.columns, sides, strict=True):
        is_folded = folded and is_foldable(column)
        min_width = FOLD_WIDTH if is_folded else None
        rich_table.add_column(
            Text(column.heading, justify=side), no_wrap=not is_folded, overflow="fold", min_width=min_width
        )
    for row in table.text_rows:
        rich_table.add_row(*(Text(value, justify=side) for value, side in zip(row, sides, strict=True)))
    return rich_table


def render_plain_table(table: Table) -> Iterator[str]:
    """Yield the lines of a table without its title, at full width, in the form that Rich draws.

    Rich itself takes a millisecond for each row, which is too long for large tables.
    """
    columns = table.columns
    texts = [(column.heading, *column.texts) for column in columns]
    widths = [max(cell_len(line) for text in column for line in text.split("\n")) for column in texts]

    def render_horizontal_line(left: str, rule: str, between: str, right: str) -> str:
        """Return a border line; ``between`` joins the columns."""
        return left + between.join(rule * (width + 2) for width in widths) + right

    def render_row(row: Sequence[str], edge: str) -> Iterator[str]:
        """Yield the lines of one row, which are several if a text has line breaks; ``edge`` separates the columns."""
        cells = [text.split("\n") for text in row]
        for line in range(max(map(len, cells), default=0)):
            parts = [lines[line] if line < len(lines) else "" for lines in cells]
            padded = (
                " " * (width - cell_len(part)) + part if column.right_aligned else part + " " * (width - cell_len(part))
                for part, width, column in zip(parts, widths, columns, strict=True)
            )
            yield f"{edge} {f' {edge} '.join(padded)} {edge}"

    yield render_horizontal_line("┏", "━", "┳", "┓")
    yield from render_row([column.heading for column in columns], "┃")
    yield render_horizontal_line("┡", "━", "╇", "┩")
    for row in table.text_rows:
        yield from render_row(row, "│")
    yield render_horizontal_line("└", "─", "┴", "┘")


def build_escaped_table(columns: Sequence[ResultColumn], title: str = "") -> Table:
    """Build a table from columns, with hidden characters made visible, so that no text can control the terminal."""
    visible = [
        column._replace(
            heading=escape_hidden_characters(column.heading),
            texts=[escape_hidden_characters(f"{text}") for text in column.texts],
        )
        for column in columns
    ]
    return Table(escape_hidden_characters(title), visible)


def build_escaped_plain_table(table: Table) -> Table:
    """Return a table as plain texts, without the colours and links of pages, and with hidden characters escaped."""
    splits = [[build_escaped_plain_table(part) for part in split] for split in table.splits]
    return replace(build_escaped_table(table.columns, table.title), splits=splits, legend=table.legend)


def print_fitting_tables(console: Console, choices: Sequence[Sequence[Table]], wide: bool | None = None) -> None:
    """Print the first choice of tables that fits the console.

    Each of ``choices`` is a list of tables with the same content, the widest list first. If none fits, columns are
    dropped from the last choice, and a line names them. If the console is not a terminal but, for example, a pipe, or
    if ``wide`` is true, the first choice is printed at full width. ``wide`` is None if the user has no option
    ``--wide``.
    """
    fitting = [tables for tables in choices if max(map(compute_table_width, tables)) <= console.width]
    if wide or not console.is_terminal:
        _print_uncut_tables(console, choices[0])
    elif fitting:
        _print_uncut_tables(console, fitting[0])
    else:
        narrowed = [drop_spare_columns(table, console.width) for table in choices[-1]]
        _print_uncut_tables(console, [table for table, _ in narrowed], folded=True)
        dropped_headings = [heading for _, headings in narrowed for heading in headings]
        _print_dropped_columns(console, dropped_headings, wide is not None)


def _print_uncut_tables(console: Console, tables: Sequence[Table], folded: bool = False) -> None:
    """Print tables at full width, even if the console is narrower; with ``folded``, long texts are wrapped."""
    width = console.width
    for table in tables:
        if not folded and _can_render_plain(console, table):
            title = [table.title.ljust(compute_table_width(table) - cell_len(table.title) + len(table.title))]
            console.out("\n".join([*(title if table.title else []), *render_plain_table(table)]), highlight=False)
            continue
        min_width = 1 + sum(
            (compute_min_width(column) if folded else compute_column_width(column)) + FRAME_WIDTH
            for column in table.columns
        )
        console.width = max(width, min_width)
        console.print(build_rich_table(table, folded), crop=False)
    console.width = width


def _can_render_plain(console: Console, table: Table) -> bool:
    """Return whether ``render_plain_table`` prints a table exactly as Rich does.

    It does if the console is neither a terminal nor limited to ASCII, and if the title is not wider than the table.
    Rich is avoided where possible because it takes 80 microseconds for each cell, and tables of hundreds of agents have
    thousands of cells.
    """
    return not (console.is_terminal or console.options.ascii_only) and cell_len(table.title) <= compute_table_width(
        table
    )


def _print_dropped_columns(console: Console, headings: Sequence[str], has_wide_option: bool) -> None:
    """Print which columns did not fit, and how to see them; print nothing if there are none."""
    if headings:
        more = len(headings) - MAX_NAMED_COLUMNS
        names = ", ".join(headings[:MAX_NAMED_COLUMNS]) + (
            f" and {format_count_with_noun(more, 'more column')}" if more > 0 else ""
        )
        hint = "--wide shows them" if has_wide_option else "a wider terminal shows them, or | less -S"
        console.print(f"Left out to fit {console.width} columns: {names} ({hint}).", markup=False, soft_wrap=True)


MAX_NAMED_COLUMNS = 6  # dropped columns that a line names, at most


def to_table(frame: pl.DataFrame) -> Table:
    """Convert a frame to a table with all rows and columns, in which numbers are aligned to the right.

    If there is too little room, the last columns are dropped first.
    """
    return build_escaped_table(
        [
            ResultColumn(
                column.name,
                [format_value_or_dot(value) for value in column.to_list()],
                right_aligned=column.dtype.is_numeric(),
                drop_priority=index,
            )
            for index, column in enumerate(frame.iter_columns())
        ]
    )


def format_value_or_dot(value: Any) -> str:
    """Format a value of a frame as text for a table; None becomes a dot."""
    if value is None:
        return "·"
    if isinstance(value, float):
        return format_significant(value, 6, "-")  # with a hyphen for a minus, as in files
    return str(value)
