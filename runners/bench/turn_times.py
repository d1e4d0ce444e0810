"""`qarena bench --turn`: the time of an agent's turn by the number of pieces on the board, and its parts.

A jitted turn is timed by the system's monotonic clock, which the kernel reads before and after each sample. A reading
takes 21 ns (measured), whereas a call from Python takes 10 to 20 microseconds, a thousand times as long as a cheap
turn. A short turn is repeated with new randomness until the sample is a hundred readings long; the sample is the mean
of its turns. The first turn in a position is not counted unless it is so long that the effect of cold caches is
negligible. Repetition makes cheap turns look cheaper than in a game, because the processor's caches and predictions
then fit the position. The games a second of ``qarena bench`` show their cost in a game.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from quarto.position import PackedPosition, position_from_plies
from quarto.rng import Streams, turn_seed_offset
from quarto.rules import CELLS, NONE, Rules
from runners.arena.batch_engine import MAX_BLOCK_PAIRS, BatchEngine, PairRange
from runners.arena.progress import Progress
from runners.arena.spec import AgentSpec
from runners.bench.turn_parts import build_parts_table, measure_turn_parts
from runners.bench.warm_up import choose_rules_name
from runners.config.agents import agent_from_label
from runners.config.schemas import MAX_SEED
from runners.config.yaml_options import load_rules
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.terminal.console import build_escaped_table, print_tables, show_progress_bar_or_notes
from runners.terminal.files import is_standard_stream_dash
from runners.terminal.tables import write_json

MAX_POSITIONS = 10_000
MAX_RANDOM_GAMES = 1 << 22  # limited, because under some rules hardly any random game is long
# Rows are measured alternately, each up to these shares of its positions, so that a disturbance of the machine affects
# all rows alike, and a measurement that is stopped early has times of each row.
SHARES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
STOP_CHECK_NANOSECONDS = 1e8  # time between two checks of ``stop``
QUARTILE_METHOD = "linear interpolation between order statistics (Hyndman and Fan's type 7, the default of R and NumPy)"
CLOCK = int(time.CLOCK_MONOTONIC)
NANOSECONDS_PER_SECOND = 1_000_000_000
MIN_SAMPLE_NANOSECONDS = 2_000  # shorter turns are repeated until a sample takes this time
LONG_TURN_NANOSECONDS = 50_000  # a turn that takes this time or longer is timed once

# int clock_gettime(clockid_t, struct timespec *) of the C library; the second argument is the address of two int64.
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@dataclass(frozen=True)
class TurnTimes:
    """The times of an agent's turns in microseconds, by number of pieces on the board.

    Numbers of pieces for which no turn was timed are missing.
    """

    agent: AgentSpec
    rules: Rules
    seed: int
    samples: Mapping[int, NDArray[np.float64]]  # by pieces on the board: [positions] microseconds

    def compute_summaries(self) -> dict[int, dict[str, float]]:
        """Compute the minimum, quartiles, mean and maximum of the times for each number of pieces on the board.

        The figures are in microseconds.
        """
        return {pieces: _compute_range_quartiles_and_mean(times) for pieces, times in self.samples.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the agent, the rules and the summaries of its times as a dictionary for JSON."""
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
    """Measure and print the times of an agent's turns and what a turn is made of, and return the exit code.

    If ``file`` is given, the times are also written to that file as JSON. If ``file`` is the standard output (``-``),
    only the JSON is written. Without ``rules``, the rules are ``classic`` or, if the agent does not play these,
    ``own_piece``.
    """
    agent = agent_from_label(name, trusted=True)
    measured_rules = load_rules(rules or choose_rules_name(agent))
    with stop_on_signal_then_interrupt_then_exit() as stop, show_progress_bar_or_notes("timing", "turns") as bar:
        times = measure_turn_times(agent, measured_rules, positions, seed, stop, bar)
        parts = None if stop.is_set() else measure_turn_parts(agent.build(), agent.label, measured_rules, seed, stop)
    if not is_standard_stream_dash(file):
        print_turn_times(times)
        if parts:
            print_tables([build_parts_table(agent.label, parts)])
    if file:
        write_json(times.to_dict() | ({"parts_of_a_turn": parts.to_dict()} if parts else {}), file)
    return exit_code() if stop.is_set() else 0


def _compute_range_quartiles_and_mean(times: NDArray[np.float64]) -> dict[str, float]:
    minimum, lower, median, upper, maximum = np.quantile(times, (0.0, 0.25, 0.5, 0.75, 1.0), method="linear").tolist()
    mean = float(times.mean())
    return {
        "min": minimum,
        "lower_quartile": lower,
        "mean": mean,
        "median": median,
        "upper_quartile": upper,
        "max": maximum,
    }


def measure_turn_times(
    agent: AgentSpec, rules: Rules, positions: int, seed: int, stop: threading.Event, progress: Progress | None = None
) -> TurnTimes:
    """Time an agent's turns in up to ``positions`` positions for each number of pieces on the board, 0 to 15.

    The positions are taken from random games before a line is finished. They have a piece in hand, unless the mover
    chooses the piece. Setting ``stop`` ends the measurement early. Raises ``RequestError`` if the agent does not play
    these rules, or if a number is out of range.
    """
    for name, value, minimum, maximum in (("positions", positions, 1, MAX_POSITIONS), ("seed", seed, 0, MAX_SEED)):
        if not minimum <= value <= maximum:
            raise RequestError(f"--{name} {value} is out of range: it must be from {minimum} to {maximum}")
    player = build_player(agent.build(), rules, agent.label)
    positions_by_pieces = sample_random_positions(rules, positions, seed)
    if progress:
        progress.start(sum(map(len, positions_by_pieces.values())))
    samples: dict[int, list[float]] = {pieces: [] for pieces in positions_by_pieces}
    batches = {pieces: Batch.from_positions(row) for pieces, row in positions_by_pieces.items()}
    for pieces, end in _list_measuring_steps_in_turn({pieces: len(row) for pieces, row in positions_by_pieces.items()}):
        times = samples[pieces]
        while len(times) < end and not stop.is_set():
            batch_size = int(STOP_CHECK_NANOSECONDS / max(times[-1], 1.0)) if times else 1
            share = slice(len(times), min(len(times) + max(batch_size, 1), end))
            seeds = np.arange(share.start, share.stop, dtype=np.uint64) + np.uint64(seed + pieces * MAX_POSITIONS)
            words = Streams(Streams(seeds).draw(0))
            times += measure_turn_nanoseconds(
                player, batches[pieces].select_range(share.start, share.stop), words
            ).tolist()
            if progress:
                progress.advance(share.stop - share.start)
    return TurnTimes(agent, rules, seed, {pieces: np.array(row) / 1000 for pieces, row in samples.items() if row})


class MeasuringStep(NamedTuple):
    """A step of the measurement, which times further positions of one row, up to but not including the index ``end``.

    A row is all positions with the same number of pieces on the board. The step begins where the previous step of the
    row ended.
    """

    pieces: int  # on the board in each position of the row
    end: int  # the index in the row before which all positions have been measured after this step


def _list_measuring_steps_in_turn(counts: Mapping[int, int]) -> Iterator[MeasuringStep]:
    """Yield the steps of the measurement, which cycle through the rows of positions.

    Other load on the machine thus affects all rows alike. ``counts`` has the number of positions in each row, by the
    number of pieces on the board.
    """
    for share in SHARES:
        for pieces, count in counts.items():
            yield MeasuringStep(pieces, max(1, int(count * share)))


def sample_random_positions(rules: Rules, count: int, seed: int) -> dict[int, list[PackedPosition]]:
    """Return up to ``count`` positions from random games for each number of pieces on the board.

    No position is the end of its game. A number of pieces that random games hardly ever reach has fewer positions, and
    a number that they do not reach is missing.
    """
    engine = BatchEngine(rules, [Random(), Random()], ["one", "two"], [(0, 1)], seed, run=seed)
    positions_by_pieces: dict[int, list[PackedPosition]] = {pieces: [] for pieces in range(CELLS)}
    for first_pair in range(0, MAX_RANDOM_GAMES // 2, MAX_BLOCK_PAIRS):
        games = engine.play_block(PairRange(0, first_pair, MAX_BLOCK_PAIRS)).games
        for pieces, row in positions_by_pieces.items():
            for slot in np.flatnonzero(games.plies > pieces)[: count - len(row)]:
                plies = list(zip(games.pieces[:, slot].tolist(), games.cells[:, slot].tolist(), strict=True))
                row.append(position_from_plies(plies[:pieces], NONE if rules.mover_chooses else plies[pieces][0]))
        if all(len(row) == count for row in positions_by_pieces.values()):
            break
    return {pieces: row for pieces, row in positions_by_pieces.items() if row}


@inline_function
def read_clock(timespec: Any) -> int:
    """Return the monotonic clock in nanoseconds.

    ``timespec`` [2] int64 is a scratch array, which receives the seconds and nanoseconds from the system.
    """
    clock_gettime(CLOCK, timespec.ctypes.data)
    return int64(timespec[0] * NANOSECONDS_PER_SECOND + timespec[1])


@inline_function
def time_repeated_turns(
    turn: TurnKernel, agent: Any, rules: Any, position: PackedPosition, seed: int, turns: int, timespec: Any
) -> int:
    """Return the total time in nanoseconds of ``turns`` turns in one position, after the agent's memory is cleared."""
    memory(agent)[:] = 0
    started = read_clock(timespec)
    for number in range(turns):
        turn(position, seed + turn_seed_offset(uint64(number)), rules, agent)
    return read_clock(timespec) - started


@kernel(
    types.void(TURN_TYPE, AGENT_TYPE, RULES_TYPE, BATCH_TYPE, types.uint64[::1], types.int64[::1], types.float64[::1])
)
def fill_turn_nanoseconds(
    turn: TurnKernel, agent: Any, rules: Any, batch: Batch, seeds: Any, timespec: Any, nanoseconds: Any
) -> None:
    """Let the agent take its turn in each position, and write the duration of a turn into ``nanoseconds`` [B].

    A short turn is repeated and its mean duration is written, unless the agent has a memory. ``timespec`` [2] int64 is
    a scratch array.
    """
    for i in range(nanoseconds.shape[0]):
        position = PackedPosition(
            batch.lanes[i],
            int64(batch.occupied[i]),
            int64(batch.available[i]),
            int64(batch.hand[i]),
            int64(batch.last_cell[i]),
        )
        turns = int64(1)
        elapsed = time_repeated_turns(turn, agent, rules, position, seeds[i], turns, timespec)
        if (
            elapsed < LONG_TURN_NANOSECONDS and agent.memory_size == 0
        ):  # with memory, a second turn would remember the first
            turns += MIN_SAMPLE_NANOSECONDS // max(elapsed, 1)
            elapsed = time_repeated_turns(turn, agent, rules, position, seeds[i], turns, timespec)
        nanoseconds[i] = elapsed / turns


def measure_turn_nanoseconds(player: BatchPlayer, batch: Batch, rng: Streams) -> NDArray[np.float64]:
    """Measure the time of a turn in each position: [B] nanoseconds.

    A jitted player is timed inside a kernel. A player in Python takes its turns one position at a time, and the time of
    a turn includes the cost of the interpreter.
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
    """Print the times of an agent's turns in microseconds, by number of pieces on the board."""
    rows = times.compute_summaries()
    pieces = ResultColumn("pieces", [f"{number}" for number in rows])
    counts = ResultColumn("positions", [f"{len(times.samples[number]):,}" for number in rows])
    summary_columns = [
        ResultColumn(name.replace("_", " "), [format_figure(row[name]) for row in rows.values()])
        for name in next(iter(rows.values()), {})
    ]
    title = f"{times.agent.label}, {times.rules.name} rules: microseconds a turn takes (quartiles as in R, type 7)"
    print_tables(
        [build_escaped_table([pieces, counts, *summary_columns], title)],
        [build_escaped_table([pieces, *summary_columns], title)],
    )


def format_figure(value: Any) -> str:
    """Format a measured figure: a float below 100 with three decimals, any other number without decimals."""
    if isinstance(value, float) and abs(value) < 100:
        return f"{value:,.3f}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
