"""The stored tables: names, types and numbering. ``data/README.md`` documents the same to the byte.

Integers are signed on purpose: table formats that the archive may be moved to (Delta, Iceberg) have no unsigned ones.
"""

from __future__ import annotations

import polars as pl

from quarto.batch import ENDINGS, GAME_BITS

SCHEMA_VERSION = 3

ENDING_TYPE = pl.Enum(ENDINGS)

GAMES_SCHEMA = pl.Schema(
    {
        "game_id": pl.Int64(),  # (pairing << 32) | (2 * pair + s), s: 0 or 1 within the pair, only 0 if seats are fixed
        "pair_id": pl.Int64(),  # game_id >> 1
        "pairing": pl.Int32(),  # index into the run's pairings
        "agent_0": pl.Categorical(),  # label of the agent in seat 0, which gives the first piece
        "agent_1": pl.Categorical(),  # label of the agent in seat 1, which places first
        "winner": pl.Int8(),  # seat, or -1 for a draw
        "plies": pl.Int8(),  # 0 to 16, imposed ones included
        "opening": pl.Int8(),  # how many plies were imposed, not chosen
        "ending": ENDING_TYPE,
    }
)

PLIES_SCHEMA = pl.Schema(
    {
        "game_id": pl.Int64(),
        "pairing": pl.Int32(),
        "ply": pl.Int8(),  # 0 to 15
        "seat": pl.Int8(),  # that placed: (ply + 1) % 2
        "piece": pl.Int8(),  # 0 to 15
        "cell": pl.Int8(),  # 0 to 15
        "outcome": pl.Int8(),  # for the seat that placed: 1 won, 0 drew, -1 lost
    }
)

RESULT_LETTERS = ("l", "d", "w")  # the first agent's: it lost, drew, won
# Counts of pairs by the first agent's result in game 0 and in game 1; of pairs of one game by its seat and result.
PAIR_COLUMNS = tuple(f"pairs_{zero}{one}" for zero in RESULT_LETTERS for one in RESULT_LETTERS)
SINGLE_COLUMNS = tuple(f"seat{seat}_{result}" for seat in (0, 1) for result in RESULT_LETTERS)
FORFEIT_COLUMNS = tuple(f"{kind}_{agent}" for kind in ("illegal", "errors", "late") for agent in (0, 1))

TALLIES_SCHEMA = pl.Schema(
    {
        "pairing": pl.Int32(),
        **dict.fromkeys((*PAIR_COLUMNS, *SINGLE_COLUMNS, *FORFEIT_COLUMNS, "plies"), pl.Int64()),
    }
)

# What players reported of their turns, where that was asked for. Rows by (ply, game_id).
EVALUATIONS_SCHEMA = pl.Schema(
    {
        "game_id": pl.Int64(),
        "ply": pl.Int8(),  # that the turn placed, 0 to 15; of a first gift alone the ply before: -1 without an opening
        "seat": pl.Int8(),  # whose turn it was: (ply + 1) % 2
        "value": pl.Int32(),  # millionths of the result that it expects, -1 to 1; NO_VALUE (-2^31): none
        "visits": pl.Int64(),  # of the turn, or nodes that were searched; NO_VISITS (-1): none
        "microseconds": pl.Int64(),  # that the turn took: measured, so they differ from one playing to the next
    }
)

TABLE_SCHEMAS = {"games": GAMES_SCHEMA, "plies": PLIES_SCHEMA}

MAX_PAIRS = 1 << (GAME_BITS - 1)  # pairs that one pairing can number
