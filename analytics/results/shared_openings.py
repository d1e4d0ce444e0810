"""Openings that several pairings or runs of one seed played: their pairs of games are not independent evidence.

The opening of a pair follows from the run's seed and the pair's number alone. So the pairs of all runs of one seed that
have the same number are one cluster, whatever their agents. Without imposed plies every pair is independent.

Clusters are counted in at most 1,024 groups, chosen by a hash of seed and number of the pair. Groups of whole clusters
are independent too. So variances and bootstrap samples over groups are as right as those over clusters. Their counts
are small however many games there are ("random groups": K. M. Wolter, "Introduction to Variance Estimation", 2007,
chapter 2).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.statistics.tally import CELLS, SWAPPED, Clusters, Tally, cells_of, clusters
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS

MOST_BITS, LEAST_BITS = 10, 5  # of the number of groups: 1,024, fewer if very many agents met
MOST_COUNTED = 1 << 20  # groups times meetings: 126 MB of counts
SPREADING = 2654435769  # 2^32 / the golden ratio: multiples are spread evenly (D. E. Knuth, TAOCP 3, section 6.4)

Key = tuple[str, int]  # run and number of the pairing
Agents = tuple[str, str]  # labels of the first and of the second agent

# The cell of a pair by its code, 2 bits for game 0 and 2 for game 1. They are 0 for no game, or 1 + LOSS, DRAW, WIN.
CELL_OF_CODE = np.full(16, -1)
for _one in range(3):
    CELL_OF_CODE[1 + _one], CELL_OF_CODE[4 * (1 + _one)] = 9 + _one, 12 + _one
    for _two in range(3):
        CELL_OF_CODE[1 + _one + 4 * (1 + _two)] = 3 * _one + _two


@dataclass(frozen=True)
class SharedOpenings:
    """Counts of the pairs whose opening may have been played by others too, in groups of whole openings."""

    agents: tuple[Agents, ...]  # of each of the M meetings, in alphabetical order
    cells: NDArray[np.int64]  # [G, M, 15] pairs by group, meeting and cell (``analytics.statistics.tally``)
    repeated: frozenset[Agents]  # meetings in which the same opening was played more than once

    @cached_property
    def _index(self) -> dict[Agents, int]:
        return {both: index for index, both in enumerate(self.agents)}

    def between(self, first: str, second: str) -> NDArray[np.int64]:
        """[G, 15] the pairs of two agents, as the first one sees them; zeros if they are not among them."""
        ordered = _ordered(first, second)
        if ordered not in self._index:
            return np.zeros((len(self.cells), CELLS), np.int64)
        found = self.cells[:, self._index[ordered]]
        return found if ordered[0] == first else found[:, SWAPPED]

    def of_meeting(self, first: str, second: str, total: Tally, seat: int | None = None) -> Clusters | None:
        """The clusters of all pairs ``total`` of two agents, or with ``seat`` of the first one's games in that seat.

        None if they played no opening more than once.
        """
        if _ordered(first, second) not in self.repeated:
            return None
        grouped = self.between(first, second)
        return clusters(grouped, cells_of(total) - grouped.sum(axis=0), seat)

    def of_agent(self, agent: str, total: Tally) -> Clusters | None:
        """The clusters of all pairs ``total`` of an agent with others; None if none of these shares an opening."""
        others = [one if two == agent else two for one, two in self.agents if agent in (one, two) and one != two]
        if not others:
            return None
        grouped = sum((self.between(agent, other) for other in others), np.zeros((1, CELLS), np.int64))
        return clusters(grouped[grouped.any(axis=1)], cells_of(total) - grouped.sum(axis=0))


def sharing(records: Iterable[RunRecord], met: Iterable[Key]) -> dict[Key, int]:
    """The seed of each pairing among ``met`` that shares openings with another one; ``records`` are their runs."""
    seeds = {record.run_id: record.opening_seed for record in records}
    found = {key: seed for key in met if (seed := seeds[key[0]]) is not None}
    played = Counter(found.values())
    return {key: seed for key, seed in found.items() if played[seed] > 1}


def shared_openings(agents: Mapping[Key, Agents], seeds: Mapping[Key, int], groups: pl.DataFrame) -> SharedOpenings:
    """The counts of the answer to ``question``, by the agents and the seed of each pairing."""
    meetings = sorted({_ordered(*agents[key]) for key in seeds})
    ordered = [_ordered(*agents[key]) for key in seeds]
    index = {both: index for index, both in enumerate(meetings)}
    number = np.array([index[both] for both in ordered])
    turned = np.array([agents[key] != both for key, both in zip(seeds, ordered, strict=True)])
    pairing, group, code, pairs = (groups[name].to_numpy() for name in ("number", "openings", "code", "pairs"))
    cell = CELL_OF_CODE[code]
    kept, group = np.unique(group, return_inverse=True)
    cells = np.zeros((len(kept), len(meetings), CELLS), np.int64)
    np.add.at(cells, (group, number[pairing], np.where(turned[pairing], SWAPPED[cell], cell)), pairs)
    again = Counter(zip(ordered, seeds.values(), strict=True))
    return SharedOpenings(tuple(meetings), cells, frozenset(both for (both, _), times in again.items() if times > 1))


def question(agents: Mapping[Key, Agents], seeds: Mapping[Key, int]) -> str:
    """The question in SQL: how many pairs of games ended how, by pairing and group of openings. Reads ``games``.

    ``number`` is the index of the pairing in ``seeds``, ``code`` how the games of a pair ended (``CELL_OF_CODE``).
    """
    meetings = len({_ordered(*agents[key]) for key in seeds})
    bits = MOST_BITS
    while meetings << bits > MOST_COUNTED and bits > LEAST_BITS:
        bits -= 1
    rows = ", ".join(
        f"('{run_id}', {pairing}, {number}, {zlib.crc32(str(seed).encode())})"
        for number, ((run_id, pairing), seed) in enumerate(seeds.items())
    )
    return f"""
SELECT number, ((pair_id & {MAX_PAIRS - 1}) * {SPREADING} + spread) % (1::BIGINT << 32) >> {32 - bits} AS openings,
    code, count(*) AS pairs
FROM (
    SELECT run_id, pairing, pair_id,
        sum((1 + CASE WHEN winner = -1 THEN 1 WHEN winner = game_id & 1 THEN 2 ELSE 0 END)
            << (2 * (game_id & 1)))::INTEGER AS code
    FROM games GROUP BY run_id, pairing, pair_id
) JOIN (VALUES {rows}) AS sharing (run_id, pairing, number, spread) USING (run_id, pairing)
GROUP BY ALL"""  # noqa: S608  (ids of runs and numbers)


def _ordered(first: str, second: str) -> Agents:
    return (first, second) if first <= second else (second, first)
