"""Playing, writing and both: games a second by number of threads, and the processor time of each stage."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from analytics.statistics.tally import tally_of
from analytics.store.blocks import joined, tables_of
from analytics.store.ranges import check_of
from quarto.batch import Block
from runners.arena.engine import MAX_PAIRS, Engine, Order
from runners.arena.experiment import engine_of
from runners.arena.spec import RunSpec
from runners.executors.base import available_cores
from runners.speed.timing import compiled
from runners.speed.warm import play

Figures = dict[str, Any]
Yardstick = Callable[[int, int], float]  # seconds by games and threads

SHARD_GAMES = 1 << 18


def yardstick(folder: Path) -> Yardstick | None:
    """A function that plays random games in plain C, compiled into ``folder``; None without ``cc``."""
    program = compiled("yardstick.c", folder)
    if program is None:
        return None

    def seconds(games: int, threads: int) -> float:
        command = [str(program), str(games), str(threads)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])  # noqa: S603

    return seconds


def throughput(spec: RunSpec, games: int, rounds: int, folder: Path, plain_c: Yardstick | None) -> Figures:
    """Games a second of playing (``simulate``), of writing what is in memory, and of both, in turns.

    All on one thread and on all cores.
    """
    engine, cores = engine_of(spec), available_cores()
    blocks = [played.block for played in engine.play(_orders(SHARD_GAMES), cores)]
    best: dict[tuple[str, int], float] = {}
    size: dict[str, float] = {}

    def keep(name: str, threads: int, count: int, seconds: float) -> None:
        best[name, threads] = max(best.get((name, threads), 0.0), count / seconds)

    for number in range(rounds):
        for threads in sorted({1, cores}):
            keep("simulate", threads, 4 * games, _simulate(engine, 4 * games, threads))
            if plain_c:
                keep("yardstick", threads, 4 * games, plain_c(4 * games, threads))
            files = max(threads, games // SHARD_GAMES)
            keep("write_only", threads, SHARD_GAMES * files, _write(blocks, spec, files, folder, threads))
            root = folder / f"archive-{number}-{threads}"
            keep("end_to_end", threads, games, play(spec, root, games, threads))
            size = {"bytes_per_ply_row": _bytes_a_row(root)}
            shutil.rmtree(root)
    figures: Figures = {f"{threads}_threads": _compared(best, threads) for threads in sorted({1, cores})}
    for name in ("simulate", "end_to_end"):
        figures[f"{name}_speedup"] = best[name, cores] / best[name, 1]
    return figures | size | {"stages": _stages(engine, spec)}


def _orders(games: int) -> Iterator[Order]:
    """The first games of pairing 0, as large blocks."""
    for first in range(0, games // 2, MAX_PAIRS):
        yield Order(0, first, min(MAX_PAIRS, games // 2 - first))


def _simulate(engine: Engine, games: int, threads: int) -> float:
    """Seconds to play ``games`` and forget them."""
    started = time.perf_counter()
    for _ in engine.play(_orders(games), threads):
        pass
    return time.perf_counter() - started


def _compared(best: dict[tuple[str, int], float], threads: int) -> Figures:
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


def _write(blocks: Sequence[Block], spec: RunSpec, files: int, folder: Path, threads: int) -> float:
    """Seconds to encode the games of a file so many times and to write them."""

    def one(number: int) -> None:
        for table, kind in zip(tables_of(joined(blocks), [0], spec.labels), ("games", "plies"), strict=True):
            path = folder / f"{kind}-{number}.parquet"
            path.write_bytes(table)
            path.unlink()

    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(files)))
    return time.perf_counter() - started


def _stages(engine: Engine, spec: RunSpec, repeats: int = 5) -> Figures:
    """Milliseconds of processor time of each stage of a file of 262,144 games on one thread, and its share."""
    milliseconds: dict[str, float] = {}

    def measured(name: str, work: Callable[[], Any]) -> Any:
        taken = []
        for _ in range(repeats):
            started = time.thread_time()
            result = work()
            taken.append(time.thread_time() - started)
        milliseconds[name] = 1000 * min(taken)
        return result

    blocks = measured("playing", lambda: [engine.play_block(order).block for order in _orders(SHARD_GAMES)])
    found = measured("encoding", lambda: tables_of(joined(blocks), [0], spec.labels))
    measured("checks", lambda: [check_of(table) for table in found])
    measured("fingerprints", lambda: [part.fingerprint for part in joined(blocks)])
    measured("tallies", lambda: [tally_of(block) for block in blocks])
    total = sum(milliseconds.values())
    return {name: {"milliseconds": each, "share": each / total} for name, each in milliseconds.items()}


def _bytes_a_row(root: Path) -> float:
    """Bytes on disk for a ply row, the games table's share included."""
    stored = {table: list(root.glob(f"{table}/*/*.parquet")) for table in ("games", "plies")}
    size = sum(path.stat().st_size for paths in stored.values() for path in paths)
    rows: int = pl.scan_parquet(stored["plies"]).select(pl.len()).collect().item()
    return size / rows
