"""`qarena bench`: playing, writing, learning and start-up, measured so that ratios mean something.

Machines are shared and noisy. So figures that are compared are measured alternately within one run, several times, and
the fastest time of each counts, because noise only adds time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np
import polars as pl

from agents.base.player import build_player
from analytics.questions.columns import ResultColumn, Table
from analytics.statistics.tally import tally_block
from analytics.store.game_tables import concat_blocks_into_large_parts, encode_game_tables
from analytics.store.ranges import compute_checksum
from analytics.store.records import run_id_to_stream_key
from quarto.batch import Batch, Block
from quarto.position import ALL_PIECES, PackedPosition
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, PIECES
from runners.arena.batch_engine import MAX_BLOCK_PAIRS, BatchEngine, Pace, PairRange
from runners.arena.executors.base import MEBIBYTE, available_cores
from runners.arena.experiment import build_engine
from runners.arena.heap import keep_freed_memory
from runners.arena.spec import RunSpec
from runners.bench.archive import bench_archive
from runners.bench.executors import bench_executors
from runners.bench.solver import bench_solver_oracle_and_annotation
from runners.bench.timing import Figures, compile_program, measure_process
from runners.bench.turn_times import NANOSECONDS_PER_SECOND, format_figure, measure_turn_nanoseconds
from runners.bench.warm_up import choose_rules_name, play_games, time_warm_up_steps
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import flatten_settings, list_options, load_rules
from runners.terminal.console import build_escaped_table, print_tables
from runners.terminal.files import is_standard_stream_dash
from runners.terminal.tables import write_json

Yardstick = Callable[[int, int], float]  # plays games on threads and returns the seconds
ROUNDS = 3
RAM_DISK_FOLDER, MIN_FREE_BYTES = Path("/dev/shm"), 1 << 30  # noqa: S108  (folders in it are private ones)
TRAININGS = {"q_placement": ("games", 100_000), "ga2": ("generations", 100)}  # by the studies' schedules
ITERATIONS, TURNS, YARDSTICK_GAMES = 200, 8000, 1_000_000  # iterations of ``mcts``; turns and games timed in a round

IMPORTS_PROGRAM = "import numba, polars, duckdb"
SHARD_GAMES = 1 << 18
# Commands with their exit codes, by name.
STARTUP_COMMANDS = {
    "help": (["--help"], 0),
    "run_help": (["run", "--help"], 0),
    "wrong_request": (["run", "agent@a=nobody"], 2),
    "run_of_two_games": (["run", "agent@a=random", "agent@b=random", "games=2", "archive.root=two"], 0),
    "sql": (["sql", "--archive", "two", "SELECT count(*) AS games FROM games"], 0),
}


def bench_games_training_and_startup(quick: bool = False) -> Figures:
    """Measure playing, writing, searching, training and start-up, and return the figures as nested dictionaries.

    With ``quick``, only a tenth of the games is played, and most measurements are not repeated.
    """
    scale, rounds = (10, 1) if quick else (1, ROUNDS)
    for _ in time_warm_up_steps():  # so that compiling is not measured
        pass
    disk = choose_ram_disk_or_temporary_folder()
    figures: Figures = {"threads": available_cores(), "written_to": str(disk)}
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        plain_c = build_yardstick(Path(folder), run_id_to_stream_key(_build_spec_against_random("random").run_id))
        with TemporaryDirectory(prefix="quarto-arena-bench-", dir=disk) as write_folder:
            games, on_disk = 5_000_000 // scale, Path(write_folder)
            figures |= measure_throughput(_build_spec_against_random("random"), games, rounds, on_disk, plain_c)
            figures["rule_based_v_random"] = measure_throughput(
                _build_spec_against_random("rule_based"), games // 2, rounds, on_disk, None
            )
        figures["agents"] = {name: _measure_agent_against_random(name, 2.0 / scale) for name in list_options("agent")}
        figures["mcts"] = measure_search(plain_c, rounds, TURNS // scale)
        figures["training"] = {trainer: _time_training_process(trainer, Path(folder), scale) for trainer in TRAININGS}
        figures["run"] = _measure_run(10_000_000 // scale, Path(folder))
        figures["startup"] = measure_startup_against_imports(Path(folder), rounds)
    return figures


MEASUREMENTS: Mapping[str, Callable[[bool], Figures]] = {
    "all": bench_games_training_and_startup,
    "solver": bench_solver_oracle_and_annotation,
    "questions": bench_archive,
    "executors": lambda quick: bench_executors(quick, choose_ram_disk_or_temporary_folder()),
}


def build_bench_table(figures: Figures) -> Table:
    """Build a table with a row for each figure.

    The name of a figure consists of the keys that lead to it, joined by dots.
    """
    values_by_name = dict(flatten_settings(figures))
    texts = [format_figure(value) for value in values_by_name.values()]
    return build_escaped_table(
        [ResultColumn("figure", [*values_by_name], right_aligned=False), ResultColumn("value", texts)], "bench"
    )


def run_benchmark(measurement: str, quick: bool, file: Path | None) -> None:
    """Carry out one of ``MEASUREMENTS`` and print its figures. If ``file`` is given, write them to it as JSON.

    The figures are not printed if ``file`` is the standard output.
    """
    output_figures(MEASUREMENTS[measurement](quick), file)


def output_figures(figures: Figures, file: Path | None) -> None:
    """Print figures as a table. If ``file`` is given, write them to it as JSON, and print nothing if it is ``-``."""
    if not is_standard_stream_dash(file):
        print_tables([build_bench_table(figures)])
    if file:
        write_json(figures, file)


def choose_ram_disk_or_temporary_folder() -> Path:
    """Return the folder in which writing is measured: the RAM disk if it has room, otherwise the temporary folder.

    The RAM disk is preferred because other disks are slower than the program and, on a server, shared with others. If
    ``TMPDIR`` is set, however, the temporary folder is always used.
    """
    if (
        "TMPDIR" not in os.environ
        and RAM_DISK_FOLDER.is_dir()
        and shutil.disk_usage(RAM_DISK_FOLDER).free > MIN_FREE_BYTES
    ):
        return RAM_DISK_FOLDER
    return Path(gettempdir())


def build_yardstick(folder: Path, run: int = 0) -> Yardstick | None:
    """Compile a C program that plays the games of ``random`` against itself, and return a function that times it.

    The games are those of the run with the word ``run``. The program is compiled into ``folder``. Returns None if there
    is no C compiler.
    """
    program = compile_program("yardstick.c", folder)
    if program is None:
        return None

    def time_yardstick_games(games: int, threads: int) -> float:
        command = [str(program), str(games), str(threads), str(run)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])  # noqa: S603

    return time_yardstick_games


def measure_throughput(spec: RunSpec, games: int, rounds: int, folder: Path, yardstick: Yardstick | None) -> Figures:
    """Measure how fast games are played, how fast games in memory are written, and how fast both are done together.

    In each of ``rounds`` rounds, every speed is measured on one thread and then on all cores, and ``yardstick``, if
    given, is timed too. The highest speeds of all rounds count, in games a second. The speed of playing is called
    ``simulate``.
    """
    keep_freed_memory()  # as runs do
    engine, cores = build_engine(spec), available_cores()
    blocks = list(engine.play_in_any_order(_list_pair_ranges(SHARD_GAMES), cores))
    best_speeds: dict[tuple[str, int], float] = {}
    size_figures: dict[str, float] = {}

    def keep_best(name: str, threads: int, count: int, seconds: float) -> None:
        best_speeds[name, threads] = max(best_speeds.get((name, threads), 0.0), count / seconds)

    for number in range(rounds):
        for threads in sorted({1, cores}):
            keep_best("simulate", threads, 4 * games, _time_playing(engine, 4 * games, threads))
            if yardstick:
                keep_best("yardstick", threads, 4 * games, yardstick(4 * games, threads))
            files = max(threads, games // SHARD_GAMES)
            keep_best("write_only", threads, SHARD_GAMES * files, _time_writing(blocks, spec, files, folder, threads))
            root = folder / f"archive-{number}-{threads}"
            keep_best("end_to_end", threads, games, play_games(spec, root, games, threads))
            size_figures = {"bytes_per_ply_row": _compute_bytes_per_ply(root)}
            shutil.rmtree(root)
    figures: Figures = {
        f"{threads}_threads": _build_speeds_and_ratios(best_speeds, threads) for threads in sorted({1, cores})
    }
    for name in ("simulate", "end_to_end"):
        figures[f"{name}_speedup"] = best_speeds[name, cores] / best_speeds[name, 1]
    return figures | size_figures | {"stages": _measure_stages(engine, spec)}


def _list_pair_ranges(games: int) -> Iterator[PairRange]:
    """Yield ranges of pairs of pairing 0 that together hold the first ``games`` games.

    Each range but the last is as large as a block may be.
    """
    for first in range(0, games // 2, MAX_BLOCK_PAIRS):
        yield PairRange(0, first, min(MAX_BLOCK_PAIRS, games // 2 - first))


def _time_playing(engine: BatchEngine, games: int, threads: int) -> float:
    """Return the seconds to play ``games`` games without storing them."""
    started = time.perf_counter()
    for _ in engine.play_in_any_order(_list_pair_ranges(games), threads):
        pass
    return time.perf_counter() - started


def _build_speeds_and_ratios(best_speeds: dict[tuple[str, int], float], threads: int) -> Figures:
    """Return the speeds in games a second that were measured with ``threads`` threads, and the ratios between them."""
    playing_speed = best_speeds["simulate", threads]
    figures: Figures = {
        name: {"games_per_second": best_speeds[name, threads]} for name in ("simulate", "write_only", "end_to_end")
    }
    figures["end_to_end"]["ratio_to_playing"] = best_speeds["end_to_end", threads] / playing_speed
    if ("yardstick", threads) in best_speeds:
        yardstick_speed = best_speeds["yardstick", threads]
        figures["simulate"] |= {
            "yardstick_games_per_second": yardstick_speed,
            "ratio_to_yardstick": playing_speed / yardstick_speed,
        }
    return figures


def _time_writing(blocks: Sequence[Block], spec: RunSpec, file_count: int, folder: Path, threads: int) -> float:
    """Return the seconds to encode, write and delete ``file_count`` files of games and as many files of plies.

    All files hold the same games.
    """

    def encode_write_and_delete_tables(number: int) -> None:
        for table, name in zip(
            encode_game_tables(concat_blocks_into_large_parts(blocks), [0], spec.pairing_labels),
            ("games", "plies"),
            strict=True,
        ):
            path = folder / f"{name}-{number}.parquet"
            path.write_bytes(table)
            path.unlink()

    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(encode_write_and_delete_tables, range(file_count)))
    return time.perf_counter() - started


def _measure_stages(engine: BatchEngine, spec: RunSpec, repeats: int = 5) -> Figures:
    """Measure each stage of producing a file of games: milliseconds of processor time, and the share of the total.

    All stages run on one thread.
    """
    milliseconds: dict[str, float] = {}

    def measure_stage(name: str, work: Callable[[], Any]) -> Any:
        seconds = []
        for _ in range(repeats):
            started = time.thread_time()
            result = work()
            seconds.append(time.thread_time() - started)
        milliseconds[name] = 1000 * min(seconds)
        return result

    blocks = measure_stage("playing", lambda: [*map(engine.play_block, _list_pair_ranges(SHARD_GAMES))])
    tables = measure_stage(
        "encoding", lambda: encode_game_tables(concat_blocks_into_large_parts(blocks), [0], spec.pairing_labels)
    )
    measure_stage("checks", lambda: [compute_checksum(table) for table in tables])
    measure_stage("fingerprints", lambda: [part.fingerprint for part in concat_blocks_into_large_parts(blocks)])
    measure_stage("tallies", lambda: [tally_block(block) for block in blocks])
    total = sum(milliseconds.values())
    return {name: {"milliseconds": value, "share": value / total} for name, value in milliseconds.items()}


def _compute_bytes_per_ply(root: Path) -> float:
    """Return the bytes on disk per row of the table of plies, including that row's share of the table of games."""
    files = {table: list(root.glob(f"{table}/*/*.parquet")) for table in ("games", "plies")}
    size = sum(path.stat().st_size for paths in files.values() for path in paths)
    rows: int = pl.scan_parquet(files["plies"]).select(pl.len()).collect().item()
    return size / rows


def _build_spec_against_random(agent: str) -> RunSpec:
    return RunSpec(load_rules("classic"), (load_agent(agent), load_agent("random")), ((0, 1),), 0, 0)


def _measure_agent_against_random(name: str, seconds: float) -> Figures:
    """Let an agent play against ``random`` for about ``seconds`` seconds, and return how fast the games were.

    Returns the number of games a second and the name of the rules, which are those that the agent plays. The games are
    not stored.
    """
    rules = choose_rules_name(load_agent(name))
    engine = build_engine(replace(_build_spec_against_random(name), rules=load_rules(rules)))
    games, pace, started = 0, Pace(), time.perf_counter()

    def generate_until_late() -> Iterator[PairRange]:
        first = 0
        while time.perf_counter() - started < seconds:
            yield PairRange(0, first, pace.next_pair_count(0))
            first += pace.next_pair_count(0)

    for block in engine.play_in_any_order(generate_until_late(), available_cores()):
        pace.add_block_time(0, block.pairs, block.seconds)
        games += 2 * block.pairs
    return {"games_per_second": games / (time.perf_counter() - started), "rules": rules}


def measure_search(yardstick: Yardstick | None, rounds: int, turns: int) -> Figures:
    """Measure how many turns a second ``mcts`` takes on one thread.

    Each of the ``turns`` turns starts from an empty board, with one piece after the other in hand. An iteration of
    ``mcts`` plays one game to its end, so the number of iterations a second is compared with the games a second that
    ``yardstick`` reaches on one thread in the same rounds.
    """
    hands = [number % PIECES for number in range(turns)]
    batch = Batch.from_positions([PackedPosition(0, 0, ALL_PIECES & ~(1 << hand), hand, NONE) for hand in hands])
    label = f"mcts(iterations={ITERATIONS})"
    player, rng = (
        build_player(agent_from_label(label).build(), CLASSIC, label),
        Streams(np.arange(turns, dtype=np.uint64)),
    )
    speed = yardstick_speed = 0.0
    for _ in range(rounds):
        speed = max(
            speed, NANOSECONDS_PER_SECOND / float(measure_turn_nanoseconds(player, batch, Streams(rng.draw(0))).mean())
        )
        yardstick_speed = (
            max(yardstick_speed, YARDSTICK_GAMES / yardstick(YARDSTICK_GAMES, 1)) if yardstick else yardstick_speed
        )
    figures = {"turns_per_second": speed, "rollouts_per_second": ITERATIONS * speed}
    return figures | (
        {"ratio_of_rollouts_to_yardstick": ITERATIONS * speed / yardstick_speed} if yardstick_speed else {}
    )


def _time_training_process(trainer: str, folder: Path, divisor: int) -> Figures:
    """Measure the seconds of a whole training in a process of its own, including the start of the process.

    The training writes to an archive in ``folder``. It plays the usual number of games or generations of ``trainer``,
    divided by ``divisor``.
    """
    key, extent = TRAININGS[trainer]
    overrides = [f"trainer.{key}={extent // divisor}", f"archive.root={folder / trainer}"]
    return {
        key: extent // divisor,
        "seconds": measure_process(["train", f"trainer={trainer}", *overrides], folder).seconds,
    }


def _measure_run(games: int, folder: Path) -> Figures:
    """Measure the games a second and the peak memory of a whole run in a process of its own."""
    root = folder / "run"
    arguments = ["run", "agent@a=random", "agent@b=random", f"games={games}", f"archive.root={root}"]
    usage = measure_process(arguments, folder)
    shutil.rmtree(root)
    return {"games": games, "games_per_second": games / usage.seconds, "peak_memory_mib": usage.peak_bytes / MEBIBYTE}


def measure_startup_against_imports(folder: Path, rounds: int) -> Figures:
    """Measure the wall time of each command of ``STARTUP_COMMANDS``, and its ratio to that of ``IMPORTS_PROGRAM``.

    Each command runs in its own process, and the fastest of ``rounds`` rounds counts. The commands alternate, so that
    other load on the machine affects all of them alike. They run in ``folder``. From the second round on, this folder
    already has the archive that the command ``run_of_two_games`` writes.
    """
    imports: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in STARTUP_COMMANDS}
    for _ in range(rounds):
        imports.append(measure_process([], folder, program=IMPORTS_PROGRAM).seconds)
        for name, (arguments, code) in STARTUP_COMMANDS.items():
            seconds[name].append(measure_process(arguments, folder, code).seconds)
    fastest = {name: min(times) for name, times in seconds.items()}
    commands = {name: {"seconds": value, "ratio_to_imports": value / min(imports)} for name, value in fastest.items()}
    return {"imports": {"seconds": min(imports)}, **commands}
