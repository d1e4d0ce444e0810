"""The modules beside a user's yamls are found, after all others, here and in processes that a launcher starts."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from analytics.store.archive import Archive
from runners.arena.config_groups import OWN_FOLDERS, find_own_modules, own_modules
from tests.marks import seldom
from tests.runners.conftest import Qarena

PLAYER = """
class Player:
    def choose(self, position, rng):
        return position.free[0], (*position.available, -1)[0]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with an agent, and with a module named like one of Python's."""
    monkeypatch.delitem(sys.modules, "beside_the_yaml", raising=False)
    for path, text in {
        "beside_the_yaml.py": PLAYER,
        "colorsys.py": "raise SystemExit",
        "agent/beside.yaml": "_target_: beside_the_yaml.Player\n",
    }.items():
        (tmp_path / "own" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / path).write_text(text)
    return tmp_path / "own"


def test_they_come_last_and_for_the_time_of_a_command_only(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.delenv(OWN_FOLDERS, raising=False)  # a server in this process may have set it
    before = [*sys.path]
    with own_modules([own, own]):
        assert sys.path == [*before, str(own)]
        assert own not in Path(str(importlib.import_module("colorsys").__file__)).parents
    assert sys.path == before
    assert OWN_FOLDERS not in os.environ


def test_a_process_that_a_launcher_starts_finds_them_too(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_modules([own]):
        handed_on = os.environ[OWN_FOLDERS]
    monkeypatch.setenv(OWN_FOLDERS, handed_on)  # all that such a process has
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert find_own_modules() == [str(own)]
    assert find_own_modules() == []
    assert sys.path[-1] == str(own)


@pytest.mark.parametrize("flag", ["--config-dir", "-cd"])
def test_commands_play_what_a_yaml_beside_its_module_names(flag: str, own: Path, qarena: Qarena) -> None:
    found = qarena("run", flag, "own", "agents=[beside,random]", "games=2")
    assert (found.code, found.err) == (0, "")


def test_without_the_folder_a_message_says_where_modules_are_looked_for(own: Path, qarena: Qarena) -> None:
    (own / "agent/beside.yaml").write_text("_target_: not_beside_the_yaml.Player\n")
    found = qarena("agents", "check", "beside", "--config-dir", "own")
    assert found.code == 2
    assert "of a module in the folder of --config-dir or on PYTHONPATH" in found.err


READER = """
from pathlib import Path

class Reader:
    def __init__(self, table):
        Path(table).read_text()

    def choose(self, position, rng):
        Path("left_by_reader.txt").touch()
        return position.free[0], (*position.available, -1)[0]
"""
MATCH = ("reader", "random", "progress=false", "--config-dir", "own", "--archive", "here/games")
COMMANDS = {
    "run": ("run", *MATCH, "games=4"),
    "sweep": ("sweep", *MATCH, "games=2,4"),
    "train": (
        *("train", "trainer=q_table", "trainer.games=20", *MATCH[2:]),
        *("trainer.opponent={agent:reader,table:table.txt}", "policy.name=mine"),
    ),
}


@pytest.mark.parametrize("name", ["run", *seldom("train", "sweep")])
def test_paths_are_relative_to_where_the_command_was_typed_also_if_hydra_changes_the_folder(
    name: str, own: Path, tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "agent/reader.yaml").write_text("_target_: folder_reader.Reader\ntable: table.txt\n")
    (own / "folder_reader.py").write_text(READER)
    (tmp_path / "table.txt").touch()
    monkeypatch.setenv("QARENA_TABLEBASE", "bases")
    found = qarena(*COMMANDS[name], "hydra.job.chdir=true")
    assert (found.code, Path.cwd()) == (0, tmp_path), found.err
    assert [path.parent for path in tmp_path.rglob("archive.json")] == [tmp_path / "here/games"]
    archive = Archive.open(tmp_path / "here/games")
    assert all(archive.ranges(run_id).units for run_id in archive.run_ids())
    assert list(tmp_path.rglob("left_by_reader.txt")) == [tmp_path / "left_by_reader.txt"]
    assert os.environ["QARENA_TABLEBASE"] == str(tmp_path / "bases")
    assert name == "train" or "--archive here/games" in found.out
