"""Ctrl-C at any moment: what was committed stays, and the same command ends up with the same rows."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from analytics import open_archive
from analytics.store.archive import Archive
from analytics.verify.archive import verify
from tests.runners.conftest import Qarena
from tests.runners.experiments import SLEEPY, assert_same_rows, resuming, rows, start, wait_for

ARGUMENTS = (
    *("run", "--config-dir", "own folder", "agent@a=sleepy", "opening_plies=2", "games=200"),
    *("archive.root=games here", "archive.shard_games=20", "archive.shard_seconds=0.2", "threads=2"),
)
Rows = Mapping[str, pl.DataFrame]
DEADLINE = 60  # seconds that nothing here takes


def furnish(folder: Path) -> Path:
    """The player's module and yaml, where the command is typed; returns the module's folder."""
    (folder / "own folder/agent").mkdir(parents=True)
    (folder / "own folder/agent/sleepy.yaml").write_text("_target_: sleepy_player.Sleepy\n")
    (folder / "own folder/sleepy_player.py").write_text(SLEEPY)
    return folder / "own folder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is typed."""
    monkeypatch.syspath_prepend(furnish(tmp_path))
    return tmp_path


@pytest.fixture
def expected(folder: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """The rows of the command that nobody interrupts."""
    with monkeypatch.context() as elsewhere:
        furnish(folder / "uninterrupted")
        elsewhere.chdir(folder / "uninterrupted")
        assert qarena(*ARGUMENTS).code == 0
    found = rows(folder / "uninterrupted/games here")
    assert len(found["games"]) == 200
    return found


def start_slow(folder: Path, pause: float) -> subprocess.Popen[str]:
    """The command in a process of its own, slowed down."""
    return start(folder, *ARGUMENTS, PYTHONPATH=str(folder / "own folder"), PAUSE=str(pause))


def files(folder: Path) -> int:
    """The number of ranges that count, unless they were joined meanwhile."""
    return len(list(folder.glob("games here/games/*/*.parquet")))


def check_rows(folder: Path, expected: Rows) -> None:
    """The archive holds what it would hold without interruption."""
    assert_same_rows(rows(folder / "games here"), expected)
    assert verify(Archive.open(folder / "games here")).problems == []


def test_ctrl_c_keeps_what_is_in_flight_and_prints_the_command_that_resumes(
    folder: Path, qarena: Qarena, expected: Rows
) -> None:
    with start_slow(folder, pause=0.002) as process:
        wait_for(process, lambda: files(folder) >= 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "Ask the archive" not in out
    kept = re.search(r"holds ([\d,]+) games", out)
    assert kept is not None
    with open_archive(folder / "games here") as archive:
        assert archive.sql("SELECT status, games FROM runs").rows() == [("interrupted", int(kept[1]))]
    assert 4 <= int(kept[1]) < 200
    assert verify(Archive.open(folder / "games here")).problems == []

    program, *arguments = resuming(err)
    assert (program, *arguments) == ("qarena", *ARGUMENTS)
    done = qarena(*arguments)
    assert done.code == 0
    assert f"{200 - int(kept[1])} games in" in done.out
    check_rows(folder, expected)


@pytest.mark.slow
def test_ctrl_c_held_down_until_the_end_does_not_change_the_exit_code(folder: Path, qarena: Qarena) -> None:
    with start_slow(folder, pause=0.002) as process:
        wait_for(process, lambda: files(folder) >= 1)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert verify(Archive.open(folder / "games here")).problems == []
