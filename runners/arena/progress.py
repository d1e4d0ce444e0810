"""What a run tells of its progress while it is played."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the number of games that have been played, to show it."""

    def start(self, games: int) -> None:
        """``games`` games are going to be played."""
        ...

    def advance(self, games: int) -> None:
        """``games`` more have been played."""
        ...

    def report_turns(self, turns: int) -> None:
        """No game has ended for a while; agents in Python have taken ``turns`` turns so far."""
        ...
