"""The page about public players is written from the games of both leagues, and its lists agree with each other."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from runners.league.league_file import read_league
from tests.paths import ROOT
from tests.runners.league.leagues import play, write_league

FOLDER = ROOT / "docs" / "league_of_public_players"
SETTINGS = "games: 4\nregret: false\n"


@pytest.fixture(scope="module")
def league_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("league_page", ROOT / "docs" / "league_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_rates_the_games_of_both_leagues_together(league_page: ModuleType, tmp_path: Path) -> None:
    quick = write_league(tmp_path, "agent: random", "agent: dumb", "agent: rule_based", settings=SETTINGS)
    gauntlet = f"{SETTINGS}plan: gauntlet\nanchors: [random]\narchive: ../archive\n"
    slow = write_league(tmp_path / "slow", "agent: random", "agent: dumb", "agent: ga2", settings=gauntlet)
    play(quick)
    assert play(slow).games == 4  # random against dumb was played by the other league
    rows = {row["entry"]: row for row in league_page.load_rows((quick, slow))}
    assert {name: row["games"] for name, row in rows.items()} == {"random": 12, "dumb": 8, "rule_based": 8, "ga2": 4}
    assert rows["random"]["wins"] is None
    assert rows["ga2"]["wins"] in {0, 25, 50, 75, 100}
    page = tmp_path / "page.md"
    page.write_text(f"before\n{league_page.START}old\n{league_page.END}after\n")
    player = {"repository": "a/b", "language": "C", "licence": "", "joined": "unchanged", "published": "99"}
    for _ in range(2):  # written again, it is the same
        league_page.write_table(page, rows.values(), {"ga2": player})
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    (line,) = re.findall(r".*\[a/b\].*", text)
    assert line.count("|") == len(league_page.COLUMNS) + 1
    assert "| C | none | unchanged |" in line
    assert line.endswith("| 99 |")


def test_the_wins_against_random_count_from_both_sides(league_page: ModuleType) -> None:
    class Result:
        games, wins, losses = 4, 1, 2

        def __init__(self, first: str, second: str) -> None:
            self.first, self.second = first, second

    results = [Result("dumb", "random"), Result("random", "zen"), Result("dumb", "zen")]
    assert league_page.measure_wins(results) == {"dumb": 25.0, "zen": 50.0}


def test_every_public_player_is_described_and_its_repository_is_listed() -> None:
    leagues = [read_league(folder) for folder in (FOLDER, FOLDER / "slow")]
    entries = {entry.name: entry for league in leagues for entry in league.entries}
    public = {name for name, entry in entries.items() if entry.settings["agent"] in ("polito", "engine")}
    with (FOLDER / "players.csv").open(encoding="utf-8") as file:
        players = {row["entry"]: row for row in csv.DictReader(file)}
    assert players.keys() == public
    listed = (FOLDER / "repositories.txt").read_text().split()
    assert {f"https://github.com/{row['repository']}" for row in players.values()} == {*listed[::2]}
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in listed[1::2])


def test_the_gauntlet_shares_the_runs_of_its_anchors() -> None:
    quick, slow = (yaml.safe_load((folder / "league.yaml").read_text()) for folder in (FOLDER, FOLDER / "slow"))
    shared = ("rules", "seed", "opening_plies")
    assert [quick[key] for key in shared] == [slow[key] for key in shared]
    assert {*slow["anchors"]} <= {entry for entry in quick["entries"] if isinstance(entry, str)}
