"""The derived table ``first_plies``: the first plies of games by piece and cell, as they were played."""

from __future__ import annotations

import numpy as np
import polars as pl

from analytics.derived_tables.derived_table import Parts, RangeTable
from analytics.store.blocks import EncodedTable, table_of
from analytics.store.range_files import RangeGames
from analytics.store.records import RunRecord
from analytics.store.schema import FIRST_PLIES
from analytics.store.units import Range
from quarto.rules import NONE

KEY = ("pairing", "second", "piece", "cell")


def first_plies_of(games: RangeGames) -> pl.DataFrame:
    """The first plies of games, counted: a table by the schema ``FIRST_PLIES``."""
    played = games.games.plies > 0
    winner = games.games.winner[played]
    rows = {
        "pairing": games.pairing[played],
        "second": 1 ^ (games.game_id[played] & 1),  # ply 0 is placed in seat 1: in game 0 of a pair by the second agent
        "piece": games.games.pieces[0, played],
        "cell": games.games.cells[0, played],
        "games": np.ones(len(winner), np.int64),
        "wins": (winner == 1).astype(np.int64),
        "draws": (winner == NONE).astype(np.int64),
    }
    return _summed(pl.DataFrame(rows))


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(KEY).agg(pl.sum("games", "wins", "draws")).sort(KEY).cast(dict(FIRST_PLIES))


def _joined(parts: Parts, record: RunRecord, span: Range) -> EncodedTable:
    del record, span
    return table_of(_summed(pl.concat(each for table in parts for each in table)))


FIRST_PLIES_TABLE = RangeTable("first_plies", _joined, sums=True, command="qarena archive index")
