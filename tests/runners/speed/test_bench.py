"""``qarena bench`` measures what the page of speeds shows, beside yardsticks that play and find the same."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from quarto.errors import FailureError
from quarto.rules import CLASSIC
from quarto.solver.solver import Solver
from runners.executors.base import available_cores
from runners.speed import archive, main, solver
from runners.speed.main import yardstick
from runners.speed.timing import compiled, process
from tests.marks import seldom
from tests.naive import has_line, winning_cells
from tests.naive_solver import solve_position
from tests.positions import view_of
from tests.runners.conftest import Qarena

# Exact figures of random play under classic rules, by enumeration.
FIRST_PLACER_WINS = 396559745769377 / 818113776480000
DRAWS = 359633803 / 18162144000

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the yardstick is compiled by the C compiler 'cc'"
)


@needs_compiler
def test_the_yardstick_plays_the_same_game_and_searches_are_held_against_it(tmp_path: Path) -> None:
    games = 1_000_000
    plain_c = yardstick(tmp_path)
    assert plain_c is not None
    assert plain_c(games, 2) > 0
    printed = subprocess.run([tmp_path / "yardstick", str(games), "2"], check=True, capture_output=True, text=True)
    first, second, draws, plies = (int(count) for count in printed.stdout.split()[1:])
    assert first + second + draws == games
    for count, chance in ((first, FIRST_PLACER_WINS), (draws, DRAWS)):
        assert abs(count - games * chance) < 4 * math.sqrt(games * chance * (1 - chance))
    assert abs(plies / games - 11.664852) < 0.02
    figures = main.search_figures(plain_c, 1, 100)
    assert figures["rollouts_per_second"] == 200 * figures["turns_per_second"]
    assert figures["ratio_of_rollouts_to_yardstick"] > 0


def test_writing_is_measured_where_the_user_says_and_else_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "RAM_DISK", tmp_path)
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert main.written_to() == tmp_path
    monkeypatch.setattr(main, "ROOM_BYTES", 1 << 60)
    assert main.written_to() == Path(tempfile.gettempdir())
    monkeypatch.setattr(main, "ROOM_BYTES", 0)
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert main.written_to() == own


@pytest.mark.slow
def test_bench_measures_all_that_it_promises(tmp_path: Path, qarena: Qarena) -> None:
    found = qarena("bench", "--quick", "--json", "figures.json")
    assert found.code == 0, found.err
    figures = json.loads((tmp_path / "figures.json").read_text())
    for name in ("simulate", "write_only", "end_to_end"):
        for threads in ("1_threads", f"{available_cores()}_threads"):
            assert figures[threads][name]["games_per_second"] > 0
            assert figures["rule_based_v_random"][threads][name]["games_per_second"] > 0
        assert f"1_threads.{name}.games_per_second" in found.out
    assert figures["end_to_end_speedup"] > 0
    assert {"playing", "encoding", "checks", "fingerprints", "tallies"} == set(figures["stages"])
    assert {"random", "dumb", "semi_random", "rule_based"} <= set(figures["agents"])
    assert 0 < figures["bytes_per_ply_row"] <= 3.2
    assert figures["mcts"]["rollouts_per_second"] > 1_500_000
    for name in ("q_placement", "ga2"):
        assert 0 < figures["training"][name]["seconds"] < 60
    assert 0 < figures["run"]["peak_memory_mib"] < 1000
    assert set(figures["startup"]) == {"imports", *main.COMMANDS}
    with pytest.raises(FailureError, match=r"'run agent@a=nobody' failed with exit code 2"):
        process(["run", "agent@a=nobody"], tmp_path)


@pytest.mark.parametrize("kinds", [(), *seldom((archive.KINDS,))], ids=str)
def test_questions_are_measured(kinds: tuple[str, ...], qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies, each in two processes of its own, take most of the time."""
    monkeypatch.setattr(archive, "QUICK_GAMES", 5_000)
    monkeypatch.setattr(archive, "POSITIONS", archive.POSITIONS[:3])  # which so few games meet
    monkeypatch.setattr(archive, "ROUNDS", 1)
    monkeypatch.setattr(archive, "KINDS", kinds)
    found = qarena("bench", "--questions", "--quick")
    assert found.code == 0, found.err
    for name in (
        *("index.games_per_second", "index_unchanged.seconds", "win_rates.seconds", "first_plies.seconds"),
        *("explorer.milliseconds", "distinct_plies_in_1GiB.seconds", *(f"policy_{kind}.seconds" for kind in kinds)),
    ):
        assert name in found.out


def test_positions_for_the_solver_are_live_safe_and_the_same_every_time() -> None:
    found = solver.positions(8, 30)
    assert found == solver.positions(8, 40)[:30]
    for position in found:
        view = view_of(position, CLASSIC)
        assert sum(piece >= 0 for piece in view.board) == 8
        assert not has_line(view.board, CLASSIC)
        assert not winning_cells(view.board, position.hand, CLASSIC)


@pytest.mark.slow
def test_the_solvers_yardstick_finds_the_values_of_playing_every_game_out(tmp_path: Path) -> None:
    program = compiled("yardstick_solver.cpp", tmp_path)
    assert program is not None
    late, early = solver.positions(11, 20), solver.positions(8, 20)
    values, seconds = solver.run_yardstick(program, [*late, *early])
    assert values[:20] == [solve_position(position, CLASSIC).value for position in late]
    assert values[20:] == [Solver(CLASSIC, 1.0).value(position) for position in early]
    assert seconds >= 0


@pytest.mark.slow
def test_the_solver_is_measured_beside_its_yardstick_and_other_values_are_a_failure(
    qarena: Qarena, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("POSITIONS", {9: 20}), ("MEGABYTES", 1.0), ("TURNS", 10), ("GAMES", 20)):
        monkeypatch.setattr(solver, name, value)
    monkeypatch.setattr(solver, "AGENTS", ("random", "rule_based"))
    monkeypatch.setattr(solver, "MEETINGS", ((0, 1),))
    found = qarena("bench", "--solver", "--quick")
    assert found.code == 0
    for name in (
        *("9_pieces.milliseconds", "9_pieces.ratio_to_yardstick", "threads.speedup"),
        *("oracle.15_pieces.median", "oracle.anywhere.worst"),
        *("annotate.values_from_5_pieces.decisions_per_second", "annotate.choices.decisions_per_second"),
    ):
        assert name in found.out
    monkeypatch.setattr(solver, "run_yardstick", lambda program, asked: ([2] * len(asked), 1.0))
    found = qarena("bench", "--solver", "--quick")
    assert (found.code, found.out) == (1, "")
    assert "the yardstick finds other values of positions with 9 pieces" in found.err
