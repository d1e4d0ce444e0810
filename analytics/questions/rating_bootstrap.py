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

# [15, 6] the LOSS, DRAW, WIN of seat 0 that one pair of a cell counts for: in the game in which the first agent has
# seat 0, then in the game in which the second agent has it. A loss of the first agent in seat 1 is a win of seat 0.
_GAMES_BY_CELL = np.concatenate([SEAT_RESULTS[:, 0], SEAT_RESULTS[:, 1, ::-1]], axis=1)


@dataclass(frozen=True)
class BootstrapPopulation:
    """The population from which the bootstrap draws: the pairs of games in ``M`` meetings.

    A meeting is all games between two agents. Pairs are counted by cell, one of the 15 ways in which a pair can end.
    """

    zero: NDArray[np.int64]  # [2 M] numbers of the agents in seat 0: first agents, then second ones
    one: NDArray[np.int64]  # [2 M]
    cells: NDArray[np.int64]  # [M, 15] all pairs, by cell (``analytics.statistics.tally``)
    grouped: NDArray[np.int64]  # [G, M, 15] the pairs whose openings are shared, by group of openings

    @staticmethod
    def build(tallies: Tallies, agents: Sequence[str], shared: SharedOpenings | None) -> BootstrapPopulation:
        """Build the population from the tally of each pair of agents.

        The population refers to each agent by its index in ``agents``. ``shared`` has the counts of the pairs whose
        openings other pairs played, too, or is None if there are no such pairs.
        """
        numbers = {agent: number for number, agent in enumerate(agents)}
        first, second = (np.array([numbers[agent_pair[i]] for agent_pair in tallies]) for i in (0, 1))
        cells = np.array([tally_to_cells(tally) for tally in tallies.values()])
        grouped = np.zeros((0, *cells.shape), np.int64)
        if shared is not None:
            grouped = np.stack([shared.count_pairs_by_opening_group(*agent_pair) for agent_pair in tallies], axis=1)
            grouped = grouped[grouped.any(axis=(1, 2))]
        return BootstrapPopulation(np.concatenate([first, second]), np.concatenate([second, first]), cells, grouped)

    def count_games(self, cells: NDArray[np.int64]) -> SeatCounts:
        """Count the games of each meeting by their result for seat 0.

        ``cells`` [M, 15] has the counts of pairs by meeting and by cell, the way in which a pair ended. The result has
        two rows for each meeting, because either agent may hold seat 0.
        """
        counts = (cells @ _GAMES_BY_CELL).astype(
            np.float64
        )  # a product of integers, because BLAS would wait for its threads
        return SeatCounts(self.zero, self.one, np.concatenate([counts[:, :3], counts[:, 3:]]))

    @cached_property
    def _unshared_pairs_by_cell(self) -> NDArray[np.int64]:
        """The counts of the pairs whose openings are not shared, [M, 15].

        The counts are by meeting and by cell, one of the 15 ways in which a pair can end.
        """
        unshared: NDArray[np.int64] = self.cells - self.grouped.sum(axis=0)
        return unshared

    @cached_property
    def _unshared_cell_shares(self) -> NDArray[np.float64]:
        """The share of each cell among a meeting's pairs whose openings are not shared, [M, 15].

        A cell is one of the 15 ways in which a pair can end. In a meeting without such pairs, all shares are 0.
        """
        shares: NDArray[np.float64] = (
            self._unshared_pairs_by_cell / np.maximum(1, self._unshared_pairs_by_cell.sum(axis=1))[:, None]
        )
        return shares

    def resample(self, dice: np.random.Generator) -> NDArray[np.int64]:
        """Draw a bootstrap sample, and return its counts of pairs by meeting and by how a pair ended, [M, 15].

        The pairs of a group of openings are drawn together. The sample has as many groups as the population and, in
        each meeting, as many pairs whose openings are not shared.
        """
        pairs, groups = self._unshared_pairs_by_cell.sum(axis=1), len(self.grouped)
        sample = dice.multinomial(pairs, self._unshared_cell_shares)
        if groups:
            sample += np.einsum("g,gmc->mc", dice.multinomial(groups, np.full(groups, 1 / groups)), self.grouped)
        return sample
