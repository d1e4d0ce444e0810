from __future__ import annotations

import sys

import pytest

from quarto.errors import MissingExtraError, RequestError
from runners.bench.main import measured
from runners.cli.bench import bench


@pytest.mark.extras
def test_environments_are_measured_beside_those_of_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.bench.environments.SECONDS", 3.0)  # a tenth of it, once
    figures = measured("environments", quick=True)
    ours = {"pettingzoo_quarto", "gymnasium_quarto", "vector_quarto", "openspiel_python_quarto"}
    theirs = {"pettingzoo_connect_four", "openspiel_connect_four", "openspiel_python_tic_tac_toe"}
    assert set(figures) == ours | theirs
    speeds = {name: each["steps_per_second"] for name, each in figures.items()}
    assert min(speeds.values()) > 1000
    vector = figures["vector_quarto"]
    ratio = vector["ratio_to_pettingzoo_connect_four"]
    assert ratio == speeds["vector_quarto"] / speeds["pettingzoo_connect_four"]
    assert ratio > vector["target_ratio_to_pettingzoo_connect_four"] == 100


def test_without_the_extras_a_line_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name.split(".")[0] == "pettingzoo"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(MissingExtraError, match=r"needs pettingzoo: pip install 'quarto-arena\[rl\]'"):
        measured("environments")


def test_two_measurements_at_once_are_refused() -> None:
    with pytest.raises(RequestError, match="--solver and --environments measure different things"):
        bench(solver=True, environments=True)
