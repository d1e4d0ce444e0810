"""Sorting and searching the rows of the tables on a page: both are in the page's address, and need no script."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from analytics.questions.columns import MINUS, Cell, SortLink, Table
from analytics.report.result import Result

SORT, FIND = "sort", "find"  # the parameters of addresses
MIN_SEARCHED_ROWS = 12  # a page whose tables all have fewer rows has no field to search them
MAX_FIND = 100  # characters
_SORT = re.compile(r"(-?)(?:([0-9]{1,3})\.)?([0-9]{1,3})")
_NUMBER = re.compile(rf"([-+{MINUS}]?)(∞|[0-9][0-9,]*(?:\.[0-9]+)?)")

PartT = TypeVar("PartT")
Query = Sequence[tuple[str, str]]  # names and values of an address, in order


class TableOrder(NamedTuple):
    """The order of the rows of one table of a page."""

    table: int  # its number among the tables of the page, from 0
    column: int  # from 0
    descending: bool

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{f'{self.table}.' if self.table else ''}{self.column}"


def parse_order(text: str) -> TableOrder | None:
    """Parse an order as addresses have it: ``3`` or ``-1.3``. Return None if there is none, or the text is none."""
    match = _SORT.fullmatch(text)
    return TableOrder(int(match[2] or 0), int(match[3]), bool(match[1])) if match else None


def build_sort_link(path: str, query: Query, value: str, direction: str) -> SortLink:
    """Build the link of a heading that sorts by ``value``, which keeps all of the address but the page of the list."""
    kept = [(name, text) for name, text in query if name not in (SORT, "page") and text]
    return SortLink(f"{path}?{urlencode([*kept, (SORT, value)], safe='/@()=,.:')}", direction)


class TableView(NamedTuple):
    """What an address says about the tables of its page."""

    path: str
    query: Query

    @property
    def order(self) -> TableOrder | None:
        """The order of one of the tables, or None if the address has none."""
        return parse_order(dict(self.query).get(SORT, ""))

    @property
    def find(self) -> str:
        """The text that rows must contain, or "" for all rows."""
        return dict(self.query).get(FIND, "").strip()[:MAX_FIND]

    def arrange(self, tables: Iterable[Table]) -> list[Table]:
        """Return the tables of a page with the rows that the address asks for, and with headings that sort them."""
        return [self._arrange_table(number, table) for number, table in enumerate(tables)]

    def _arrange_table(self, number: int, table: Table) -> Table:
        if table.columns[:1] and table.columns[0].heading == "property":
            return table
        order = self.order if self.order and self.order.table == number else None
        rows = select_rows(table, self.find)
        if order is not None and order.column < len(table.columns):
            rows = sort_rows(rows, order.column, order.descending)
        columns = []
        for index, column in enumerate(table.columns):
            texts = [row[index] for row in rows]
            sorted_here = order is not None and order.column == index
            descending = not order.descending if sorted_here and order else column.right_aligned
            direction = "" if not (sorted_here and order) else "descending" if order.descending else "ascending"
            link = build_sort_link(self.path, self.query, str(TableOrder(number, index, descending)), direction)
            has_order = column.heading and len(table.text_rows) > 1
            columns.append(column._replace(texts=texts, sort=link if has_order else None))
        return replace(table, columns=columns)


def select_rows(table: Table, find: str) -> list[tuple[Cell, ...]]:
    """Return the rows of a table of which a cell contains ``find``, whatever the case of its letters."""
    wanted = find.casefold()
    return [row for row in table.cell_rows if not wanted or any(wanted in _read_text(cell).casefold() for cell in row)]


def sort_rows(rows: Sequence[tuple[Cell, ...]], column: int, descending: bool) -> list[tuple[Cell, ...]]:
    """Sort rows by a column: by number if all of its values begin with one, otherwise alphabetically.

    Rows without a value are the last ones in either direction.
    """
    texts = [_read_text(row[column]) for row in rows]
    numbers = [parse_leading_number(text) for text in texts]
    valued = [index for index, text in enumerate(texts) if re.search(r"\w|∞|\?", text)]
    are_numbers = all(numbers[index] is not None for index in valued)
    keys: Sequence[Any] = numbers if are_numbers else [text.casefold() for text in texts]
    ordered = sorted(valued, key=lambda index: keys[index], reverse=descending)
    return [rows[index] for index in (*ordered, *sorted(set(range(len(rows))) - {*valued}))]


def parse_leading_number(text: str) -> float | None:
    """Parse the number with which a text begins, such as 1,234 in ``1,234 of 2,000``; None if there is none."""
    match = _NUMBER.match(text.strip())
    if not match:
        return None
    size = math.inf if match[2] == "∞" else float(match[2].replace(",", ""))
    return -size if match[1] in ("-", MINUS) else size


def _read_text(cell: Cell) -> str:
    return ", ".join([*(part.text for part in cell.parts), *([str(cell)] if str(cell) else [])])


def replace_tables(parts: Sequence[PartT], change: Callable[[list[Table]], list[Table]]) -> list[PartT]:
    """Return the parts of a page, with the tables that ``change`` returns for all their tables."""
    tables = [table for part in parts for table in list_tables(part)]
    changed = iter(change(tables))
    return [_replace_tables_of_part(part, [next(changed) for _ in list_tables(part)]) for part in parts]


def list_tables(part: object) -> list[Table]:
    """List the tables of a part of a page, in the order in which the page shows them."""
    if isinstance(part, Table):
        return [part]
    if not isinstance(part, Result):
        return []
    return [table for table in (part.table, *part.others, part.numbers) if table is not None]


def _replace_tables_of_part(part: PartT, tables: list[Table]) -> PartT:
    if isinstance(part, Table):
        return tables[0]  # type: ignore[return-value]
    if not isinstance(part, Result) or not tables:
        return part
    first = tables.pop(0) if part.table is not None else None
    numbers = tables.pop() if part.numbers is not None else None
    return replace(part, table=first, others=tuple(tables), numbers=numbers)
