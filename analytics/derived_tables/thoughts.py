"""The thoughts of players: the value, the visits and the time of each turn, where that was asked for.

They come with the games. A file of them belongs to the games of its fingerprint, like every table. Its seconds were
measured, so two writers of one range may write different bytes: the smaller check counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from analytics.derived_tables.derived_table import RangeTable
from analytics.store.blocks import RangeGames
from analytics.store.range_files import THOUGHTS_FOLDER
from analytics.store.schema import THOUGHTS
from quarto.batch import NO_VALUE, NO_VISITS, VALUE_UNITS
from quarto.rules import Rules

THOUGHTS_TABLE = RangeTable(
    THOUGHTS_FOLDER,
    THOUGHTS,
    key=("ply", "game_id"),
    command="qarena run ... archive.thoughts=true",
)


def faults(rows: pl.DataFrame, games: RangeGames, rules: Rules) -> Iterator[str]:
    """The faults of the thoughts of some games."""
    ids, ply = rows["game_id"].to_numpy(), rows["ply"].to_numpy()
    if not ((ply[1:] > ply[:-1]) | ((ply[1:] == ply[:-1]) & (ids[1:] > ids[:-1]))).all():
        yield "its rows are not in order"
    if not rows.select((pl.col("seat") == (pl.col("ply") + 1) % 2).all()).item():
        yield "a seat is not that of its ply"
    value, visits = pl.col("value"), pl.col("visits")
    told = (value == NO_VALUE) | value.is_between(-VALUE_UNITS, VALUE_UNITS)
    if not rows.select((told & (visits >= NO_VISITS) & (pl.col("microseconds") >= 0)).all()).item():
        yield "a value is not from -1 to 1, or a number of visits or microseconds is below 0"
    column = np.searchsorted(games.game_id, ids)
    if not (games.game_id[np.minimum(column, len(games.game_id) - 1)] == ids).all():
        yield "a turn is of no game of its range"
        return
    opening, last = games.opening[column], np.minimum(games.games.plies[column], 15)  # a turn may have been illegal
    if not ((opening - (not rules.mover_chooses) <= ply) & (ply <= last)).all():
        yield "a turn is at a ply that its game has not"
