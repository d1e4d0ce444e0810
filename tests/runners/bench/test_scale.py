from __future__ import annotations

from pathlib import Path

import pytest

from analytics import open_archive
from runners.arena.agent_labels import load_agent
from runners.arena.config_groups import load_rules
from runners.arena.spec import RunSpec
from runners.bench import scale
from runners.bench.scale import _grown, _opening, _questions, _root
from runners.bench.tables import bench_table
from runners.bench.warm import play


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an archive of random games, as the runs that are measured leave it."""
    spec = RunSpec(load_rules("classic"), (load_agent("random"), load_agent("random")), ((0, 1),), 1, 0)
    play(spec, _root(tmp_path, 2_000), 2_000)
    return tmp_path


def test_a_figure_has_its_growth_beside_it() -> None:
    found = _grown({10: {"flat": 2.0, "linear": 1.0}, 1_000: {"flat": 2.0, "linear": 100.0}})
    assert (found["linear"]["10"], found["linear"]["1000"]) == (1.0, 100.0)
    assert found["linear"]["exponent"] == pytest.approx(1)
    assert found["flat"]["exponent"] == pytest.approx(0)


@pytest.mark.slow
def test_questions_and_opening_are_timed(folder: Path) -> None:
    assert set(_questions(_root(folder, 2_000))) == {"win_rates_seconds", "first_plies_seconds", "position_seconds"}
    assert all(seconds > 0 for seconds in _questions(_root(folder, 2_000)).values())
    assert all(seconds > 0 for seconds in _opening(folder, 300).values())  # enough for a checkpoint
    assert not (folder / "commits-300").exists()


def test_commits_that_are_made_for_the_measurement_are_sound(folder: Path) -> None:
    with open_archive(_root(folder, 2_000)) as opened:
        record = opened.archive.runs()[0]
    scale.add_commits(folder / "many", record, 20)
    with open_archive(folder / "many") as opened:
        assert opened.sql("SELECT games FROM runs")["games"].item() == 40
        assert opened.sql("SELECT sum(wins) AS wins FROM results")["wins"].item() == 40


@pytest.mark.slow
def test_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "QUICK_GAMES", (5_000, 20_000))
    monkeypatch.setattr(scale, "QUICK_COMMITS", (20, 300))
    figures = scale.bench_scale(quick=True)
    assert set(figures) == {"threads", "runs", "index", "questions", "commands", "commits"}
    assert figures["runs"]["peak_memory_ratio_of_last_two"] > 0.5
    for part in ("index", "questions", "commands", "commits"):
        for figure in figures[part].values():
            assert len(figure) == 3
            assert "exponent" in figure
    assert len(bench_table(figures).columns[0].values) > 30
