"""`qarena bench --archive`: the time that questions take over ten million random games, and how it grows."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import linear_regression
from tempfile import TemporaryDirectory
from typing import Any

from analytics import open_archive
from analytics.derived_tables.indexing import index_parts
from analytics.query.named_queries import query
from analytics.query.openings import EMPTY_BOARD, openings
from analytics.query.selection import select
from analytics.sql.database import OpenArchive
from analytics.store.archive import Archive
from analytics.store.marker import MARKER
from analytics.store.schema import TABLES
from quarto.errors import FailureError
from runners.archive.index import bring_up_to_date
from runners.arena.config import load_agent
from runners.arena.config_groups import load_rules
from runners.arena.spec import RunSpec
from runners.executors.machine import MEBIBYTE, available_cores
from runners.speed.timing import best, process
from runners.speed.warm import play

Figures = dict[str, Any]

GAMES = (100_000, 1_000_000, 10_000_000)
QUICK_GAMES = (100_000, 300_000)  # the positions of the explorer are met in both
KINDS = ("mc_afterstate", "gift")  # of policies that are derived
TARGET_SECONDS, TARGET_MEBIBYTES = 60.0, 4096.0  # of either, for ten million games on two cores
TARGET_INDEXED = 500_000  # games a second, of which six plies are counted
ROUNDS = 3  # the best counts: noise only ever adds
MEMORY = "1GiB"
# Needs more than MEMORY from about three million games on.
LARGE_QUESTION = "SELECT count(*) AS plies FROM (SELECT DISTINCT game_id, piece, cell FROM plies WHERE ply < 4)"
# Of 0 to 3 pieces, with a piece in hand and without.
POSITIONS = (
    EMPTY_BOARD,
    "..../..../..../.... 5",
    "...F/.3../..../.... -",
    "...F/.3../..../.... 7",
    "...F/.3../..7./.... 0",
)


def bench_archive(quick: bool = False) -> Figures:
    """All figures, nested as they are printed; ``quick`` takes them from smaller archives."""
    sizes = QUICK_GAMES if quick else GAMES
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        by_size = {games: _measured(Path(folder) / f"{games}", games) for games in sizes}
    return {"threads": available_cores(), **by_size[sizes[-1]], "growth": _growth(by_size)}


def _measured(root: Path, games: int) -> Figures:
    """The figures of an archive of ``games`` random games, which is made for them at ``root``."""
    spec = RunSpec(load_rules("classic"), (load_agent("random"), load_agent("random")), ((0, 1),), 1, 0)
    figures: Figures = {"games": games, "made": {"seconds": play(spec, root, games, available_cores())}}
    for measure in MEASURES:
        figures |= measure(root)
    return figures


def _index(root: Path) -> Figures:
    """Seconds to index all games, and to find that none is left to index."""
    archive, seconds = Archive.open(root), math.inf
    for _ in range(ROUNDS):
        for folder in ("first_plies", "positions"):
            shutil.rmtree(root / folder, ignore_errors=True)
        started = time.perf_counter()
        done = bring_up_to_date(archive, archive.run_ids())
        seconds = min(seconds, time.perf_counter() - started)
    left = partial(index_parts, archive, archive.run_ids())
    if left():
        raise FailureError("games that were indexed are still listed as not indexed")
    games = {"games_per_second": done.indexed.games / seconds, "target_games_per_second": TARGET_INDEXED}
    index = {"seconds": seconds, **games, "rows": done.indexed.rows}
    return {"index": index, "index_unchanged": {"seconds": best(left, ROUNDS), "target_seconds": 1.0}}


def _questions(root: Path) -> Figures:
    """Seconds of two named queries on an open archive."""
    with open_archive(root) as opened:
        opened.sql("SELECT 1 AS one")
        seconds = {name: best(partial(opened.sql, query(name)), ROUNDS) for name in ("win_rates", "first_plies")}
    return {name: {"seconds": each, "target_seconds": 0.2} for name, each in seconds.items()}


def _explorer(root: Path) -> Figures:
    """Milliseconds to look up a position in the index: without sample games, with them, and the first one of all."""
    with open_archive(root) as opened:
        started = time.perf_counter()
        openings(opened, POSITIONS[0], samples=False)
        first = time.perf_counter() - started
        seconds = best(partial(_explore, opened, samples=False), ROUNDS) / len(POSITIONS)
        sampled = best(partial(_explore, opened, samples=True), ROUNDS) / len(POSITIONS)
    position = {"milliseconds": 1000 * seconds, "target_milliseconds": 50.0}
    return {"explorer": position | {"first_milliseconds": 1000 * first, "with_samples_milliseconds": 1000 * sampled}}


def _explore(opened: OpenArchive, samples: bool) -> None:
    for position in POSITIONS:
        openings(opened, position, "turn", samples=samples)


def _memory(root: Path) -> Figures:
    """Seconds of a question that needs more memory than DuckDB is given, so that it spills to the disk."""
    with open_archive(root, MEMORY) as opened:
        started = time.perf_counter()
        rows = opened.sql(LARGE_QUESTION)["plies"].item()
        seconds = time.perf_counter() - started
        expected = opened.sql("SELECT count(*) AS plies FROM plies WHERE ply < 4")["plies"].item()
    if rows != expected:
        raise FailureError(f"a question that spilled to the disk counted {rows} plies instead of {expected}")
    return {f"distinct_plies_in_{MEMORY}": {"seconds": seconds}}


def _growth(by_size: dict[int, Figures]) -> Figures:
    """Seconds by number of games, and the exponent of the power of that number that fits them (1: linear growth)."""
    figures: Figures = {}
    for name in ("made", "index", "win_rates", "first_plies", *(f"policy_{kind}" for kind in KINDS)):
        seconds = [figure[name]["seconds"] for figure in by_size.values()]
        figures[name] = {f"{games}_seconds": each for games, each in zip(by_size, seconds, strict=True)}
        figures[name]["exponent"] = exponent(list(by_size), seconds)
    return figures


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of seconds over sizes on logarithmic scales, by least squares. Two sizes at least, all positive."""
    return linear_regression([math.log(size) for size in sizes], [math.log(each) for each in seconds]).slope


def _policies(root: Path) -> Figures:
    """Policies derived from all games, each in a process of its own, its start included."""
    found = policy_figures(root)
    return {f"policy_{kind}": found[kind] for kind in KINDS}


def policy_figures(archive_root: Path) -> Figures:
    """Seconds and peak memory by kind, each derived from all games of an archive in a process of its own.

    Its runs must have the same rules. The policies go into a second archive, of links to the files of this one, so that
    this one does not change. Raises ``FailureError`` if a kind cannot be derived.
    """
    with open_archive(archive_root) as opened:
        games = select(opened).games
    figures: Figures = {"games": games}
    for kind in KINDS:
        with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
            root = Path(folder) / "archive"
            linked(archive_root, root)
            seconds, peak = process(["policy", "build", f"kind={kind}", f"archive.root={root}"], Path(folder))
        figures[kind] = {
            "seconds": seconds,
            "target_seconds": TARGET_SECONDS,
            "peak_memory_mib": peak / MEBIBYTE,
            "target_peak_memory_mib": TARGET_MEBIBYTES,
            "games_per_second": games / seconds,
        }
    return figures


def linked(archive_root: Path, root: Path) -> None:
    """Make an archive at ``root`` that has the games of another one and no policies."""
    root.mkdir()
    for name in (MARKER, "runs", "tallies", *TABLES):
        (root / name).symlink_to((archive_root / name).absolute())


# Each takes the folder of an archive and gives its figures, by name; the order matters: an explorer needs an index.
MEASURES: tuple[Callable[[Path], Figures], ...] = (_index, _questions, _explorer, _memory, _policies)
