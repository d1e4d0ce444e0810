"""A watch on an agent during its check: it prints notes on slow turns, and ends a check that takes too long."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Self

from numpy.typing import NDArray

from agents.base.agent import Agent, BatchAgent, GameAgent, KernelAgent
from agents.base.player import BatchPlayer
from quarto.batch import Batch, Evaluations, Turns
from quarto.notation import format_position
from quarto.rng import Streams
from runners.arena.batch_engine import BatchEngine
from runners.terminal.console import print_note

SLOW_SECONDS = 5.0
MAX_NOTES = 3  # notes on slow turns


class Watchdog:
    """A context that limits the main thread's work to ``seconds``, and prints notes on slow turns of the agent.

    At the limit, the main thread receives a ``KeyboardInterrupt``, and ``end_reason`` names the position in which the
    agent was thinking. Only such an interrupt can end an endless turn, whether it runs in Python or in another process.
    """

    def __init__(self, seconds: float, with_notes: bool = True) -> None:
        """Limit the work to ``seconds``; without ``with_notes``, no notes on slow turns are printed."""
        self.seconds, self.end_reason = seconds, ""
        self._screen = sys.stderr  # standard error is replaced while the agent plays
        self._deadline = time.monotonic() + seconds
        self._current_turn: tuple[float, Batch] | None = None  # start in seconds and positions of the turn under way
        self._notes, self._lock, self._is_open = MAX_NOTES if with_notes else 0, threading.Lock(), True
        self._timer = threading.Timer(seconds, self._interrupt)
        self._timer.daemon = True
        self._handler: Any = None  # the handler of Ctrl-C before the context

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # A background job of a script ignores the signal, and the command's handler would take it for the user's.
            self._handler = signal.signal(signal.SIGINT, signal.default_int_handler)
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_open = False
        self._timer.cancel()
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)

    @property
    def seconds_left(self) -> float:
        """The number of seconds until the limit."""
        return self._deadline - time.monotonic()

    def print_to_screen(self, text: str) -> None:
        """Print a note to the stream that was standard error before the check began to capture the output."""
        print_note(text, self._screen)

    def watch_agent(self, engine: BatchEngine, agent: Agent) -> None:
        """Wrap the player of ``agent``, which is the engine's first agent, so that its turns are watched.

        The turns of a jitted agent cannot be watched, so its player stays as it is.
        """
        if not isinstance(agent, KernelAgent):
            alone = isinstance(agent, GameAgent) and not isinstance(agent, BatchAgent)
            engine.replace_player(0, WatchedPlayer(engine.guarded_agents[0].fork_player(), alone, self))

    def note_turn_and_start_slow_timer(self, batch: Batch) -> threading.Timer:
        """Record that a turn has begun, and return a running timer.

        The timer prints a note that the turn is slow, unless the caller cancels it first.
        """
        self._current_turn = time.monotonic(), batch
        timer = threading.Timer(SLOW_SECONDS, self._print_slow_note, [batch.copy()])
        timer.daemon = True
        timer.start()
        return timer

    def clear_current_turn(self) -> None:
        """Record that no turn is in progress any more. The caller must cancel the turn's timer."""
        self._current_turn = None

    def _print_slow_note(self, batch: Batch) -> None:
        """Print that the agent has not answered yet in these positions. After ``MAX_NOTES`` notes, print nothing."""
        if self._notes:
            self._notes -= 1
            self.print_to_screen(
                f"after {SLOW_SECONDS:g} seconds the agent has not answered in {_describe_positions(batch)}; it goes "
                f"on until {self.seconds:g} seconds are over (--seconds). In a run, turn_seconds=1 lets such a turn "
                f"forfeit its game{'' if self._notes else '. More such turns are not noted'}"
            )

    def _interrupt(self) -> None:
        """Set ``end_reason`` and interrupt the main thread, unless the context has ended already."""
        with self._lock:
            if not self._is_open:
                return
            current_turn, self.end_reason = (
                self._current_turn,
                f"the check was not over after {self.seconds:g} seconds (--seconds)",
            )
            if current_turn is not None:
                since = time.monotonic() - current_turn[0]
                self.end_reason += (
                    f": the agent has been asked for {since:.1f} seconds in {_describe_positions(current_turn[1])}"
                )
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _describe_positions(batch: Batch) -> str:
    """Describe a batch by its first position and the number of other positions."""
    other_count = len(batch.lanes) - 1
    return f"position {format_position(batch.position(0))}{f' and {other_count:,} more' if other_count else ''}"


class WatchedPlayer(BatchPlayer):
    """A player that plays as ``player`` does, and reports the start and the end of each turn to ``watchdog``."""

    def __init__(self, player: BatchPlayer, one_position_at_a_time: bool, watchdog: Watchdog) -> None:
        """Wrap ``player``.

        With ``one_position_at_a_time``, the player receives one position per call, so that a note can name the position
        in which it is slow.
        """
        self._player, self._watch = player, watchdog
        self.one_position_at_a_time, self.game_words = (
            one_position_at_a_time or player.one_position_at_a_time,
            player.game_words,
        )
        self.unusual = player.unusual

    @property
    def printed(self) -> str:
        return self._player.printed

    def remarks(self) -> list[str]:
        return self._player.remarks()

    def start(self, slots: range) -> None:
        self._player.start(slots)

    def restart(self, slots: NDArray[Any]) -> None:
        self._player.restart(slots)

    def fork(self) -> WatchedPlayer:
        return WatchedPlayer(self._player.fork(), self.one_position_at_a_time, self._watch)

    def play(
        self, batch: Batch, rng: Streams, slots: NDArray[Any] | None = None, evaluations: Evaluations | None = None
    ) -> Turns:
        timer = self._watch.note_turn_and_start_slow_timer(batch)
        try:
            return self._player.play(batch, rng, slots, evaluations)
        finally:
            timer.cancel()
            self._watch.clear_current_turn()
