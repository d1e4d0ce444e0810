"""The page on Python: its program runs, and is typed strictly for whoever writes such a one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

from tests.paths import ROOT, SAMPLE

PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
PROGRAM, *OBJECTS, ASYNCHRONOUS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

# What else users write, with two mistakes that a type checker finds.
MORE = '''
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

import quarto
import runners
from agents import Position
from analytics import Archive, Result


class Corner:
    """Places in the first free cell, gives the first piece."""

    def choose(self, position: Position, rng: np.random.Generator) -> tuple[int, int]:
        return position.free[0], position.available[0]


def rate(archive: Archive, rules: Sequence[str]) -> dict[str, pl.DataFrame]:
    return {name: archive.ratings(rules=name, anchor="random").frame for name in rules}


result: Result = archive.lengths(agent="random", where="plies > 5")
path: Path = result.write("lengths.svg")
value: int = quarto.solve(quarto.Position.parse("0.6F/.3A./..5./C..9 7")).turns[0].value
games: int = archive.sql("FROM games").height + archive.scan("games", match.run_id).collect().height
runners.run(Corner(), "random", games=2)
version: str = runners.__version__
tested: list[str | None] = runners.sprt("mcts", "random", elo1=20).frame["accepted"].to_list()
for more in (
    runners.train(trainer="q_placement", overrides=["trainer.games=400"]),
    runners.build_policy("gift", name="gifts", where="winner >= 0"),
    runners.rebuild_policy("gifts"),
    runners.judge("mcts", "random", draws=1),
    archive.compare(match.run_id, match.run_id),
    archive.games(5, run=[match.run_id], trainings=False),
):
    print(more.title, more.note, len(more.tables), more.to_pandas())
game: quarto.Game = quarto.Game(quarto.CLASSIC).give(3)
archive.ratings(rule="classic")
archive.openings(by="turns")
'''


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec("\n".join([PROGRAM, *OBJECTS]), names)  # noqa: S102
    exec(ASYNCHRONOUS.replace('"data/sample"', repr(str(SAMPLE))), names)  # noqa: S102
    assert (tmp_path / "ratings.csv").read_text().startswith("rank,agent,elo")


@pytest.mark.parametrize("name", ["agents", "quarto"])
@pytest.mark.parametrize("program", ["from runners import run", "import analytics; analytics.open_archive()"])
def test_a_distribution_that_hides_a_package_is_named_at_once(name: str, program: str, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {folder / name} hides the project's own package '{name}': it belongs to another distribution, "
        "which needs an environment of its own"
    )


@pytest.mark.slow
def test_a_users_program_is_typed_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + MORE)
    monkeypatch.chdir(ROOT)
    out, err, _ = api.run(["--strict", "--config-file", "pyproject.toml", str(program)])
    assert not err
    complaints = [line.split(": ", 1)[1] for line in out.splitlines() if "error: " in line]
    assert len(complaints) == 2, out
    assert 'Unexpected keyword argument "rule"' in complaints[0]
    assert 'Argument "by" to "openings"' in complaints[1]
