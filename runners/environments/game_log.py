"""The games of a learner as text, which ``qarena archive import`` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analytics.exchange.text import Heading, checked_text, text_of
from analytics.store.blocks import games_at
from quarto.batch import Games


class GameLog:
    """Appends finished games to a file: a line each, with the labels of both players.

    Raises ``RequestError`` for a label that is no printable text.
    """

    def __init__(self, path: str | Path, learner: str, opponent: str, rules: str) -> None:
        checked_text("name", learner)
        self.path = Path(path)
        seated = ((learner, opponent), (opponent, learner))
        self._headings = [Heading(rules, "", "", 0, *labels) for labels in seated]  # by the learner's seat

    def add(self, games: Games, seats: NDArray[np.int8]) -> None:
        """Append ``G`` games; ``seats`` [G] are the learner's."""
        text = b"".join(text_of(self._headings[seat], games_at(games, seats == seat)) for seat in (0, 1))
        with self.path.open("ab") as file:
            file.write(text)
