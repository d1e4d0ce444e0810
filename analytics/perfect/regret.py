"""The regret of turns in a set of positions: a placement and a gift apart, as in the view ``decisions``.

The regret of a placement is the value of the position less the value of the board that it makes, if the best gift
follows. The regret of a gift is the value of that board less the value of the gift. So they add up to the regret of the
whole turn, and a gift is judged on the board that the agent's own placement made. A placement that ends the game has no
gift. An illegal answer or an exception forfeits a game and counts as a loss. An illegal cell is a lost placement, an
illegal piece after a legal cell a lost gift.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.perfect.position_set import ENDS, SOURCES, PositionSet
from analytics.statistics.intervals import Estimate, mean_over_clusters
from analytics.statistics.tally import ClusterSums
from quarto.batch import Turns
from quarto.rules import CELLS, PIECES
from quarto.solver.solver import ILLEGAL

LOST = -1
MOST_REGRET = 2.0  # half-points: from a win to a loss
KINDS = ("turn", "placement", "gift")
NO_DECISION = np.int8(-1)  # instead of a regret
JUDGEMENT_SCHEMA = {
    "kind": pl.String(),  # one of KINDS
    "source": pl.String(),  # of the positions; null: of all
    "pieces": pl.Int64(),  # on the board when it was decided; null: of any number
    "decisions": pl.Int64(),
    "optimal": pl.Float64(),  # the share that keep the value, with its 95 % interval
    "optimal_low": pl.Float64(),
    "optimal_high": pl.Float64(),
    "regret": pl.Float64(),  # half-points given up a decision, with its 95 % interval
    "regret_low": pl.Float64(),
    "regret_high": pl.Float64(),
}


class Regrets(NamedTuple):
    """The regrets of the turns in ``P`` positions, ``D`` turns in each; NO_DECISION where nothing was decided."""

    placement: NDArray[np.int8]  # [P, D]
    gift: NDArray[np.int8]  # [P, D]
    forfeits: int  # turns that were none

    @property
    def turn(self) -> NDArray[np.int8]:
        """[P, D] of the whole turns."""
        return self.placement + np.maximum(self.gift, 0)


def regrets(values: NDArray[np.int8], turns: Turns) -> Regrets:
    """The regrets of turns [P, D] each, where ``values`` [P, 16, 17] has the value of every turn."""
    cells, gifts = turns.cells.astype(np.intp), turns.gifts.astype(np.intp)
    rows = np.arange(len(values))[:, None]
    boards = np.column_stack([values.max(axis=2), np.full(len(values), ILLEGAL)])  # [P, 17] by cell, then no cell
    before = boards.max(axis=1)[:, None]
    reached = boards[rows, np.where((cells >= 0) & (cells < CELLS), cells, CELLS)]
    placed = reached != ILLEGAL
    after = np.where(placed, reached, LOST)
    cell = np.where(placed, cells, 0)
    gives = placed & (values[rows, cell, ENDS] == ILLEGAL)
    given = values[rows, cell, np.where((gifts >= 0) & (gifts < PIECES), gifts, ENDS)]
    legal = given != ILLEGAL
    gift = np.where(gives, after - np.where(legal, given, LOST), NO_DECISION)
    forfeits = int((~placed).sum() + (gives & ~legal).sum())
    return Regrets((before - after).astype(np.int8), gift.astype(np.int8), forfeits)


def judgement(positions: PositionSet, found: Regrets) -> pl.DataFrame:
    """The share of optimal decisions and their mean regret by the schema ``JUDGEMENT_SCHEMA``.

    Each kind of decision has a row for all decisions, for each source, and for each number of pieces on the board. For
    a gift this number is one more than for the placement before it. Intervals are 95 % ones over positions.
    """
    rows = [
        (kind, source, pieces, *_figures(getattr(found, kind)[chosen]))
        for kind in KINDS
        for source, pieces, chosen in _groups(positions, int(kind == "gift"))
        if (getattr(found, kind)[chosen] >= 0).any()
    ]
    return pl.DataFrame(rows, schema=JUDGEMENT_SCHEMA, orient="row")


def _groups(positions: PositionSet, more: int) -> Iterator[tuple[str | None, int | None, NDArray[np.bool_]]]:
    """Source, pieces on the board and positions of each row; ``more`` pieces were there when it was decided."""
    yield None, None, np.ones(len(positions.logged), np.bool_)
    for source in SOURCES:
        yield source, None, positions.logged == (source == "logged")
    for pieces in np.unique(positions.pieces).tolist():
        yield None, pieces + more, positions.pieces == pieces


def _figures(regret: NDArray[np.int8]) -> tuple[int | float, ...]:
    """The figures of decisions, regrets [P, D]: how many, the share of optimal ones, the mean regret."""
    decided = regret >= 0
    count = decided.sum(axis=1)
    optimal = ratio(((regret == 0) & decided).sum(axis=1), count, 1.0)
    return int(count.sum()), *optimal, *ratio(np.maximum(regret, 0).sum(axis=1), count, MOST_REGRET)


def ratio(totals: NDArray[np.integer], counts: NDArray[np.integer], most: float) -> Estimate:
    """The mean of decisions, each 0 to ``most``: position i has ``counts[i]``, which add up to ``totals[i]``.

    The interval is over positions: decisions in one position are not independent.
    """
    n, y = counts.astype(np.int64), totals.astype(np.int64)
    sums = (int(each) for each in (n.sum(), y.sum(), n @ n, n @ y, y @ y))
    return mean_over_clusters(ClusterSums(int((n > 0).sum()), *sums), most)
