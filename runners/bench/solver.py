"""`qarena bench --solver`: the solver against a C++ program, on two threads, over the whole game, and in use."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from analytics.exact.annotation import AnnotationOptions, annotate_runs
from analytics.exact.tablebase import find_largest_tablebase
from analytics.store.archive import ArchiveStore
from quarto.errors import FailureError
from quarto.position import EMPTY, PackedPosition, board, position_from_plies
from quarto.rules import CLASSIC, find_finished_lines
from quarto.solver.solver import Solver
from runners.arena.executors.base import available_cores
from runners.arena.spec import RunSpec
from runners.bench.timing import Figures, compile_program
from runners.bench.turn_times import measure_turn_times
from runners.bench.warm_up import play_games
from runners.config.agents import load_agent
from runners.config.requests import list_pairings
from runners.config.yaml_options import load_rules
from runners.exact.solutions import Solvers, run_search

POSITIONS = {4: 10, 5: 40, 6: 200, 7: 600, 8: 2000, 9: 4000, 10: 8000}  # by pieces on the board; each takes seconds
ROUNDS = 2
MEGABYTES = 128.0
PROOF_MEGABYTES = 256.0


def bench_solver_oracle_and_annotation(quick: bool = False) -> Figures:
    """Measure the solver, the oracle and annotation, and return the figures as nested dictionaries.

    With ``quick``, a tenth of the positions is solved, and the classic game is not solved from the empty board. All
    positions with the same number of pieces are solved with one table of values, which is empty at first. Milliseconds
    are processor time, so that other work on the machine does not affect them. Raises ``FailureError`` if the
    yardstick, a solver in C++, finds other values than our solver.
    """
    figures: Figures = {}
    with TemporaryDirectory(prefix="quarto-arena-bench-") as folder:
        program = compile_program("yardstick_solver.cpp", Path(folder))
        for pieces, count in POSITIONS.items():
            figures[f"{pieces}_pieces"] = _measure_pieces(pieces, max(2, count // (10 if quick else 1)), program)
        figures["threads"] = _measure_one_and_two_threads(sample_positions_with_safe_hand(6, 50 if quick else 1000))
        if not quick:
            solvers, started = Solvers(PROOF_MEGABYTES, use_tablebase=False), time.perf_counter()
            value = run_search(solvers, lambda: solvers.get_solver_of_thread(CLASSIC).value(EMPTY))
            seconds = time.perf_counter() - started
            figures["classic_game"] = {"value": value, "positions": solvers.nodes, "seconds": seconds}
        figures["oracle"] = measure_oracle(quick)
        figures["annotate"] = measure_annotation(Path(folder), min(2, available_cores()), quick)
    return figures


def sample_positions_with_safe_hand(pieces: int, count: int) -> list[PackedPosition]:
    """Return ``count`` random positions with ``pieces`` pieces on the board and a safe piece in hand.

    Nobody has finished a line in any of them. Every call returns the same positions.
    """
    generator = random.Random(pieces)
    positions: list[PackedPosition] = []
    while len(positions) < count:
        (*placed, hand), cells = generator.sample(range(16), pieces + 1), generator.sample(range(16), pieces)
        plies = list(zip(placed, cells, strict=True))
        wins = ([*plies, (hand, cell)] for cell in set(range(16)) - set(cells))
        if not any(find_finished_lines(board(position_from_plies(line)), CLASSIC) for line in (plies, *wins)):
            positions.append(position_from_plies(plies, hand))
    return positions


def _measure_pieces(pieces: int, count: int, program: Path | None) -> Figures:
    positions = sample_positions_with_safe_hand(pieces, count)
    seconds = yardstick = float("inf")
    for _ in range(ROUNDS):  # alternately, and the fastest counts, because noise only adds time
        solver, started = Solver(CLASSIC, MEGABYTES), time.thread_time()
        values = [solver.value(position) for position in positions]
        seconds = min(seconds, time.thread_time() - started)
        if program:
            result = run_yardstick(program, positions)
            yardstick = min(yardstick, result.processor_seconds)
            if result.values != values:
                raise FailureError(f"the yardstick finds other values of positions with {pieces} pieces")
    figures = {"positions": count, "milliseconds": 1000 * seconds / count}
    if program:
        figures |= {"yardstick_milliseconds": 1000 * yardstick / count, "ratio_to_yardstick": seconds / yardstick}
    return figures


def _measure_one_and_two_threads(positions: Sequence[PackedPosition]) -> Figures:
    """Measure how many positions are solved a second on one thread and on two threads that share a table.

    The two measurements alternate, and the highest speeds count.
    """

    def measure_speed(threads: int) -> float:
        solver = Solver(CLASSIC, MEGABYTES)
        solver.map_memory()  # so that no solver waits for the system to provide pages
        # The forks share the iterator, because some positions take a hundred times as long as others.
        forks, remaining = [solver.fork() for _ in range(threads)], iter(positions)
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda fork: [fork.value(position) for position in remaining], forks))
        return len(positions) / (time.perf_counter() - started)

    one, two = map(max, zip(*((measure_speed(1), measure_speed(2)) for _ in range(ROUNDS + 1)), strict=True))
    return {"one_thread_positions_per_second": one, "two_threads_positions_per_second": two, "speedup": two / one}


class YardstickResult(NamedTuple):
    """The values that the C++ program found, and the time that it took."""

    values: list[int]  # one for each position
    processor_seconds: float  # for all positions


def run_yardstick(program: Path, positions: Sequence[PackedPosition]) -> YardstickResult:
    """Solve positions with the yardstick, the compiled C++ solver at the path ``program``; return values and time."""
    lines = "".join(
        f"{position.lanes} {position.occupied} {position.available} {position.hand}\n" for position in positions
    )
    command = [str(program), str(MEGABYTES)]
    output = subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout  # noqa: S603
    rows = [line.split() for line in output.splitlines()]
    return YardstickResult([int(value) for value, _ in rows], sum(float(seconds) for _, seconds in rows))


AGENTS = ("random", "rule_based", "ga2", "mcts")  # each plays every other one
PAIRINGS = list_pairings(len(AGENTS), "round_robin")
GAMES = 2000  # games of each pairing
TURNS = 200  # turns of the oracle with each number of pieces on the board


def measure_oracle(quick: bool = False) -> Figures:
    """Measure the median and the longest time of the oracle's turns, by number of pieces on the board.

    The times are in microseconds.
    """
    times = measure_turn_times(load_agent("oracle"), CLASSIC, TURNS // (10 if quick else 1), 1, threading.Event())
    rows = times.compute_summaries().items()
    figures = {f"{pieces}_pieces": {"median": row["median"], "worst": row["max"]} for pieces, row in rows}
    anywhere = {name: max(row[name] for row in figures.values()) for name in ("median", "worst")}
    return {"unit": "microseconds", **figures, "anywhere": anywhere}


def measure_annotation(folder: Path, threads: int, quick: bool = False) -> Figures:
    """Measure how many decisions a second are annotated in whole games between four agents.

    Each figure is measured in an archive of its own. For the figure of five pieces, only boards with up to five pieces
    are looked up in the tablebase; for the figure of the largest number of pieces, all boards that the tablebase has.
    For a third figure, ``choices``, annotation also counts the choices that keep the value.
    """
    games = GAMES // (50 if quick else 1)
    tablebase = find_largest_tablebase(CLASSIC)
    largest_pieces = tablebase.card.pieces if tablebase else 0
    figures: Figures = {"games": games * len(PAIRINGS), "tablebase_pieces": largest_pieces}
    for pieces in sorted({min(5, largest_pieces), largest_pieces}):
        values = _measure_annotation_speed(
            folder / f"values-{pieces}", games, AnnotationOptions(threads=threads, base_pieces=pieces)
        )
        figures[f"values_from_{pieces}_pieces"] = {"decisions_per_second": values}
    choices = _measure_annotation_speed(
        folder / "choices", games // 10, AnnotationOptions(choices=True, threads=threads)
    )
    return figures | {"choices": {"decisions_per_second": choices}}


def _measure_annotation_speed(root: Path, games: int, options: AnnotationOptions) -> float:
    """Return the number of decisions annotated a second, including the time to read and write the archive's files."""
    agents = tuple(load_agent(name) for name in AGENTS)
    play_games(RunSpec(load_rules("classic"), agents, PAIRINGS, 1, 0), root, games, options.threads)
    archive = ArchiveStore.open(root)
    started = time.perf_counter()
    summary = annotate_runs(archive, archive.list_ids_of_runs_with_games(), options)
    return summary.decisions / (time.perf_counter() - started)
