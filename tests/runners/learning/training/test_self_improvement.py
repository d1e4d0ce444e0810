"""A player that learns from its own log: what is derived, what is measured, stopping, and going on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analytics import open_archive
from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.store import policy_cards, policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_store import compute_knowledge_digest
from quarto.errors import RequestError
from runners.config.agent_policies import format_policy_card
from runners.config.yaml_options import load_option
from runners.learning.policies.lineage import format_policy_lineage
from runners.learning.policies.rebuilding import rebuild_policy
from runners.learning.training.policy_build import build_kind_code_record
from runners.learning.training.self_improvement import MIN_PIECES, SelfImprovement
from runners.learning.training.trainer import TrainingContext, TrainingOutcome
from tests.runners.conftest import Qarena
from tests.runners.learning.training.trainings import build_context, build_stopping_context

SMALL = {
    "kind": "mc_afterstate(least=3)",
    "generations": 3,
    "games": 300,
    "opening_plies": 0,
    "strength_games": 40,
    "opponents": ["random", "rule_based"],
    "regret_games": 10,
}
KEYS = [f"trainer.{key}={value}" for key, value in SMALL.items() if isinstance(value, int)]
TYPED = ["trainer=self_improve", *KEYS, 'trainer.kind="mc_afterstate(least=3)"', "trainer.opponents=[random,dumb]"]


def build_trainer(**other: Any) -> SelfImprovement:
    settings = load_option("trainer", "self_improve")
    assert settings.pop("_target_") == "runners.training.self_improvement.SelfImprovement"
    return SelfImprovement(**settings | SMALL | other)


def build_named_context(root: Path, **other: Any) -> TrainingContext:
    return build_context(root, "self_improve", policy="mine", **other)


def knowledge(trained: TrainingOutcome) -> str:
    assert trained.policy is not None
    return compute_knowledge_digest(trained.policy)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingOutcome]:
    root = tmp_path_factory.mktemp("loop") / "archive"
    ArchiveStore.open(root, create=True)
    return root, build_trainer().train(build_named_context(root))


@pytest.mark.slow
def test_each_generation_learns_from_the_games_of_those_before(loop: tuple[Path, TrainingOutcome]) -> None:
    root, trained = loop
    archive = ArchiveStore.open(root)
    cards = [policy_store.find(archive, f"mine-{generation}") for generation in (1, 2, 3)]
    runs = [card.learned["run_ids"] for card in cards]
    assert [len(run_ids) for run_ids in runs] == [1, 2, 3]
    assert set(runs[0]) < set(runs[1]) < set(runs[2]) == set(trained.run_ids)
    played = [record.labels for record in archive.load_runs() if record.run_id in runs[2]]
    exploring = [f"policy(exploration=0.2,policy=mine-{generation})" for generation in (1, 2)]
    assert sorted(played) == sorted((label, label) for label in ["semi_random", *exploring])
    assert (trained.games, knowledge(trained)) == (900, cards[2].knowledge)


def test_nothing_is_played_to_learn_from_after_the_last_generation(loop: tuple[Path, TrainingOutcome]) -> None:
    _, trained = loop
    assert trained.played == 3 * 300 + 4 * 2 * 40  # then strength alone is measured


def test_strength_is_what_the_games_against_each_opponent_say(loop: tuple[Path, TrainingOutcome]) -> None:
    root, trained = loop
    strength = trained.tables["strength"]
    assert strength["generation"].to_list() == [0, 0, 1, 1, 2, 2, 3, 3]
    with open_archive(root) as opened:
        games = opened.sql(
            "SELECT run_id, CASE WHEN agent_0 IN ('random', 'rule_based') THEN agent_0 ELSE agent_1 END AS opponent, "
            "avg(CASE winner WHEN -1 THEN .5 WHEN 0 THEN (agent_1 = opponent)::int ELSE (agent_0 = opponent)::int END) "
            "AS points, count(*) AS met FROM games GROUP BY ALL"
        )
        imposed = opened.sql("SELECT DISTINCT run_id, opening FROM games")
    assert set(strength.join(imposed, on="run_id")["opening"]) == {2}  # else deterministic players repeat one game
    met = strength.join(games, on=["run_id", "opponent"], how="left")
    assert met["points"].to_list() == pytest.approx(met["score"].to_list())
    assert set(met["met"]) == {40}
    assert (strength["low"] <= strength["score"]).all()
    curve = trained.curve
    assert curve.select("generation", "games").rows() == [(0, 0), (1, 300), (2, 600), (3, 900)]
    means = strength.group_by("generation", maintain_order=True).agg(pl.col("score").mean())
    assert curve["strength"].to_list() == pytest.approx(means["score"].to_list())
    assert curve["v random high"].to_list() == strength.filter(pl.col("opponent") == "random")["high"].to_list()


def test_regret_is_that_of_the_annotated_decisions(loop: tuple[Path, TrainingOutcome]) -> None:
    root, trained = loop
    strength = trained.tables["strength"]
    last = strength.filter(generation=3)
    archive = ArchiveStore.open(root)
    annotate_runs(archive, [last["run_id"][0]], AnnotationOptions(from_pieces=MIN_PIECES))
    with open_archive(root) as opened:
        expected = opened.sql(
            "SELECT game_id >> 32, avg(regret) AS regret, count(*) AS decisions FROM decisions JOIN games "
            "USING (run_id, game_id) WHERE run_id = ? AND game_id % 4294967296 < 10 "
            "AND seat = game_id & 1 GROUP BY 1 ORDER BY 1",
            [last["run_id"][0]],
        )
    assert last["decisions"].to_list() == expected["decisions"].to_list()
    assert last["regret"].to_list() == pytest.approx(expected["regret"].to_list())
    assert all(0 < regret < 1 for regret in last["regret"].to_list())
    weighted = last.select((pl.col("regret") * pl.col("decisions")).sum() / pl.col("decisions").sum()).item()
    assert trained.curve["regret"][-1] == pytest.approx(weighted)


@pytest.mark.slow
def test_stopped_anywhere_it_comes_to_the_same(loop: tuple[Path, TrainingOutcome], tmp_path: Path) -> None:
    root = tmp_path / "archive"
    ArchiveStore.open(root, create=True)
    for games in (1, 500):
        trained = build_trainer().train(
            replace(build_stopping_context(games, root), name="self_improve", policy="mine")
        )
        assert trained.policy is None
    trained = build_trainer().train(build_named_context(root, threads=2))
    assert knowledge(trained) == knowledge(loop[1])
    assert trained.tables["strength"].equals(loop[1].tables["strength"])
    again = build_trainer().train(build_named_context(root))
    assert (again.played, knowledge(again)) == (0, knowledge(trained))


@pytest.mark.slow
def test_more_generations_go_on_from_fewer(loop: tuple[Path, TrainingOutcome]) -> None:
    root, trained = loop
    more = build_trainer(generations=4).train(build_named_context(root))
    assert more.played == 300 + 80
    assert more.curve.head(4).equals(trained.curve)


@pytest.mark.slow
def test_all_policies_are_rebuilt_and_the_curve_is_drawn(qarena: Qarena) -> None:
    result = qarena("run", "experiment=self_improve", *TYPED[1:], "policy.name=mine", "progress=false")
    assert result.code == 0, result.err
    assert "its mean score against the same opponents went from" in result.out
    root = Path("data/archive")
    for name in ("mine", "mine-1", "mine-2", "mine-3"):
        assert rebuild_policy(root, name).differences == ()
    archive = ArchiveStore.open(root)
    card = policy_store.find(archive, "mine")
    assert card.code == build_kind_code_record(card.learned["derivation"]["parameters"])
    how = "self_improve, seed 1, derived as mc_afterstate"
    (line,) = [line for line in format_policy_lineage(archive, "mine") if "trained by" in line]
    assert line.startswith(f"  trained by {how}, from 900 games; ")
    assert format_policy_lineage(archive, "mine-3")[1].startswith("  derived by mc_afterstate, from 900 games; ")
    assert ("trainer", f"{how}, 900 games") in format_policy_card(card, root)
    assert "; learned from 3 runs in data/archive." in result.out
    assert {"table.parquet", "curve.parquet", "strength.parquet", "games.parquet"} <= set(card.files)
    drawn = Path(policy_cards.policy_folder(archive, card.policy_id) / card.stored_name("curve.svg")).read_text()
    assert all(text in drawn for text in ("v random", "v dumb", "points a game"))
    assert qarena("run", "agent@a=policy", "a.policy=mine", "agent@b=random", "games=10").code == 0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kind": "mc_afterstates"}, "kind 'mc_afterstates' does not exist; did you mean 'mc_afterstate'?"),
        ({"kind": "gift(smooth=1)"}, r"gift has no parameter 'smooth'; did you mean 'smoothing'?"),
        ({"kind": "gift(smoothing=-1)"}, "smoothing"),
        ({"kind": 3}, "trainer.kind=3 is not NAME"),
        ({"generations": 0}, "trainer.generations=0 is not a whole number from 1"),
        ({"remember": "some"}, "trainer.remember='some' is not one of all, last"),
        ({"opponents": "random"}, "trainer.opponents='random' is not a list of agents"),
        ({"strength_opening_plies": 16}, "trainer.strength_opening_plies=16 is not a whole number from 0 to 15"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        build_trainer(**changes)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("trainer.player=random", "agent 'random' has no parameter 'policy'"),
        ("trainer.first=nobody", "agent 'nobody' does not exist"),
        (f"policy.name=a{'b' * 62}", "cannot be a name"),
        ("trainer.kinds=gift", "key 'trainer.kinds' does not exist; did you mean 'trainer.kind'?"),
    ],
)
def test_a_wrong_request_is_one_line_and_leaves_nothing(qarena: Qarena, override: str, complaint: str) -> None:
    result = qarena("train", *TYPED, override)
    assert complaint in result.refusal
    assert not Path("data").exists()
