"""`qarena bench`: playing, writing, learning and start-up, measured so that ratios mean something.

Machines are shared and noisy. So figures that are compared are measured in turns within one run, several times.
The best time of each counts, since noise only adds.
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
from analytics.store.game_tables import concat_blocks, encode_game_tables
from analytics.store.ranges import compute_checksum
from quarto.batch import Batch, Block
from quarto.position import ALL_PIECES, Position
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, PIECES
from runners.arena.batch_engine import MAX_BLOCK_PAIRS, BatchEngine, Pace, PairRange
from runners.arena.executors.base import MEBIBYTE, available_cores
from runners.arena.experiment import build_engine
from runners.arena.spec import RunSpec
from runners.bench.archive import bench_archive
from runners.bench.solver import bench_solver
from runners.bench.timing import Figures, compile_program, measure_process
from runners.bench.turn_times import NANOSECONDS_PER_SECOND, format_figure, measure_turn_nanoseconds
from runners.bench.warm_up import choose_rules_name, play_games, run_and_time_warm_up_steps
from runners.config.agents import agent_from_label, load_agent
from runners.config.yaml_options import flatten_settings, list_options, load_rules
from runners.terminal.console import build_table, print_tables
from runners.terminal.files import is_standard_stream
from runners.terminal.tables import write_json

Yardstick = Callable[[int, int], float]  # seconds by games and threads
ROUNDS = 3
RAM_DISK_FOLDER, MIN_FREE_BYTES = Path("/dev/shm"), 1 << 30  # noqa: S108  (folders in it are private ones)
TRAININGS = {"q_placement": ("games", 100_000), "ga2": ("generations", 100)}  # by the studies' schedules
ITERATIONS, TURNS, YARDSTICK_GAMES = 200, 8000, 1_000_000  # of ``mcts``; that are timed in a round

IMPORTS_PROGRAM = "import numba, polars, duckdb"
SHARD_GAMES = 1 << 18
# By name: a command and its exit code.
STARTUP_COMMANDS = {
    "help": (["--help"], 0),
    "run_help": (["run", "--help"], 0),
    "wrong_request": (["run", "agent@a=nobody"], 2),
    "run_of_two_games": (["run", "agent@a=random", "agent@b=random", "games=2", "archive.root=two"], 0),
    "sql": (["sql", "--archive", "two", "SELECT count(*) AS games FROM games"], 0),
}


def bench_all(quick: bool = False) -> Figures:
    """All figures, nested as they are printed; ``quick`` plays a tenth of the games and measures most of them once."""
    scale, rounds = (10, 1) if quick else (1, ROUNDS)
    for _ in run_and_time_warm_up_steps():  # compiling is not measured
        pass
    disk = choose_write_folder()
    figures: Figures = {"threads": available_cores(), "written_to": str(disk)}
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        plain_c = build_yardstick(Path(folder))
        with TemporaryDirectory(prefix="quarto-arena-bench-", dir=disk) as written:
            games, on_disk = 5_000_000 // scale, Path(written)
            figures |= measure_throughput(_build_spec("random"), games, rounds, on_disk, plain_c)
            figures["rule_based_v_random"] = measure_throughput(
                _build_spec("rule_based"), games // 2, rounds, on_disk, None
            )
        figures["agents"] = {name: _measure_agent(name, 2.0 / scale) for name in list_options("agent")}
        figures["mcts"] = measure_search(plain_c, rounds, TURNS // scale)
        figures["training"] = {trainer: _measure_training(trainer, Path(folder), scale) for trainer in TRAININGS}
        figures["run"] = _measure_run(10_000_000 // scale, Path(folder))
        figures["startup"] = measure_startup(Path(folder), rounds)
    return figures


MEASUREMENTS: Mapping[str, Callable[[bool], Figures]] = {
    "all": bench_all,
    "solver": bench_solver,
    "archive": bench_archive,
}


def build_bench_table(figures: Figures) -> Table:
    """Figures as a flat table."""
    found = dict(flatten_settings(figures))
    texts = [format_figure(value) for value in found.values()]
    return build_table([ResultColumn("figure", [*found], right_aligned=False), ResultColumn("value", texts)], "bench")


def run_benchmark(measurement: str, quick: bool, file: Path | None) -> None:
    """Print the figures of one of ``MEASUREMENTS``, and write them as JSON to ``file``."""
    figures = MEASUREMENTS[measurement](quick)
    if not is_standard_stream(file):
        print_tables([build_bench_table(figures)])
    if file:
        write_json(figures, file)


def choose_write_folder() -> Path:
    """The folder in which writing is measured: the RAM disk if there is one with room, else the one for such files.

    A disk is slower than the program, and on a server others use it too. ``TMPDIR`` names another folder.
    """
    if (
        "TMPDIR" not in os.environ
        and RAM_DISK_FOLDER.is_dir()
        and shutil.disk_usage(RAM_DISK_FOLDER).free > MIN_FREE_BYTES
    ):
        return RAM_DISK_FOLDER
    return Path(gettempdir())


def build_yardstick(folder: Path) -> Yardstick | None:
    """A function that plays random games in plain C, compiled into ``folder``; None without ``cc``."""
    program = compile_program("yardstick.c", folder)
    if program is None:
        return None

    def time_yardstick_games(games: int, threads: int) -> float:
        command = [str(program), str(games), str(threads)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])  # noqa: S603

    return time_yardstick_games


def measure_throughput(spec: RunSpec, games: int, rounds: int, folder: Path, yardstick: Yardstick | None) -> Figures:
    """Games a second of playing (``simulate``), of writing what is in memory, and of both, in turns.

    All on one thread and on all cores.
    """
    engine, cores = build_engine(spec), available_cores()
    blocks = list(engine.play(_list_pair_ranges(SHARD_GAMES), cores))
    best: dict[tuple[str, int], float] = {}
    size: dict[str, float] = {}

    def keep_best(name: str, threads: int, count: int, seconds: float) -> None:
        best[name, threads] = max(best.get((name, threads), 0.0), count / seconds)

    for number in range(rounds):
        for threads in sorted({1, cores}):
            keep_best("simulate", threads, 4 * games, _time_playing(engine, 4 * games, threads))
            if yardstick:
                keep_best("yardstick", threads, 4 * games, yardstick(4 * games, threads))
            files = max(threads, games // SHARD_GAMES)
            keep_best("write_only", threads, SHARD_GAMES * files, _time_writing(blocks, spec, files, folder, threads))
            root = folder / f"archive-{number}-{threads}"
            keep_best("end_to_end", threads, games, play_games(spec, root, games, threads))
            size = {"bytes_per_ply_row": _compute_bytes_per_row(root)}
            shutil.rmtree(root)
    figures: Figures = {f"{threads}_threads": _compute_ratios(best, threads) for threads in sorted({1, cores})}
    for name in ("simulate", "end_to_end"):
        figures[f"{name}_speedup"] = best[name, cores] / best[name, 1]
    return figures | size | {"stages": _measure_stages(engine, spec)}


def _list_pair_ranges(games: int) -> Iterator[PairRange]:
    """The first games of pairing 0, as large blocks."""
    for first in range(0, games // 2, MAX_BLOCK_PAIRS):
        yield PairRange(0, first, min(MAX_BLOCK_PAIRS, games // 2 - first))


def _time_playing(engine: BatchEngine, games: int, threads: int) -> float:
    """Seconds to play ``games`` and forget them."""
    started = time.perf_counter()
    for _ in engine.play(_list_pair_ranges(games), threads):
        pass
    return time.perf_counter() - started


def _compute_ratios(best: dict[tuple[str, int], float], threads: int) -> Figures:
    """The figures of one number of threads, with their ratios."""
    played = best["simulate", threads]
    figures: Figures = {
        name: {"games_per_second": best[name, threads]} for name in ("simulate", "write_only", "end_to_end")
    }
    figures["end_to_end"]["ratio_to_playing"] = best["end_to_end", threads] / played
    if ("yardstick", threads) in best:
        plain = best["yardstick", threads]
        figures["simulate"] |= {"yardstick_games_per_second": plain, "ratio_to_yardstick": played / plain}
    return figures


def _time_writing(blocks: Sequence[Block], spec: RunSpec, file_count: int, folder: Path, threads: int) -> float:
    """Seconds to encode the games of a file so many times and to write them."""

    def write_tables(number: int) -> None:
        for table, kind in zip(
            encode_game_tables(concat_blocks(blocks), [0], spec.pairing_labels), ("games", "plies"), strict=True
        ):
            path = folder / f"{kind}-{number}.parquet"
            path.write_bytes(table)
            path.unlink()

    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write_tables, range(file_count)))
    return time.perf_counter() - started


def _measure_stages(engine: BatchEngine, spec: RunSpec, repeats: int = 5) -> Figures:
    """Milliseconds of processor time of each stage of a file of 262,144 games on one thread, and its share."""
    milliseconds: dict[str, float] = {}

    def measure_stage(name: str, work: Callable[[], Any]) -> Any:
        taken = []
        for _ in range(repeats):
            started = time.thread_time()
            result = work()
            taken.append(time.thread_time() - started)
        milliseconds[name] = 1000 * min(taken)
        return result

    blocks = measure_stage("playing", lambda: [*map(engine.play_block, _list_pair_ranges(SHARD_GAMES))])
    found = measure_stage("encoding", lambda: encode_game_tables(concat_blocks(blocks), [0], spec.pairing_labels))
    measure_stage("checks", lambda: [compute_checksum(table) for table in found])
    measure_stage("fingerprints", lambda: [part.fingerprint for part in concat_blocks(blocks)])
    measure_stage("tallies", lambda: [tally_block(block) for block in blocks])
    total = sum(milliseconds.values())
    return {name: {"milliseconds": each, "share": each / total} for name, each in milliseconds.items()}


def _compute_bytes_per_row(root: Path) -> float:
    """Bytes on disk for a ply row, the games table's share included."""
    stored = {table: list(root.glob(f"{table}/*/*.parquet")) for table in ("games", "plies")}
    size = sum(path.stat().st_size for paths in stored.values() for path in paths)
    rows: int = pl.scan_parquet(stored["plies"]).select(pl.len()).collect().item()
    return size / rows


def _build_spec(agent: str) -> RunSpec:
    return RunSpec(load_rules("classic"), (load_agent(agent), load_agent("random")), ((0, 1),), 0, 0)


def _measure_agent(name: str, seconds: float) -> Figures:
    """Games a second of an agent against random, not written, measured for about ``seconds``."""
    rules = choose_rules_name(load_agent(name))
    engine = build_engine(replace(_build_spec(name), rules=load_rules(rules)))
    games, pace, started = 0, Pace(), time.perf_counter()

    def generate_until_late() -> Iterator[PairRange]:
        first = 0
        while time.perf_counter() - started < seconds:
            yield PairRange(0, first, pace.next_pair_count(0))
            first += pace.next_pair_count(0)

    for block in engine.play(generate_until_late(), available_cores()):
        pace.add_block_time(0, block.pairs, block.seconds)
        games += 2 * block.pairs
    return {"games_per_second": games / (time.perf_counter() - started), "rules": rules}


def measure_search(yardstick: Yardstick | None, rounds: int, turns: int) -> Figures:
    """Turns a second of ``mcts`` on one thread, with the empty board and each piece in hand in turn.

    An iteration plays one game to its end, so its rollouts are compared with games of plain C on one thread, in the
    same rounds.
    """
    hands = [number % PIECES for number in range(turns)]
    batch = Batch.from_positions([Position(0, 0, ALL_PIECES & ~(1 << hand), hand, NONE) for hand in hands])
    label = f"mcts(iterations={ITERATIONS})"
    player, rng = (
        build_player(agent_from_label(label).build(), CLASSIC, label),
        Streams(np.arange(turns, dtype=np.uint64)),
    )
    speed = plain = 0.0
    for _ in range(rounds):
        speed = max(
            speed, NANOSECONDS_PER_SECOND / float(measure_turn_nanoseconds(player, batch, Streams(rng.draw(0))).mean())
        )
        plain = max(plain, YARDSTICK_GAMES / yardstick(YARDSTICK_GAMES, 1)) if yardstick else plain
    figures = {"turns_per_second": speed, "rollouts_per_second": ITERATIONS * speed}
    return figures | ({"ratio_of_rollouts_to_yardstick": ITERATIONS * speed / plain} if plain else {})


def _measure_training(trainer: str, folder: Path, scale: int) -> Figures:
    """A whole training in a process of its own: seconds, start and archive included."""
    key, extent = TRAININGS[trainer]
    changed = [f"trainer.{key}={extent // scale}", f"archive.root={folder / trainer}"]
    return {key: extent // scale, "seconds": measure_process(["train", f"trainer={trainer}", *changed], folder).seconds}


def _measure_run(games: int, folder: Path) -> Figures:
    """A whole run in a process of its own: games a second and peak memory."""
    root = folder / "run"
    asked = ["run", "agent@a=random", "agent@b=random", f"games={games}", f"archive.root={root}"]
    seconds, peak = measure_process(asked, folder)
    shutil.rmtree(root)
    return {"games": games, "games_per_second": games / seconds, "peak_memory_mib": peak / MEBIBYTE}


def measure_startup(folder: Path, rounds: int) -> Figures:
    """Wall seconds of each command in its own process, the best of some rounds; their ratio to ``IMPORTS_PROGRAM``.

    The commands take turns, so that a disturbance of the machine disturbs all of them. From the second round on the
    archive has the two games already. ``folder`` is where they run.
    """
    imports: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in STARTUP_COMMANDS}
    for _ in range(rounds):
        imports.append(measure_process([], folder, program=IMPORTS_PROGRAM).seconds)
        for name, (arguments, code) in STARTUP_COMMANDS.items():
            seconds[name].append(measure_process(arguments, folder, code).seconds)
    least = {name: min(each) for name, each in seconds.items()}
    commands = {name: {"seconds": each, "ratio_to_imports": each / min(imports)} for name, each in least.items()}
    return {"imports": {"seconds": min(imports)}, **commands}
