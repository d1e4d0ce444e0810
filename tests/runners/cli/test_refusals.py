"""A wrong request costs one line that says why, and changes nothing: the table of all commands."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.runners.conftest import Qarena

TABLE = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
ROWS = [line.split("  |  ") for line in TABLE.splitlines() if line and not line.startswith("# ")]

FILES = {
    "league/league.yaml": "games: 5\nentries: [random, mcts]\n",
    "twins/league.yaml": "entries: [random, {name: Random, agent: mcts}]\n",
    "others/league.yaml": "entries: [random, {name: ann, agent: polito, foldr: ann}]\n",
    "unplayed/league.yaml": "entries: [random, mcts]\n",
    "file": "",
    "folder/letter": "",
    "own/agent/mine.yaml": "_target_: agents.dumb.Dumb\nfaithful: false\n",
    "own/agent/by_game.yaml": "_target_: own_players.ByGame\nluck: 3\n",
    "own/agent/no_class.yaml": "luck: 3\n",
    "own/agent/no_yaml.yaml": "luck: [3\n_target_: }\n",
    "own/agent/no_interface.yaml": "_target_: pathlib.Path\n",
    "own/agent/no_file.yaml": "_target_: agents.dumb.Dumb\nfiles: [nowhere.bin]\n",
    "own/agent/no_list.yaml": "_target_: agents.dumb.Dumb\nfiles: file\n",
    "own/agent/no_path.yaml": "_target_: agents.dumb.Dumb\nfiles: [3]\n",
    "own/agent/file_above.yaml": "_target_: agents.dumb.Dumb\nfiles: [../file]\n",
    "own/agent/file_elsewhere.yaml": "_target_: agents.dumb.Dumb\nfiles: [/etc/hosts]\n",
    "own/experiment/loop.yaml": "# @package _global_\ngames: ${seed}\nseed: ${games}\n",
    "own/experiment/other.yaml": "# @package _global_\ngamse: 20\n",
}


@pytest.mark.parametrize(("typed", "text"), ROWS, ids=[typed for typed, _ in ROWS])
def test_a_wrong_request_is_one_line_and_changes_nothing(
    typed: str, text: str, qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QARENA_TABLEBASE", str(tmp_path / "home"))
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    before = {path: path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")}
    assert text in qarena(*shlex.split(typed)).refusal
    assert {path: path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")} == before
