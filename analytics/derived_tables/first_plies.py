"""The derived table ``first_plies``: the first plies of games by piece and cell, as they were played."""

from __future__ import annotations

import numpy as np
import polars as pl

from analytics.derived_tables.derived_table import RangeTable

FIRST_PLIES = pl.Schema(
    {
        "pairing": pl.Int32(),
        "second": pl.Int8(),  # agent that placed: 0 the pairing's first, 1 its second
        "piece": pl.Int8(),  # 0 to 15, as it was given: not up to symmetry
        "cell": pl.Int8(),  # 0 to 15
        "games": pl.Int64(),
        "wins": pl.Int64(),  # of the agent that placed
        "draws": pl.Int64(),
    }
)

KEY = ("pairing", "second", "piece", "cell")


def first_plies_of(plies: pl.DataFrame) -> pl.DataFrame:
    """The first plies of games, counted, from the table ``plies``: a table by the schema ``FIRST_PLIES``.

    Ply 0 is placed in seat 1: in game 0 of a pair by the pairing's second agent.
    """
    outcome = pl.col("outcome")
    columns = {
        "second": 1 - pl.col("game_id") % 2,
        "games": pl.lit(1),
        "wins": (outcome == 1).cast(pl.Int64),
        "draws": (outcome == 0).cast(pl.Int64),
    }
    rows = plies[: plies["ply"].search_sorted(1)].with_columns(**columns)
    return rows.group_by(KEY).agg(pl.sum("games", "wins", "draws")).sort(KEY).cast(FIRST_PLIES)


FIRST_PLIES_TABLE = RangeTable(
    "first_plies",
    FIRST_PLIES,
    KEY,
    totals={"games": np.add, "wins": np.add, "draws": np.add},
    command="qarena archive index",
    rows=lambda plies, _record, _extent: first_plies_of(plies),
)
