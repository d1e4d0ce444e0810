"""Replays the plies of a shard: the board before each ply, and the order of play of each game up to symmetry.

*The order of play up to symmetry* is the least image of a game under the symmetries of its rules. Images are compared
from the first ply on. Symmetries of cells move cells alone, and symmetries of pieces move pieces alone. So cells and
pieces are made least separately. The beginning of a least image is the least image of the beginning. So one image of a
game tells its opening of any length.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.positions import Plies, plies_of, starts_of
from analytics.store.schema import PLIES
from quarto.jit import int64, kernel
from quarto.rules import ATTRIBUTES, CELLS, PIECES, Rules
from quarto.symmetry import Symmetries, symmetries

ORDERED_PLIES = 8  # of each game: hardly two random games agree in more

BOARDS = pl.Schema(
    {
        **PLIES,
        "before": pl.Int32(),  # bit p: piece p is on the board before the ply
        "occupied": pl.Int32(),  # bit c: cell c holds a piece then
    }
)

ORDERS = pl.Schema(
    {
        "game_id": pl.Int64(),
        "pairing": pl.Int32(),
        "outcome": pl.Int8(),  # for the seat that placed first
        "ordered": pl.Int8(),  # plies in the two words: those of the game, at most ORDERED_PLIES
        "pieces": pl.Int64(),  # four bits a ply, the first ply highest; 0 after the last
        "cells": pl.Int64(),  # likewise
    }
)


@kernel()
def _boards(starts: NDArray[np.int64], plies: Plies, before: NDArray[np.int32], occupied: NDArray[np.int32]) -> int:
    """Fill the boards before each row; both begin as zeros. Returns the first ply with a row that follows none, or 16.

    ``starts`` [18] are the rows where the plies begin.
    """
    for ply in range(1, PIECES):
        row = starts[ply]
        for last in range(starts[ply - 1], starts[ply]):
            if row < starts[ply + 1] and plies.game_id[row] == plies.game_id[last]:
                before[row] = int64(before[last]) | int64(1) << int64(plies.piece[last])
                occupied[row] = int64(occupied[last]) | int64(1) << int64(plies.cell[last])
                row += 1
        if row != starts[ply + 1]:
            return ply
    return PIECES


@kernel()
def _by_game(
    starts: NDArray[np.int64], plies: Plies, pieces: NDArray[np.int8], cells: NDArray[np.int8], made: NDArray[np.int8]
) -> int:
    """Gather the first plies of each game, pieces and cells [G, 8], and their number [G].

    Returns the first ply with a row that follows none, or 8.
    """
    game = np.arange(starts[1])  # of each row of the ply
    for ply in range(ORDERED_PLIES):
        row = starts[ply + 1]
        for last in range(starts[ply], starts[ply + 1]):
            of = game[last - starts[ply]]
            pieces[of, ply], cells[of, ply], made[of] = plies.piece[last], plies.cell[last], ply + 1
            if row < starts[ply + 2] and plies.game_id[row] == plies.game_id[last]:
                game[row - starts[ply + 1]] = of
                row += 1
        if row != starts[ply + 2]:
            return ply + 1
    return ORDERED_PLIES


@kernel()
def _least_cells(cells: NDArray[np.int8], made: NDArray[np.int8], words: NDArray[np.int64], tables: Symmetries) -> None:
    """The least image of each game's cells [G, 8] as a word [G]: ply by ply, the permutations that attain it remain."""
    remaining = np.empty(tables.cells.shape[0], np.int16)
    for game in range(cells.shape[0]):
        count, word = remaining.shape[0], int64(0)
        for i in range(count):
            remaining[i] = i
        for ply in range(made[game]):
            cell, least, kept = int64(cells[game, ply]), int64(CELLS), 0
            for i in range(count):
                image = int64(tables.cells[remaining[i], cell])
                if image < least:
                    least, kept = image, 0
                if image == least:
                    remaining[kept] = remaining[i]
                    kept += 1
            count = kept
            word |= least << int64(4 * (ORDERED_PLIES - 1 - ply))
        words[game] = word


@kernel()
def _least_pieces(pieces: NDArray[np.int8], made: NDArray[np.int8], words: NDArray[np.int64]) -> None:
    """The least image of each game's pieces [G, 8] as a word [G].

    The first piece becomes 0. Attributes that have not been distinguished stand side by side; of these, the ones that
    the next piece has take the lowest ranks.
    """
    order, kept = np.empty(ATTRIBUTES, np.int64), np.empty(ATTRIBUTES, np.int64)
    begins = np.empty(ATTRIBUTES + 1, np.bool_)  # whether an attribute is distinguished from the one below it
    for game in range(pieces.shape[0]):
        word = int64(0)
        for rank in range(ATTRIBUTES):
            order[rank], begins[rank] = rank, False
        begins[0] = begins[ATTRIBUTES] = True
        groups = 1
        for ply in range(1, made[game]):
            piece, image, start = int64(pieces[game, ply]) ^ int64(pieces[game, 0]), int64(0), 0
            if groups == ATTRIBUTES:  # all distinguished, as they soon are
                for rank in range(ATTRIBUTES):
                    image |= ((piece >> order[rank]) & 1) << int64(rank)
                word |= image << int64(4 * (ORDERED_PLIES - 1 - ply))
                continue
            while start < ATTRIBUTES:
                end, low = start + 1, start
                while not begins[end]:
                    end += 1
                for wanted in (1, 0):
                    for rank in range(start, end):
                        if (piece >> order[rank]) & 1 == wanted:
                            kept[low] = order[rank]
                            image |= int64(wanted) << int64(low)
                            low += 1
                    if wanted and start < low < end:
                        begins[low] = True
                        groups += 1
                start = end
            for rank in range(ATTRIBUTES):
                order[rank] = kept[rank]
            word |= image << int64(4 * (ORDERED_PLIES - 1 - ply))
        words[game] = word


def boards_of(plies: pl.DataFrame) -> pl.DataFrame:
    """The rows of a shard's plies with the board before each: a table by the schema ``BOARDS``.

    Raises ``ValueError`` if the rows are not games in order.
    """
    before, occupied = np.zeros((2, len(plies)), np.int32)
    reached = _boards(starts_of(plies), plies_of(plies, len(plies)), before, occupied)
    _require(reached, PIECES)
    return plies.with_columns(before=pl.Series(before), occupied=pl.Series(occupied))


def orders_of(plies: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The first plies of each game of a shard, in order and up to symmetry: a table by the schema ``ORDERS``.

    Games without plies are left out. Raises ``ValueError`` if the rows are not games in order.
    """
    starts = starts_of(plies)
    games = int(starts[1])
    pieces, cells, made = np.zeros((games, 8), np.int8), np.zeros((games, 8), np.int8), np.zeros(games, np.int8)
    reached = _by_game(starts, plies_of(plies, int(starts[ORDERED_PLIES + 1])), pieces, cells, made)
    _require(reached, ORDERED_PLIES)
    words = np.zeros((2, games), np.int64)
    _least_pieces(pieces, made, words[0])
    _least_cells(cells, made, words[1], symmetries(rules))
    first = plies.head(games).select("game_id", "pairing", "outcome")
    return first.with_columns(ordered=pl.Series(made), pieces=pl.Series(words[0]), cells=pl.Series(words[1]))


def _require(reached: int, plies: int) -> None:
    if reached != plies:
        raise ValueError(f"has a row of ply {reached} whose game has none of ply {reached - 1}")
