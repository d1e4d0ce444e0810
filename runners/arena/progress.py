"""The interface by which a run reports its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A display of the number of games that have been played."""

    def start(self, games: int) -> None:
        """Begin to show the progress of ``games`` games."""
        ...

    def advance(self, games: int) -> None:
        """Add ``games`` games to those that have been played."""
        ...

    def report_turns(self, turns: int) -> None:
        """Show how many turns Python agents have taken so far, because no game has ended for a while."""
        ...
