"""The contract: a quantity of an archive is the same number in Python, files, the terminal, report, pages, notebooks.

The archive is awkward on purpose. A quantity is a row of ``QUANTITIES``, a place is a reader in ``READERS``: whoever
adds one, adds a row or a reader. People's places are compared as texts, in the unit and form of ``columns.QUANTITIES``.
"""

from __future__ import annotations

import html
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest

import analytics
from analytics.questions.columns import (
    MISSING,
    format_count,
    format_elo,
    format_expected_value,
    format_half_points,
    format_percent,
    format_seconds,
    format_value_error,
)
from analytics.report import style
from analytics.report.page import render_report
from quarto.notation import format_cell, format_piece
from tests.analytics.awkward_archive import write_awkward_archive

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
    rows: Callable[[Row], bool] = lambda _row: True  # of the frame
    shown: Callable[[Key], Key | None] = lambda key: key  # the key of people as programs have it; None: another row
    words: Mapping[str, str] = field(default_factory=dict)  # what places that show others say

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
    """The quantity in the first table that has its headings and rows with its keys."""
    wanted = [*quantity.key_headings, quantity.heading]
    for table in tables:
        headings = [*(heading or "rank" for heading in table.headings)]  # the terminal has no room for the word
        if not {*wanted} <= {*headings}:
            continue
        places = [headings.index(heading) for heading in wanted]
        values = {}
        for row in table.rows:
            *key, value = (row[place] for place in places)
            known = quantity.shown(tuple(key))
            if known is not None:
                values[known] = value
        if values:
            return Answer(values, text)
    raise AssertionError(f"{quantity}: no table with {wanted} in {[table.headings for table in tables]}: {text[:2000]}")


def find_rows(quantity: Quantity, rows: Sequence[Row], text: str = "") -> Answer:
    """The quantity in rows of a program."""
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


def _finite(value: Any) -> Any:
    """JSON has no infinities."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        """What a command prints on these streams."""

        def run() -> Any:
            assert self.qarena is not None
            found = self.qarena(*words, "--archive", str(self.root))
            assert found.code == 0, found.err
            return found

        found = self._ask_once(words, run)
        return "".join(getattr(found, stream) for stream in streams.split())

    def ask(self, quantity: Quantity) -> Result:
        """Python's answer."""

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
        shown = self.ask(quantity)._repr_html_()
        return find_values(quantity, read_html_tables(shown), _read_text(shown))

    def read_report(self, quantity: Quantity) -> Answer:
        def render() -> str:
            with analytics.open_archive(self.root) as archive:
                return render_report(archive)

        report = self._ask_once("report", render)
        (section,) = re.findall(rf'<section id="{quantity.section}">.*?</section>', report, re.DOTALL)
        return find_values(quantity, read_html_tables(section), _read_text(section))

    def read_page(self, quantity: Quantity) -> Answer:
        assert self.visitor is not None
        text = self.visit(quantity.page)
        return find_values(quantity, read_html_tables(text), _read_text(text))

    def visit(self, address: str) -> str:
        """The page at an address."""
        assert self.visitor is not None
        page = self.visitor.ready(address)
        assert page.status == 200, page.text
        return page.text


def _read_text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


READERS: Mapping[str, Callable[[Places, Quantity], Answer]] = {
    place: getattr(Places, f"read_{place}") for place in ("python", *PLACES)
}


# Quantities.


def format_missing(form: Callable[[Any], str], missing: str = MISSING) -> Callable[[Any], str]:
    return lambda value: missing if value is None else form(value)


def _split_agent(key: Key) -> Key:
    """``classic, all agents`` as a row of a frame has it."""
    (both, *rest) = key
    rules, _, agent = both.partition(", ")
    return rules, "" if agent == "all agents" else agent, *rest


CLASSIC = ("--rules", "classic")
PAIRING = Quantity(
    "score",
    lambda archive: archive.crosstable(rules="classic"),
    "score",
    "score",
    format_percent,
    ("first", "second"),
    ("first", "second"),
    ("crosstable", *CLASSIC),
    "crosstable--classic",
    "/browse/results/crosstable?rules=classic",
)
RATING = Quantity(
    "ratings",
    lambda archive: archive.ratings(rules="classic"),
    "elo",
    "Elo",
    format_missing(format_elo, "?"),
    ("agent",),
    ("agent",),
    ("rate", *CLASSIC),
    "ratings--classic",
    "/browse/results/ratings?rules=classic",
)
POSITION = "..../..../..../.... 0"
OPENING = Quantity(
    "share of a placement",
    lambda archive: archive.openings(POSITION),
    "share",
    "share",
    format_percent,
    ("cell",),
    ("cell",),
    ("openings", POSITION, "--by", "placement"),
    page=f"/browse/openings?position={POSITION.replace(' ', '+')}",
)
FIRST_FREE = Quantity(
    "share of a first free gift",
    lambda archive: archive.openings(by="gift", first_free=True, run=find_imposed_run(archive)),
    "share",
    "share",
    format_percent,
    ("position", "gift"),
    ("position", "gift"),
    ("openings", "--by", "gift", "--first-free", "--run", "IMPOSED"),
    page="/browse/openings?by=gift&run=IMPOSED",
    words=dict.fromkeys(
        ("terminal", "print", "notebook", "page"),
        "ach game counts at its first free decision: ply 2 in 40 games; the plies before were imposed",
    ),
)
FIRST_PLY = Quantity(
    "share of a first placement",
    lambda archive: archive.first_plies(),
    "share",
    "share, %",
    format_percent,
    ("rules", "agent", "ply", "cell"),
    ("rules, agent", "ply", "cell"),
    section="First-placements".lower(),
    page="/browse/results/placements?rules=classic",
    shown=_split_agent,
)
MISTAKE = Quantity(
    "regret",
    lambda archive: archive.mistakes(),
    "regret",
    "mean regret",
    format_half_points,
    ("agent", "kind"),
    ("agent", "decision"),
    ("mistakes",),
    "mistakes",
    "/browse/results/mistakes?rules=classic",
    rows=lambda row: row["ply"] is None,
)
EVALUATION = Quantity(
    "evaluation",
    lambda archive: archive.evaluations(),
    "value",
    "value",
    format_expected_value,
    ("agent",),
    ("agent",),
    section="evaluations",
    page="/browse/results/evaluations?rules=classic",
    rows=lambda row: row["ply"] is None,
)
LENGTH = Quantity(
    "share of a length",
    lambda archive: archive.lengths(),
    "share",
    "share, %",
    format_percent,
    ("rules", "agent", "plies"),
    ("rules, agent", "plies"),
    section="game-lengths",
    page="/browse/results/lengths?rules=classic",
    rows=lambda row: row["games"] or row["random"],
    shown=_split_agent,
)
CURVE = Quantity(
    "win rate while learning",
    lambda archive: archive.learning_curve(),
    "value",
    "value",
    format_percent,
    ("policy", "series", "step"),
    ("policy", "series", "step"),
    section="learning-curves",
    page="/browse/results/learning?rules=classic",
)
GIFT = replace(
    FIRST_PLY,
    name="share of a first gift",
    ask=lambda archive: archive.first_plies("gift"),
    keys=("rules", "agent", "ply", "piece"),
    key_headings=("rules, agent", "ply", "piece"),
    section="first-gifts",
    page="/browse/results/gifts?rules=classic",
)
BY_PLY = replace(
    MISTAKE,
    name="regret by ply",
    keys=("agent", "kind", "ply"),
    key_headings=("agent", "decision", "ply"),
    rows=lambda row: row["ply"] is not None,
)


def _vary(quantity: Quantity, name: str, column: str, heading: str, form: Callable[[Any], str]) -> Quantity:
    return replace(quantity, name=name, column=column, heading=heading, form=form)


QUANTITIES = (
    PAIRING,
    _vary(PAIRING, "win rate", "win_rate", "win", format_percent),
    _vary(PAIRING, "games of a pairing", "games", "games", format_count),
    RATING,
    _vary(RATING, "rank", "rank", "rank", format_missing(format_count)),
    _vary(RATING, "rated games", "games", "games", format_count),
    OPENING,
    _vary(OPENING, "games of a placement", "games", "games", format_count),
    _vary(OPENING, "score of a placement", "score", "score", format_percent),
    FIRST_FREE,
    _vary(FIRST_FREE, "score of a first free gift", "score", "score", format_percent),
    FIRST_PLY,
    _vary(FIRST_PLY, "games of a first placement", "games", "games", format_count),
    _vary(FIRST_PLY, "score of a first placement", "score", "score, %", format_percent),
    GIFT,
    MISTAKE,
    BY_PLY,
    _vary(MISTAKE, "blunders", "blunders", "blunders, %", format_percent),
    _vary(MISTAKE, "decisions", "decisions", "decisions", format_count),
    EVALUATION,
    _vary(EVALUATION, "turns", "turns", "turns", format_count),
    _vary(EVALUATION, "error of an evaluation", "error", "error", format_value_error),
    _vary(EVALUATION, "seconds of a turn", "seconds", "mean, s", format_seconds),
    LENGTH,
    _vary(LENGTH, "games of a length", "games", "games", format_count),
    CURVE,
)


def find_imposed_run(archive: analytics.Archive) -> str:
    (run_id,) = archive.sql("SELECT run_id FROM runs WHERE opening_plies > 0")["run_id"]
    return str(run_id)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("awkward") / "games"
    write_awkward_archive(root)
    return root


@pytest.fixture(scope="module")
def imposed_run(root: Path) -> str:
    with analytics.open_archive(root) as archive:
        return find_imposed_run(archive)


@pytest.fixture(scope="module")
def known_places(root: Path) -> Iterator[Places]:
    """The places, whose answers are kept for the tests of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "_render_spec", lambda _: "<svg></svg>")  # drawing takes longer than all the rest
        if find_spec("fastapi") is None:
            yield Places(root)
            return
        from tests.runners.web.visiting import visitor

        with visitor(root) as found:
            yield Places(root, visitor=found)


@pytest.fixture
def places(known_places: Places, qarena: Qarena) -> Places:
    known_places.qarena = qarena
    return known_places


def _list_cases() -> Iterator[Any]:
    for quantity in QUANTITIES:
        there = {
            "json": quantity.command,
            "csv": quantity.command,
            "terminal": quantity.command,
            "report": quantity.section,
            "page": quantity.page,
        }
        for place in PLACES:
            if there.get(place, True):
                marks = [pytest.mark.extras] if place == "page" else []
                yield pytest.param(quantity, place, marks=marks, id=f"{quantity.name} in {place}")


@pytest.mark.parametrize(("quantity", "place"), [*_list_cases()])
def test_a_quantity_is_one_number_wherever_it_is_asked(
    quantity: Quantity, place: str, imposed_run: str, places: Places
) -> None:
    command = [word.replace("IMPOSED", imposed_run) for word in quantity.command]
    asked = replace(quantity, command=command, page=quantity.page.replace("IMPOSED", imposed_run))
    expected = places.read_python(asked).values
    assert expected
    found = READERS[place](places, asked)
    if place == "json":
        assert found.values == {key: _finite(value) for key, value in expected.items()}
    elif place == "csv":
        assert found.values == expected
    elif place == "page" and "rules=classic" in asked.page and "rules" in asked.keys:
        assert found.values == {key: asked.form(value) for key, value in expected.items() if key[0] == "classic"}
    else:
        assert found.values == {key: asked.form(value) for key, value in expected.items()}
    assert asked.words.get(place, "") in found.text
