"""`qarena bench`: playing, writing, learning and start-up, measured so that ratios mean something.

Machines are shared and noisy. So figures that are compared are measured in turns within one run, several times.
The best time of each counts, since noise only adds.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np

from agents.lift import lift
from analytics.results.columns import ResultColumn, Table
from quarto.batch import Batch
from quarto.position import ALL_PIECES, Position
from quarto.rng import Streams
from quarto.rules import CLASSIC, NONE, PIECES
from runners.arena.config import agent_named, load_agent
from runners.arena.config_groups import flat, load_rules, names
from runners.arena.engine import Order, Pace
from runners.arena.experiment import engine_of
from runners.arena.spec import RunSpec
from runners.executors.base import MEBIBYTE, available_cores
from runners.speed.archive import bench_archive
from runners.speed.solver import bench_solver
from runners.speed.throughput import Yardstick, throughput, yardstick
from runners.speed.timing import process
from runners.speed.turn_times import NANOSECONDS, figure_text, turn_nanoseconds
from runners.speed.warm import rules_played_by, warm
from runners.terminal.console import tabulated

Figures = dict[str, Any]

ROUNDS = 3
RAM_DISK, ROOM_BYTES = Path("/dev/shm"), 1 << 30  # noqa: S108  (folders in it are private ones)
TRAININGS = {"q_placement": ("games", 100_000), "ga2": ("generations", 100)}  # by the studies' schedules
ITERATIONS, TURNS, YARDSTICK_GAMES = 200, 8000, 1_000_000  # of ``mcts``; that are timed in a round

IMPORTS = "import numba, polars, duckdb"
# By name: a command and its exit code.
COMMANDS = {
    "help": (["--help"], 0),
    "run_help": (["run", "--help"], 0),
    "wrong_request": (["run", "agent@a=nobody"], 2),
    "run_of_two_games": (["run", "agent@a=random", "agent@b=random", "games=2", "archive.root=two"], 0),
    "sql": (["sql", "--archive", "two", "SELECT count(*) AS games FROM games"], 0),
}


def bench(quick: bool = False) -> Figures:
    """All figures, nested as they are printed; ``quick`` plays a tenth of the games and measures most of them once."""
    scale, rounds = (10, 1) if quick else (1, ROUNDS)
    for _ in warm():  # compiling is not measured
        pass
    disk = written_to()
    figures: Figures = {"threads": available_cores(), "written_to": str(disk)}
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        plain_c = yardstick(Path(folder))
        with TemporaryDirectory(prefix="quarto-arena-bench-", dir=disk) as written:
            games, on_disk = 5_000_000 // scale, Path(written)
            figures |= throughput(_spec("random"), games, rounds, on_disk, plain_c)
            figures["rule_based_v_random"] = throughput(_spec("rule_based"), games // 2, rounds, on_disk, None)
        figures["agents"] = {name: _agent(name, 2.0 / scale) for name in names("agent")}
        figures["mcts"] = search_figures(plain_c, rounds, TURNS // scale)
        figures["training"] = {trainer: _training(trainer, Path(folder), scale) for trainer in TRAININGS}
        figures["run"] = _run(10_000_000 // scale, Path(folder))
        figures["startup"] = startup(Path(folder), rounds)
    return figures


MEASUREMENTS: Mapping[str, Callable[[bool], Figures]] = {
    "all": bench,
    "solver": bench_solver,
    "archive": bench_archive,
}


def bench_table(figures: Figures) -> Table:
    """Figures as a flat table."""
    found = dict(flat(figures))
    texts = [figure_text(value) for value in found.values()]
    return tabulated([ResultColumn("figure", [*found], right=False), ResultColumn("value", texts)], "bench")


def written_to() -> Path:
    """The folder in which writing is measured: the RAM disk if there is one with room, else the one for such files.

    A disk is slower than the program, and on a server others use it too. ``TMPDIR`` names another folder.
    """
    if "TMPDIR" not in os.environ and RAM_DISK.is_dir() and shutil.disk_usage(RAM_DISK).free > ROOM_BYTES:
        return RAM_DISK
    return Path(gettempdir())


def _spec(agent: str) -> RunSpec:
    return RunSpec(load_rules("classic"), (load_agent(agent), load_agent("random")), ((0, 1),), 0, 0)


def _agent(name: str, seconds: float) -> Figures:
    """Games a second of an agent against random, not written, measured for about ``seconds``."""
    rules = rules_played_by(load_agent(name))
    engine = engine_of(replace(_spec(name), rules=load_rules(rules)))
    games, pace, started = 0, Pace(), time.perf_counter()

    def until_late() -> Iterator[Order]:
        first = 0
        while time.perf_counter() - started < seconds:
            yield Order(0, first, pace.pairs(0))
            first += pace.pairs(0)

    for block, took in engine.play(until_late(), available_cores()):
        pace.update(0, block.pairs, took)
        games += 2 * block.pairs
    return {"games_per_second": games / (time.perf_counter() - started), "rules": rules}


def search_figures(plain_c: Yardstick | None, rounds: int, turns: int) -> Figures:
    """Turns a second of ``mcts`` on one thread, with the empty board and each piece in hand in turn.

    An iteration plays one game to its end, so its rollouts are compared with games of plain C on one thread, in the
    same rounds.
    """
    hands = [number % PIECES for number in range(turns)]
    batch = Batch.of([Position(0, 0, ALL_PIECES & ~(1 << hand), hand, NONE) for hand in hands])
    label = f"mcts(iterations={ITERATIONS})"
    player, rng = lift(agent_named(label).build(), CLASSIC, label), Streams(np.arange(turns, dtype=np.uint64))
    speed = plain = 0.0
    for _ in range(rounds):
        speed = max(speed, NANOSECONDS / float(turn_nanoseconds(player, batch, Streams(rng.draw(0))).mean()))
        plain = max(plain, YARDSTICK_GAMES / plain_c(YARDSTICK_GAMES, 1)) if plain_c else plain
    figures = {"turns_per_second": speed, "rollouts_per_second": ITERATIONS * speed}
    return figures | ({"ratio_of_rollouts_to_yardstick": ITERATIONS * speed / plain} if plain else {})


def _training(trainer: str, folder: Path, scale: int) -> Figures:
    """A whole training in a process of its own: seconds, start and archive included."""
    key, extent = TRAININGS[trainer]
    changed = [f"trainer.{key}={extent // scale}", f"archive.root={folder / trainer}"]
    return {key: extent // scale, "seconds": process(["train", f"trainer={trainer}", *changed], folder).seconds}


def _run(games: int, folder: Path) -> Figures:
    """A whole run in a process of its own: games a second and peak memory."""
    root = folder / "run"
    asked = ["run", "agent@a=random", "agent@b=random", f"games={games}", f"archive.root={root}"]
    seconds, peak = process(asked, folder)
    shutil.rmtree(root)
    return {"games": games, "games_per_second": games / seconds, "peak_memory_mib": peak / MEBIBYTE}


def startup(folder: Path, rounds: int) -> Figures:
    """Wall seconds of each command in a process of its own, the best of some rounds, and their ratio to ``IMPORTS``.

    The commands take turns, so that a disturbance of the machine disturbs all of them. From the second round on the
    archive has the two games already. ``folder`` is where they run.
    """
    imports: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        imports.append(process([], folder, program=IMPORTS).seconds)
        for name, (arguments, code) in COMMANDS.items():
            seconds[name].append(process(arguments, folder, code).seconds)
    least = {name: min(each) for name, each in seconds.items()}
    commands = {name: {"seconds": each, "ratio_to_imports": each / min(imports)} for name, each in least.items()}
    return {"imports": {"seconds": min(imports)}, **commands}
