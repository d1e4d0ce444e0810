"""Studies of Optuna: the plugin's own, in the direction of the objective, named after the settings."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.runners.conftest import Qarena, Result
from tests.runners.hydra_app.test_sweep import table_of

pytestmark = pytest.mark.extras

SPACE = (
    *("sweep", "hydra/sweeper=optuna", "agent@a=ga2", "agent@b=random", "a.alpha=interval(0,1)", "games=20"),
    *("hydra.sweeper.n_jobs=1", "hydra.sweeper.storage=sqlite:///study.db", "threads=1"),
)


def best_of(found: Result) -> str:
    """The line on the best trial of a study."""
    return next(line for line in found.out.splitlines() if line.startswith("Best of the study: "))


def test_the_same_command_adds_trials_to_the_study_of_its_settings(qarena: Qarena, tmp_path: Path) -> None:
    first = qarena(*SPACE, "hydra.sweeper.n_trials=2")
    assert (first.code, len(table_of(first))) == (0, 2), first.err
    assert re.sub(r"^\t#.*|.*ompil.*|^Launching.*", "", first.err, flags=re.MULTILINE).strip() == ""
    more = qarena(*SPACE, "hydra.sweeper.n_trials=1")
    assert (more.code, len(table_of(more))) == (0, 1), more.err
    scores = [float(row[-1]) for row in table_of(first) + table_of(more)]
    assert best_of(more).endswith(f"(score {max(scores):.4f})")
    other = qarena(*SPACE, "hydra.sweeper.n_trials=1", "objective=regret", "objective.from_pieces=8")
    (row,) = table_of(other)
    assert best_of(other).endswith(f"(regret {float(row[-1]):.4f})")
    assert {path.name for path in tmp_path.iterdir()} == {"data", "multirun", "study.db"}
    assert len({row["study_name"] for row in studies(tmp_path)}) == 2


def studies(folder: Path) -> list[dict[str, str]]:
    with sqlite3.connect(folder / "study.db") as database:
        return [{"study_name": name} for (name,) in database.execute("SELECT study_name FROM studies")]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (["hydra.sweeper.direction=minimize"], "hydra.sweeper.direction=minimize contradicts the objective score"),
        (["hydra.sweeper.n_trials=many"], "hydra.sweeper.n_trials=many: 'many' is not a whole number"),
        (["hydra.sweeper.storage=nowhere"], "hydra/sweeper=optuna cannot begin: Could not parse"),
        (["hydra/sweeper/sampler=grid"], "hydra/sweeper=optuna cannot begin: GridSampler only supports discrete"),
        (["gmaes=4"], "key 'gmaes' does not exist; did you mean 'games'?"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_study_is_one_line(wrong: list[str], expected: str, qarena: Qarena, tmp_path: Path) -> None:
    found = qarena(*SPACE, *wrong)
    assert found.refusal.startswith(f"error: {expected}")
    assert not (tmp_path / "multirun").exists()


def test_what_has_no_value_cannot_be_optimised(qarena: Qarena) -> None:
    built = qarena("policy", "build", "-m", "kind=gift", "hydra/sweeper=optuna")
    assert built.refusal.startswith("error: hydra/sweeper=optuna needs a value to optimise")
