"""Genetic trainers refuse what makes no sense in one line, start from stored populations, and are commands."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agents.learning.policy import GENOME
from analytics.policies import policy_store
from analytics.store.archive import Archive
from quarto.errors import RequestError
from runners.arena import experiment
from runners.training.trainer import Trained
from tests.analytics.stored_policies import origin
from tests.runners.conftest import Qarena
from tests.runners.experiments import Watcher, draw_the_same_words
from tests.runners.training.evolving import GENES, SMALL, context, trainer

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
            changes["operators"] = {**trainer(name).operators, key.partition(".")[2]: value}  # type: ignore[attr-defined]
    with pytest.raises(RequestError, match=rf"^trainer.{message}$"):
        trainer(name, **changes)


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
    made = trainer("ga2", **SMALL, **changes)
    for refusing in (made.check, made.train):
        with pytest.raises(RequestError, match=f"^{message}$"):
            refusing(context(tmp_path / "archive"))
    assert not (tmp_path / "archive").exists()


def test_generations_of_other_code_are_not_gone_on_from_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_the_same_words(monkeypatch)  # so that what is played anew comes to the same
    made, begun = trainer("ga2", **SMALL), replace(context(tmp_path), threads=1)
    made.train(replace(begun, progress=Watcher(begun.stop, 30)))
    monkeypatch.setattr(experiment, "code_of", lambda *_: {"version": "0", "fingerprint": "0" * 16})
    played = len(list(tmp_path.glob("games/*/*.parquet")))
    with pytest.raises(RequestError, match=r"^run .* was begun by other code .*=extend goes on with its games .*$"):
        made.train(context(tmp_path))
    assert len(list(tmp_path.glob("games/*/*.parquet"))) == played
    extended = made.train(context(tmp_path, other_code="extend"))
    anew = made.train(context(tmp_path, other_code="new"))
    assert extended.policy == anew.policy is not None
    assert not set(extended.run_ids) & set(anew.run_ids)


# A stored population


def stored(root: Path, trained: Trained, name: str) -> str:
    """The id of what was learned, kept under a name."""
    assert trained.policy is not None
    return policy_store.save(
        Archive.open(root, create=True), trained.policy, replace(origin(name), tables=trained.tables)
    ).policy_id


@pytest.mark.slow
def test_the_last_population_of_a_stored_policy_can_be_the_start(tmp_path: Path) -> None:
    first = trainer("ga5", **SMALL).train(context(tmp_path))
    policy_id = stored(tmp_path, first, "first")
    last = first.tables["population"].filter(pl.col("goes_on"), generation=4).sort("place").select(GENES["ga5"])
    for start in ("first", policy_id):
        again = trainer("ga5", **SMALL, start=start).train(context(tmp_path))
        begun = again.tables["population"].filter(generation=0).sort("individual").select(GENES["ga5"])
        assert_frame_equal(begun, last)
    larger = trainer("ga5", **SMALL | {"population": 7}, start="first").train(context(tmp_path))
    begun = larger.tables["population"].filter(generation=0).sort("individual").select(GENES["ga5"])
    assert_frame_equal(begun[:5], last)
    assert not set(begun[5:].rows()) & set(last.rows())


def test_what_is_no_population_of_these_genes_is_refused(tmp_path: Path) -> None:
    trained = trainer("ga2", **SMALL).train(context(tmp_path))
    stored(tmp_path, trained, "two")
    stored(tmp_path, replace(trained, tables={}), "bare")
    for name, start, message in (
        ("ga5", "two", "trainer.start=two: its genes are alpha, beta, not alpha, beta, gamma, delta, epsilon"),
        ("ga2", "tow", "policy 'tow' is not in archive .*; did you mean 'two'.*"),
        ("ga2", "bare", "policy 'bare' has no table 'population'; valid: none"),
    ):
        with pytest.raises(RequestError, match=f"^{message}$"):
            trainer(name, **SMALL, start=start).train(context(tmp_path))


# The command

TYPED = ("train", "trainer=ga2", *(f"trainer.{key}={value}" for key, value in SMALL.items()))


def test_the_command_evolves_keeps_the_population_and_says_how_to_play_by_it(qarena: Qarena) -> None:
    done = qarena(*TYPED, "policy.name=evolved", "progress=false")
    assert done.code == 0, done.err
    archive = Archive.open(Path("data/archive"))
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
