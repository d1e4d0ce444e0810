"""The kind 'gift': how dangerous a piece is to give, by how often its givers lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base.parameters import check_number
from agents.gifts import COMBINATIONS, FEATURES, GIFT, gift_features_number
from agents.learning.policy import Policy
from analytics.policies.kinds.dataset import Dataset, map_spans
from quarto.batch import Games
from quarto.bits import piece_to_lanes
from quarto.jit import int64, kernel, uint64
from quarto.position import ALL_PIECES


class Gift:
    """The giver's probability of losing, by the features of the gift (``agents/gifts.py``).

    Only gifts that a player chose are counted. ``risk`` is estimated as
    ``(losses + smoothing) / (count + 2 * smoothing)``, as if ``smoothing`` more games had been lost and as many more
    had not been lost. A smoothing of 1 gives Laplace's rule of succession.

    Columns: the features ``pieces``, ``wins``, ``safe`` and ``dangers`` (int8), which ``agents/gifts.py`` explains;
    ``count``, the number of gifts with these features, and ``losses``, how many of their givers lost (int64); ``risk``
    (float64). There is a row for each combination of features that occurs in the games, in ascending order. Raises
    ``ValueError`` for a smoothing below 0.
    """

    def __init__(self, smoothing: float = 1.0) -> None:
        self.smoothing = check_number("smoothing", smoothing)
        if self.smoothing < 0.0:
            raise ValueError(f"smoothing={smoothing} is below 0: that many games are added on both sides")

    def derive(self, dataset: Dataset, threads: int) -> Policy:
        return self.policy_from_counts(self.count(dataset, threads))

    def count(self, dataset: Dataset, threads: int) -> NDArray[np.int64]:
        """Count the gifts that players chose, by their features: [2, COMBINATIONS].

        Row 0 is for gifts whose giver lost the game, row 1 for gifts whose giver did not lose.
        """
        rules = dataset.rules.tables

        def count_span(first: int, last: int) -> NDArray[np.int64]:
            counts = np.zeros((2, COMBINATIONS), np.int64)
            add_gift_counts_by_features(dataset.games, dataset.opening, rules, counts, (first, last))
            return counts

        return sum(map_spans(count_span, 0, len(dataset.game_id), threads), np.zeros((2, COMBINATIONS), np.int64))

    def policy_from_counts(self, counts: NDArray[np.int64]) -> Policy:
        lost, kept = counts
        met = np.flatnonzero(lost + kept)
        losses, total = lost[met], (lost + kept)[met]
        features = np.unravel_index(met, tuple(FEATURES.values()))
        columns = {name: column.astype(np.int8) for name, column in zip(FEATURES, features, strict=True)}
        risk = (losses + self.smoothing) / (total + 2.0 * self.smoothing)
        return Policy(GIFT, table={**columns, "count": total, "losses": losses, "risk": risk})


@kernel()
def add_gift_counts_by_features(
    games: Games, opening: NDArray[np.int8], rules: np.void, counts: NDArray[np.int64], span: tuple[int, int]
) -> None:
    """Count the gifts that players chose in the games of ``span``, by features, and add the counts to ``counts``.

    ``counts`` is [2, COMBINATIONS]: row 0 is for gifts whose giver lost the game, row 1 for gifts whose giver did not
    lose.
    """
    for game in range(span[0], span[1]):
        lanes, occupied, available = uint64(0), int64(0), int64(ALL_PIECES)
        for ply in range(games.plies[game]):
            piece, cell = int64(games.pieces[ply, game]), int64(games.cells[ply, game])
            available &= ~(int64(1) << piece)
            if ply >= opening[game]:
                lost = games.winner[game] == 1 - (ply & 1)
                counts[0 if lost else 1, gift_features_number(lanes, occupied, piece, available, rules)] += 1
            lanes |= piece_to_lanes(piece) << uint64(cell)
            occupied |= int64(1) << cell
