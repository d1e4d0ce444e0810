"""The exact regret of a player in the games of a run: how much of the value it gives up, decision by decision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics import open_archive
from analytics.derived_tables.exact_values import ExactValues
from analytics.perfect.annotate import AnnotationSettings, Evaluator
from analytics.policies.derived.streamed import GameStream
from analytics.query.selection import select
from analytics.store.archive import Archive
from analytics.store.blocks import RangeGames
from quarto.batch import GAME_BITS

FROM_PIECES = 6  # decisions on boards with fewer are nearly always right, and without a tablebase take long to judge
MEGABYTES = 64.0


class PlayerRegret(NamedTuple):
    """Half-points given up, and the decisions that were judged."""

    total: int = 0
    decisions: int = 0

    @property
    def mean(self) -> float | None:
        """Half-points a decision; None without decisions."""
        return self.total / self.decisions if self.decisions else None


def regret_of_first(archive: Archive, run_id: str, games: int, threads: int) -> dict[int, PlayerRegret]:
    """The regret of the first agent of each pairing in its first ``games`` games, by pairing.

    Gifts and placements on boards with ``FROM_PIECES`` pieces or more count, if they were chosen. The rules must be
    such that the opponent chooses the piece. Raises ``FailureError`` for a damaged file.
    """
    found: dict[int, PlayerRegret] = {}
    with open_archive(archive.root) as opened:
        number = f"game_id % {1 << GAME_BITS}"
        stream = GameStream(select(opened, f"run_id = '{run_id}' AND {number} < {games}"))
        evaluator = Evaluator(stream.rules, AnnotationSettings(threads=threads, megabytes=MEGABYTES))
        for _, part in stream.parts():
            first = np.maximum(part.opening, FROM_PIECES).astype(np.int8)
            values = evaluator.values(part.games, first, False, lambda _games: None)
            given_up, decided = losses_of(part, first, values)
            for pairing in np.unique(part.pairing).tolist():
                rows = part.pairing == pairing
                before = found.get(pairing, PlayerRegret())
                more = int(given_up[rows].sum()), int(decided[rows].sum())
                found[pairing] = PlayerRegret(before.total + more[0], before.decisions + more[1])
    return found


def losses_of(
    part: RangeGames, first: NDArray[np.int8], values: ExactValues
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Half-points given up and decisions made by each pairing's first agent from ply ``first`` [G] on: both [G]."""
    seat, plies = part.game_id & 1, part.games.plies
    given_up, decided = np.zeros(len(plies), np.int64), np.zeros(len(plies), np.int64)
    for ply in range(len(values.placement)):
        met = (ply >= first) & (ply < plies)
        gives = met & (seat == ply & 1)
        places = met & (seat != ply & 1)
        after = np.where(ply + 1 < plies, values.gift[ply + 1], values.end).astype(np.int64)
        lost = np.where(gives, values.gift[ply] + values.placement[ply].astype(np.int64), 0)
        given_up += lost + np.where(places, values.placement[ply] - after, 0)
        decided += met
    return given_up, decided
