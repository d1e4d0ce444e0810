"""A watch on an agent that is checked: it notes slow turns, and ends a check that takes too long."""

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
MAX_NOTES = 3  # on slow turns


class Watchdog:
    """A limit of ``seconds`` for what the main thread does within the context, and notes on slow turns.

    At the limit the main thread gets a ``KeyboardInterrupt``, and ``ended`` says in which position the agent was asked.
    An endless turn of an agent in Python, or one that another process takes, can be ended in no other way.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.end_reason = seconds, ""
        self._screen = sys.stderr  # whatever standard error is while the agent plays
        self._deadline = time.monotonic() + seconds
        self._current_turn: tuple[float, Batch] | None = None  # when, and for which positions, if a turn is being taken
        self._notes, self._lock, self._is_open = MAX_NOTES, threading.Lock(), True
        self._timer = threading.Timer(seconds, self._interrupt)
        self._timer.daemon = True
        self._handler: Any = None  # of Ctrl-C, as the watch found it

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # A script's job in the background ignores it; and the command's own handler takes it for the user's.
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
        """The seconds until the limit."""
        return self._deadline - time.monotonic()

    def print_to_screen(self, text: str) -> None:
        """Print a note on the screen."""
        print_note(text, self._screen)

    def watch_agent(self, engine: BatchEngine, agent: Agent) -> None:
        """Watch ``agent``, the first of ``engine``, from now on. The turns of one that is jitted are not seen."""
        if not isinstance(agent, KernelAgent):
            alone = isinstance(agent, GameAgent) and not isinstance(agent, BatchAgent)
            engine.replace_player(0, WatchedPlayer(engine.guarded_agents[0].fork_player(), alone, self))

    def start_turn(self, batch: Batch) -> threading.Timer:
        """A timer that notes this turn, unless it is cancelled in time."""
        self._current_turn = time.monotonic(), batch
        slow = threading.Timer(SLOW_SECONDS, self._print_slow_note, [batch.copy()])
        slow.daemon = True
        slow.start()
        return slow

    def end_turn(self) -> None:
        """The turn has been taken."""
        self._current_turn = None

    def _print_slow_note(self, batch: Batch) -> None:
        if self._notes:
            self._notes -= 1
            self.print_to_screen(
                f"after {SLOW_SECONDS:g} seconds the agent has not answered in {_describe_positions(batch)}; it goes "
                f"on until {self.seconds:g} seconds are over (--seconds). In a run, turn_seconds=1 lets such a turn "
                f"forfeit its game{'' if self._notes else '. More such turns are not noted'}"
            )

    def _interrupt(self) -> None:
        with self._lock:
            if not self._is_open:
                return
            asked, self.end_reason = (
                self._current_turn,
                f"the check was not over after {self.seconds:g} seconds (--seconds)",
            )
            if asked is not None:
                since = time.monotonic() - asked[0]
                self.end_reason += (
                    f": the agent has been asked for {since:.1f} seconds in {_describe_positions(asked[1])}"
                )
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _describe_positions(batch: Batch) -> str:
    others = len(batch.lanes) - 1
    return f"position {format_position(batch.position(0))}{f' and {others} others' if others else ''}"


class WatchedPlayer(BatchPlayer):
    """Plays as ``player`` does, and tells ``watch`` of each turn."""

    def __init__(self, player: BatchPlayer, one_position_at_a_time: bool, watchdog: Watchdog) -> None:
        """``one_position_at_a_time``: it is asked for one position at a time, so that a note can say which."""
        self._player, self._watch = player, watchdog
        self.one_position_at_a_time, self.game_words = one_position_at_a_time or player.one_position_at_a_time, player.game_words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def start(self, slots: range) -> None:
        self._player.start(slots)

    def restart(self, slots: NDArray[Any]) -> None:
        self._player.restart(slots)

    def fork(self) -> WatchedPlayer:
        return WatchedPlayer(self._player.fork(), self.one_position_at_a_time, self._watch)

    def play(
        self, batch: Batch, rng: Streams, slots: NDArray[Any] | None = None, evaluations: Evaluations | None = None
    ) -> Turns:
        slow = self._watch.start_turn(batch)
        try:
            return self._player.play(batch, rng, slots, evaluations)
        finally:
            slow.cancel()
            self._watch.end_turn()
