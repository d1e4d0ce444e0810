"""`qarena bench --scale`: what a small machine can tell of a large archive, as powers of its size.

Whole runs, indexes and questions are measured for archives of three sizes, and opening for three numbers of commits.
A figure that should not depend on the size has exponent 0; one that should grow with it, 1.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analytics import open_archive
from analytics.query.named_queries import query
from analytics.query.openings import openings
from analytics.statistics.tally import Tally
from analytics.store.archive import Archive
from analytics.store.json_records import dump
from analytics.store.records import Commit, Slice, StoredFile, now
from quarto.errors import FailureError
from runners.bench.archive import POSITIONS, exponent
from runners.bench.timing import best, process
from runners.bench.warm import warm
from runners.executors.machine import MEBIBYTE, available_cores

Figures = dict[str, Any]

GAMES, COMMITS = (100_000, 1_000_000, 10_000_000), (1_000, 10_000, 100_000)
QUICK_GAMES, QUICK_COMMITS = (20_000, 100_000), (300, 3_000)
ROUNDS = 3
RUNS = "SELECT run_id, games FROM runs"


def bench_scale(quick: bool = False) -> Figures:
    """All figures, nested as they are printed; ``quick`` takes them from smaller archives."""
    for _ in warm():  # compiling is not measured
        pass
    games, commits = (QUICK_GAMES, QUICK_COMMITS) if quick else (GAMES, COMMITS)
    with TemporaryDirectory(prefix="quarto-arena-bench-") as name:
        folder = Path(name)
        figures: Figures = {"threads": available_cores(), "runs": growth(games, folder, keep=True)}
        figures["index"] = _grown({size: _index(folder, size) for size in games})
        figures["questions"] = _grown({size: _questions(_root(folder, size)) for size in games})
        figures["commands"] = _grown({size: _commands(folder, size) for size in games})
        figures["commits"] = _grown({count: _opening(folder, count) for count in commits})
    return figures


def growth(sizes: Sequence[int], folder: Path, keep: bool = False) -> Figures:
    """Whole runs in processes of their own: games a second and peak memory by number of games.

    With ``keep`` their archives stay in the folder.
    """
    figures: Figures = {}
    for games in sizes:
        root = _root(folder, games)
        seconds, peak = process(
            ["run", "agent@a=random", "agent@b=random", f"games={games}", f"archive.root={root}"], folder
        )
        figures[f"{games}"] = {"games_per_second": games / seconds, "peak_memory_mib": peak / MEBIBYTE}
        if not keep:
            shutil.rmtree(root)
    least, most = (figures[f"{games}"]["peak_memory_mib"] for games in sizes[-2:])
    figures["peak_memory_ratio_of_last_two"] = most / least
    return figures


def _root(folder: Path, games: int) -> Path:
    return folder / f"games-{games}"


def _grown(by_size: Mapping[int, Mapping[str, float]]) -> Figures:
    """Each figure by size, and the exponent of the power of the size that fits it."""
    names = next(iter(by_size.values()))
    found: Figures = {}
    for name in names:
        values = [figures[name] for figures in by_size.values()]
        found[name] = {f"{size}": value for size, value in zip(by_size, values, strict=True)}
        found[name]["exponent"] = exponent(list(by_size), values)
    return found


def _index(folder: Path, games: int) -> dict[str, float]:
    """A process that indexes an archive."""
    seconds, peak = process(["archive", "index", "--archive", str(_root(folder, games))], folder)
    return {"seconds": seconds, "peak_memory_mib": peak / MEBIBYTE}


def _questions(root: Path) -> dict[str, float]:
    """Seconds of questions to an archive that is open."""
    with open_archive(root) as opened:
        opened.sql(RUNS)
        named = {
            f"{name}_seconds": best(partial(opened.sql, query(name)), ROUNDS) for name in ("win_rates", "first_plies")
        }
        asked = partial(openings, opened, POSITIONS[2], "turn", samples=False)
        return {**named, "position_seconds": best(asked, ROUNDS)}


def _commands(folder: Path, games: int) -> dict[str, float]:
    """Seconds of the same questions as commands, the start of the program included."""
    place = ["--archive", str(_root(folder, games))]
    return {
        "win_rates_seconds": process(["sql", _without_header("win_rates"), *place], folder).seconds,
        "first_plies_seconds": process(["sql", _without_header("first_plies"), *place], folder).seconds,
        "position_seconds": process(["openings", POSITIONS[2], "--by", "turn", *place], folder).seconds,
    }


def _without_header(name: str) -> str:
    """The SQL of a named question without its first lines, which a command line would take for an option."""
    lines = query(name).splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def _opening(folder: Path, count: int) -> dict[str, float]:
    """Seconds to open an archive of so many commits and list its runs, without a checkpoint and with one."""
    root = folder / f"commits-{count}"
    with open_archive(_root(folder, min(int(path.name[6:]) for path in folder.glob("games-*")))) as opened:
        record = opened.archive.runs()[0]
    add_commits(root, record, count)
    started = time.perf_counter()
    _list_runs(root, count)
    first = time.perf_counter() - started
    again = best(partial(_list_runs, root, count), ROUNDS)
    shutil.rmtree(root)
    return {"first_seconds": first, "seconds": again}


def _list_runs(root: Path, count: int) -> None:
    with open_archive(root) as opened:
        games = opened.sql(RUNS)["games"].item()
    if games != 2 * count:
        raise FailureError(f"an archive of {count} commits of two games says that it holds {games} games")


def add_commits(root: Path, record: Any, count: int) -> None:
    """Make an archive of one run with ``count`` commits of one pair each. Their files of games are not there."""
    archive = Archive.open(root, create=True)
    archive.save_run(record)
    folder = Path(archive.folder("commits", record.run_id))
    folder.mkdir(parents=True)
    tally = Tally(pairs=((0, 0, 1), (0, 0, 0), (0, 0, 0)), plies=20)
    games, plies = (StoredFile(f"part-000000-{'0' * 32}.parquet", rows, 1000, "0" * 64) for rows in (2, 20))
    moment = now()
    for number in range(count):
        commit = Commit(number, games, plies, (Slice(0, number, 1, tally),), moment)
        (folder / f"{number:06d}.json").write_bytes(dump(commit))
