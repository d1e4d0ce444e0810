"""`qarena bench --turn`: the time of an agent's turn by the number of pieces on the board.

A jitted turn is timed by the system's monotonic clock, which the kernel reads before and after each sample (21 ns a
reading, measured). A call from Python costs 10 to 20 microseconds, a thousand times what a cheap turn takes. A short
turn is repeated, with randomness of its own each time, until a sample is a hundred readings long. The sample is the
mean of its turns. The first turn in a position is not counted unless it is so long that cold caches are lost in it.
Repetition makes cheap turns look cheaper than in a game, since caches and predictions of the processor fit the
position. Games a second show their cost in a game.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base.agent import AGENT_TYPE, RULES_TYPE, TURN_TYPE, TurnKernel, memory
from agents.base.player import BATCH_TYPE, BatchPlayer, KernelPlayer, build_player
from agents.random import Random
from analytics.questions.columns import ResultColumn
from quarto.batch import Batch
from quarto.errors import RequestError
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.position import Position, position_from_plies
from quarto.rng import Streams, turn_offset
from quarto.rules import CELLS, NONE, Rules
from runners.arena.batch_engine import MAX_BLOCK_PAIRS, BatchEngine, PairRange
from runners.arena.progress import Progress
from runners.arena.spec import AgentSpec
from runners.bench.warm_up import choose_rules_name
from runners.config.agents import agent_from_label
from runners.config.schemas import MAX_SEED
from runners.config.yaml_options import load_rules
from runners.hosting.interruption import exit_code, stop_on_signal
from runners.terminal.console import build_table, print_tables, show_progress_bar
from runners.terminal.files import is_standard_stream
from runners.terminal.tables import write_json

MAX_POSITIONS = 10_000
MAX_RANDOM_GAMES = 1 << 22  # under some rules hardly any random game gets late
# Rows are measured in turns, each up to these shares of its positions: a disturbance of the machine affects all rows
# alike, and a measurement that is stopped early has some times of each row.
SHARES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
STOP_CHECK_NANOSECONDS = 1e8  # nanoseconds between two looks at ``stop``
QUARTILE_METHOD = "linear interpolation between order statistics (Hyndman and Fan's type 7, the default of R and NumPy)"
CLOCK = int(time.CLOCK_MONOTONIC)
NANOSECONDS_PER_SECOND = 1_000_000_000  # in a second
MIN_SAMPLE_NANOSECONDS = 2_000  # nanoseconds that a sample takes at least
LONG_TURN_NANOSECONDS = 50_000  # nanoseconds of a turn that is timed once

# int clock_gettime(clockid_t, struct timespec *) of the C library; the address is that of two int64.
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@dataclass(frozen=True)
class TurnTimes:
    """The times of an agent's turns in microseconds, by pieces on the board; a row without samples is missing."""

    agent: AgentSpec
    rules: Rules
    seed: int
    samples: Mapping[int, NDArray[np.float64]]  # each [positions]

    def compute_summaries(self) -> dict[int, dict[str, float]]:
        """The six figures of each row."""
        return {pieces: _summarize_times(times) for pieces, times in self.samples.items()}

    def to_dict(self) -> dict[str, Any]:
        """All figures as JSON values."""
        by_pieces = {
            f"{pieces}": {"positions": len(self.samples[pieces]), **row}
            for pieces, row in self.compute_summaries().items()
        }
        return {
            "agent": self.agent.label,
            "rules": self.rules.name,
            "seed": self.seed,
            "unit": "microseconds",
            "quartiles": QUARTILE_METHOD,
            "by_pieces_on_the_board": by_pieces,
        }


def run_turn_benchmark(name: str, rules: str | None, positions: int, seed: int, file: Path | None) -> int:
    """Print the times of an agent's turns, and write them as JSON to ``file``. Returns the exit code."""
    agent = agent_from_label(name, trusted=True)
    chosen = load_rules(rules or choose_rules_name(agent))
    with stop_on_signal() as stop, show_progress_bar("timing", "turns") as bar:
        times = measure_turn_times(agent, chosen, positions, seed, stop, bar)
    if not is_standard_stream(file):
        print_turn_times(times)
    if file:
        write_json(times.to_dict(), file)
    return exit_code() if stop.is_set() else 0


def _summarize_times(times: NDArray[np.float64]) -> dict[str, float]:
    least, lower, median, upper, most = np.quantile(times, (0.0, 0.25, 0.5, 0.75, 1.0), method="linear").tolist()
    mean = float(times.mean())
    return {"min": least, "lower_quartile": lower, "mean": mean, "median": median, "upper_quartile": upper, "max": most}


def measure_turn_times(
    agent: AgentSpec, rules: Rules, positions: int, seed: int, stop: threading.Event, progress: Progress | None = None
) -> TurnTimes:
    """Time ``agent`` in ``positions`` positions of each number of pieces on the board, 0 to 15; ``stop`` ends it early.

    The positions are those of random games that go on, with a piece in hand where the opponent chooses it. Raises
    ``RequestError`` for an agent that does not play these rules, or a number that is out of range.
    """
    for name, value, least, most in (("positions", positions, 1, MAX_POSITIONS), ("seed", seed, 0, MAX_SEED)):
        if not least <= value <= most:
            raise RequestError(f"--{name} {value} is out of range: it must be from {least} to {most}")
    player = build_player(agent.build(), rules, agent.label)
    reached = sample_random_positions(rules, positions, seed)
    if progress:
        progress.start(sum(map(len, reached.values())))
    samples: dict[int, list[float]] = {pieces: [] for pieces in reached}
    batches = {pieces: Batch.from_positions(row) for pieces, row in reached.items()}
    for pieces, end in _list_measuring_steps({pieces: len(row) for pieces, row in reached.items()}):
        taken = samples[pieces]
        while len(taken) < end and not stop.is_set():
            fitting = int(STOP_CHECK_NANOSECONDS / max(taken[-1], 1.0)) if taken else 1
            share = slice(len(taken), min(len(taken) + max(fitting, 1), end))
            seeds = np.arange(share.start, share.stop, dtype=np.uint64) + np.uint64(seed + pieces * MAX_POSITIONS)
            words = Streams(Streams(seeds).draw(0))
            taken += measure_turn_nanoseconds(
                player, batches[pieces].select_range(share.start, share.stop), words
            ).tolist()
            if progress:
                progress.advance(share.stop - share.start)
    return TurnTimes(agent, rules, seed, {pieces: np.array(row) / 1000 for pieces, row in samples.items() if row})


def _list_measuring_steps(counts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """The rows in the order of measuring, each with the number of positions up to which it is measured."""
    for share in SHARES:
        for pieces, count in counts.items():
            yield pieces, max(1, int(count * share))


def sample_random_positions(rules: Rules, count: int, seed: int) -> dict[int, list[Position]]:
    """By pieces on the board, the first ``count`` positions in which a placement was made in random games.

    Fewer, or none, where random games hardly ever get so late.
    """
    engine = BatchEngine(rules, [Random(), Random()], ["one", "two"], [(0, 1)], seed, run=seed)
    reached: dict[int, list[Position]] = {pieces: [] for pieces in range(CELLS)}
    for first_pair in range(0, MAX_RANDOM_GAMES // 2, MAX_BLOCK_PAIRS):
        games = engine.play_block(PairRange(0, first_pair, MAX_BLOCK_PAIRS)).games
        for pieces, row in reached.items():
            for slot in np.flatnonzero(games.plies > pieces)[: count - len(row)]:
                plies = list(zip(games.pieces[:, slot].tolist(), games.cells[:, slot].tolist(), strict=True))
                row.append(position_from_plies(plies[:pieces], NONE if rules.mover_chooses else plies[pieces][0]))
        if all(len(row) == count for row in reached.values()):
            break
    return {pieces: row for pieces, row in reached.items() if row}


@inline_function
def read_clock(timespec: Any) -> int:
    """Nanoseconds of the monotonic clock; ``timespec`` [2] int64 is overwritten."""
    clock_gettime(CLOCK, timespec.ctypes.data)
    return int64(timespec[0] * NANOSECONDS_PER_SECOND + timespec[1])


@inline_function
def time_repeated_turns(
    turn: TurnKernel, agent: Any, rules: Any, position: Position, seed: int, turns: int, timespec: Any
) -> int:
    """Nanoseconds of ``turns`` turns, with the game's memory empty at first."""
    memory(agent)[:] = 0
    started = read_clock(timespec)
    for number in range(turns):
        turn(position, seed + turn_offset(uint64(number)), rules, agent)
    return read_clock(timespec) - started


@kernel(
    types.void(TURN_TYPE, AGENT_TYPE, RULES_TYPE, BATCH_TYPE, types.uint64[::1], types.int64[::1], types.float64[::1])
)
def fill_turn_nanoseconds(
    turn: TurnKernel, agent: Any, rules: Any, batch: Batch, seeds: Any, timespec: Any, nanoseconds: Any
) -> None:
    """Write the time of a turn in each position into ``nanoseconds`` [B]; ``timespec`` [2] int64 is scratch."""
    for i in range(nanoseconds.shape[0]):
        position = Position(
            batch.lanes[i],
            int64(batch.occupied[i]),
            int64(batch.available[i]),
            int64(batch.hand[i]),
            int64(batch.last_cell[i]),
        )
        turns = int64(1)
        taken = time_repeated_turns(turn, agent, rules, position, seeds[i], turns, timespec)
        if taken < LONG_TURN_NANOSECONDS and agent.memory_size == 0:  # else a second turn would remember the first
            turns += MIN_SAMPLE_NANOSECONDS // max(taken, 1)
            taken = time_repeated_turns(turn, agent, rules, position, seeds[i], turns, timespec)
        nanoseconds[i] = taken / turns


def measure_turn_nanoseconds(player: BatchPlayer, batch: Batch, rng: Streams) -> NDArray[np.float64]:
    """The time of a turn in each position: [B] nanoseconds.

    A jitted player is timed inside a kernel. One in Python is asked for one position at a time, and what the
    interpreter costs it is part of its time.
    """
    nanoseconds = np.zeros(len(batch.lanes))
    if isinstance(player, KernelPlayer):
        player.start(range(1))
        fill_turn_nanoseconds(
            player.turn, player.agent, player.rules.tables, batch, rng.seeds, np.zeros(2, np.int64), nanoseconds
        )
    else:
        for i in range(len(nanoseconds)):
            position, seed = batch.select_range(i, i + 1), Streams(rng.seeds[i : i + 1])
            started = time.perf_counter_ns()
            player.play(position, seed)
            nanoseconds[i] = time.perf_counter_ns() - started
    return nanoseconds


def print_turn_times(times: TurnTimes) -> None:
    """Print the microseconds of an agent's turns by pieces on the board."""
    rows = times.compute_summaries()
    pieces = ResultColumn("pieces", [f"{number}" for number in rows])
    counts = ResultColumn("positions", [f"{len(times.samples[number]):,}" for number in rows])
    measured = [
        ResultColumn(name.replace("_", " "), [format_figure(row[name]) for row in rows.values()])
        for name in next(iter(rows.values()), {})
    ]
    title = f"{times.agent.label}, {times.rules.name} rules: microseconds a turn takes (quartiles as in R, type 7)"
    print_tables([build_table([pieces, counts, *measured], title)], [build_table([pieces, *measured], title)])


def format_figure(value: Any) -> str:
    """A measured figure as text."""
    if isinstance(value, float) and abs(value) < 100:
        return f"{value:,.3f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
