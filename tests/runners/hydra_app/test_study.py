"""Studies of Optuna propose what an uninterrupted one would, go on where they were stopped, and repeat nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from analytics import open_archive
from tests.runners.conftest import Qarena, Result
from tests.runners.experiments import stop_the_second_run
from tests.runners.hydra_app.test_sweep import table_of

pytestmark = pytest.mark.extras

SPACE = ("sweep", "hydra/sweeper=optuna", "agent@a=ga2", "agent@b=random", "a.alpha=interval(0,1)", "games=20")
SEEDED = (*SPACE, "hydra.sweeper.sampler.seed=1", "hydra.sweeper.n_jobs=1", "threads=1")
KEPT = (*SEEDED, "hydra.sweeper.storage=sqlite:///study.db", "hydra.sweeper.study_name=genes")


def trials(asked: int) -> str:
    return f"hydra.sweeper.n_trials={asked}"


def launched(err: str) -> list[int]:
    """The numbers of the jobs that were launched."""
    return [int(number) for number in re.findall(r"^\t#(\d+) :", err, re.MULTILINE)]


def best_of(found: Result) -> str:
    """The line on the best trial of a study."""
    return next(line for line in found.out.splitlines() if line.startswith("Best of the study: "))


def test_a_study_goes_on_where_it_ended_and_repeats_nothing(qarena: Qarena, tmp_path: Path) -> None:
    whole = qarena(*SEEDED, trials(2))
    assert whole.code == 0, whole.err
    assert launched(whole.err) == [0, 1]
    kept = qarena(*KEPT, trials(2))
    assert [row[1:] for row in table_of(kept)] == [row[1:] for row in table_of(whole)]
    more = qarena(*KEPT, trials(4))
    assert (more.code, len(launched(more.err))) == (0, 2)
    proposed = [row[1] for row in table_of(kept) + table_of(more)]
    assert len({*proposed}) == 4
    again = qarena(*KEPT, trials(4))
    assert (again.code, launched(again.err)) == (0, []), again.err
    assert best_of(again) == best_of(more)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "multirun", "study.db"}
    with open_archive(tmp_path / "data/archive") as archive:
        values = archive.sql("SELECT max(value) FROM sweeps").item()
    assert best_of(more).endswith(f"(score {values:.4f})")


def test_what_an_interruption_left_is_taken_up_and_what_failed_is_tried_again(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as interrupted:
        stop_the_second_run(interrupted, tmp_path / "data/archive")
        stopped = qarena(*KEPT, trials(3))
    assert stopped.code == 130
    found = qarena(*KEPT, trials(3))
    assert (found.code, len(launched(found.err))) == (0, 2)
    proposed = [line.split()[2] for line in stopped.err.splitlines() if line.startswith("\t#1 :")]
    assert [line.split()[2] for line in found.err.splitlines() if line.startswith("\t#0 :")] == proposed

    rules = ("agent@a=rule_based", "hydra/sweeper/sampler=grid", "rules=own_piece,classic", "games=4")
    study = ("sweep", "hydra/sweeper=optuna", *rules, "hydra.sweeper.storage=sqlite:///rules.db")
    failed = qarena(*study, "hydra.sweeper.max_failure_rate=1")
    assert (failed.code, len(launched(failed.err))) == (1, 2)
    again = qarena(*study)
    assert (again.code, launched(again.err)) == (1, [0])
    assert "rules=own_piece" in again.err


def test_the_direction_is_that_of_the_objective(qarena: Qarena, tmp_path: Path) -> None:
    found = qarena(*SEEDED, trials(2), "objective=regret", "objective.from_pieces=8")
    assert found.code == 0, found.err
    least = min(float(row[-1]) for row in table_of(found))
    assert best_of(found).endswith(f"(regret {least:.4f})")


def test_a_table_of_a_database_that_another_sweep_uses_is_refused(qarena: Qarena, tmp_path: Path) -> None:
    from analytics.files import local

    descriptor = local.claim(tmp_path / "study.db.lock")
    assert descriptor is not None
    found = qarena(*KEPT, trials(1))
    os.close(descriptor)
    assert (found.code, found.out) == (2, "")
    assert "another sweep is running a study in this file" in found.err
    assert qarena(*KEPT, trials(1)).code == 0


def test_wrong_studies_are_one_line(qarena: Qarena, tmp_path: Path) -> None:
    assert qarena(*KEPT, trials(1)).code == 0
    for wrong, expected in {
        ("games=40",): "study 'genes' in sqlite:///study.db was begun with other settings (games: 20, now 40)",
        ("objective=win_rate",): "study 'genes' in sqlite:///study.db was begun with other settings (objective: score",
        (
            "a.alpha=1,2",
        ): "study 'genes' in sqlite:///study.db was begun with other settings (a.alpha: interval(0,1), now",
        ("hydra.sweeper.direction=minimize",): "hydra.sweeper.direction=minimize contradicts the objective score",
        ("hydra.sweeper.direction=up",): "hydra.sweeper.direction=up contradicts the objective score",
        ("hydra.sweeper.n_trials=0",): "hydra.sweeper.n_trials=0 is out of range: it must be at least 1",
        ("hydra.sweeper.n_trials=many",): "hydra.sweeper.n_trials=many: 'many' is not a whole number",
        ("hydra.sweeper.storage=sqlite:///no/x.db",): "hydra.sweeper.storage=sqlite:///no/x.db: no/x.db.lock cannot be",
        ("hydra.sweeper.storage=nowhere",): "hydra.sweeper.storage=nowhere (study 'genes') cannot be used: Could not",
        ("gmaes=4",): "key 'gmaes' does not exist; did you mean 'games'?",
    }.items():
        found = qarena(*KEPT, trials(2), *wrong)
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1), found.err
        assert found.err.startswith(f"error: {expected}"), found.err
    grid = qarena(*SPACE, "hydra/sweeper/sampler=grid")
    assert (grid.code, grid.err.count("\n")) == (2, 1)
    assert grid.err.startswith("error: a.alpha: a grid needs values, a.alpha=1,2,3 or a.alpha=range(1,4)")
    built = qarena("policy", "build", "-m", "kind=gift", "hydra/sweeper=optuna")
    assert built.err.startswith("error: hydra/sweeper=optuna needs a value to optimise")
