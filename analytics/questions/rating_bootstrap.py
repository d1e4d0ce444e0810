"""The population that the bootstrap of ratings draws from: pairs of games, and openings that pairings share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analytics.questions.pairings import SharedOpenings
from analytics.statistics.davidson import SeatCounts
from analytics.statistics.tally import SEAT_RESULTS, Tally, tally_to_cells

Tallies = Mapping[tuple[str, str], Tally]  # by first and second agent

# What a cell of a tally adds to LOSS, DRAW, WIN of seat 0, in the first agent's games there, then the second one's: a
# loss of the first agent in seat 1 is a win of seat 0.
_GAMES_BY_CELL = np.concatenate([SEAT_RESULTS[:, 0], SEAT_RESULTS[:, 1, ::-1]], axis=1)


@dataclass(frozen=True)
class BootstrapPopulation:
    """The results of all pairs of games of ``M`` pairs of agents: the population of the bootstrap."""

    zero: NDArray[np.int64]  # [2 M] numbers of the agents in seat 0: first agents, then second ones
    one: NDArray[np.int64]  # [2 M]
    cells: NDArray[np.int64]  # [M, 15] all pairs, by cell (``analytics.statistics.tally``)
    grouped: NDArray[np.int64]  # [G, M, 15] those of them whose openings are shared, by group of openings

    @staticmethod
    def build(tallies: Tallies, agents: Sequence[str], shared: SharedOpenings | None) -> BootstrapPopulation:
        numbers = {agent: number for number, agent in enumerate(agents)}
        first, second = (np.array([numbers[both[i]] for both in tallies]) for i in (0, 1))
        cells = np.array([tally_to_cells(tally) for tally in tallies.values()])
        grouped = np.zeros((0, *cells.shape), np.int64)
        if shared is not None:
            grouped = np.stack([shared.count_pairs_between(*both) for both in tallies], axis=1)
            grouped = grouped[grouped.any(axis=(1, 2))]
        return BootstrapPopulation(np.concatenate([first, second]), np.concatenate([second, first]), cells, grouped)

    def count_games(self, cells: NDArray[np.int64]) -> SeatCounts:
        counts = (cells @ _GAMES_BY_CELL).astype(np.float64)  # of whole numbers: BLAS would wait for its threads
        return SeatCounts(self.zero, self.one, np.concatenate([counts[:, :3], counts[:, 3:]]))

    @cached_property
    def _unshared_pairs(self) -> NDArray[np.int64]:
        """[M, 15] the pairs whose openings are not shared."""
        alone: NDArray[np.int64] = self.cells - self.grouped.sum(axis=0)
        return alone

    @cached_property
    def _unshared_cell_shares(self) -> NDArray[np.float64]:
        """[M, 15] the share of each cell in the pairs whose openings are not shared; zeros if there are none."""
        shares: NDArray[np.float64] = self._unshared_pairs / np.maximum(1, self._unshared_pairs.sum(axis=1))[:, None]
        return shares

    def resample(self, dice: np.random.Generator) -> NDArray[np.int64]:
        """A bootstrap sample, drawn with replacement: as many groups of openings, and as many of the other pairs."""
        pairs, groups = self._unshared_pairs.sum(axis=1), len(self.grouped)
        drawn = dice.multinomial(pairs, self._unshared_cell_shares)
        if groups:
            drawn += np.einsum("g,gmc->mc", dice.multinomial(groups, np.full(groups, 1 / groups)), self.grouped)
        return drawn
