"""The stored tables: names, types and numbering. ``data/README.md`` documents the same to the byte.

Integers are signed on purpose: table formats that the archive may be moved to (Delta, Iceberg) have no unsigned ones.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quarto.batch import ENDINGS, GAME_BITS

SCHEMA_VERSION = 2

ENDING = pl.Enum(ENDINGS)

GAMES = pl.Schema(
    {
        "game_id": pl.Int64(),  # (pairing << 32) | (2 * pair + s), s: 0 or 1 within the pair, only 0 if seats are fixed
        "pair_id": pl.Int64(),  # game_id >> 1
        "pairing": pl.Int32(),  # index into the run's pairings
        "agent_0": pl.Categorical(),  # label of the agent in seat 0, which gives the first piece
        "agent_1": pl.Categorical(),  # label of the agent in seat 1, which places first
        "winner": pl.Int8(),  # seat, or -1 for a draw
        "plies": pl.Int8(),  # 0 to 16, imposed ones included
        "opening": pl.Int8(),  # how many plies were imposed, not chosen
        "ending": ENDING,
    }
)

PLIES = pl.Schema(
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

GIFT, PLACEMENT = 0, 1
NOT_COUNTED = -1

DECISIONS = pl.Schema(
    {
        "game_id": pl.Int64(),
        "ply": pl.Int8(),  # 0 to 15
        "kind": pl.Int8(),  # GIFT or PLACEMENT of this ply
        "seat": pl.Int8(),  # that decided
        "value_before": pl.Int8(),  # for the seat that decided: 1 won, 0 drawn, -1 lost
        "value_after": pl.Int8(),
        "saving": pl.Int32(),  # number of choices that keep value_before, or NOT_COUNTED
        "legal": pl.Int32(),  # number of legal choices
    }
)

# 64 bits even where fewer would do: the encoder stores such columns as differences, which take less than a dictionary.
POSITIONS = pl.Schema(
    {
        "ply": pl.Int8(),  # 0 to 15: how many pieces are on the board
        "occupied": pl.Int64(),  # of the canonical board: bit c says that cell c holds a piece
        "board": pl.Int64(),  # its pieces and the hand: ``quarto.turns.board_word``
        "pairing": pl.Int32(),
        "second": pl.Int8(),  # agent that decided: 0 the pairing's first, 1 its second
        "cell": pl.Int8(),  # where the piece was placed, on the canonical board
        "piece": pl.Int8(),  # the gift that came with it, -1 none; where the mover chooses, the piece placed
        "imposed": pl.Int8(),  # 0 chosen, 1 the placement was imposed and the gift chosen, 2 the whole turn imposed
        "games": pl.Int64(),
        "wins": pl.Int64(),  # of the agent that decided
        "draws": pl.Int64(),
        "sample": pl.Int64(),  # number in its pairing of the first of the games: the low 32 bits of its game_id
    }
)

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

RESULTS = ("l", "d", "w")  # the first agent's: it lost, drew, won
# Counts of pairs by the first agent's result in game 0 and in game 1; of pairs of one game by its seat and result.
PAIR_COLUMNS = tuple(f"pairs_{zero}{one}" for zero in RESULTS for one in RESULTS)
SINGLE_COLUMNS = tuple(f"seat{seat}_{result}" for seat in (0, 1) for result in RESULTS)
FORFEIT_COLUMNS = tuple(f"{kind}_{agent}" for kind in ("illegal", "errors", "late") for agent in (0, 1))

TALLIES = pl.Schema(
    {
        "pairing": pl.Int32(),
        **dict.fromkeys((*PAIR_COLUMNS, *SINGLE_COLUMNS, *FORFEIT_COLUMNS, "plies"), pl.Int64()),
    }
)

TABLES = {"games": GAMES, "plies": PLIES}
SCHEMAS = {
    **TABLES,
    "tallies": TALLIES,
    "decisions": DECISIONS,
    "positions": POSITIONS,
    "first_plies": FIRST_PLIES,
}

MAX_PAIRS = 1 << (GAME_BITS - 1)  # pairs that one pairing can number


def first_game_id(pairing: int, pair: int) -> int:
    """The ``game_id`` of game 0 of a pair; game 1 has the next one."""
    return (pairing << GAME_BITS) | (2 * pair)


def game_ids(pairing: int, first_pair: int, pairs: int, swapped: bool) -> NDArray[np.int64]:
    """The ids of the games of consecutive pairs: both of each or, unless ``swapped``, the first alone."""
    first = first_game_id(pairing, first_pair)
    return np.arange(first, first + 2 * pairs, 1 if swapped else 2)
