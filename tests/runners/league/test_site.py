"""The table and the site of a league: the numbers of the archive, pages that hold together, and nothing unescaped."""

from __future__ import annotations

import csv
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest

import runners
from analytics import open_archive
from quarto.errors import RequestError
from runners.library import leagues
from tests.runners.conftest import Qarena
from tests.runners.league.leagues import HERE, opened, play, write_league

VOID = {"meta", "input", "wbr"}
SETTINGS = "title: '<script>alert(2)</script> & co'\ngames: 20\nisolation: process\n"
ENTRIES = (
    "name: ann, agent: rule_based",
    "name: Zoë, agent: semi_random",
    f"name: hot, agent: league_hot, {HERE}",
    f"name: lost, agent: league_lost, {HERE}",
    "name: carl, agent: random",
)


class Page(HTMLParser):
    """A page: every element must be closed where it was opened, and every id must be the only one of its name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.ids, self.tags = path, list[str](), list[str](), list[str]()
        self._open = list[str]()
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self._open == []
        assert len({*self.ids}) == len(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert len(attributes) == len(attrs)
        assert not any(name.startswith("on") for name in attributes)
        self.tags.append(tag)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes[name] or "" for name in ("href", "src") if name in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.fixture(scope="module")
def league(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play a league in which one entry raises and one does not import, and judge its games."""
    folder = write_league(tmp_path_factory.mktemp("league") / "course", *ENTRIES, settings=SETTINGS)
    runners.play_league(folder, threads=1, progress=False)
    return folder


@pytest.fixture(scope="module")
def site(league: Path) -> Path:
    folder = league.parent / "site"
    runners.publish_league(league, folder)
    return folder


def test_the_pages_hold_together(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert {path.relative_to(site).as_posix() for path in pages} == {
        "index.html",
        *(f"players/{name}.html" for name in ("ann", "Zoë", "hot", "lost", "carl")),
    }
    for page in pages.values():
        assert "script" not in page.tags
        for link in page.links:
            path, _, anchor = unquote(link).partition("#")
            target = (page.path.parent / path).resolve() if path else page.path
            assert target.is_file(), link
            assert not anchor or anchor in pages[target].ids


def test_the_page_of_an_entry_links_to_its_opponents_the_best_first(league: Path, site: Path) -> None:
    standings = runners.rank_league(league).frame.filter(pl.col("games") > 0)
    links = [unquote(link) for link in Page(site / "players/ann.html").links if not link.startswith("#")]  # no symbols
    assert links == ["../index.html", *(f"{name}.html" for name in standings["entry"] if name != "ann")]


def test_texts_of_strangers_are_escaped(site: Path) -> None:
    index, hot = ((site / name).read_text(encoding="utf-8") for name in ("index.html", "players/hot.html"))
    assert "&lt;script&gt;alert(2)&lt;/script&gt; &amp; co" in index
    for page in (index, hot):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<script" not in page
        assert "\x1b" not in page


def test_a_page_has_boards_of_mistakes_openings_and_games(site: Path) -> None:
    page = (site / "players/ann.html").read_text(encoding="utf-8")
    for text in ("Ply ", " became a ", "Score ", "against ", "<svg"):
        assert text in page
    assert "cannot play" in (site / "players/lost.html").read_text(encoding="utf-8")


def test_a_sample_game_can_be_stepped_through_without_a_script(site: Path) -> None:
    page = (site / "players/ann.html").read_text(encoding="utf-8")
    games = [text.partition("</details>")[0] for text in page.split('<div class="stepper"')[1:]]
    assert len(games) >= 2
    for number, game in enumerate(games):
        moves = game.partition("<p><code>")[2].partition("</code>")[0].split()
        assert 2 <= len(moves) <= 16
        assert [text.partition("</label>")[0].rpartition(">")[2] for text in game.split("<label")[1:]] == moves
        assert game.count(f'<input type="radio" name="game{number}" ') == game.count("<figure") == len(moves)
        assert game.count(" checked>") == 1
        hands = [text.partition("</text>")[0].partition("in hand: ")[2] for text in game.split("<text")[1:]]
        assert hands == [*(move[0] for move in moves[1:]), ""]  # the piece that is placed next
    for ply in range(1, 17):
        assert f".stepper > input:nth-of-type({ply}):checked ~ .boards > figure:not(:nth-of-type({ply}))" in page


def test_the_crosstable_begins_with_the_opponents(site: Path) -> None:
    crosstable = (site / "index.html").read_text(encoding="utf-8").partition('id="crosstable"')[2].partition("</tr>")[0]
    headings = [text.partition("</th>")[0].rpartition(">")[2] for text in crosstable.split("<th ")[1:]]
    assert headings[:2] == ["entry", "score"]
    assert headings[-3:] == ["win", "draw", "loss"]
    assert len(headings) == 2 + 4 + 3


def test_the_data_are_those_of_the_table(league: Path, site: Path) -> None:
    standings = runners.rank_league(league).frame
    assert pl.read_parquet(site / "data/standings.parquet").equals(standings)
    assert pl.read_parquet(site / "data/games.parquet").height == standings["games"].sum() // 2 == 120
    assert pl.read_parquet(site / "data/matches.parquet")["run_id"].n_unique() == 6
    with (site / "data/standings.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["entry"] for row in csv.DictReader(file)] == standings["entry"].to_list()


def test_the_table_shows_the_numbers_of_the_archive(league: Path) -> None:
    standings = runners.rank_league(league).frame
    with open_archive(league / "archive") as archive:
        ratings = archive.ratings().frame.select("agent", "elo", "low", "high")
        regrets = archive.mistakes(positions=0).frame.filter(pl.col("ply").is_null())
        crosstable = archive.crosstable().frame
    elos = standings.filter(pl.col("elo").is_not_null()).select("entry", "elo", "elo_low", "elo_high")
    assert elos.rows() == ratings.rows()
    assert standings["games"].sum() == 2 * crosstable["games"].sum()
    gifts = dict(regrets.filter(kind="gift").select("agent", "regret").iter_rows())
    assert dict(standings.drop_nulls("gift_regret").select("entry", "gift_regret").iter_rows()) == gifts
    assert standings.filter(pl.col("games") > 0, pl.col("entry") != "hot")["milliseconds"].null_count() == 0


def test_a_site_replaces_an_earlier_one_and_nothing_else(tmp_path: Path) -> None:
    folder, site = write_league(tmp_path / "league", *ENTRIES[:2]), tmp_path / "site"
    play(folder)
    runners.publish_league(folder, site)
    (site / "own.txt").write_text("mine")
    write_league(folder, ENTRIES[0], ENTRIES[4])
    runners.publish_league(folder, site)
    assert {path.name for path in (site / "players").iterdir()} == {"ann.html", "carl.html"}
    assert (site / "own.txt").read_text() == "mine"
    with pytest.raises(RequestError, match="has files that are no site of a league"):
        runners.publish_league(folder, folder)
    with pytest.raises(RequestError, match="inside archive"):
        runners.publish_league(folder, folder / "archive" / "site")


def test_from_a_new_league_to_its_page(qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert qarena("league", "new", "course").code == 0
    text = (tmp_path / "course/league.yaml").read_text()
    short = text.replace("games: 100 ", "games: 2 ").replace("isolation: sandbox", "isolation: process")
    short = short.replace("agent: sample_player}", f"agent: sample_player, {HERE}}}")
    assert short != text
    (tmp_path / "course/league.yaml").write_text(short)
    assert "exists already and is not empty" in qarena("league", "new", "course").refusal
    checked = qarena("league", "check", "course", "--seconds", "30")
    assert (checked.code, checked.out.count("ok ")) == (0, 3)
    played = qarena("league", "play", "course", "--threads", "1")
    assert (played.code, played.out) == (0, "6 games played in 3 matches of 3.\n")
    assert qarena("league", "play", "course").out == "Nothing to play: 3 matches have their games.\n"
    table = qarena("league", "table", "course", "--format", "csv")
    assert table.code == 0
    assert {row["entry"] for row in csv.DictReader(table.out.splitlines())} == {"random", "rule_based", "sample"}
    published = qarena("league", "page", "course", "--output", "site")
    assert (published.code, published.out) == (0, "10 files, of which the first page is site/index.html\n")


def test_a_league_without_games_has_a_table_that_says_so(tmp_path: Path) -> None:
    folder = write_league(tmp_path, f"name: one, agent: league_lost, {HERE}", f"name: two, agent: league_lost, {HERE}")
    play(folder)
    result = leagues.rank_league(folder)
    assert result.frame["games"].to_list() == [0, 0]
    assert "no games yet: 'qarena league play' plays them" in result.warnings
    runners.publish_league(folder, tmp_path / "site")
    Page(tmp_path / "site" / "index.html")
    with opened(folder) as league:
        assert league.entries_folder == folder / "entries"
