"""Playing, writing and both: games a second by number of threads, and the processor time of each stage."""

from __future__ import annotations

import shutil
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
from runners.executors.machine import available_cores
from runners.speed.timing import Yardstick
from runners.speed.warm import play

Figures = dict[str, Any]

SHARD_GAMES = 1 << 18
# Of playing alone, which both at once are to reach with every ply on disk; and of one thread, which two are to reach.
TARGET_RATIO_TO_PLAYING, TARGET_SPEEDUP = 0.45, 1.8


def orders_of(games: int) -> Iterator[Order]:
    """The first games of pairing 0, as large blocks."""
    for first in range(0, games // 2, MAX_PAIRS):
        yield Order(0, first, min(MAX_PAIRS, games // 2 - first))


def simulate(engine: Engine, games: int, threads: int) -> float:
    """Seconds to play ``games`` and forget them."""
    started = time.perf_counter()
    for _ in engine.play(orders_of(games), threads):
        pass
    return time.perf_counter() - started


def throughput(spec: RunSpec, games: int, rounds: int, folder: Path, plain_c: Yardstick | None) -> Figures:
    """Games a second of playing (``simulate``), of writing what is in memory, and of both, in turns.

    All for every number of threads that is a power of two, and for all cores.
    """
    engine, cores = engine_of(spec), available_cores()
    blocks = [played.block for played in engine.play(orders_of(SHARD_GAMES), cores)]
    counts = sorted({*(1 << k for k in range(cores.bit_length()) if 1 << k <= cores), cores})
    best: dict[tuple[str, int], float] = {}
    size: dict[str, float] = {}

    def keep(name: str, threads: int, count: int, seconds: float) -> None:
        best[name, threads] = max(best.get((name, threads), 0.0), count / seconds)

    for number in range(rounds):
        for threads in counts:
            keep("simulate", threads, 4 * games, simulate(engine, 4 * games, threads))
            if plain_c:
                keep("yardstick", threads, 4 * games, plain_c(4 * games, threads))
            files = max(threads, games // SHARD_GAMES)
            keep("write_only", threads, SHARD_GAMES * files, _write(blocks, spec, files, folder, threads))
            root = folder / f"archive-{number}-{threads}"
            keep("end_to_end", threads, games, play(spec, root, games, threads))
            size = _sizes(root)
            shutil.rmtree(root)
    figures: Figures = {f"{threads}_threads": _compared(best, threads) for threads in counts}
    for name in ("simulate", "end_to_end"):
        figures[f"{name}_speedup"] = best[name, cores] / best[name, 1]
    figures |= {"target_speedup": TARGET_SPEEDUP} if cores == 2 else {}
    return figures | size | {"stages": stages(engine, spec)}


def _compared(best: dict[tuple[str, int], float], threads: int) -> Figures:
    """The figures of one number of threads, with their ratios."""
    played, both = best["simulate", threads], best["end_to_end", threads]
    figures: Figures = {
        name: {"games_per_second": best[name, threads]} for name in ("simulate", "write_only", "end_to_end")
    }
    figures["end_to_end"] |= {"ratio_to_playing": both / played, "target_ratio_to_playing": TARGET_RATIO_TO_PLAYING}
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


def stages(engine: Engine, spec: RunSpec, repeats: int = 5) -> Figures:
    """Milliseconds of processor time of each stage of a file of 262,144 games on one thread, and its share."""
    milliseconds: dict[str, float] = {}

    def measured(name: str, work: Callable[[], Any]) -> Any:
        best = []
        for _ in range(repeats):
            started = time.thread_time()
            result = work()
            best.append(time.thread_time() - started)
        milliseconds[name] = 1000 * min(best)
        return result

    blocks = measured("playing", lambda: [engine.play_block(order).block for order in orders_of(SHARD_GAMES)])
    found = measured("encoding", lambda: tables_of(joined(blocks), [0], spec.labels))
    measured("checks", lambda: [check_of(table) for table in found])
    measured("fingerprints", lambda: [part.fingerprint for part in joined(blocks)])
    measured("tallies", lambda: [tally_of(block) for block in blocks])
    total = sum(milliseconds.values())
    return {name: {"milliseconds": each, "share": each / total} for name, each in milliseconds.items()} | {
        "writing": {"ratio_to_playing": (total - milliseconds["playing"]) / milliseconds["playing"]}
    }


def _sizes(root: Path) -> dict[str, float]:
    """Bytes on disk for a ply row, the games table's share included."""
    stored = {table: list(root.glob(f"{table}/*/*.parquet")) for table in ("games", "plies")}
    size = sum(path.stat().st_size for paths in stored.values() for path in paths)
    rows = pl.scan_parquet(stored["plies"]).select(pl.len()).collect().item()
    return {"bytes_per_ply_row": size / rows}
