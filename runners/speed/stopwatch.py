"""Time one turn by a clock that is read inside the kernel, without the interpreter between two readings.

A call from Python costs 10 to 20 microseconds, a thousand times what a cheap turn takes. The kernel here reads the
system's monotonic clock itself, before and after each sample (21 ns a reading, measured). A short turn is repeated,
with randomness of its own each time, until a sample is a hundred readings long. The sample is the mean of its turns.
The first turn in a position is not counted unless it is so long that cold caches are lost in it. Repetition makes cheap
turns look cheaper than in a game, since caches and predictions of the processor fit the position. Games a second show
their cost in a game.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from agents.base import OWN_TYPE, RULES_TYPE, TURN_TYPE, TurnKernel, memory
from agents.lift import BATCH_TYPE, KernelPlayer, LiftedPlayer
from quarto.batch import Batch
from quarto.jit import inlined, int64, kernel, uint64
from quarto.position import Position
from quarto.rng import Streams, turn_offset

CLOCK = int(time.CLOCK_MONOTONIC)
NANOSECONDS = 1_000_000_000  # in a second
SAMPLE = 2_000  # nanoseconds that a sample takes at least
LONG = 50_000  # nanoseconds of a turn that is timed once

# int clock_gettime(clockid_t, struct timespec *) of the C library; the address is that of two int64.
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@inlined
def read_clock(timespec: Any) -> int:
    """Nanoseconds of the monotonic clock; ``timespec`` [2] int64 is overwritten."""
    clock_gettime(CLOCK, timespec.ctypes.data)
    return int64(timespec[0] * NANOSECONDS + timespec[1])


@inlined
def time_of(turn: TurnKernel, own: Any, rules: Any, position: Position, seed: int, turns: int, timespec: Any) -> int:
    """Nanoseconds of ``turns`` turns, with the game's memory empty at first."""
    memory(own)[:] = 0
    started = read_clock(timespec)
    for number in range(turns):
        turn(position, seed + turn_offset(uint64(number)), rules, own)
    return read_clock(timespec) - started


@kernel(
    types.void(TURN_TYPE, OWN_TYPE, RULES_TYPE, BATCH_TYPE, types.uint64[::1], types.int64[::1], types.float64[::1])
)
def time_turns(
    turn: TurnKernel, own: Any, rules: Any, batch: Batch, seeds: Any, timespec: Any, nanoseconds: Any
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
        taken = time_of(turn, own, rules, position, seeds[i], turns, timespec)
        if taken < LONG and own.memory_size == 0:  # else a second turn would remember the first
            turns += SAMPLE // max(taken, 1)
            taken = time_of(turn, own, rules, position, seeds[i], turns, timespec)
        nanoseconds[i] = taken / turns


def turn_nanoseconds(player: LiftedPlayer, batch: Batch, rng: Streams) -> NDArray[np.float64]:
    """The time of a turn in each position: [B] nanoseconds.

    A jitted player is timed inside a kernel. One in Python is asked for one position at a time, and what the
    interpreter costs it is part of its time.
    """
    nanoseconds = np.zeros(len(batch.lanes))
    if isinstance(player, KernelPlayer):
        player.start(range(1))
        time_turns(player.turn, player.own, player.rules.tables, batch, rng.seeds, np.zeros(2, np.int64), nanoseconds)
    else:
        for i in range(len(nanoseconds)):
            position, seed = batch.part(i, i + 1), Streams(rng.seeds[i : i + 1])
            started = time.perf_counter_ns()
            player.play(position, seed)
            nanoseconds[i] = time.perf_counter_ns() - started
    return nanoseconds
