"""Tests of the pages about runs: names, columns, order, short ids, comparisons, tests of strength, damaged files."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

pytest.importorskip("fastapi")

from analytics.questions.columns import MISSING, Cell, Table, number_column, text_column
from analytics.statistics.sprt import Hypotheses
from analytics.store.archive import ArchiveStore, match_run_id
from analytics.store.run_notes import load_note, note_path
from quarto.errors import RequestError
from runners.web.archive.snapshots import SnapshotService
from runners.web.archive.table_views import TableOrder, TableView, parse_leading_number, parse_order
from runners.web.archive_reader import ArchiveService
from runners.web.runs.columns import choose_columns
from runners.web.runs.run_page import parse_test_command
from tests.paths import SAMPLE
from tests.runners.conftest import Qarena
from tests.runners.web.visiting import Visitor, plain, visitor

ROUND_ROBIN, MATCH, OTHER_MATCH = "8d1cb3670fa3", "d2a027fc112c", "a0a7dbeb5972"


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Visitor]:
    """Open a site over a copy of the sample archive, to which tests may write."""
    shutil.copytree(SAMPLE, tmp_path / "sample")
    with visitor(tmp_path / "sample") as opened:
        yield opened


def open_store(guest: Visitor) -> ArchiveStore:
    """Open the archive of a site."""
    return ArchiveStore.open(guest.site.options.archive)


def find_site_snapshots(guest: Visitor) -> SnapshotService:
    """Return the service with the snapshots of a site's archive."""
    return guest.site.get_or_create_service(ArchiveService).snapshots


def list_run_ids(page_text: str) -> list[str]:
    """List the ids of the rows of the list of runs."""
    return re.findall(r'<input type="checkbox" name="run" value="([0-9a-f]{12})"', page_text)


# Names.


def test_run_is_named_on_its_page(guest: Visitor) -> None:
    sent = guest.send(f"/browse/runs/{MATCH}/name", name="<b>first</b> try", note="two\r\nlines & more")
    assert sent.url == f"/browse/runs/{MATCH}"
    assert "&lt;b&gt;first&lt;/b&gt; try" in sent.text
    assert "two\nlines &amp; more" in sent.text
    stored = load_note(open_store(guest), MATCH)
    assert (stored.name, stored.note) == ("<b>first</b> try", "two\nlines & more")
    listed = guest.get("/browse", show="note", text="FIRST")
    assert list_run_ids(listed.text) == [MATCH]
    assert "two lines &amp; more" in listed.text
    assert "&lt;b&gt;first&lt;/b&gt; try" in guest.get("/").text


def test_refused_name_keeps_what_was_typed(guest: Visitor) -> None:
    sent = guest.send(f"/browse/runs/{MATCH}/name", name="x" * 81, note="my note")
    assert (sent.status, sent.line) == (400, f"name '{'x' * 20}'… has 81 characters, and a name has at most 80")
    assert 'rows="3" maxlength="2000">my note</textarea>' in sent.text
    assert guest.client.post(f"/browse/runs/{MATCH}/name", data={"name": "x"}).status_code == 403  # without the token
    assert load_note(open_store(guest), MATCH).name == ""
    assert guest.send("/browse/runs/abc/name", name="x").status == 404


def test_damaged_name_is_left_out_in_words_and_hides_no_run(guest: Visitor) -> None:
    guest.send(f"/browse/runs/{MATCH}/name", name="a name")
    path = Path(note_path(open_store(guest), MATCH))
    path.unlink()  # an overwritten file would not be noticed before something else changes
    path.write_text("{")
    find_site_snapshots(guest).expect_change()
    page = guest.get("/browse")
    assert len(list_run_ids(page.text)) == 5
    assert page.line.startswith("Left out: ")
    assert f"{MATCH}.note.json is damaged" in page.line


# Columns, order and search of the list.


def test_columns_are_chosen_by_address(reader: Visitor) -> None:
    page = reader.get("/browse?show=seed&show=parameter+faithful&sort=seed")
    headings = re.findall(r'<a class="sort"[^>]*>([^<]+)</a>', page.text)
    assert headings == ["run", "agents", "first one&#39;s score, %", "games", "seed", "parameter faithful"]
    assert '<input type="checkbox" name="show" value="seed" checked>' in page.text
    assert 'href="/browse?show=seed&amp;show=parameter+faithful&amp;sort=games"' not in page.text
    assert 'href="/browse?show=seed&amp;show=parameter+faithful&amp;sort=-games"' in page.text


@pytest.mark.parametrize("order", ["games", "-games", "run", "-run", "-begun (UTC)"])
def test_list_is_sorted_by_any_column(reader: Visitor, order: str) -> None:
    run_ids = list_run_ids(reader.get("/browse", sort=order).text)
    archive = ArchiveStore.open(SAMPLE)
    keys = {
        "games": archive.count_games,
        "run": str,
        "begun (UTC)": lambda run_id: archive.load_run(run_id).created,
    }
    values = [keys[order.removeprefix("-")](run_id) for run_id in run_ids]  # type: ignore[operator]
    assert values == sorted(values, reverse=order.startswith("-"))
    assert len(run_ids) == 5


def test_unknown_column_is_refused() -> None:
    with pytest.raises(RequestError, match="column 'sed' does not exist; did you mean 'seed'"):
        choose_columns([], ["sed"])


# Tables of other pages.


def test_heading_sorts_a_table_and_back(reader: Visitor) -> None:
    path = f"/browse/runs/{ROUND_ROBIN}"
    first = re.search(r'href="([^"]+sort=[^"]+)"[^>]*>score</a>', reader.get(path).text)
    assert first
    page = reader.get(first[1].replace("&amp;", "&"))
    assert 'aria-sort="descending"' in page.text
    scores = [float(text) for text in re.findall(r"<td class=\"number\">(\d\d\.\d\d)</td>", page.text)[::1]]
    assert scores
    second = re.search(r'aria-sort="descending"><a class="sort" data-quick href="([^"]+)"', page.text)
    assert second
    assert 'aria-sort="ascending"' in reader.get(second[1].replace("&amp;", "&")).text


def test_rows_are_searched(reader: Visitor) -> None:
    page = reader.get("/browse/results/ratings", rules="classic", find="dumb")
    assert 'name="find" value="dumb"' in page.text
    assert "<tbody>" in page.text
    rows = re.findall(r"<tr><.*?</tr>", page.text.partition("<tbody>")[2], re.DOTALL)
    assert rows
    assert all("dumb" in row for row in rows), rows
    assert "No row has <code>nobody</code>" in reader.get("/browse/results/ratings?rules=classic&find=nobody").text


def test_rows_are_sorted_by_number_or_alphabetically() -> None:
    table = Table("t", [text_column("agent", ["b", "A", "c", MISSING]), number_column("games", [1000, 20, None, 3])])
    view = TableView("/x", [("run", "a"), ("run", "b"), ("sort", "-1"), ("page", "2")])
    (sorted_table,) = view.arrange([table])
    assert [str(row[0]) for row in sorted_table.cell_rows] == ["b", "A", MISSING, "c"]
    assert [column.sort and column.sort.url for column in sorted_table.columns] == [
        "/x?run=a&run=b&sort=0",
        "/x?run=a&run=b&sort=1",
    ]
    (by_name,) = view._replace(query=[("sort", "0")]).arrange([table])
    assert [str(row[0]) for row in by_name.cell_rows] == ["A", "b", "c", MISSING]
    (found,) = view._replace(query=[("find", "1,0")]).arrange([table])
    assert found.cell_rows == [(Cell("b"), Cell("1,000"))]


def test_orders_and_numbers_are_parsed() -> None:
    assert (parse_order("-1.2"), parse_order("3")) == (TableOrder(1, 2, True), TableOrder(0, 3, False))
    assert [parse_order(text) for text in ("", "x", "1.2.3", "9999", "--1")] == [None] * 5
    assert str(TableOrder(1, 2, True)) == "-1.2"
    texts = ("1,234 of 2,000", "\N{MINUS SIGN}3.5 to 4", "∞", "+2", "x", "")
    assert [parse_leading_number(text) for text in texts] == [1234, -3.5, float("inf"), 2, None, None]


# Short ids.


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("/browse/runs/8d1cb3", f"/browse/runs/{ROUND_ROBIN}"),
        ("/browse/games/8d1cb3/8", f"/browse/games/{ROUND_ROBIN}/8"),
        ("/browse/games?run=8d&order=longest", f"/browse/games?run={ROUND_ROBIN}&order=longest"),
        ("/browse/results/crosstable?run=8d1cb3", f"/browse/results/crosstable?run={ROUND_ROBIN}"),
        ("/browse/openings?run=8d1cb3", f"/browse/openings?run={ROUND_ROBIN}"),
        ("/browse/compare?run=d2&run=8d", f"/browse/compare?run={MATCH}&run={ROUND_ROBIN}"),
    ],
)
def test_short_id_leads_to_the_whole_one(reader: Visitor, path: str, whole: str) -> None:
    page = reader.get(path)
    assert (page.status, page.url) == (200, whole)


def test_first_digits_of_several_ids_name_them() -> None:
    run_ids = ["abc000000000", "abc111111111", "def000000000"]
    assert [match_run_id(digits, run_ids) for digits in ("abc0", "d", "", "e")] == [run_ids[0], run_ids[2], None, None]
    with pytest.raises(RequestError, match="run 'ab' is one of several: abc000000000, abc111111111"):
        match_run_id("ab", run_ids)


# Comparison.


def test_comparison_shows_what_differs_and_only_shared_pairings(reader: Visitor) -> None:
    page = reader.ready(f"/browse/compare?run={MATCH}&run={OTHER_MATCH}&run={ROUND_ROBIN}")
    words = plain(page.text)
    assert "What differs" in words
    assert "Pairings in common" in words
    assert (
        page.text.index("What differs")
        < page.text.index("Pairings in common")
        < page.text.index("Lengths of the games")
    )
    pairings = page.text[page.text.index("Pairings in common") : page.text.index("Lengths of the games")]
    assert re.findall(r'<th scope="row">(\w+)</th>', pairings) == ["semi_random"]
    assert "Score of semi_random against random along the run" not in words  # one of them is a tournament
    two = plain(reader.ready(f"/browse/compare?run={MATCH}&run={OTHER_MATCH}").text)
    assert "Score of semi_random against random along the run" in two


def test_names_stand_for_runs_in_a_comparison(guest: Visitor) -> None:
    guest.send(f"/browse/runs/{MATCH}/name", name="without openings")
    page = plain(guest.ready(f"/browse/compare?run={MATCH}&run={OTHER_MATCH}").text)
    assert "Run without openings" in page
    assert "without openings, %" in page


def test_long_results_of_a_tournament_are_folded_below_its_crosstable(tmp_path: Path, qarena: Qarena) -> None:
    where = ("--archive", str(tmp_path / "archive"))
    agents = ["random", "dumb", *(f"random(name=r{number})" for number in range(4))]
    assert qarena("run", *agents, "games=2", "progress=false", *where).code == 0
    (run_id,) = ArchiveStore.open(tmp_path / "archive").list_recorded_run_ids()
    folded = (
        '<details id="numbers-results-of-the-first-agent--in--"><summary>Results of the first agent, in %</summary>'
    )
    with visitor(tmp_path / "archive") as guest:
        page = guest.ready(f"/browse/runs/{run_id}")
        sorted_page = guest.ready(f"/browse/runs/{run_id}?sort=-1.3")
    assert folded in page.text
    assert page.text.index("Scores of all agents") < page.text.index(folded)
    assert folded.replace('"><summary>', '" open><summary>') in sorted_page.text  # who sorts its rows wants to see them


# Tests of strength.


def test_run_of_a_test_shows_its_verdict_and_its_path(tmp_path: Path, qarena: Qarena) -> None:
    where = ("--archive", str(tmp_path / "archive"))
    answer = qarena("sprt", "rule_based", "random", "elo1=100", "games=400", "progress=false", *where)
    assert answer.code == 0
    (run_id,) = ArchiveStore.open(tmp_path / "archive").list_recorded_run_ids()
    with visitor(tmp_path / "archive") as guest:
        page = guest.ready(f"/browse/runs/{run_id}")
    words = plain(page.text)
    decision = "rule_based is above random by more than 0 nElo; 100 nElo explain the games better"
    assert f"elo1 is accepted: {decision}" in words
    assert f": {decision}." in answer.out  # the terminal says the same
    assert re.search(r"log-likelihood ratio \d+\.\d\d; the test ends at \N{MINUS SIGN}2\.94 or 2\.94", words)
    assert "accepts elo1" in page.text


@pytest.mark.parametrize(
    ("command", "hypotheses"),
    [
        ("qarena sprt a b elo0=1 elo1=5 alpha=0.1", Hypotheses(1, 5, 0.1)),
        ("qarena run a b elo0=1", None),
        ("qarena sprt a b", Hypotheses()),
        ("qarena sprt 'a", None),
        ("qarena sprt a b elo0=9 elo1=5", None),
        ("qarena sprt a b elo0=x", Hypotheses()),
        ("", None),
    ],
)
def test_hypotheses_of_a_running_test_are_those_of_its_command(command: str, hypotheses: Hypotheses | None) -> None:
    assert parse_test_command(command) == hypotheses


# Damaged files.


def test_each_page_says_in_the_same_words_what_it_leaves_out(guest: Visitor) -> None:
    folder = Path(guest.site.options.archive) / "games" / f"run={MATCH}"
    file = next(folder.iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    os.utime(file, (1, 1))
    lines = set()
    for path in ("/browse/games", "/browse/insights", f"/browse/games?run={MATCH}"):
        page = guest.ready(path)
        assert page.status == 200, (path, page.line)
        lines.add(page.line)
    (line,) = lines
    assert line.startswith("Left out: ")
    assert file.name in line
    assert "The games of these runs cannot be read." in guest.get(f"/browse/games?run={MATCH}").text
    assert guest.ready("/browse/results/crosstable").status == 200  # its tallies are sound: it leaves nothing out


def test_the_first_page_says_what_it_leaves_out(guest: Visitor) -> None:
    guest.ready("/browse")
    assert "Left out" not in guest.ready("/").text
    record_file = Path(open_store(guest).run_record_path(MATCH))
    record_file.unlink()  # an overwritten file would not be noticed before something else changes
    record_file.write_text("{")
    find_site_snapshots(guest).expect_change()
    page = guest.ready("/")
    assert page.line == guest.ready("/browse").line
    assert record_file.name in page.line
    assert f"/browse/runs/{MATCH}" not in page.text


# Progress.


def test_running_run_shows_its_table_and_its_pace_and_loads_again(guest: Visitor) -> None:
    store = open_store(guest)
    store.update_run_and_unit_count(
        ROUND_ROBIN, lambda record: record and structs.replace(record, status="running", games=4000)
    )
    started = store.run_record_path(ROUND_ROBIN)
    os.utime(started, (started_at := time.time() - 100, started_at))
    for file in store.folder("games", ROUND_ROBIN).iterdir():  # type: ignore[attr-defined]
        os.utime(file)
    find_site_snapshots(guest).expect_change()
    page = guest.get(f"/browse/runs/{ROUND_ROBIN}")
    words = plain(page.text)
    assert page.refreshes
    assert "Playing now: 12,000 of 24,000 games by classic rules" in words
    assert re.search(r", 1[12]\d games a second so far", words)
    assert "Scores of all agents against each other" in words
