"""Training by evolution: what is found depends on the request alone, however often it is stopped and begun again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agents.learning.policy import GENOME
from analytics import open_archive
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.tables.verification.archive import verify_archive
from quarto.errors import RequestError
from runners.arena import experiment
from runners.arena.identities import to_class_path
from runners.arena.replay import GameDifference, Replay
from runners.config.yaml_options import load_option
from runners.learning.training.genetic import Ga2Trainer, Ga5Trainer, GeneticTrainer
from runners.learning.training.trainer import TrainingContext, TrainingOutcome
from tests import naive
from tests.analytics.folders import snapshot
from tests.analytics.stored_policies import origin
from tests.marks import seldom
from tests.naive_evolution import Fitness, Individual, Study, StudyA, StudyB, run_seed
from tests.naive_players import ga as naive_ga
from tests.runners.conftest import Qarena
from tests.runners.experiments import Watcher, draw_the_same_words, play
from tests.runners.learning.training import trainings

TRAINERS: Mapping[str, type[GeneticTrainer]] = {"ga2": Ga2Trainer, "ga5": Ga5Trainer}
SMALL = {"population": 5, "offspring": 3, "generations": 4, "tournament": 2, "games": 6}
GENES = {"ga2": ("alpha", "beta"), "ga5": ("alpha", "beta", "gamma", "delta", "epsilon")}


def build_trainer(name: str, **changes: Any) -> GeneticTrainer:
    """Build the trainer of a yaml, with other values."""
    settings, target = load_option("trainer", name), TRAINERS[name]
    assert to_class_path(settings.pop("_target_")) == f"{target.__module__}.{target.__name__}"
    return target(**settings | changes)


def build_context(root: Path, seed: int = 3, **other: Any) -> TrainingContext:
    """Build a context in the archive at ``root``; ``other`` are fields of the context or of its storage."""
    return trainings.build_context(root, "evolution", **{"seed": seed, "threads": 2} | other)


def assert_same(outcome: TrainingOutcome, expected: TrainingOutcome) -> None:
    assert outcome.policy == expected.policy
    assert outcome.run_ids == expected.run_ids
    assert outcome.games == expected.games
    assert_frame_equal(outcome.curve, expected.curve)
    assert_frame_equal(outcome.tables["population"], expected.tables["population"])


# What is found


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("name", ["ga2", "ga5"])
def test_a_training_is_that_of_the_slow_twins_games_included(name: str, faithful: bool, tmp_path: Path) -> None:
    """Play each game by the twins of its players, and breed each individual by the twin of its study."""
    plan = {"population": 3, "offspring": 2, "generations": 2, "tournament": 2, "games": 4, "faithful": faithful}
    dumb: tuple[str, naive.Player] = ("dumb(faithful=true)" if faithful else "dumb", naive.Dumb())
    opponents: dict[str, naive.Player] = dict([("random", naive.Random()), dumb])
    trained = build_trainer(name, opponents=["random", "dumb"], **plan).train(build_context(tmp_path, seed=8))

    def reward(generation: int, pairing: int, player: naive.Player, opponent: naive.Player) -> float:
        rewards = []
        for number in range(4):
            pair, game = (number, 0) if name == "ga2" and faithful else divmod(number, 2)
            run = int(trained.run_ids[generation], 16)
            winner = naive.play_game(
                naive.PRESETS["classic"], (player, opponent), run, pair, game, pairing=pairing
            ).winner
            rewards.append(float(name == "ga2") if winner == naive.NONE else float(winner == game))
        return sum(rewards) / 4

    def judge(generation: int, judged: list[Individual]) -> list[Fitness]:
        def player(genes: list[float]) -> naive.Player:
            if name == "ga2":
                return naive_ga.Ga2(*genes)
            return (naive_ga.FaithfulGa5 if faithful else naive_ga.Ga5)(tuple(genes))

        return [
            tuple(
                reward(generation, 2 * i + j, player(individual.genes), opponent)
                for j, opponent in enumerate(opponents.values())
            )
            for i, individual in enumerate(judged)
        ]

    kind = {"ga2": StudyB, "ga5": StudyA}[name]
    twin: Study = kind(seed=8, size=3, offspring=2, generations=2, tournament=2, judge=judge, faithful=faithful)
    history = twin.evolve()
    population = trained.tables["population"]
    for generation, everybody in enumerate(history):
        rows = population.filter(pl.col("generation") == generation)
        assert rows["individual"].to_list() == [individual.number for individual in everybody]
        assert rows["operator"].to_list() == [individual.operator for individual in everybody]
        assert rows["parents"].to_list() == [individual.parents for individual in everybody]
        assert [list(row) for row in rows[GENES[name]].rows()] == [individual.genes for individual in everybody]
        assert rows["v random", f"v {dumb[0]}"].rows() == [individual.fitness for individual in everybody]
    seeds = [record.spec["seed"] for record in map(ArchiveStore.open(tmp_path).find_run, trained.run_ids) if record]
    assert seeds == [run_seed(8, generation, 4) for generation in range(len(history))]
    answer = twin.best_on_average() if name == "ga2" else history[-1][0].genes
    assert trained.policy is not None
    assert list(trained.policy.parameters.values()) == list(answer)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingOutcome]:
    """Train ga2 for a few generations; return the archive and the outcome."""
    root = tmp_path_factory.mktemp("small")
    return root, build_trainer("ga2", **SMALL, opponents=["random", "dumb"]).train(build_context(root))


@pytest.mark.parametrize(
    ("name", "changes", "held"),
    [
        ("ga2", {}, {0: 9, 1: 9}),
        ("ga2", {"faithful": True}, {0: 18}),
        ("ga5", {"seats": "fixed"}, {0: 18}),
    ],
)
def test_individuals_hold_the_seats_of_the_study_or_those_asked_for(
    name: str, changes: dict[str, Any], held: dict[int, int], tmp_path: Path
) -> None:
    trained = build_trainer(name, **SMALL | {"generations": 1, "opponents": ["random"], **changes}).train(
        build_context(tmp_path)
    )
    with open_archive(tmp_path) as archive:
        games = archive.scan("games").filter(pl.col("run_id") == trained.run_ids[1]).collect()
    seats = (games["agent_0"].cast(pl.String) == "random").cast(pl.Int8)
    assert Counter(seats) == held


def test_faithful_players_follow_their_studies_unless_told_otherwise(tmp_path: Path) -> None:
    opponents = [
        "rule_based",
        "random",
        {"agent": "rule_based", "faithful": False},
        {"agent": "minimax"},
        "mcts(iterations=2)",
    ]
    trained = build_trainer("ga5", **SMALL | {"generations": 1}, opponents=opponents, faithful=True).train(
        build_context(tmp_path)
    )
    record = ArchiveStore.open(tmp_path).find_run(trained.run_ids[0])
    assert record is not None
    assert all(label.endswith(",faithful=true,gamma=" + label.split("gamma=")[1]) for label in record.labels[:5])
    assert record.labels[5:] == (
        "rule_based(faithful=true)",
        "random",
        "rule_based",
        "minimax(faithful=true)",
        "mcts(faithful=true,iterations=2)",
    )


def test_all_individuals_can_be_judged_again(tmp_path: Path) -> None:
    trained = build_trainer("ga2", **SMALL, evaluate="all").train(build_context(tmp_path))
    archive = ArchiveStore.open(tmp_path)
    assert [len(record.pairings) for record in map(archive.find_run, trained.run_ids) if record] == [5, 8, 8, 8, 8]
    population = trained.tables["population"]
    assert population["run_id"].to_list() == [trained.run_ids[g] for g in population["generation"]]
    assert population.group_by("individual").agg(pl.col("v random").n_unique()).max()["v random"].item() > 1
    assert trained.games == 6 * (5 + 4 * 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opponent", "least"), [("ga2", "random", 0.80), ("ga5", "random", 0.50), ("ga5", "rule_based", 0.45)]
)
def test_the_studies_schedules_find_players_like_theirs(name: str, opponent: str, least: float, tmp_path: Path) -> None:
    """Compare with the studies: ga2 wins 80 to 84 % against random, ga5 58 % and, against rule_based, 28 %."""
    policy = build_trainer(name).train(build_context(tmp_path)).policy
    assert policy is not None
    genome = ",".join(f"{gene}={value!r}" for gene, value in policy.parameters.items())
    outcome = play(tmp_path, f'agents=["{name}({genome})",{opponent}]', "games=20000")
    assert outcome.results[0].win_rate.mean > least


# What it does not depend on


def test_more_generations_go_on_from_where_fewer_ended(tmp_path: Path) -> None:
    fewer = build_trainer("ga5", **SMALL).train(build_context(tmp_path))
    more = build_trainer("ga5", **SMALL | {"generations": 6}).train(build_context(tmp_path))
    assert more.run_ids[:5] == fewer.run_ids
    assert more.played == 2 * 3 * 3 * 6
    assert_frame_equal(more.tables["population"].filter(pl.col("generation") <= 4), fewer.tables["population"])


@pytest.mark.parametrize("enough", [61, *seldom(1, 30, 60, 150, 204)])
def test_a_training_that_was_stopped_goes_on(enough: int, small: tuple[Path, TrainingOutcome], tmp_path: Path) -> None:
    genetic_trainer, begun = (
        build_trainer("ga2", **SMALL, opponents=["random", "dumb"]),
        replace(build_context(tmp_path), threads=1),
    )
    watcher = Watcher(begun.stop, enough)
    first = genetic_trainer.train(replace(begun, progress=watcher))
    if enough < 204:
        assert first.policy is None
        assert first.games <= watcher.games < 204
    generations = len(first.run_ids)
    assert_frame_equal(first.curve, small[1].curve.head(generations))
    before = snapshot(tmp_path)
    stopped_before = genetic_trainer.train(begun)
    assert snapshot(tmp_path) == before
    assert (stopped_before.played, stopped_before.run_ids) == (0, first.run_ids)
    archive = ArchiveStore.open(tmp_path)
    assert archive.list_recorded_run_ids() == archive.list_ids_of_runs_with_games()  # no run was begun without a game

    again = genetic_trainer.train(build_context(tmp_path))
    assert_same(again, small[1])
    assert again.played == 204 - watcher.games
    assert verify_archive(archive).problems == []


def test_every_generation_is_a_run_and_its_population_is_kept(small: tuple[Path, TrainingOutcome]) -> None:
    root, trained = small
    archive = ArchiveStore.open(root)
    assert [len(record.pairings) for record in map(archive.find_run, trained.run_ids) if record] == [10, 6, 6, 6, 6]
    assert [record.run_id for record in archive.load_runs()] == [*trained.run_ids]
    assert all(record.training and record.command == "qarena train" for record in archive.load_runs())
    assert verify_archive(archive).problems == []
    population = trained.tables["population"]
    assert population["generation"].to_list() == [0] * 5 + sorted(8 * [1, 2, 3, 4])
    assert population["place"].to_list() == [*range(5)] + 4 * [*range(8)]
    assert set(population.filter(generation=0)["origin"]) == {"initial"}
    for generation in (1, 2, 3, 4):
        rows = population.filter(generation=generation)
        counts = Counter(rows["origin"])
        assert counts == {"survivor": 5, "offspring": 3}
        assert sorted(rows.filter(origin="offspring")["individual"]) == [5 + 3 * (generation - 1) + i for i in range(3)]
        before = population.filter(generation=generation - 1).filter("goes_on")
        assert set(rows.filter(origin="survivor")["individual"]) == set(before["individual"])
        assert set(rows["parents"].explode().drop_nulls()) <= set(population["individual"])
    assert population.group_by("individual").agg(pl.col("alpha", "beta", "v random", "label").n_unique().max()).select(
        pl.max_horizontal(pl.exclude("individual").max())
    ).item() == 1  # fmt: skip
    assert population["games"].unique().to_list() == [12]


def test_the_yamls_are_the_studies_numbers() -> None:
    two = {"population": 20, "offspring": 5, "generations": 100, "tournament": 3, "opponents": ["random"], "games": 100}
    five = {"population": 20, "offspring": 10, "generations": 50, "tournament": 5, "draw_reward": 0.0}
    mutation = {"margin": 0.05, "step": 0.1, "decimals": 1, "answer": "mean"}
    operators = {"early": [0.3, 0.5, 0.2], "stuck": [0.1, 0.45, 0.45], "late": [0.6, 0.2, 0.2]}
    settings = {"opponents": ["rule_based", "random", "dumb"], "reach": 10.0, "scale": 20.0, "answer": "best"}
    for name, numbers in (("ga2", two | mutation | {"operators": operators}), ("ga5", five | settings)):
        assert {key: getattr(build_trainer(name), key) for key in numbers} == numbers


# Wrong requests


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ga2", {"generations": 0}, "generations=0 is not a whole number from 1 to 100000"),
        ("ga5", {"population": 4}, "population=4 is smaller than trainer.tournament=5"),
        ("ga2", {"opponents": []}, r"opponents=\[\] is not a list of agents, \[random, …\]"),
        ("ga2", {"agent": {"agent": "ga2"}}, r"agent={'agent': 'ga2'} is not an agent's label, .*"),
        ("ga2", {"start": 12}, "start=12 is not a policy's name or id; put it in quotes: .*"),
        ("ga2", {"operators.late": None}, "operators.late=None is not three probabilities, .*"),
        ("ga5", {"reach": -1.0}, r"reach=-1.0 is below 0"),
        ("ga5", {"scale": float("nan")}, "scale=nan is not a finite number"),
        ("ga2", {"step": 1.5}, "step=1.5 is not a probability from 0 to 1"),
        ("ga2", {"seats": "both"}, "seats='both' is not one of swapped, fixed"),
        ("ga2", {"faithful": 1}, "faithful=1 is neither true nor false"),
        ("ga2", {"operators": {"early": [1.0, 0.0, 0.0]}}, r"operators=.* is not {early: \[…\], stuck: .*}"),
        ("ga2", {"operators.late": [0.5, 0.5]}, r"operators.late=\[0.5, 0.5\] is not three probabilities, .*"),
        ("ga2", {"operators.early": [1.5, 0, -0.5]}, "operators.early=1.5 is not a probability from 0 to 1"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(name: str, changes: dict[str, Any], message: str) -> None:
    for key, value in list(changes.items()):
        if key.startswith("operators."):
            del changes[key]
            changes["operators"] = {**build_trainer(name).operators, key.partition(".")[2]: value}  # type: ignore[attr-defined]
    with pytest.raises(RequestError, match=rf"^trainer.{message}$"):
        build_trainer(name, **changes)


def test_a_tournament_may_be_of_the_whole_population() -> None:
    assert build_trainer("ga5", population=5).tournament == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opponents": ["randon"]}, "agent 'randon' does not exist; did you mean 'random'\\? valid: .*"),
        ({"agent": "rule_based"}, "trainer.agent=rule_based has no gene 'alpha': it has faithful, version"),
        (
            {"opponents": ["random", "ga2", {"agent": "random"}]},
            "trainer.opponents has 'random' 2 times: once is enough",
        ),
        ({"agent": "ga2(gamma=1)"}, "the yaml of agent 'ga2' has no parameter 'gamma'; .*"),
    ],
)
def test_an_agent_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    genetic_trainer = build_trainer("ga2", **SMALL, **changes)
    for refusing in (genetic_trainer.check, genetic_trainer.train):
        with pytest.raises(RequestError, match=f"^{message}$"):
            refusing(build_context(tmp_path / "archive"))
    assert not (tmp_path / "archive").exists()


def test_generations_of_other_code_are_not_gone_on_from_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_the_same_words(monkeypatch)  # so that what is played anew comes to the same
    genetic_trainer, begun = build_trainer("ga2", **SMALL), replace(build_context(tmp_path), threads=1)
    genetic_trainer.train(replace(begun, progress=Watcher(begun.stop, 30)))
    monkeypatch.setattr(experiment, "build_code_record", lambda *_: {"version": "0", "fingerprint": "0" * 16})
    differing = Replay(2, 1, GameDifference(0, 0, "0@a1", "1@a1"))  # games that come out the same would be gone on from
    monkeypatch.setattr("runners.arena.replay.replay_sample", lambda *_: differing)
    played = len(list(tmp_path.glob("games/*/*.parquet")))
    with pytest.raises(RequestError, match=r"^run .* was begun by other code .*=extend goes on with its games .*$"):
        genetic_trainer.train(build_context(tmp_path))
    assert len(list(tmp_path.glob("games/*/*.parquet"))) == played
    extended = genetic_trainer.train(build_context(tmp_path, other_code="extend"))
    anew = genetic_trainer.train(build_context(tmp_path, other_code="new"))
    assert extended.policy == anew.policy is not None
    assert not set(extended.run_ids) & set(anew.run_ids)


def test_generations_are_gone_on_from_after_an_upgrade_that_plays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    genetic_trainer, begun = build_trainer("ga2", **SMALL), replace(build_context(tmp_path / "stopped"), threads=1)
    uninterrupted = genetic_trainer.train(build_context(tmp_path / "whole"))
    genetic_trainer.train(replace(begun, progress=Watcher(begun.stop, 30)))
    monkeypatch.setattr(experiment, "build_code_record", lambda *_: {"version": "0", "fingerprint": "0" * 16})
    upgraded = genetic_trainer.train(build_context(tmp_path / "stopped"))
    assert (upgraded.policy, upgraded.run_ids) == (uninterrupted.policy, uninterrupted.run_ids)
    (warning,) = caplog.messages
    assert warning.endswith("gave the same result, so it goes on (said once for all runs of the training)")


# A stored population


def store_policy(root: Path, trained: TrainingOutcome, name: str) -> str:
    """Store what was learned under a name; return its id."""
    assert trained.policy is not None
    return policy_store.save(
        ArchiveStore.open(root, create=True), trained.policy, replace(origin(name), tables=trained.tables)
    ).policy_id


@pytest.mark.slow
def test_the_last_population_of_a_stored_policy_can_be_the_start(tmp_path: Path) -> None:
    first = build_trainer("ga5", **SMALL).train(build_context(tmp_path))
    policy_id = store_policy(tmp_path, first, "first")
    last = first.tables["population"].filter(pl.col("goes_on"), generation=4).sort("place").select(GENES["ga5"])
    for start in ("first", policy_id):
        again = build_trainer("ga5", **SMALL, start=start).train(build_context(tmp_path))
        begun = again.tables["population"].filter(generation=0).sort("individual").select(GENES["ga5"])
        assert_frame_equal(begun, last)
    larger = build_trainer("ga5", **SMALL | {"population": 7}, start="first").train(build_context(tmp_path))
    begun = larger.tables["population"].filter(generation=0).sort("individual").select(GENES["ga5"])
    assert_frame_equal(begun[:5], last)
    assert not set(begun[5:].rows()) & set(last.rows())


def test_what_is_no_population_of_these_genes_is_refused(tmp_path: Path) -> None:
    trained = build_trainer("ga2", **SMALL).train(build_context(tmp_path))
    store_policy(tmp_path, trained, "two")
    store_policy(tmp_path, replace(trained, tables={}), "bare")
    for name, start, message in (
        ("ga5", "two", "trainer.start=two: its genes are alpha, beta, not alpha, beta, gamma, delta, epsilon"),
        ("ga2", "tow", "policy 'tow' is not in archive .*; did you mean 'two'.*"),
        ("ga2", "bare", "policy 'bare' has no table 'population'; valid: none"),
    ):
        with pytest.raises(RequestError, match=f"^{message}$"):
            build_trainer(name, **SMALL, start=start).train(build_context(tmp_path))


# The command

TYPED = ("train", "trainer=ga2", *(f"trainer.{key}={value}" for key, value in SMALL.items()))


def test_the_command_evolves_keeps_the_population_and_says_how_to_play_by_it(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = qarena(*TYPED, "policy.name=evolved", "progress=false")
    assert done.code == 0, done.err
    monkeypatch.setattr("analytics.report.style.render_curve_svg", lambda *_: b"<svg/>")
    archive = ArchiveStore.open(Path("data/archive"))
    card = policy_store.find(archive, "evolved")
    assert (card.kind, tuple(card.parameters)) == (GENOME, GENES["ga2"])
    population = policy_store.read_table(archive, card, "population")
    assert population["generation"].max() == 4
    assert population.schema["parents"] == pl.List(pl.Int64)
    assert len(policy_store.read_table(archive, card, "curve")) == 5
    again = qarena(*TYPED, "policy.name=evolved")
    assert (again.code, policy_store.find(archive, "evolved").knowledge) == (0, card.knowledge)
    assert "Nothing to play" in again.out
    *_, play = done.out.strip().splitlines()
    assert qarena(*shlex.split(play)[1:], "games=20").code == 0
    listed = qarena("archive", "ls").out
    assert " and 5 others" in listed  # a population is not listed label by label
    assert max(map(len, listed.splitlines())) < 250
    on = qarena(*TYPED, "trainer.start=evolved", "policy.name=on")
    assert on.code == 0, on.err
