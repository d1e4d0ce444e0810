"""The page about public players is written from the site of their league, and its lists agree with each other."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

import runners
from runners.league.league_file import read_league
from tests.paths import ROOT
from tests.runners.league.leagues import play, write_league

FOLDER = ROOT / "docs" / "league_of_public_players"


def load_league_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("league_page", ROOT / "docs" / "league_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def league_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script, for which ``ga2`` is the only public player."""
    module = load_league_page()
    players = tmp_path / "players.csv"
    players.write_text("entry,repository,language,licence,joined,published\nga2,a/b,C,,unchanged,99\n")
    monkeypatch.setattr(module, "PLAYERS", players)
    return module


def test_the_page_has_the_standings_of_the_site_and_what_the_list_of_players_says(
    league_page: ModuleType, tmp_path: Path
) -> None:
    slow = "agent: ga2, meets: anchors, games: 2"
    settings = "games: 4\nregret: false\nanchors: [random]\n"
    league = write_league(tmp_path / "league", "agent: random", "agent: dumb", slow, settings=settings)
    play(league)
    site, page = tmp_path / "site", tmp_path / "page.md"
    runners.publish_league(league, site)
    markers = [
        f"<!-- The table of {name}, by league_page.py. -->\nold\n<!-- The end of the table of {name}. -->\n"
        for name in ("standings", "published", "players")
    ]
    page.write_text("before\n{}between\n{}between\n{}after\n".format(*markers))
    for _ in range(2):  # written again, it is the same
        league_page.main(site, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count("between\n") == 2
    assert "old" not in text
    standings, published, players = (
        [line for line in part.splitlines() if line.startswith("|")] for part in text.split("between\n")
    )
    names = [re.findall("`([a-z0-9]+)`", line)[0] for line in standings[2:]]
    assert names == runners.rank_league(league).frame["entry"].to_list()
    assert {line.count("|") for line in standings} == {10}
    assert sum("[`ga2`](https://github.com/a/b)" in line for line in standings) == 1
    assert re.fullmatch(r"\| `ga2` \| 99 \| (0|50|100)\.0 \| \d+\.\d to \d+\.\d \|", published[2])
    assert len(published) == 3  # not of agents of this program
    assert players[2:] == ["| [a/b](https://github.com/a/b) | `ga2` | C | none | unchanged |"]


def test_a_page_without_a_marker_is_left_alone(league_page: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"lacks a marker: .* The table of players, by"):
        league_page.write_table("before\nafter\n", "players", "table")


def test_the_page_lists_the_public_players() -> None:
    text = (ROOT / "docs" / "league.md").read_text(encoding="utf-8")
    module = load_league_page()
    assert module.write_table(text, "players", module.build_players_table()) == text  # else: give the script again


def test_the_wins_against_random_count_from_both_sides(league_page: ModuleType, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    matches = [("dumb", "random", 4, 1, 2), ("random", "zen", 4, 1, 2), ("dumb", "zen", 4, 3, 1)]
    columns = ("first", "second", "games", "wins", "losses")
    pl.DataFrame(matches, columns, orient="row").write_parquet(data / "matches.parquet")
    pl.DataFrame({"entry": ["zen", "dumb", "random"]}).write_parquet(data / "standings.parquet")
    rows = [(row["entry"], row["against_random"]) for row in league_page.load_rows(tmp_path)]
    assert rows == [("zen", 50.0), ("dumb", 25.0), ("random", None)]


def test_every_public_player_is_described_and_its_repository_is_listed() -> None:
    entries = read_league(FOLDER).entries
    public = {entry.name for entry in entries if entry.settings["agent"] in ("polito", "engine")}
    with (FOLDER / "players.csv").open(encoding="utf-8") as file:
        players = {row["entry"]: row for row in csv.DictReader(file)}
    assert players.keys() == public
    listed = (FOLDER / "repositories.txt").read_text().split()
    assert {f"https://github.com/{row['repository']}" for row in players.values()} == {*listed[::2]}
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in listed[1::2])


def test_the_numbers_on_the_page_are_those_of_the_league() -> None:
    league, text = read_league(FOLDER), (ROOT / "docs" / "league.md").read_text(encoding="utf-8")
    slow = league.list_entries_that_meet_anchors_only()
    assert all(entry.games == 100 for entry in slow)
    assert f"{len(slow)} slow players met `{'`, `'.join(league.anchors[:-1])}` and `{league.anchors[-1]}`" in text
    assert f"The {len(league.entries) - len(slow)} quick players met each other in {league.games} games" in text
