"""The solver's benchmark measures what it says, and its yardstick finds the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarto.rules import CLASSIC
from quarto.solver.solver import Solver
from runners.speed import solver
from runners.speed.timing import compiled
from tests.naive import has_line, winning_cells
from tests.naive_solver import solve_position
from tests.positions import view_of
from tests.runners.conftest import Qarena


def test_positions_are_live_safe_and_the_same_every_time() -> None:
    found = solver.positions(8, 30)
    assert found == solver.positions(8, 40)[:30]
    for position in found:
        view = view_of(position, CLASSIC)
        assert sum(piece >= 0 for piece in view.board) == 8
        assert not has_line(view.board, CLASSIC)
        assert not winning_cells(view.board, position.hand, CLASSIC)


@pytest.mark.slow
def test_the_yardstick_finds_the_values_of_playing_every_game_out(tmp_path: Path) -> None:
    program = compiled("yardstick_solver.cpp", tmp_path)
    assert program is not None
    late, early = solver.positions(11, 20), solver.positions(8, 20)
    values, seconds = solver.run_yardstick(program, [*late, *early])
    assert values[:20] == [solve_position(position, CLASSIC).value for position in late]
    assert values[20:] == [Solver(CLASSIC, 1.0).value(position) for position in early]
    assert seconds >= 0


@pytest.mark.slow
def test_the_figures_are_printed_beside_the_yardstick(qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "POSITIONS", {9: 20})
    monkeypatch.setattr(solver, "MEGABYTES", 1.0)
    monkeypatch.setattr(solver, "TURNS", 10)
    monkeypatch.setattr(solver, "GAMES", 20)
    monkeypatch.setattr(solver, "AGENTS", ("random", "rule_based"))
    monkeypatch.setattr(solver, "MEETINGS", ((0, 1),))
    found = qarena("bench", "--solver", "--quick")
    assert found.code == 0
    for name in (
        "9_pieces.milliseconds",
        "9_pieces.ratio_to_yardstick",
        "threads.speedup",
        "oracle.15_pieces.median_microseconds",
        "oracle.anywhere.worst_microseconds",
        "annotate.values_from_5_pieces.decisions_per_second",
        "annotate.choices.decisions_per_second",
    ):
        assert name in found.out


@pytest.mark.slow
def test_another_value_of_the_yardstick_is_a_failure(monkeypatch: pytest.MonkeyPatch, qarena: Qarena) -> None:
    monkeypatch.setattr(solver, "POSITIONS", {10: 5})
    monkeypatch.setattr(solver, "run_yardstick", lambda program, asked: ([2] * len(asked), 1.0))
    found = qarena("bench", "--solver", "--quick")
    assert (found.code, found.out) == (1, "")
    assert "the yardstick finds other values of positions with 10 pieces" in found.err
