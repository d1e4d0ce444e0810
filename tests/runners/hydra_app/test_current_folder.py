"""`hydra.job.chdir=true`: tasks run in their output folders, and paths mean what they meant before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analytics.store.archive import Archive
from analytics.verify.archive import verify
from tests.marks import seldom
from tests.runners.conftest import Qarena

READER = """
import os
from pathlib import Path

class Reader:
    def __init__(self, table):
        self.table = Path(table).read_text()

    def choose(self, position, rng):
        Path("left_by_reader.txt").write_text(os.getcwd())
        return position.free[0], (*position.available, -1)[0]
"""
MATCH = ("agent@a=reader", "agent@b=random", "progress=false", "--config-dir", "conf", "archive.root=here/games")
COMMANDS = {
    "run": ("run", *MATCH, "games=4"),
    "sweep": ("sweep", *MATCH, "games=2,4"),
    "sprt": ("sprt", *MATCH, "games=8", "elo0=0", "elo1=500"),
    "train": (
        *("train", "trainer=q_table", "trainer.games=20", "archive.root=here/games", "--config-dir", "conf"),
        *("trainer.opponent={agent:reader,table:table.txt}", "policy.name=mine", "progress=false"),
    ),
}


@pytest.fixture
def typed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands are typed, with an agent of its own that reads a file and writes one."""
    (tmp_path / "conf/agent").mkdir(parents=True)
    (tmp_path / "conf/agent/reader.yaml").write_text("_target_: folder_reader.Reader\ntable: table.txt\n")
    (tmp_path / "table.txt").write_text("1")
    (tmp_path / "code").mkdir()
    (tmp_path / "code/folder_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setenv("QARENA_TABLEBASE", "bases")
    return tmp_path


@pytest.mark.parametrize("name", ["run", *seldom("train", "sweep", "sprt")])
def test_games_are_in_the_archive_that_was_named(name: str, typed_in: Path, qarena: Qarena) -> None:
    found = qarena(*COMMANDS[name], "hydra.job.chdir=true")
    assert found.code in (0, 3)  # sprt: undecided
    assert Path.cwd() == typed_in
    assert [path.parent for path in typed_in.rglob("archive.json")] == [typed_in / "here/games"]
    archive = Archive.open(typed_in / "here/games")
    assert all(archive.ranges(run_id).units for run_id in archive.run_ids())
    assert verify(archive).problems == []
    written = list(typed_in.rglob("left_by_reader.txt"))
    assert written
    assert all(path.is_relative_to(typed_in / ("multirun" if name == "sweep" else "outputs")) for path in written)
    assert all(path.read_text() == str(path.parent) for path in written)
    assert os.environ["QARENA_TABLEBASE"] == str(typed_in / "bases")
    again = qarena(*COMMANDS[name])  # in the current folder: the same run
    assert again.code == found.code
    assert len(archive.recorded()) == len(set(archive.run_ids()))
    assert "Nothing to play" in again.out or name == "sweep"


def test_what_is_printed_names_the_archive_from_anywhere(typed_in: Path, qarena: Qarena) -> None:
    assert f"--archive {typed_in}/here/games" in qarena(*COMMANDS["run"], "hydra.job.chdir=true").out
    assert "--archive here/games" in qarena(*COMMANDS["run"]).out
