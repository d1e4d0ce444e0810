"""Ctrl-C and ``kill -9``: the same command ends up with the same policy, bit for bit."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from analytics.policies import policy_store
from analytics.store import policy_cards
from analytics.store.archive import Archive
from analytics.upkeep.garbage import unneeded_files
from analytics.verify.archive import verify
from tests.runners.conftest import Qarena
from tests.runners.experiments import resuming, start, wait_for

GAMES = 24_000
ARGUMENTS = (
    *("train", "trainer=q_placement", f"trainer.games={GAMES}", "policy.name=mine", "seed=3"),
    *("archive.root=games here", "archive.shard_games=4096", "archive.shard_seconds=0.05"),
)
DEADLINE = 120  # seconds that nothing here takes


@pytest.fixture
def expected(tmp_path: Path, qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> str:
    """The knowledge of the training that nobody interrupts."""
    folder = tmp_path / "uninterrupted"
    folder.mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(folder)
        assert qarena(*ARGUMENTS).code == 0
    return knowledge(folder)


def knowledge(folder: Path) -> str:
    """The policy's content, after a check that the archive is sound."""
    archive = Archive.open(folder / "games here")
    assert verify(archive).problems == []
    assert sum(archive.games_held(run_id) for run_id in archive.run_ids()) == GAMES
    return policy_store.find(archive, "mine").knowledge


def files_of_games(folder: Path) -> int:
    return len(list(folder.glob("games here/games/*/*.parquet")))


@pytest.mark.slow
def test_after_kill_a_training_goes_on_from_its_games(tmp_path: Path, qarena: Qarena, expected: str) -> None:
    with start(tmp_path, *ARGUMENTS) as process:
        wait_for(process, lambda: files_of_games(tmp_path) >= 2)
        process.kill()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGKILL
    archive = Archive.open(tmp_path / "games here")
    assert verify(archive).problems == []
    assert policy_cards.cards(archive) == []
    done = qarena(*ARGUMENTS)
    assert done.code == 0, done.err
    played = int(done.out.splitlines()[1].partition(" games")[0].replace(",", ""))
    assert 0 < played < GAMES
    assert knowledge(tmp_path) == expected


@pytest.mark.slow
def test_ctrl_c_prints_the_command_that_goes_on(tmp_path: Path, qarena: Qarena, expected: str) -> None:
    with start(tmp_path, *ARGUMENTS) as process:
        wait_for(process, lambda: files_of_games(tmp_path) >= 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    kept = re.match(
        r"Learned from ([\d,]+) games so far; \1 games were played now\. They are in .*; the policy is stored once all",
        out,
    )
    assert kept
    assert 0 < int(kept[1].replace(",", "")) < GAMES
    archive = Archive.open(tmp_path / "games here")
    assert policy_cards.cards(archive) == []
    assert unneeded_files(archive) == []
    program, *arguments = resuming(err)
    assert (program, *arguments) == ("qarena", *ARGUMENTS)
    done = qarena(*arguments)
    assert done.code == 0, done.err
    assert knowledge(tmp_path) == expected
