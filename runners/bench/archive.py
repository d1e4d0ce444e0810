"""`qarena bench --questions`: the time that questions take over ten million random games."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from analytics import open_archive
from analytics.questions.cookbook import read_query
from analytics.questions.openings import EMPTY_BOARD, explore_position
from analytics.store.archive import ArchiveStore
from analytics.tables.derived.indexing import list_index_chunks
from quarto.errors import FailureError
from runners.arena.executors.base import MEBIBYTE, available_cores
from runners.arena.indexing import index_and_compact_sums
from runners.arena.spec import RunSpec
from runners.bench.timing import Figures, measure_process, time_fastest
from runners.bench.warm_up import play_games
from runners.config.agents import load_agent
from runners.config.yaml_options import load_rules

GAMES, QUICK_GAMES = 10_000_000, 300_000
POLICY_KINDS = ("mc_afterstate", "gift")  # kinds of policies to derive
ROUNDS = 3  # the fastest counts, because noise only adds time
MEMORY = "1GiB"
# Needs more than MEMORY from about three million games on.
LARGE_QUESTION = "SELECT count(*) AS plies FROM (SELECT DISTINCT game_id, piece, cell FROM plies WHERE ply < 4)"
# Positions of 0 to 3 pieces, with a piece in hand and without.
POSITIONS = (
    EMPTY_BOARD,
    "..../..../..../.... 5",
    "...F/.3../..../.... -",
    "...F/.3../..../.... 7",
    "...F/.3../..7./.... 0",
)


def bench_archive(quick: bool = False) -> Figures:
    """Measure how long it takes to index and query an archive of random games, and to derive policies from it.

    Returns the figures as nested dictionaries. With ``quick``, the archive is smaller.
    """
    games, spec = (
        QUICK_GAMES if quick else GAMES,
        RunSpec(load_rules("classic"), (load_agent("random"), load_agent("random")), ((0, 1),), 1, 0),
    )
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        root = Path(folder) / "archive"
        seconds = play_games(spec, root, games, available_cores())
        figures: Figures = {"threads": available_cores(), "games": games, "made": {"seconds": seconds}}
        for measure in (
            _measure_first_and_repeated_indexing,
            _measure_queries,
            _measure_position_lookups,
            _measure_spilling,
        ):  # in this order: an explorer needs an index
            figures |= measure(root)
        return figures | {f"policy_{kind}": _measure_policy(root, kind, games) for kind in POLICY_KINDS}


def _measure_first_and_repeated_indexing(root: Path) -> Figures:
    """Measure the seconds to index all games, and then the seconds to find that no game is left to index."""
    archive = ArchiveStore.open(root)
    started = time.perf_counter()
    indexed, _ = index_and_compact_sums(archive, archive.list_ids_of_runs_with_games())
    seconds = time.perf_counter() - started
    list_remaining_chunks = partial(list_index_chunks, archive, archive.list_ids_of_runs_with_games())
    if list_remaining_chunks():
        raise FailureError("games that were indexed are still listed as not indexed")
    index = {"seconds": seconds, "games_per_second": indexed.games / seconds, "rows": indexed.rows}
    return {"index": index, "index_unchanged": {"seconds": time_fastest(list_remaining_chunks, ROUNDS)}}


def _measure_queries(root: Path) -> Figures:
    """Measure the seconds that each of two named queries takes on an open archive."""
    with open_archive(root) as opened:
        opened.sql("SELECT 1 AS one")
        names = ("win_rates", "first_plies")
        return {name: {"seconds": time_fastest(partial(opened.sql, read_query(name)), ROUNDS)} for name in names}


def _measure_position_lookups(root: Path) -> Figures:
    """Measure the milliseconds to look up a position in the position index, with and without sample games."""

    def look_up_positions(samples: bool) -> None:
        for position in POSITIONS:
            explore_position(opened, position, "turn", with_samples=samples)

    with open_archive(root) as opened:
        alone, sampled = (
            time_fastest(partial(look_up_positions, samples), ROUNDS) / len(POSITIONS) for samples in (False, True)
        )
    return {"explorer": {"milliseconds": 1000 * alone, "with_samples_milliseconds": 1000 * sampled}}


def _measure_spilling(root: Path) -> Figures:
    """Measure the seconds of a query that needs more memory than DuckDB may use, and therefore spills to the disk."""
    with open_archive(root, MEMORY) as opened:
        started = time.perf_counter()
        rows = opened.sql(LARGE_QUESTION)["plies"].item()
        seconds = time.perf_counter() - started
        expected = opened.sql("SELECT count(*) AS plies FROM plies WHERE ply < 4")["plies"].item()
    if rows != expected:
        raise FailureError(f"a question that spilled to the disk counted plies: {rows} instead of {expected}")
    return {f"distinct_plies_in_{MEMORY}": {"seconds": seconds}}


def _measure_policy(archive_root: Path, kind: str, games: int) -> Figures:
    """Measure the seconds and the peak memory of a process that derives a policy of ``kind`` from all games.

    ``games`` is the number of games in the archive. The seconds include the start of the process. So that the archive
    stays as it is, the policy is stored in a second archive, whose files are hard links to those of the first.
    """
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        root = Path(folder) / "archive"
        shutil.copytree(archive_root, root, copy_function=os.link)
        usage = measure_process(["policy", "build", f"kind={kind}", f"archive.root={root}"], Path(folder))
    seconds, mebibytes = usage.seconds, usage.peak_bytes / MEBIBYTE
    return {"seconds": seconds, "peak_memory_mib": mebibytes, "games_per_second": games / seconds}
