"""The trainings behind published figures are carried out once, and found again."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.policies import policy_store
from analytics.published import figures
from analytics.results.pairings import results
from analytics.store.archive import Archive
from quarto.errors import RequestError
from runners.arena.config import agent_named
from runners.arena.schemas import ArchiveSettings
from runners.reproduce.pairings import TrainingResult, train, trainings
from runners.training.online import Online


def trained(root: Path, overrides: str, stopped: bool = False, other_code: str = "refuse") -> TrainingResult | None:
    stop = threading.Event()
    if stopped:
        stop.set()
    return train(overrides, ArchiveSettings(root, other_code=other_code), "qarena reproduce", stop, None)


@pytest.mark.parametrize("training", trainings(figures()))
def test_every_training_of_a_figure_can_begin_and_be_stopped(training: str, tmp_path: Path) -> None:
    assert trained(tmp_path / "games", training, stopped=True) is None


def test_a_training_is_carried_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = "trainer=rl_encoded trainer.games=40"
    found = trained(tmp_path, overrides)
    assert found
    assert (found.policy, found.learner, found.opponent) == (
        "published_rl_encoded",
        "rl_encoded(training)",
        "semi_random",
    )
    assert (found.played, sum(found.results)) == (40, 40)
    assert agent_named(f"rl_encoded(policy={found.policy})", tmp_path).policy_id
    with monkeypatch.context() as patched:
        patched.setattr(Online, "train", lambda *_arguments: pytest.fail("it was trained again"))
        assert trained(tmp_path, overrides) == replace(found, played=0)
    other = trained(tmp_path, f"{overrides} seed=2")
    assert other
    assert (other.policy, other.played) == ("published_rl_encoded_seed-2", 40)


@pytest.mark.slow
def test_a_training_by_other_code_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = "trainer=rl_encoded trainer.games=20"
    assert trained(tmp_path, overrides)
    monkeypatch.setattr("runners.training.config.code_by", lambda *_args, **_more: {"fingerprint": "0" * 16})
    monkeypatch.setattr("runners.arena.experiment.code_of", lambda *_: {"fingerprint": "0" * 16})
    for more in ("", " trainer.games=40"):
        with pytest.raises(RequestError, match="begun by other code"):
            trained(tmp_path, overrides + more)
    again = trained(tmp_path, overrides, other_code="extend")  # learned anew, from games that are all there
    assert again
    assert again.played == 0
    card = policy_store.named(Archive.open(tmp_path), again.policy)
    assert card
    assert card.code["fingerprint"] == "0" * 16


def test_longer_and_shorter_trainings_are_told_apart(tmp_path: Path) -> None:
    one, two = (trained(tmp_path, f"trainer=rl_encoded trainer.games={games}") for games in (40, 20))
    assert one
    assert two
    assert (sum(one.results), sum(two.results)) == (40, 20)  # of the same run, which holds 40
    assert (one.played, two.played) == (40, 0)


def test_results_are_the_learners(tmp_path: Path) -> None:
    found = trained(tmp_path, "trainer=q_placement trainer.games=30")
    assert found
    assert (found.learner, found.opponent) == ("q_placement(training)", "ga2")
    (record,) = Archive.open(tmp_path).runs()
    (result,) = results(Archive.open(tmp_path), record.run_id)
    assert result.first == "ga2"  # which has seat 0
    assert found.results == result.tally.swapped.results(1)
