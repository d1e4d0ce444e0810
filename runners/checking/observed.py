"""A player whose slow turns are noted while it takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from agents.lift import LiftedPlayer
from quarto.batch import Batch, Turns
from quarto.notation import format_position
from quarto.rng import Streams

SLOW_SECONDS = 5.0


class ObservedPlayer:
    """Plays as ``player`` does, and calls ``note`` once for each turn that takes longer than ``SLOW_SECONDS``."""

    def __init__(self, player: LiftedPlayer, alone: bool, note: Callable[[str], None]) -> None:
        """``alone``: it is asked for one position at a time, so that a note can say which."""
        self._player, self._note = player, note
        self.alone = alone or player.alone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def fork(self) -> ObservedPlayer:
        return ObservedPlayer(self._player.fork(), self.alone, self._note)

    def play(self, batch: Batch, rng: Streams, slots: NDArray[Any] | None = None) -> Turns:
        slow = threading.Timer(SLOW_SECONDS, self._describe, [batch.copy()])
        slow.daemon = True
        slow.start()
        try:
            return self._player.play(batch, rng, slots)
        finally:
            slow.cancel()

    def _describe(self, batch: Batch) -> None:
        size, first = len(batch.lanes), format_position(batch.position(0))
        self._note(
            f"after {SLOW_SECONDS:g} seconds the agent has not answered in position {first}"
            f"{f' and {size - 1} others' if size > 1 else ''}; it goes on. Ctrl-C ends this check. In a run, "
            "turn_seconds=1 lets such a turn forfeit its game"
        )
