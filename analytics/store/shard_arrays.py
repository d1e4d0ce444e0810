"""Reads one shard of games into arrays: the one place that does.

Every byte is checked against the shard's commit, so that what is computed from the arrays is computed from the games
that were stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.archive import Archive
from analytics.store.blocks import read_table, table_parts
from analytics.store.records import Commit, StoredFile
from analytics.store.schema import TABLES
from quarto.batch import GAME_BITS, Games
from quarto.errors import FailureError
from quarto.jit import kernel
from quarto.rules import PIECES


def games_at(games: Games, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Games:
    """Some of the games: those of a mask [G] or of indices in arrays of their own, those of a slice as views."""
    pieces, cells, *columns = games
    return Games(pieces[:, rows], cells[:, rows], *(column[rows] for column in columns))


class ShardGames(NamedTuple):
    """``G`` games of one shard, ascending by id."""

    game_id: NDArray[np.int64]  # [G]
    opening: NDArray[np.int8]  # [G] plies that were imposed, not chosen
    games: Games

    @property
    def pairing(self) -> NDArray[np.int64]:
        """[G] index into the run's pairings."""
        return self.game_id >> GAME_BITS

    def part(self, rows: slice) -> ShardGames:
        """The games of a slice, in contiguous arrays: there is one machine code of each kernel for these."""
        games = (np.ascontiguousarray(each) for each in games_at(self.games, rows))
        return ShardGames(self.game_id[rows], self.opening[rows], Games(*games))

    def taken(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> ShardGames:
        """Some of these games, as ``games_at`` gives them."""
        return ShardGames(self.game_id[rows], self.opening[rows], games_at(self.games, rows))


def read_shard_table(archive: Archive, run_id: str, commit: Commit, table: str) -> pl.DataFrame:
    """The table ``games`` or ``plies`` of a shard. Raises ``FailureError`` for a file that is missing or damaged."""
    stored: StoredFile = getattr(commit, table)
    path = archive.file(table, run_id, stored)
    try:
        return read_table(archive.backend, path, stored, TABLES[table])
    except ValueError as error:
        raise damaged(archive, run_id, stored, table, error) from error


def shard_table_parts(archive: Archive, run_id: str, commit: Commit, table: str, rows: int) -> Iterator[pl.DataFrame]:
    """The same in parts of so many rows, in memory for one part."""
    stored: StoredFile = getattr(commit, table)
    path = archive.file(table, run_id, stored)
    try:
        yield from table_parts(archive.backend, path, stored, TABLES[table], rows)
    except ValueError as error:
        raise damaged(archive, run_id, stored, table, error) from error


def damaged(archive: Archive, run_id: str, stored: StoredFile, table: str, reason: object) -> FailureError:
    """The error for a file of a shard whose content is not what it should be."""
    return FailureError(f"{archive.file(table, run_id, stored)} {reason}: see 'qarena archive verify'")


def read_shard(archive: Archive, run_id: str, commit: Commit) -> ShardGames:
    """The games of a shard. Raises ``FailureError`` for a file that is missing or damaged."""
    frame, rows = (read_shard_table(archive, run_id, commit, table) for table in TABLES)
    plies = np.array(frame["plies"])  # a copy: kernels take arrays that may be written to
    expected = int(np.clip(plies, 0, PIECES).sum(dtype=np.int64))
    if len(rows) != expected:
        reason = f"has {len(rows)} rows, the games of its shard have {expected} plies"
        raise damaged(archive, run_id, commit.plies, "plies", reason)
    games = Games.zeros(len(plies))
    for column, matrix in (("piece", games.pieces), ("cell", games.cells)):
        scatter(np.array(rows[column]), plies, matrix)
    games.plies[:], games.winner[:] = plies, frame["winner"].to_numpy()
    games.ending[:] = frame["ending"].to_physical().to_numpy()
    return ShardGames(frame["game_id"].to_numpy(), frame["opening"].to_numpy(), games)


@kernel()
def scatter(rows: NDArray[np.int8], plies: NDArray[np.int8], matrix: NDArray[np.int8]) -> None:
    """Write a column of ``plies`` [R], which is in the order (ply, game), into ``matrix`` [16, G].

    Game g has ``plies[g]`` rows; what lies beyond its last ply stays as it is.
    """
    row = 0
    for ply in range(PIECES):
        for game in range(plies.shape[0]):
            if ply < plies[game]:
                matrix[ply, game] = rows[row]
                row += 1
