"""The places where an archive is asked for a quantity, as readers: files, terminal, notebook, report, page.

Programs' places give values, people's places texts, by the same keys.
"""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

import analytics
from analytics.report.page import render_report
from quarto.notation import format_cell, format_piece

if TYPE_CHECKING:
    from analytics.report.result import Result
    from tests.runners.conftest import Qarena
    from tests.runners.web.visiting import Visitor

Key = tuple[str, ...]
Row = Mapping[str, Any]
PLACES = ("json", "csv", "terminal", "print", "notebook", "report", "page")


class ShownTable(NamedTuple):
    """A table that people see."""

    headings: list[str]
    rows: list[list[str]]


class Answer(NamedTuple):
    """What a place says of a quantity, by key, and all of its text."""

    values: Mapping[Key, Any]
    text: str


@dataclass(frozen=True)
class Quantity:
    """A quantity, how it is asked everywhere, and how its rows are known from others."""

    name: str
    ask: Callable[[analytics.Archive], Result]
    column: str  # of the frame
    heading: str  # of tables
    form: Callable[[Any], str]  # of a value for people
    keys: Sequence[str]  # columns that tell rows apart
    key_headings: Sequence[str]
    command: Sequence[str] = ()  # none: no command asks this alone
    section: str = ""  # id of its section in the report; none: the report does not have it
    page: str = ""  # its address
    on_page: Callable[[Key], bool] = lambda _key: True  # which rows the page shows, by their key
    rows: Callable[[Row], bool] = lambda _row: True  # of the frame
    shown: Callable[[Key], Key | None] = lambda key: key  # the key of people as programs have it; None: another row
    words: Mapping[str, str] = field(default_factory=dict)  # what places that show others say
    unprinted: str = ""  # what the terminal and ``print`` say in place of a table that they leave out

    def __str__(self) -> str:
        return self.name


# Readers.


class _TableParser(HTMLParser):
    """Collects the tables of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[ShownTable] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append(ShownTable([], []))
        elif tag == "tr" and self.tables:
            self.tables[-1].rows.append([])
        elif tag in ("th", "td") and self.tables:
            self.tables[-1].rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell &= tag not in ("th", "td")

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.tables[-1].rows[-1][-1] += data


def read_html_tables(page: str) -> list[ShownTable]:
    parser = _TableParser()
    parser.feed(page)
    tables = [[[" ".join(cell.split()) for cell in row] for row in table.rows if row] for table in parser.tables]
    return [ShownTable(rows[0], rows[1:]) for rows in tables if rows]


def read_printed_tables(text: str) -> list[ShownTable]:
    tables: list[ShownTable] = []
    for line in text.splitlines():
        if line.startswith("┃"):
            tables.append(ShownTable([cell.strip() for cell in line.strip("┃").split("┃")], []))
        elif line.startswith("│"):
            tables[-1].rows.append([cell.strip() for cell in line.strip("│").split("│")])
    return tables


def find_values(quantity: Quantity, tables: Sequence[ShownTable], text: str) -> Answer:
    """Read the quantity from the first table that has its headings and rows with its keys."""
    headings_needed = [*quantity.key_headings, quantity.heading]
    for table in tables:
        headings = [*(heading or "rank" for heading in table.headings)]  # the terminal has no room for the word
        if not {*headings_needed} <= {*headings}:
            continue
        places = [headings.index(heading) for heading in headings_needed]
        values = {}
        for row in table.rows:
            *key, value = (row[place] for place in places)
            program_key = quantity.shown(tuple(key))
            if program_key is not None:
                values[program_key] = value
        if values:
            return Answer(values, text)
    raise AssertionError(
        f"{quantity}: no table with {headings_needed} in {[table.headings for table in tables]}: {text[:2000]}"
    )


def find_rows(quantity: Quantity, rows: Sequence[Row], text: str = "") -> Answer:
    """Read the quantity from rows of a program."""
    values = {
        tuple(_format_key(name, row[name]) for name in quantity.keys): row[quantity.column]
        for row in rows
        if quantity.rows(row)
    }
    return Answer(values, text)


def _format_key(name: str, value: Any) -> str:
    if value is None:
        return "·"
    if isinstance(value, int) and name in ("cell", "piece"):
        return format_cell(value) if name == "cell" else format_piece(value)
    return str(value)


class Places:
    """The places where the archive is asked."""

    def __init__(self, root: Path, qarena: Qarena | None = None, visitor: Visitor | None = None) -> None:
        self.root = root
        self.qarena = qarena
        self.visitor = visitor
        self._known: dict[Any, Any] = {}  # quantities of one question are read from one answer

    def _ask_once(self, key: Any, ask: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = ask()
        return self._known[key]

    def run_command(self, *words: str, streams: str = "out err") -> str:
        """Return what a command prints on these streams."""

        def run() -> Any:
            assert self.qarena is not None
            result = self.qarena(*words, "--archive", str(self.root))
            assert result.code == 0, result.err
            return result

        result = self._ask_once(words, run)
        return "".join(getattr(result, stream) for stream in streams.split())

    def ask(self, quantity: Quantity) -> Result:
        """Return Python's answer."""

        def ask() -> Result:
            with analytics.open_archive(self.root) as archive:
                return quantity.ask(archive)

        return self._ask_once(quantity.ask, ask)  # type: ignore[no-any-return]

    def read_python(self, quantity: Quantity) -> Answer:
        return find_rows(quantity, self.ask(quantity).frame.to_dicts())

    def read_json(self, quantity: Quantity) -> Answer:
        return find_rows(quantity, json.loads(self._run_for_programs(quantity, "json")))

    def read_csv(self, quantity: Quantity) -> Answer:
        text = self._run_for_programs(quantity, "csv")
        return find_rows(quantity, pl.read_csv(io.StringIO(text), infer_schema_length=None).to_dicts())

    def _run_for_programs(self, quantity: Quantity, form: str) -> str:
        return self.run_command(*quantity.command, "--format", form, streams="out")

    def read_terminal(self, quantity: Quantity) -> Answer:
        wide = () if quantity.command[0] == "mistakes" else ("--wide",)
        text = self.run_command(*quantity.command, *wide)
        return find_values(quantity, read_printed_tables(text), text)

    def read_print(self, quantity: Quantity) -> Answer:
        text = str(self.ask(quantity))
        return find_values(quantity, read_printed_tables(text), text)

    def read_notebook(self, quantity: Quantity) -> Answer:
        page = self.ask(quantity)._repr_html_()
        return find_values(quantity, read_html_tables(page), read_text(page))

    def read_report(self, quantity: Quantity) -> Answer:
        (section,) = re.findall(rf'<section id="{quantity.section}">.*?</section>', self.render_report(), re.DOTALL)
        return find_values(quantity, read_html_tables(section), read_text(section))

    def render_report(self) -> str:
        """Render the report about all games."""

        def render() -> str:
            with analytics.open_archive(self.root) as archive:
                return render_report(archive)

        return str(self._ask_once("report", render))

    def read_page(self, quantity: Quantity) -> Answer:
        assert self.visitor is not None
        text = self.visit(quantity.page)
        return find_values(quantity, read_html_tables(text), read_text(text))

    def visit(self, address: str) -> str:
        """Return the page at an address."""
        assert self.visitor is not None
        page = self.visitor.ready(address)
        assert page.status == 200, page.text
        return page.text


def read_text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


READERS: Mapping[str, Callable[[Places, Quantity], Answer]] = {
    place: getattr(Places, f"read_{place}") for place in ("python", *PLACES)
}
