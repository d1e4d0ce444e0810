"""`qarena archive replay`: a run is played again from its record, and the games are compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import read_games, write_game_tables
from analytics.store.records import CHECKSUM, add_checksum
from quarto.batch import Block, Games
from quarto.notation import format_game
from runners.authoring.new_agent import create_and_describe_agent_files
from tests.runners.conftest import Qarena
from tests.runners.experiments import play

EIGHT = ("agents=[random,rule_based,semi_random]", "games=8", "opening_plies=2")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data/archive"


@pytest.mark.parametrize(
    "overrides",
    [
        EIGHT,
        (
            "agent@a=random",
            "agent@b=mcts",
            "b.iterations=20",
            "b.name=mine",
            "games=5",
            "archive.other_code=new",
            "seats=fixed",
            "rules=torus",
        ),
        (
            "agent@a=oracle",
            "agent@b=random",
            "a.horizon=4",
            "a.below='rule_based(faithful=true)'",
            "games=4",
            "archive.other_code=new",
        ),
    ],
)
def test_a_run_is_the_same_when_it_is_played_again(overrides: tuple[str, ...], root: Path, qarena: Qarena) -> None:
    run_id = play(root, *overrides).run_id
    before = sorted(root.rglob("*"))
    result = qarena("archive", "replay", run_id)
    games = ArchiveStore.open(root).count_games(run_id)
    assert (result.code, result.out) == (0, f"identical: run {run_id}, {games} games played again\n")
    assert sorted(root.rglob("*")) == before


def test_a_run_with_a_policy_is_played_again_with_the_policy_of_the_archive(root: Path, qarena: Qarena) -> None:
    play(root, "agent@a=random", "agent@b=random", "games=60")
    assert qarena("policy", "build", "kind=gift", "name=mine").code == 0
    small = ("trainer.generations=1", "trainer.games=4", "trainer.population=4", "trainer.offspring=2")
    assert qarena("train", "trainer=ga2", *small, "policy.name=bred").code == 0
    for label in ("policy(policy=mine)", "ga2(policy=bred)"):
        assert qarena("run", label, "random", "games=6").code == 0
        run_id = max(ArchiveStore.open(root).load_runs(), key=lambda record: record.number).run_id
        assert qarena("archive", "replay", run_id).out == f"identical: run {run_id}, 6 games played again\n"


def test_the_first_game_that_differs_is_shown(root: Path, qarena: Qarena) -> None:
    outcome = play(root, "agent@a=random", "agent@b=rule_based", "games=16", "threads=1")
    archive = ArchiveStore.open(root)
    (stored,) = archive.list_effective_ranges(outcome.run_id)
    stored_block, record = read_games(archive, outcome.run_id, stored), archive.load_run(outcome.run_id)
    swapped = [*range(6), 8, 7, 6, *range(9, 16)]  # games 6 and 8 have changed places
    games = Games(*(column[..., swapped].copy() for column in stored_block.games))
    shutil.rmtree(root / "games")
    write_game_tables(archive, outcome.run_id, record.unit_line, record.pairings, (0, 8), [Block(0, 0, 0, games)])
    assert qarena("archive", "verify").code == 0
    shown = qarena("archive", "replay", outcome.run_id)
    texts = [
        format_game(zip(stored_block.games.pieces[:, i].tolist(), stored_block.games.cells[:, i].tolist(), strict=True))
        for i in (8, 6)
    ]
    first, stored_line, replayed_line = shown.out.splitlines()
    assert shown.code == 1
    assert first.endswith(f"the first game that differs is {outcome.run_id[:6]} 6")
    assert stored_line.split()[2:5] == ["archive", *texts[0].split()[:2]]
    assert replayed_line.split()[2:4] == texts[1].split()[:2]


def test_what_cannot_be_played_again_is_refused(root: Path, qarena: Qarena, tmp_path: Path) -> None:
    (tmp_path / "games.txt").write_text("0@a1 1@b1 2@c1 3@d1\n")
    qarena("archive", "import", "games.txt")
    (imported,) = ArchiveStore.open(root).list_ids_of_runs_with_games()
    assert "was imported" in qarena("archive", "replay", imported).err
    assert qarena("train", "trainer=q_table", "trainer.games=4", "policy.name=online").code == 0
    (trained,) = {*ArchiveStore.open(root).list_ids_of_runs_with_games()} - {imported}
    assert "while it learned" in qarena("archive", "replay", trained).err
    assert "is not in archive" in qarena("archive", "replay", "0" * 12).err


def test_code_of_others_runs_only_if_that_is_allowed(root: Path, qarena: Qarena, tmp_path: Path) -> None:
    create_and_describe_agent_files("corner", "choose", tmp_path / "mine")
    folder_option = ("--config-dir", "mine")
    assert qarena("run", "corner", "random", "games=4", *folder_option).code == 0
    (run_id,) = ArchiveStore.open(root).list_ids_of_runs_with_games()
    refused = qarena("archive", "replay", run_id, *folder_option)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith("allow it with --trust-agents\n")
    assert qarena("archive", "replay", run_id, *folder_option, "--trust-agents").code == 0


def test_a_record_that_was_changed_is_refused(root: Path, qarena: Qarena) -> None:
    run_id = play(root, "agent@a=random", "agent@b=rule_based", "games=4").run_id
    path = root / "runs" / f"{run_id}.json"
    record = json.loads(path.read_text())
    record["spec"]["seed"] += 1
    record.pop(CHECKSUM)
    path.write_text(json.dumps(add_checksum(record)))
    result = qarena("archive", "replay", run_id)
    assert (result.code, result.out) == (2, "")
    assert "it was changed" in result.err
