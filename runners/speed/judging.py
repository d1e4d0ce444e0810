"""The speed of perfect play in use: microseconds of the oracle's turns, and decisions annotated a second."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from analytics.perfect.annotate import AnnotationSettings, annotate_runs
from analytics.perfect.tablebase import largest_for
from analytics.store.archive import Archive
from quarto.rules import CLASSIC
from runners.arena.config import load_agent, pairings
from runners.arena.config_groups import load_rules
from runners.arena.spec import RunSpec
from runners.speed.turn_times import turn_times
from runners.speed.warm import play

AGENTS = ("random", "rule_based", "ga2", "mcts")  # each plays each other one
MEETINGS = pairings(len(AGENTS), "round_robin")
GAMES = 2000  # of each pairing
TURNS = 200  # of the oracle, with each number of pieces on the board
TARGET_MEDIAN, TARGET_WORST = 2000.0, 300_000.0  # microseconds a turn of the oracle, at most
TARGET_DECISIONS = {5: 5_000, 6: 15_000}  # a second on two threads, by pieces of the tablebase


def oracle_figures(quick: bool = False) -> dict[str, Any]:
    """Microseconds of the oracle's turns by pieces on the board, and the greatest of all."""
    times = turn_times(load_agent("oracle"), CLASSIC, TURNS // (10 if quick else 1), 1, threading.Event())
    rows = times.rows()
    figures: dict[str, Any] = {
        f"{pieces}_pieces": {"median_microseconds": row["median"], "worst_microseconds": row["max"]}
        for pieces, row in rows.items()
    }
    worst = {
        "median_microseconds": max(row["median"] for row in rows.values()),
        "target_median_microseconds": TARGET_MEDIAN,
        "worst_microseconds": max(row["max"] for row in rows.values()),
        "target_worst_microseconds": TARGET_WORST,
    }
    return figures | {"anywhere": worst}


def judging_figures(folder: Path, threads: int, quick: bool = False) -> dict[str, Any]:
    """Decisions annotated a second over whole games of four agents, each time in a new archive.

    ``values``: before and after each decision, looking up boards of up to five pieces and of all that the largest
    tablebase has. ``choices``: those that save the value counted too, with that tablebase.
    """
    games = GAMES // (50 if quick else 1)
    known = largest_for(CLASSIC)
    most = known.card.pieces if known else 0
    figures: dict[str, Any] = {"games": games * len(MEETINGS), "tablebase_pieces": most}
    for pieces in sorted({min(5, most), most}):
        values = _speed(folder / f"values-{pieces}", games, AnnotationSettings(threads=threads, base_pieces=pieces))
        figures[f"values_from_{pieces}_pieces"] = {
            "decisions_per_second": values,
            **({"target_decisions_per_second": TARGET_DECISIONS[pieces]} if pieces in TARGET_DECISIONS else {}),
        }
    choices = _speed(folder / "choices", games // 10, AnnotationSettings(choices=True, threads=threads))
    return figures | {"choices": {"decisions_per_second": choices}}


def _speed(root: Path, games: int, settings: AnnotationSettings) -> float:
    """Decisions annotated a second, including reading and writing the archive's files."""
    agents = tuple(load_agent(name) for name in AGENTS)
    play(RunSpec(load_rules("classic"), agents, MEETINGS, 1, 0), root, games, settings.threads)
    archive = Archive.open(root)
    started = time.perf_counter()
    done = annotate_runs(archive, archive.run_ids(), settings)
    return done.decisions / (time.perf_counter() - started)
