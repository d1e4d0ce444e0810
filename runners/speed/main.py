"""`qarena bench`: the speed of everything, measured so that ratios mean something.

Machines are shared and noisy. So figures that are compared are measured in turns within one run, several times.
The best time of each counts, since noise only adds.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from runners.arena.config import load_agent
from runners.arena.config_groups import load_rules, names
from runners.arena.engine import Order
from runners.arena.experiment import engine_of
from runners.arena.schedule import Pace, orders
from runners.arena.schemas import MAX_SEED
from runners.arena.spec import RunSpec
from runners.executors.machine import MEBIBYTE, available_cores
from runners.speed.archive import bench_archive
from runners.speed.searches import searches
from runners.speed.solver import bench_solver
from runners.speed.throughput import throughput
from runners.speed.timing import process, startup, yardstick
from runners.speed.warm import rules_played_by, warm

Figures = dict[str, Any]

ROUNDS = 3
RAM_DISK, ROOM_BYTES = Path("/dev/shm"), 1 << 30  # noqa: S108  (folders in it are private ones)

# Games a second against random, on two threads.
TARGETS = {"rule_based": 500_000, "ga2": 500_000, "ga_minimax": 50_000, "best_mixed": 20_000}
TRAINING_SECONDS = {"q_placement": 20.0, "ga2": 60.0}  # at most, by the studies' schedules


def measured(part: str, quick: bool = False) -> Figures:
    """The figures of ``solver`` or ``archive``, or of ``all``."""
    return {"solver": bench_solver, "archive": bench_archive, "all": bench}[part](quick)


def bench(quick: bool = False) -> Figures:
    """All figures, nested as they are printed; ``quick`` plays a tenth of the games and measures most of them once."""
    scale, rounds = (10, 1) if quick else (1, ROUNDS)
    threads = available_cores()
    for _ in warm():  # compiling is not measured
        pass
    random_spec, rule_based_spec = _spec("random"), _spec("rule_based")
    disk = written_to()
    figures: Figures = {"threads": threads, "written_to": str(disk)}
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        plain_c = yardstick(Path(folder))
        with TemporaryDirectory(prefix="quarto-arena-bench-", dir=disk) as written:
            on_disk = Path(written)
            figures |= throughput(random_spec, 5_000_000 // scale, rounds, on_disk, plain_c)
            figures["rule_based_v_random"] = throughput(rule_based_spec, 2_500_000 // scale, rounds, on_disk, None)
        figures["agents"] = {name: _agent(name, 2.0 / scale, threads) for name in names("agent")}
        figures["searches"] = searches(plain_c, rounds, quick)
        figures["training"] = _training(Path(folder), scale)
        figures["growth"] = growth([100_000 // scale, 1_000_000 // scale, 10_000_000 // scale], Path(folder))
        figures["startup"] = startup(Path(folder), rounds)
    figures["archive"] = bench_archive(quick)
    figures["solver"] = bench_solver(quick)
    return figures


def growth(sizes: Sequence[int], folder: Path) -> Figures:
    """Whole runs in processes of their own: games a second and peak memory by number of games."""
    figures: Figures = {}
    for games in sizes:
        root = folder / f"games-{games}"
        command = ["run", "agent@a=random", "agent@b=random", f"games={games}", f"archive.root={root}"]
        seconds, peak = process(command, folder)
        figures[f"{games}"] = {"games_per_second": games / seconds, "peak_memory_mib": peak / MEBIBYTE}
        shutil.rmtree(root)
    least, most = (figures[f"{games}"]["peak_memory_mib"] for games in sizes[-2:])
    figures["peak_memory_ratio_of_last_two"] = most / least
    return figures


def written_to() -> Path:
    """The folder in which writing is measured: the RAM disk if there is one with room, else the one for such files.

    A disk is slower than the program, and on a server others use it too. ``TMPDIR`` names another folder.
    """
    if "TMPDIR" not in os.environ and RAM_DISK.is_dir() and shutil.disk_usage(RAM_DISK).free > ROOM_BYTES:
        return RAM_DISK
    return Path(gettempdir())


def _spec(agent: str, seed: int = 0) -> RunSpec:
    return RunSpec(load_rules("classic"), (load_agent(agent), load_agent("random")), ((0, 1),), seed, 0)


def _agent(name: str, seconds: float, threads: int) -> Figures:
    """Games a second of an agent against random, not written, measured for about ``seconds``."""
    rules = rules_played_by(load_agent(name))
    engine = engine_of(replace(_spec(name), rules=load_rules(rules)))
    games, pace, started = 0, Pace(), time.perf_counter()

    def until_late() -> Iterator[Order]:
        for order in orders({0: [(0, MAX_SEED)]}, pace):
            if time.perf_counter() - started > seconds:
                return
            yield order

    for block, took in engine.play(until_late(), threads):
        pace.update(0, block.pairs, took)
        games += 2 * block.pairs
    figures: Figures = {"games_per_second": games / (time.perf_counter() - started), "rules": rules}
    return figures | ({"target_games_per_second": TARGETS[name]} if name in TARGETS else {})


def _training(folder: Path, scale: int) -> Figures:
    """Whole trainings by the studies' schedules, in processes of their own: seconds, start and archive included."""
    extent = {"q_placement": {"games": 100_000 // scale}, "ga2": {"generations": 100 // scale}}
    figures: Figures = {}
    for trainer, settings in extent.items():
        root = folder / f"training-{trainer}"
        changed = [f"trainer.{key}={value}" for key, value in settings.items()]
        seconds, _ = process(["train", f"trainer={trainer}", *changed, f"archive.root={root}"], folder)
        figures[trainer] = settings | {"seconds": seconds, "target_seconds": TRAINING_SECONDS[trainer]}
        shutil.rmtree(root)
    return figures
