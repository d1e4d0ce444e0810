"""The interface by which a run reports its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A display that shows how many games have been played."""

    def start(self, games: int) -> None:
        """Start showing the progress of ``games`` games."""
        ...

    def advance(self, games: int) -> None:
        """Add ``games`` to the number of games that have been played."""
        ...

    def report_turns(self, turns: int) -> None:
        """Show how many turns Python agents have taken so far, because no game has ended for a while."""
        ...
