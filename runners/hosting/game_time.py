"""The limit of processor time that a player in processes of its own may use for a game: ``game_seconds``.

The time is measured from outside, because the player could report any: the system has the processor time of each
running process with all its threads, and of the ended children that it has waited for. What a process computes between
two turns counts for the later one, so thinking ahead is not free. A child that ends unseen (SIGCHLD is ignored) is not
counted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.base.agent import GameTimeoutError
from agents.base.player import PythonPlayer
from quarto.batch import Batch, Evaluations, Turns
from quarto.errors import RemoteError, RequestError
from quarto.rng import Streams
from runners.hosting.compile_clock import CompileClock
from runners.hosting.sandbox_supervisor import list_children, read_stat_fields

MIN_CHECK_SECONDS, MAX_CHECK_SECONDS = 0.01, 1.0  # time between two readings while a turn goes on
CHILD_TICKS = slice(13, 15)  # of the fields that ``read_stat_fields`` returns: processor time of ended children


class ProcessorTimer:
    """A timer of the processor time that a subprocess and its descendants use."""

    def __init__(self, pid: int, is_supervisor: bool, compile_clock: CompileClock | None = None) -> None:
        """Start the timer. The process itself does not count if it is the supervisor of a sandbox."""
        self._pid, self._is_supervisor, self._compile_clock = pid, is_supervisor, compile_clock
        self._taken_seconds = self._read_seconds()

    def peek_seconds(self) -> float:
        """Return the seconds used since the start or since the last call of ``take_seconds``."""
        return max(0.0, self._read_seconds() - self._taken_seconds)

    def take_seconds(self) -> float:
        """Return what ``peek_seconds`` returns, and begin again."""
        seconds = self.peek_seconds()
        self._taken_seconds += seconds
        return seconds

    def _read_seconds(self) -> float:
        pids = list_children(self._pid) if self._is_supervisor else [self._pid]
        compile_seconds = self._compile_clock.read_seconds() if self._compile_clock else 0.0
        return sum(map(_read_tree_seconds, pids)) - compile_seconds


def _read_tree_seconds(pid: int) -> float:
    """Return the processor time of a process, of its ended children and of its descendants, 0 if it has ended."""
    try:
        seconds = time.clock_gettime((~pid << 3) | 2)  # the clock of a process, see clock_getcpuclockid(3)
        fields = read_stat_fields(pid)
    except OSError:
        return 0.0
    seconds += sum(map(int, fields[CHILD_TICKS])) / os.sysconf("SC_CLK_TCK")
    return seconds + sum(map(_read_tree_seconds, list_children(pid)))


class TurnTimer(NamedTuple):
    """The processor time of one turn: its game may still use ``seconds`` of it."""

    timer: ProcessorTimer
    seconds: float
    game_seconds: float  # the limit, for messages

    @property
    def first_wait_seconds(self) -> float:
        """How long to wait before the time is read first; a quick turn is over by then."""
        return _limit_wait(self.seconds)

    def find_next_wait_seconds(self) -> float:
        """Return how long to wait before asking again. Raises ``GameTimeoutError`` if the time is used up."""
        remaining_seconds = self.seconds - self.timer.peek_seconds()
        if remaining_seconds <= 0:
            raise GameTimeoutError(self.game_seconds)
        return _limit_wait(remaining_seconds)


def _limit_wait(remaining_seconds: float) -> float:
    """Return in how many seconds so much processor time could be used on all cores, within bounds."""
    return min(max(remaining_seconds / (os.cpu_count() or 1), MIN_CHECK_SECONDS), MAX_CHECK_SECONDS)


class TimedProcess(Protocol):
    """A subprocess whose processor time is measured."""

    @property
    def processor_timer(self) -> ProcessorTimer:
        """The timer of its processor time, which is started when this property is first read."""
        ...


class GameBudgets:
    """The processor time that the player of one thread may still use, by the slots of its games."""

    def __init__(self, game_seconds: float) -> None:
        """Give each game ``game_seconds``. Raises ``RequestError`` where processor time cannot be read."""
        if sys.platform != "linux":
            raise RequestError(
                f"game_seconds={game_seconds:g}: processor time can be limited on Linux only; leave it out"
            )
        self._game_seconds = game_seconds
        self._used_seconds: dict[int, float] = {}

    def restart(self, slots: Iterable[int] | None = None) -> None:
        """Begin new games in ``slots``, by default in all."""
        for slot in [*self._used_seconds] if slots is None else slots:
            self._used_seconds.pop(int(slot), None)

    @contextmanager
    def charge_turn(self, slot: int | None, timer: ProcessorTimer) -> Iterator[TurnTimer]:
        """Charge the processor time of the context to the game in ``slot``. Yields the time that the game has left.

        If ``slot`` is None, the turn is the only one of its game. Raises ``GameTimeoutError`` if the game has used more
        than it may, although the turn has come.
        """
        used_seconds = 0.0 if slot is None else self._used_seconds.get(slot, 0.0)
        try:
            yield TurnTimer(timer, self._game_seconds - used_seconds, self._game_seconds)
        except RemoteError:  # the game is over, but the process goes on
            timer.take_seconds()
            raise
        used_seconds += timer.take_seconds()
        if slot is not None:
            self._used_seconds[slot] = used_seconds
        if used_seconds > self._game_seconds:
            raise GameTimeoutError(self._game_seconds)


class RemotePlayer(PythonPlayer):
    """A player whose turns come from other processes, which threads share; each thread has its own games.

    With ``game_seconds`` it is asked for one position at a time, because otherwise no game's time would be known.
    """

    def __init__(self, game_seconds: float | None) -> None:
        """Build a player whose games may use ``game_seconds`` each; None means no limit.

        Raises ``RequestError`` as ``GameBudgets`` does.
        """
        super().__init__(None)
        self._game_seconds = game_seconds
        self._budgets = None if game_seconds is None else GameBudgets(game_seconds)
        self._slot: int | None = None  # of the game whose turn is requested
        self.one_position_at_a_time = game_seconds is not None

    def fork(self) -> RemotePlayer:
        if self._game_seconds is None:
            return self
        fork = object.__new__(type(self))
        # The original is kept, because its subprocesses end with it.
        fork.__dict__.update(self.__dict__, _original=self, _budgets=GameBudgets(self._game_seconds))
        return fork

    def start(self, slots: range) -> None:  # noqa: ARG002  (all games begin)
        """Begin new games."""
        if self._budgets is not None:
            self._budgets.restart()

    def restart(self, slots: NDArray[np.integer]) -> None:
        if self._budgets is not None:
            self._budgets.restart(slots.tolist())

    def play(
        self,
        batch: Batch,
        rng: Streams,
        slots: NDArray[np.uint32] | None = None,
        evaluations: Evaluations | None = None,
    ) -> Turns:
        self._slot = None if slots is None else int(slots[0])
        return super().play(batch, rng, slots, evaluations)

    @contextmanager
    def _charge_turn(self, process: TimedProcess) -> Iterator[TurnTimer | None]:
        """Charge the processor time of the context to the current game, as ``GameBudgets`` does; yield its time.

        Yields None if the time is not limited.
        """
        if self._budgets is None:
            yield None
        else:
            with self._budgets.charge_turn(self._slot, process.processor_timer) as turn_timer:
                yield turn_timer
