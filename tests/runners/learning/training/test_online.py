"""Training while playing: as fast as it is, it learns what the slow way learns, whatever happens in between."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from agents.learning.learner import Learner
from agents.learning.policy import Policy
from analytics import open_archive
from analytics.policies.relearning import compute_learning_curve, relearn_knowledge
from analytics.store.archive import ArchiveStore
from analytics.store.policy_store import compute_knowledge_digest
from analytics.tables.verification.archive import verify_archive
from quarto.errors import FailureError, RequestError
from runners.arena.spec import AgentSpec, build_from_settings
from runners.learning.training.online import Online, _OnlineTraining
from tests.marks import seldom
from tests.naive import Outcome
from tests.naive_players.agreement import same_bytes
from tests.runners.experiments import assert_same_rows, draw_the_same_words, play, read_archive_rows
from tests.runners.learning.training.trainings import (
    LEARNERS,
    StopAfter,
    build_context,
    build_online_trainer,
    build_stopping_context,
    train_slowly,
)

GAMES = 450  # enough for the tables of q_placement to grow on the way
SWAPPED: dict[str, Any] = {"seats": "swapped", "learner_seat": 0}
FIXED: dict[str, Any] = {"seats": "fixed", "learner_seat": 1}


def train_to_end(trainer: Online, root: Path, name: str = "q_placement", **other: Any) -> Policy:
    """Train to the end; return the policy."""
    trained = trainer.train(build_context(root, name, **other))
    assert trained.policy is not None
    return trained.policy


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit blocks to 16 pairs, so that there are many of them."""
    monkeypatch.setattr("runners.arena.batch_engine.Pace.MAX_GROWTH", 1)


@pytest.fixture(scope="module")
def finished_training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Policy]:
    """Train q_placement without interruption; return the archive and the policy."""
    root = tmp_path_factory.mktemp("whole") / "archive"
    return root, train_to_end(build_online_trainer(games=GAMES), root)


@pytest.fixture
def uninterrupted_root(finished_training: tuple[Path, Policy]) -> Path:
    """Return the archive of the uninterrupted training."""
    return finished_training[0]


@pytest.fixture
def uninterrupted_policy(finished_training: tuple[Path, Policy]) -> Policy:
    """Return the policy of the uninterrupted training."""
    return finished_training[1]


def build_learner(trainer: Online) -> Any:
    return build_from_settings("learner", trainer.learner, Learner)


def assert_played(root: Path, outcomes: list[Outcome]) -> None:
    games = read_archive_rows(root)["games"]
    assert games.select("winner", "plies").rows() == [(outcome.winner, outcome.plies) for outcome in outcomes]


@pytest.mark.parametrize(
    "seats", [FIXED, *seldom(SWAPPED | {"learner_seat": 1}, SWAPPED)], ids=["fixed", "second", "swapped"]
)
@pytest.mark.parametrize("name", LEARNERS)
def test_games_and_knowledge_are_those_of_the_slow_way(name: str, seats: dict[str, Any], tmp_path: Path) -> None:
    trainer = build_online_trainer(name, games=GAMES if name == "q_placement" else 60, **seats)
    fast = train_to_end(trainer, tmp_path / "a", name)
    policy, played = train_slowly(trainer, tmp_path / "a")
    assert same_bytes(fast, policy)
    assert_played(tmp_path / "a", played)
    assert verify_archive(ArchiveStore.open(tmp_path / "a")).problems == []


def test_the_fast_way_is_taken_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_OnlineTraining, "_play_and_learn_game")
    train_to_end(build_online_trainer(games=40), tmp_path / "a")


def set_opponent(monkeypatch: pytest.MonkeyPatch, target: str, **params: Any) -> None:
    """Let all learners meet a player of these tests."""
    spec = AgentSpec("other", f"tests.runners.{target}", params, trusted=True)
    monkeypatch.setattr("runners.learning.training.trainer.agent_from_entry", lambda *_: spec)


@pytest.mark.slow
def test_an_opponent_in_python_is_played_one_game_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_the_same_words(monkeypatch)
    trainer = build_online_trainer(games=400, opponent="dumb", **SWAPPED)
    expected_policy = train_to_end(trainer, tmp_path / "jitted")
    for twin in ("OneByOne", "Batched"):
        set_opponent(monkeypatch, f"players.{twin}")
        assert same_bytes(train_to_end(trainer, tmp_path / twin), expected_policy)
        columns = ["game_id", "winner", "plies", "ending"]
        assert (
            read_archive_rows(tmp_path / twin)["games"]
            .select(columns)
            .equals(read_archive_rows(tmp_path / "jitted")["games"].select(columns))
        )


@pytest.mark.parametrize(("what", "ending"), [("raise", "forfeit_error"), *seldom(("cheat", "forfeit_illegal"))])
def test_a_learner_learns_from_forfeits_too(
    what: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_opponent(monkeypatch, "players.Misbehaving", what=what, plies=3)
    trainer = build_online_trainer(games=30)
    with caplog.at_level(logging.CRITICAL):
        one = trainer.train(build_context(tmp_path / "a"))
    assert one.policy is not None
    games = read_archive_rows(tmp_path / "a")["games"]
    assert ending in games["ending"].cast(pl.String).to_list()
    assert one.curve["losses"].sum() == (games["winner"] == 0).sum()
    again = trainer.train(build_context(tmp_path / "a"))
    assert again.played == 0
    assert again.policy is not None
    assert same_bytes(again.policy, one.policy)


@pytest.mark.usefixtures("small_blocks")
def test_an_opponent_forgets_each_game_before_the_next(tmp_path: Path) -> None:
    trainer = build_online_trainer(games=48, opponent="mcts(iterations=20,reuse=true)", **SWAPPED)
    expected_policy = train_to_end(trainer, tmp_path / "whole")
    assert trainer.train(build_stopping_context(1, tmp_path / "a")).policy is None
    assert same_bytes(train_to_end(trainer, tmp_path / "a"), expected_policy)
    assert_same_rows(read_archive_rows(tmp_path / "a"), read_archive_rows(tmp_path / "whole"))


# The archive is the checkpoint.


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("moment", [100, *seldom(1, 350)])
def test_a_stopped_training_goes_on_where_it_was(
    moment: int, uninterrupted_root: Path, uninterrupted_policy: Policy, tmp_path: Path
) -> None:
    trainer, root = build_online_trainer(games=GAMES), tmp_path / "a"
    first = trainer.train(build_stopping_context(moment, root, shard_games=20))
    assert first.policy is None
    assert first.games == first.played
    assert moment <= first.played < GAMES
    assert first.curve["games"].sum() == first.games
    (record,) = ArchiveStore.open(root).load_runs()
    assert record.status == "interrupted"
    second = trainer.train(build_context(root))
    assert second.policy is not None
    assert same_bytes(second.policy, uninterrupted_policy)
    assert (second.games, second.played) == (GAMES, GAMES - first.played)
    assert second.run_ids == first.run_ids == (record.run_id,)
    assert_same_rows(read_archive_rows(root), read_archive_rows(uninterrupted_root))


def test_nothing_is_played_twice_and_less_is_known_of_fewer_games(
    uninterrupted_root: Path, uninterrupted_policy: Policy
) -> None:
    before = read_archive_rows(uninterrupted_root)
    again = build_online_trainer(games=GAMES).train(build_context(uninterrupted_root))
    assert (again.played, again.games) == (0, GAMES)
    assert again.policy is not None
    assert same_bytes(again.policy, uninterrupted_policy)
    fewer = build_online_trainer(games=90).train(build_context(uninterrupted_root))
    assert (fewer.played, fewer.games, fewer.curve["games"].sum()) == (0, 90, 90)
    assert fewer.policy is not None
    assert same_bytes(fewer.policy, train_slowly(build_online_trainer(games=90), uninterrupted_root)[0])
    assert_same_rows(read_archive_rows(uninterrupted_root), before)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_games_that_went_missing_in_the_middle_are_played_when_it_is_their_turn(
    uninterrupted_root: Path, uninterrupted_policy: Policy, tmp_path: Path
) -> None:
    root = tmp_path / "a"
    build_online_trainer(games=GAMES).train(build_context(root, shard_games=64, shard_seconds=0.0))
    archive = ArchiveStore.open(root)
    (run_id,) = archive.list_ids_of_runs_with_games()
    lost = [archive.list_effective_ranges(run_id)[number] for number in (1, 3)]
    for unit_range in lost:
        Path(archive.find_path_of_containing_file("games", run_id, unit_range)).unlink()
    again = build_online_trainer(games=GAMES).train(build_context(root))
    assert again.played == sum(unit_range.units for unit_range in lost)  # seats are fixed: a unit is a game
    assert again.policy is not None
    assert same_bytes(again.policy, uninterrupted_policy)
    assert_same_rows(read_archive_rows(root), read_archive_rows(uninterrupted_root))


@pytest.mark.usefixtures("small_blocks")
def test_while_one_learns_a_second_one_is_refused_and_afterwards_finds_the_same(
    uninterrupted_root: Path, uninterrupted_policy: Policy, tmp_path: Path
) -> None:
    root, refusals = tmp_path / "a", list[str]()

    class SecondOne(StopAfter):
        """A progress that begins the same training while the first one plays, three times."""

        def advance(self, games: int) -> None:
            super().advance(games)
            if self._left in (GAMES - 1, 200, 1):
                with pytest.raises(RequestError) as refused:
                    build_online_trainer(games=GAMES).train(build_context(root))
                refusals.append(str(refused.value))

    first = build_online_trainer(games=GAMES).train(build_context(root, progress=SecondOne(GAMES, threading.Event())))
    (run_id,) = first.run_ids
    assert len(refusals) == 3
    message = f"another process plays run {run_id}, whose games cannot be repeated: wait until it ends"
    assert all(refusal.startswith(message) and "\n" not in refusal for refusal in refusals)
    second = build_online_trainer(games=GAMES).train(build_context(root))
    assert (first.played, second.played) == (GAMES, 0)
    assert all(outcome.policy and same_bytes(outcome.policy, uninterrupted_policy) for outcome in (first, second))
    assert_same_rows(read_archive_rows(root), read_archive_rows(uninterrupted_root))
    assert verify_archive(ArchiveStore.open(root)).problems == []


# Learning again from the log.


# The curve.


def test_the_curve_counts_the_learners_games_block_by_block(tmp_path: Path) -> None:
    block, odd = 7, build_online_trainer(games=249, **SWAPPED)
    assert odd.notes == ("trainer.games=249 is odd; games come in pairs with the seats swapped, so 250 will be played",)
    assert build_online_trainer(games=249, **FIXED).notes == ()
    trained = odd.train(build_context(tmp_path / "a", curve_block=block, shard_games=64))
    assert trained.policy is not None
    with open_archive(tmp_path / "a") as archive:
        games = archive.sql("SELECT agent_1, winner FROM games ORDER BY game_id").rows()
    counted = []
    for first in range(0, 250, block):
        of_block = games[first : first + block]
        seat = [int(agent.startswith("q_placement(training")) for agent, _ in of_block]
        wins = sum(winner == learner_seat for learner_seat, (_, winner) in zip(seat, of_block, strict=True))
        draws = sum(winner == -1 for _, winner in of_block)
        size = len(of_block)
        counted.append((first, size, wins, draws, size - wins - draws, wins / size))
    assert trained.curve.rows() == counted
    curve = compute_learning_curve(ArchiveStore.open(tmp_path / "a"), trained.run_ids[0], 100, block)
    assert curve["games"].sum() == 100


# What a run of a training is.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"games": 0}, "trainer.games=0 is not a whole number from 1 to "),
        ({"seats": "both"}, "trainer.seats=both does not exist; valid: fixed, swapped"),
        ({"learner_seat": 2}, "trainer.learner_seat=2 is not a whole number from 0 to 1"),
        ({"learner": "rl"}, "trainer.learner='rl' is not a mapping with the class of a learner under _target_"),
        ({"learner": {"_target_": "agents.dumb.Dumb"}}, "agents.dumb.Dumb is not a Learner"),
        ({"opponent": "dum"}, "agent 'dum' does not exist; did you mean 'dumb'?"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refused:
        build_online_trainer(**wrong).check(build_context(tmp_path / "a"))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "a").exists()


def test_a_training_begun_by_other_code_is_not_extended_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "a"
    first = build_online_trainer(games=20).train(build_context(root))
    monkeypatch.setattr(
        "runners.arena.experiment.build_code_record", lambda *_: {"version": "9", "fingerprint": "f" * 16}
    )
    with pytest.raises(RequestError, match=f"run {first.run_ids[0]} was begun by other code"):
        build_online_trainer(games=40).check(build_context(root))
    anew = build_online_trainer(games=40).train(build_context(root, other_code="new"))
    assert (anew.played, anew.run_ids == first.run_ids) == (40, False)
    assert caplog.messages == []
    extended = build_online_trainer(games=40).train(build_context(root, other_code="extend"))
    assert (extended.played, extended.run_ids) == (20, first.run_ids)
    (warning,) = caplog.messages
    assert warning == (
        f"run {first.run_ids[0]} was begun by other code: this code may learn something else from its games"
    )


@pytest.mark.parametrize(("name", "other"), [("q_placement", "learning_rate"), ("rl_tabular", "exploration")])
def test_what_was_learned_is_learned_again_from_a_log_that_is_whole(name: str, other: str, tmp_path: Path) -> None:
    trainer, root = build_online_trainer(name, games=500), tmp_path / "a"
    trained = trainer.train(build_context(root, name, shard_games=120, shard_seconds=0.0))
    assert trained.policy is not None
    learner, archive, (run_id,) = build_learner(trainer), ArchiveStore.open(root), trained.run_ids
    again = learner.to_policy(relearn_knowledge(archive, run_id, learner))
    assert compute_knowledge_digest(again) == compute_knowledge_digest(trained.policy)
    half = learner.to_policy(relearn_knowledge(archive, run_id, learner, game_count=250))
    assert same_bytes(half, train_to_end(build_online_trainer(name, games=250), tmp_path / "b", name))
    differing = build_learner(build_online_trainer(name, learner={**trainer.learner, other: 0.55}))
    assert not same_bytes(differing.to_policy(relearn_knowledge(archive, run_id, differing)), trained.policy)

    played = play(root, "games=4").run_id
    with pytest.raises(RequestError, match=f"no agent learned in run {played}: policies come from runs of trainings"):
        relearn_knowledge(archive, played, learner)
    with pytest.raises(RequestError, match="run 'aaaaaaaaaaaa' is not in archive"):
        relearn_knowledge(archive, "aaaaaaaaaaaa", learner)
    second = archive.list_effective_ranges(run_id)[1]
    path = Path(archive.find_path_of_containing_file("plies", run_id, second))
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    with pytest.raises(FailureError, match=rf"{path} has other bytes than its name says.*'qarena archive verify'"):
        relearn_knowledge(archive, run_id, learner)
    Path(archive.find_path_of_containing_file("games", run_id, second)).unlink()
    number = second.first * (2 if trainer.seats == "swapped" else 1)
    with pytest.raises(RequestError, match=f"run {run_id} lacks games from number {number} on"):
        relearn_knowledge(archive, run_id, learner)
    with pytest.raises(RequestError, match="lacks games from number"):
        relearn_knowledge(archive, run_id, learner, game_count=600)
