"""What the packages offer to Python's users: names that are there, with types, a version and lazy imports."""

from __future__ import annotations

import doctest
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import quarto
from agents.base import agent
from quarto import game, rules, views
from quarto.errors import RequestError
from quarto.solver import solution, solver
from tests.paths import ROOT

PACKAGES = ("agents", "analytics", "quarto", "runners")
LAZY = """
import sys
import agents, analytics, quarto, runners
for package in (agents, analytics, quarto, runners):
    assert dir(package)
    assert package.__version__ == quarto.__version__
print(sorted({"numba", "numpy", "polars", "duckdb", "hydra", "rich"} & {*sys.modules}))
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_all_public_names_are_there_and_typed(package: str) -> None:
    module = import_module(package)
    for name in dir(module):
        assert getattr(module, name) is not None
    assert (ROOT / package / "py.typed").exists()
    stub = ROOT / package / "__init__.pyi"
    typed = (stub if stub.exists() else ROOT / package / "__init__.py").read_text()
    assert [name for name in dir(module) if name not in typed] == []
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_importing_the_packages_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_position_is_solved_in_one_line() -> None:
    text = "0.6F/.3A./..5./C..9 7"
    solved = quarto.solve(text)
    assert solved == quarto.solve(quarto.Position.parse(text))
    assert max(turn.value for turn in solved.turns) == solved.value
    assert {turn.value for turn in solved.best} == {solved.value}
    assert solved.frame.filter("best").select("cell", "gift").rows() == [
        (turn.text[:2], turn.text[3:]) for turn in solved.best
    ]
    with pytest.raises(RequestError, match="the game is over"):
        quarto.solve("0123/..../..../.... -")


@pytest.mark.parametrize(
    ("module", "examples"), [(agent, 13), (game, 3), (rules, 2), (solution, 5), (solver, 6), (views, 5)]
)
def test_the_examples_of_public_names_run(module: ModuleType, examples: int) -> None:
    assert doctest.testmod(module) == (0, examples)
