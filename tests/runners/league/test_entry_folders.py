"""Each entry has a folder of its own: it sees no other's files, and uses no other's modules."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from quarto.errors import RequestError
from runners.hosting.sandbox import find_sandbox_obstacle
from runners.league.entries import build_entry_spec
from runners.league.entry_folders import check_visible_folder
from runners.league.league_file import ENTRIES_FOLDER
from runners.league.playing import LeaguePlayOptions, play_missing_games
from runners.league.standings import open_league_results
from tests.runners.league.leagues import QUICK, opened, write_league, write_own_agent

PLAYER = "class Player:\n    def choose(self, position, rng):\n        return position.free[0], position.available[0]\n"
SPY = """
from pathlib import Path

OTHER = Path(__file__).parents[1] / "league_first" / "league_first.py"

class Player:
    def choose(self, position, rng):
        raise RuntimeError(f"the other entry is {'visible' if OTHER.exists() else 'hidden'}")
"""
TWO = ("name: ann, agent: ann", "name: bob, agent: bob")


def list_errors(folder: Path) -> dict[str, str]:
    errors = {}
    with opened(folder) as league:
        for entry in league.entries:
            try:
                build_entry_spec(league, entry, "process")
            except RequestError as error:
                errors[entry.name] = str(error)
    return errors


@pytest.mark.slow  # a process starts for each turn
@pytest.mark.skipif(bool(find_sandbox_obstacle()), reason="no sandbox here")
@pytest.mark.parametrize(("isolation", "text"), [("sandbox", "hidden"), ("process", "visible")])
def test_a_sandboxed_entry_cannot_read_the_file_of_another(tmp_path: Path, isolation: str, text: str) -> None:
    folder = write_league(tmp_path, "name: spy, agent: spy", "name: a, agent: random", settings=QUICK.replace("4", "2"))
    write_own_agent(folder, "spy", SPY)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)  # whoever replaces root could read it, if it were there
    with opened(folder) as league:
        play_missing_games(league, LeaguePlayOptions(isolation), threading.Event())
    with open_league_results(folder) as results:
        assert f"raised RuntimeError: the other entry is {text}" in results.describe_entry("spy")


def test_entries_with_modules_of_the_same_name_are_told_to_rename_one(tmp_path: Path) -> None:
    folder = write_league(tmp_path, *TWO)
    for name in ("ann", "bob"):
        write_own_agent(folder, name, f"import helpers\n{PLAYER}")
        (folder / "entries" / name / "helpers.py").write_text(f"NAME = '{name}'\n")
    entries = folder / "entries"
    expected = f"module 'helpers' is in {entries / 'bob'} and in {entries / 'ann'}: rename one, because Python finds"
    assert {name: error[: len(expected)] for name, error in list_errors(folder).items()} == {"bob": expected}
    (entries / "bob" / "helpers.py").rename(entries / "bob" / "helpers_of_bob.py")
    assert "it imports 'helpers' from" in list_errors(folder)["bob"]
    (entries / "bob" / "bob.py").write_text(f"import helpers_of_bob\n{PLAYER}")
    assert list_errors(folder) == {}


def test_two_agents_of_one_name_are_told_to_rename_one(tmp_path: Path) -> None:
    folder = write_league(tmp_path, *TWO)
    for name in ("ann", "bob"):
        write_own_agent(folder, name, PLAYER)
    yaml = folder / "entries" / "ann" / "agent" / "ann.yaml"
    (folder / "entries" / "bob" / "agent" / "ann.yaml").write_text(yaml.read_text())
    assert list_errors(folder).keys() == {"ann"}
    assert f"agent 'ann' is in {folder / 'entries' / 'ann'} and in" in list_errors(folder)["ann"]


@pytest.mark.parametrize("command", ["python3 entries/engine.py", "entries/engine.py", "python3 engine.py --x"])
def test_a_sandboxed_engine_beside_other_entries_is_refused(tmp_path: Path, command: str) -> None:
    folder = write_league(tmp_path, f"name: e, agent: engine, command: {command}", "name: a, agent: random")
    for path in (folder, folder / "entries"):
        (path / "engine.py").write_text("#!/usr/bin/env python3\n")
        (path / "engine.py").chmod(0o755)
    with opened(folder) as league:
        with pytest.raises(RequestError, match=r"command: .* move its files to a folder of its own, entries/NAME"):
            build_entry_spec(league, league.entries[0], "sandbox")
        build_entry_spec(league, league.entries[0], "process")


def test_a_folder_of_its_own_is_not_refused(tmp_path: Path) -> None:
    path = tmp_path / ENTRIES_FOLDER / "bob" / "engine.py"
    path.parent.mkdir(parents=True)
    path.write_text("")
    for value in (str(path), f"/usr/bin/python3 {path}", str(path.parent), None, ""):
        check_visible_folder(tmp_path, "command", value)
