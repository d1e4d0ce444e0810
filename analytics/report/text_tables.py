"""Tables as text: drawn as the terminal shows them, at full width or without the columns that do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from analytics.questions.columns import ResultColumn, Table, escape_hidden_characters, format_significant

if TYPE_CHECKING:
    import polars as pl

FOLD_WIDTH = 24  # a text this long or shorter stays in one line
FRAME_WIDTH = 3  # the width of a column's frame; the table has one line more


def compute_column_width(column: ResultColumn) -> int:
    """The width of the widest text."""
    return max(map(cell_len, (column.heading, *column.texts)))


def is_foldable(column: ResultColumn) -> bool:
    """Whether it has texts long enough to go on in the next line."""
    return not column.right_aligned and compute_column_width(column) > FOLD_WIDTH


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
    sides: list[JustifyMethod] = ["right" if column.right_aligned else "left" for column in table.columns]
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

    def render_horizontal_line(left: str, rule: str, between: str, right: str) -> str:
        return left + between.join(rule * (width + 2) for width in widths) + right

    def render_row(row: Sequence[str], edge: str) -> Iterator[str]:
        cells = [text.split("\n") for text in row]
        for line in range(max(map(len, cells), default=0)):
            parts = [each[line] if line < len(each) else "" for each in cells]
            padded = (
                " " * (width - cell_len(part)) + part if each.right_aligned else part + " " * (width - cell_len(part))
                for part, width, each in zip(parts, widths, columns, strict=True)
            )
            yield f"{edge} {f' {edge} '.join(padded)} {edge}"

    yield render_horizontal_line("┏", "━", "┳", "┓")
    yield from render_row([each.heading for each in columns], "┃")
    yield render_horizontal_line("┡", "━", "╇", "┩")
    for row in table.rows:
        yield from render_row(row, "│")
    yield render_horizontal_line("└", "─", "┴", "┘")


def build_table(columns: Sequence[ResultColumn], title: str = "") -> Table:
    """A table of these columns, in whose texts a terminal obeys nothing."""
    visible = [
        column._replace(
            heading=escape_hidden_characters(column.heading),
            texts=[escape_hidden_characters(f"{text}") for text in column.texts],
        )
        for column in columns
    ]
    return Table(escape_hidden_characters(title), visible)


def build_visible_table(table: Table) -> Table:
    """Build the same table of plain texts, without the colours and links that a page shows."""
    splits = [[build_visible_table(part) for part in split] for split in table.splits]
    return replace(build_table(table.columns, table.title), splits=splits, legend=table.legend)


def print_fitting_tables(console: Console, choices: Sequence[Sequence[Table]], wide: bool | None = None) -> None:
    """Print the first choice of tables that fits the console; if none does, the last one without spare columns.

    A line then names the columns that are left out. On a console that is no terminal (a pipe, a text), or if ``wide``,
    print the first choice at full width. ``wide`` is None where there is no option ``--wide``.
    """
    fitting = [tables for tables in choices if max(map(compute_table_width, tables)) <= console.width]
    if wide or not console.is_terminal:
        _print_uncut_tables(console, choices[0])
    elif fitting:
        _print_uncut_tables(console, fitting[0])
    else:
        narrow = [drop_spare_columns(table, console.width) for table in choices[-1]]
        _print_uncut_tables(console, [table for table, _ in narrow], folded=True)
        _print_dropped_columns(console, [heading for _, gone in narrow for heading in gone], wide is not None)


def _print_uncut_tables(console: Console, tables: Sequence[Table], folded: bool = False) -> None:
    width = console.width
    for table in tables:
        if not folded and _can_render_plain(console, table):
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


def _can_render_plain(console: Console, table: Table) -> bool:
    """Return whether ``render_plain_table`` gives what Rich would print: nothing bold, no ASCII boxes, a short title.

    Rich takes 80 microseconds a cell, and tables of hundreds of agents have thousands.
    """
    return not (console.is_terminal or console.options.ascii_only) and cell_len(table.title) <= compute_table_width(
        table
    )


def _print_dropped_columns(console: Console, headings: Sequence[str], has_wide_option: bool) -> None:
    """Name the columns that did not fit, and a way to see them."""
    if headings:
        more = len(headings) - MAX_NAMED_COLUMNS
        named = ", ".join(headings[:MAX_NAMED_COLUMNS]) + (f" and {more:,} more columns" if more > 0 else "")
        how = "--wide shows them" if has_wide_option else "a wider terminal shows them, or | less -S"
        console.print(f"Left out to fit {console.width} columns: {named} ({how}).", markup=False, soft_wrap=True)


MAX_NAMED_COLUMNS = 6  # columns that are left out


def to_table(frame: pl.DataFrame) -> Table:
    """All rows and columns of a frame, numbers aligned to the right; the last columns are the first to be spared."""
    return build_table(
        [
            ResultColumn(
                each.name,
                [format_table_cell(value) for value in each.to_list()],
                right_aligned=each.dtype.is_numeric(),
                drop_priority=index,
            )
            for index, each in enumerate(frame.iter_columns())
        ]
    )


def format_table_cell(value: Any) -> str:
    """A value of a frame as a table shows it."""
    if value is None:
        return "·"
    if isinstance(value, float):
        return format_significant(value, 6, "-")  # as files have it
    return str(value)
