"""``qarena bench``: what the page of speeds shows, beside yardsticks that find the same, and the times of turns."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from agents.base.player import build_player
from agents.mcts import Mcts
from quarto.batch import Batch
from quarto.errors import FailureError
from quarto.position import EMPTY, PackedPosition, position_from_plies
from quarto.rng import Streams
from quarto.rules import CLASSIC, Rules
from quarto.solver.solver import Solver
from runners.arena.batch_engine import PairRange
from runners.arena.executors.base import available_cores
from runners.arena.experiment import build_engine
from runners.arena.spec import RunSpec
from runners.bench import archive, benchmark, solver, timing, turn_parts
from runners.bench.benchmark import build_yardstick
from runners.bench.timing import compile_program, measure_process
from runners.bench.turn_times import (
    TurnTimes,
    format_figure,
    measure_turn_nanoseconds,
    measure_turn_times,
    sample_random_positions,
)
from runners.config.agents import agent_from_label, load_agent
from tests import naive
from tests.marks import seldom
from tests.naive import NONE, PRESETS, has_line, winning_cells
from tests.naive_solver import solve_position
from tests.paths import SAMPLE
from tests.positions import build_view
from tests.runners.conftest import Qarena
from tests.runners.experiments import Watcher

# Exact figures of random play under classic rules, by enumeration.
FIRST_PLACER_WINS = 396559745769377 / 818113776480000
DRAWS = 359633803 / 18162144000

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the yardstick is compiled by the C compiler 'cc'"
)


@needs_compiler
def test_the_yardstick_plays_the_same_game_and_searches_are_held_against_it(tmp_path: Path) -> None:
    games = 1_000_000
    plain_c = build_yardstick(tmp_path)
    assert plain_c is not None
    assert plain_c(games, 2) > 0
    printed = subprocess.run([tmp_path / "yardstick", str(games), "2"], check=True, capture_output=True, text=True)
    first, second, draws, plies = (int(count) for count in printed.stdout.split()[1:])
    assert first + second + draws == games
    for count, chance in ((first, FIRST_PLACER_WINS), (draws, DRAWS)):
        assert abs(count - games * chance) < 4 * math.sqrt(games * chance * (1 - chance))
    assert abs(plies / games - 11.664852) < 0.02
    random = load_agent("random")
    engine = build_engine(RunSpec(CLASSIC, (random, random), ((0, 1),), 0, 0))
    block = engine.play_block(PairRange(0, 0, 1000)).games
    printed = subprocess.run(
        [tmp_path / "yardstick", "2000", "2", str(engine.run)], check=True, capture_output=True, text=True
    )
    expected = [int((block.winner == winner).sum()) for winner in (1, 0, NONE)] + [int(block.plies.sum())]
    assert [int(count) for count in printed.stdout.split()[1:]] == expected
    figures = benchmark.measure_search(plain_c, 1, 100)
    assert figures["rollouts_per_second"] == 200 * figures["turns_per_second"]
    assert figures["ratio_of_rollouts_to_yardstick"] > 0


def test_writing_is_measured_where_the_user_says_and_else_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "RAM_DISK_FOLDER", tmp_path)
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert benchmark.choose_ram_disk_or_temporary_folder() == tmp_path
    monkeypatch.setattr(benchmark, "MIN_FREE_BYTES", 1 << 60)
    assert benchmark.choose_ram_disk_or_temporary_folder() == Path(tempfile.gettempdir())
    monkeypatch.setattr(benchmark, "MIN_FREE_BYTES", 0)
    user_folder = tmp_path / "own"
    user_folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(user_folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert benchmark.choose_ram_disk_or_temporary_folder() == user_folder


@pytest.mark.slow
def test_bench_measures_all_that_it_promises(tmp_path: Path, qarena: Qarena) -> None:
    result = qarena("bench", "--quick", "--json", "figures.json")
    assert result.code == 0, result.err
    figures = json.loads((tmp_path / "figures.json").read_text())
    for name in ("simulate", "write_only", "end_to_end"):
        for threads in ("1_threads", f"{available_cores()}_threads"):
            assert figures[threads][name]["games_per_second"] > 0
            assert figures["rule_based_v_random"][threads][name]["games_per_second"] > 0
        assert f"1_threads.{name}.games_per_second" in result.out
    assert figures["end_to_end_speedup"] > 0
    assert {"playing", "encoding", "checks", "fingerprints", "tallies"} == set(figures["stages"])
    assert {"random", "dumb", "semi_random", "rule_based"} <= set(figures["agents"])
    assert 0 < figures["bytes_per_ply_row"] <= 3.2
    assert figures["mcts"]["rollouts_per_second"] > 1_500_000
    for name in ("q_placement", "ga2"):
        assert 0 < figures["training"][name]["seconds"] < 60
    assert 0 < figures["run"]["peak_memory_mib"] < 1000
    assert set(figures["startup"]) == {"imports", *benchmark.STARTUP_COMMANDS}
    with pytest.raises(FailureError, match=r"'run agent@a=nobody' failed with exit code 2"):
        measure_process(["run", "agent@a=nobody"], tmp_path)


@pytest.mark.parametrize("kinds", [(), *seldom((archive.POLICY_KINDS,))], ids=str)
def test_questions_are_measured(kinds: tuple[str, ...], qarena: Qarena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out policies in the quick variant, because each takes two processes of its own."""
    monkeypatch.setattr(archive, "QUICK_GAMES", 5_000)
    monkeypatch.setattr(archive, "POSITIONS", archive.POSITIONS[:3])  # which so few games meet
    monkeypatch.setattr(archive, "ROUNDS", 1)
    monkeypatch.setattr(archive, "POLICY_KINDS", kinds)
    result = qarena("bench", "--questions", "--quick")
    assert result.code == 0, result.err
    for name in (
        *("index.games_per_second", "index_unchanged.seconds", "win_rates.seconds", "first_plies.seconds"),
        *("explorer.milliseconds", "distinct_plies_in_1GiB.seconds", *(f"policy_{kind}.seconds" for kind in kinds)),
    ):
        assert name in result.out


def test_positions_for_the_solver_are_live_safe_and_the_same_every_time() -> None:
    positions = solver.sample_positions_with_safe_hand(8, 30)
    assert positions == solver.sample_positions_with_safe_hand(8, 40)[:30]
    for position in positions:
        view = build_view(position, CLASSIC)
        assert sum(piece >= 0 for piece in view.board) == 8
        assert not has_line(view.board, CLASSIC)
        assert not winning_cells(view.board, position.hand, CLASSIC)


@pytest.mark.slow
def test_the_solvers_yardstick_finds_the_values_of_playing_every_game_out(tmp_path: Path) -> None:
    program = compile_program("yardstick_solver.cpp", tmp_path)
    assert program is not None
    late, early = solver.sample_positions_with_safe_hand(11, 20), solver.sample_positions_with_safe_hand(8, 20)
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
    monkeypatch.setattr(solver, "PAIRINGS", ((0, 1),))
    result = qarena("bench", "--solver", "--quick")
    assert result.code == 0
    for name in (
        *("9_pieces.milliseconds", "9_pieces.ratio_to_yardstick", "threads.speedup"),
        *("oracle.15_pieces.median", "oracle.anywhere.worst"),
        *("annotate.values_from_5_pieces.decisions_per_second", "annotate.choices.decisions_per_second"),
    ):
        assert name in result.out
    wrong = partial(solver.YardstickResult, processor_seconds=1.0)
    monkeypatch.setattr(solver, "run_yardstick", lambda _program, positions: wrong([2] * len(positions)))
    result = qarena("bench", "--solver", "--quick")
    assert (result.code, result.out) == (1, "")
    assert "the yardstick finds other values of positions with 9 pieces" in result.err


SEED = 3


def measure_agent(
    name: str, rules: Rules = CLASSIC, positions: int = 6, stop: threading.Event | None = None
) -> TurnTimes:
    return measure_turn_times(agent_from_label(name), rules, positions, SEED, stop or threading.Event())


def naive_positions(rules: Rules, pieces: int, count: int) -> list[PackedPosition]:
    """Return the first positions with ``pieces`` pieces, in naive random games, in which another piece was placed."""
    positions: list[PackedPosition] = []
    for number in range(100 * count):
        game = naive.play_game(rules, (naive.Random(), naive.Random()), SEED, number // 2, number % 2)
        plies = list(zip(game.pieces, game.cells, strict=True))
        if len(plies) > pieces and len(positions) < count:
            positions.append(position_from_plies(plies[:pieces], NONE if rules.mover_chooses else plies[pieces][0]))
    return positions


@pytest.mark.parametrize("rules", [CLASSIC, PRESETS["own_piece"]], ids=lambda rules: rules.name)
def test_positions_are_those_of_random_games_that_go_on(rules: Rules) -> None:
    reached = sample_random_positions(rules, 2, SEED)
    assert list(reached) == list(range(16))
    for pieces, row in reached.items():
        assert row == naive_positions(rules, pieces, 2)


def quantile(values: Sequence[float], share: float) -> float:
    """Compute a quantile by the definition of Hyndman and Fan's type 7."""
    ordered = sorted(values)
    rank = share * (len(values) - 1)
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (rank - math.floor(rank)) * (high - low)


def test_the_six_figures_are_what_their_names_say() -> None:
    values = [5.0, 1.0, 4.0, 9.5, 2.0, 2.5]
    (row,) = TurnTimes(agent_from_label("random"), CLASSIC, SEED, {7: np.array(values)}).compute_summaries().values()
    assert row == pytest.approx(
        {
            "min": 1.0,
            "lower_quartile": quantile(values, 0.25),
            "mean": sum(values) / 6,
            "median": quantile(values, 0.5),
            "upper_quartile": quantile(values, 0.75),
            "max": 9.5,
        }
    )


def test_every_row_has_its_samples_and_they_add_up_to_no_more_than_the_wall_clock_saw() -> None:
    started = time.perf_counter()
    times = measure_agent("mcts(iterations=2000)")
    seconds = time.perf_counter() - started
    assert {pieces: len(row) for pieces, row in times.samples.items()} == dict.fromkeys(range(16), 6)
    assert 0 < sum(row.sum() for row in times.samples.values()) < 1e6 * seconds
    assert (
        times.compute_summaries()[2]["median"]
        > 20 * measure_agent("mcts(iterations=20)").compute_summaries()[2]["median"]
    )


@pytest.mark.slow  # not for its length: on a busy machine a clock proves nothing
def test_a_kernel_agrees_with_a_clock_around_many_calls() -> None:
    hands = [EMPTY._replace(hand=hand, available=EMPTY.available & ~(1 << hand)) for hand in range(16)]
    for iterations, copies in ((20, 50), (2000, 1)):  # turns that are repeated, turns that are not
        batch, rng = Batch.from_positions(copies * hands), Streams(np.arange(copies * 16, dtype=np.uint64))
        player = build_player(Mcts(iterations=iterations), CLASSIC, "mcts")
        inside, around = [], []
        for _ in range(20):  # in turn, because other work comes and goes
            inside.append(measure_turn_nanoseconds(player, batch, rng).mean())
            for _ in range(4):
                started = time.thread_time_ns()
                player.play(batch, rng)
                around.append((time.thread_time_ns() - started) / len(rng.seeds))  # and a call has a cost of its own
        assert min(inside) == pytest.approx(min(around), rel=0.5)


def test_whoever_stops_early_has_what_was_measured() -> None:
    stop = threading.Event()
    watcher = Watcher(stop, 20)
    times = measure_turn_times(agent_from_label("mcts"), CLASSIC, 40, SEED, stop, watcher)
    assert watcher.started == [640]
    assert sum(map(len, times.samples.values())) == watcher.games < 40
    assert set(times.compute_summaries()) == set(range(16))


def test_the_times_of_turns_are_printed_and_written(
    qarena: Qarena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_parts, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(turn_parts, "ROUND_SECONDS", 0.0)
    result = qarena("bench", "--turn", "own_piece_alpha_beta", "--positions", "3", "--json", "turns.json")
    assert (result.code, result.err) == (0, "")
    assert "upper quartile" in result.out
    assert "what a turn is made of" in result.out
    figures = json.loads((tmp_path / "turns.json").read_text())
    assert figures["rules"] == "own_piece"
    assert [figures["by_pieces_on_the_board"][f"{pieces}"]["positions"] for pieces in range(16)] == [3] * 16
    assert figures["parts_of_a_turn"]["games_in_a_block"] == 2
    assert [*figures["parts_of_a_turn"]["microseconds"]] == [turn_parts.KERNEL, turn_parts.ENGINE]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.500"),
        (-99.9994, "-99.999"),
        (100.0, "100"),
        (12345.6, "12,346"),
        (7, "7"),
        (4096, "4,096"),
        ("ms", "ms"),
    ],
)
def test_figures_have_decimals_below_a_hundred_unless_they_are_counts(value: object, text: str) -> None:
    assert format_figure(value) == text


def test_the_explorer_is_measured_in_milliseconds_a_position(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.5, 2.0))
    monkeypatch.setattr(archive, "time_fastest", lambda *_: next(seconds) * len(archive.POSITIONS))
    figures = archive._measure_position_lookups(SAMPLE)
    assert figures == {"explorer": {"milliseconds": 500.0, "with_samples_milliseconds": 2000.0}}


def test_a_program_that_does_not_compile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(timing.COMPILERS, ".c", (("false",), ""))  # a compiler that fails
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        compile_program("yardstick.c", tmp_path)
    monkeypatch.setitem(timing.COMPILERS, ".c", (("no-such-compiler",), ""))
    assert compile_program("yardstick.c", tmp_path) is None
