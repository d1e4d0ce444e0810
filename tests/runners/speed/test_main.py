from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from quarto.errors import FailureError
from runners.executors.machine import available_cores
from runners.speed import main
from runners.speed.main import bench
from runners.speed.searches import searches
from runners.speed.tables import bench_table
from runners.speed.timing import COMMANDS, process, startup, yardstick
from runners.terminal.tables import write_json

# Exact figures of random play under classic rules, by enumeration.
FIRST_PLACER_WINS = 396559745769377 / 818113776480000
DRAWS = 359633803 / 18162144000

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the yardstick is compiled by the C compiler 'cc'"
)


@needs_compiler
def test_the_yardstick_plays_the_same_game(tmp_path: Path) -> None:
    games = 1_000_000
    seconds = yardstick(tmp_path)
    assert seconds is not None
    assert seconds(games, 2) > 0
    printed = subprocess.run([tmp_path / "yardstick", str(games), "2"], check=True, capture_output=True, text=True)
    first, second, draws, plies = (int(count) for count in printed.stdout.split()[1:])
    assert first + second + draws == games
    for count, chance in ((first, FIRST_PLACER_WINS), (draws, DRAWS)):
        assert abs(count - games * chance) < 4 * math.sqrt(games * chance * (1 - chance))
    assert abs(plies / games - 11.664852) < 0.02


def test_a_figure_stands_beside_its_target() -> None:
    figures = {"mcts": {"turns_per_second": 40_000.0, "target_turns_per_second": 300, "rules": "classic"}, "threads": 2}
    text = io.StringIO()
    Console(file=text, width=200).print(bench_table(figures))
    rows = [line.replace("│", " ").split() for line in text.getvalue().splitlines() if line.startswith("│")]
    assert rows == [["mcts.turns_per_second", "40,000", "300"], ["mcts.rules", "classic"], ["threads", "2"]]


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


@needs_compiler
def test_searches_are_held_against_plain_c(tmp_path: Path) -> None:
    figures = searches(yardstick(tmp_path), rounds=1, quick=True)
    mcts = figures["mcts"]
    assert mcts["rollouts_per_second"] == 200 * mcts["turns_per_second"]
    ratio = mcts["rollouts_per_second"] / mcts["yardstick_games_per_second"]
    assert mcts["ratio_of_rollouts_to_yardstick"] == ratio > 0


@pytest.mark.slow
def test_starting_is_measured_as_a_ratio_to_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {name: COMMANDS[name] for name in ("help", "wrong_request")}
    monkeypatch.setattr("runners.speed.timing.COMMANDS", chosen)
    figures = startup(tmp_path, rounds=1)
    imports = figures["imports"]["seconds"]
    assert set(figures) == {"imports", *chosen}
    for name in chosen:
        assert figures[name]["ratio_to_imports"] == figures[name]["seconds"] / imports > 0


@pytest.mark.slow
def test_a_command_that_fails_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(FailureError, match=r"'run agent@a=nobody' failed with exit code 2"):
        process(["run", "agent@a=nobody"], tmp_path)


@pytest.mark.slow
def test_bench_measures_all_that_it_promises(tmp_path: Path) -> None:
    figures = bench(quick=True)
    cores = f"{available_cores()}_threads"
    for name in ("simulate", "write_only", "end_to_end"):
        for threads in ("1_threads", cores):
            assert figures[threads][name]["games_per_second"] > 0
            assert figures["rule_based_v_random"][threads][name]["games_per_second"] > 0
    assert figures["end_to_end_speedup"] > 0
    assert {"playing", "encoding", "checks", "fingerprints", "tallies", "writing"} == set(figures["stages"])
    assert {"random", "dumb", "semi_random", "rule_based"} <= set(figures["agents"])
    assert 0 < figures["bytes_per_ply_row"] <= 3.2
    for name, (target, reached) in {
        "mcts": ("target_rollouts_per_second", "rollouts_per_second"),
        "genetic_minimax": ("target_turns_per_second", "turns_per_second"),
    }.items():
        assert figures["searches"][name][reached] > figures["searches"][name][target]
    for name in ("rule_based", "ga2", "ga_minimax", "best_mixed"):
        assert figures["agents"][name]["target_games_per_second"] > 0
    for name in ("q_placement", "ga2"):
        assert 0 < figures["training"][name]["seconds"] < figures["training"][name]["target_seconds"]
    assert figures["growth"]["peak_memory_ratio_of_last_two"] > 0
    assert set(figures["startup"]) == {"imports", *COMMANDS}
    write_json(figures, tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    assert len(bench_table(figures).columns[0].texts) > 20
