"""Makes the tables ``games`` and ``plies`` of blocks of games, and writes and reads table files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.parquet import encoder
from analytics.store.records import StoredFile
from analytics.store.schema import ENDING, GAMES, PLIES, first_game_id, game_ids
from quarto.batch import ENDINGS, Block, Games
from quarto.jit import kernel
from quarto.rules import PIECES

# Small enough that a row group holds few different plies, so that its statistics let readers skip it; large enough
# that its headers cost nothing.
ROW_GROUP_ROWS = 65536
COMPRESSION_LEVEL = 1  # zstd


class PlyColumns(NamedTuple):
    """The columns of ``plies``, ``R`` rows."""

    game_id: NDArray[np.int64]  # [R]
    pairing: NDArray[np.int32]  # [R]
    ply: NDArray[np.int8]  # [R]
    seat: NDArray[np.int8]  # [R]
    piece: NDArray[np.int8]  # [R]
    cell: NDArray[np.int8]  # [R]
    outcome: NDArray[np.int8]  # [R]

    @staticmethod
    def empty(rows: int) -> PlyColumns:
        """Uninitialised columns."""
        small = (np.empty(rows, np.int8) for _ in range(5))
        return PlyColumns(np.empty(rows, np.int64), np.empty(rows, np.int32), *small)


@kernel()
def _rows_by_ply(plies: NDArray[np.int8]) -> NDArray[np.int64]:
    """[16] the number of games that have each ply."""
    ended = np.zeros(PIECES + 1, np.int64)
    for game in range(plies.shape[0]):
        ended[plies[game]] += 1
    rows = np.empty(PIECES, np.int64)
    going = np.int64(plies.shape[0])
    for ply in range(PIECES):
        going -= ended[ply]
        rows[ply] = going
    return rows


@kernel()
def _fill(
    games: Games, game_id: int, step: int, pairing: int, first_row: NDArray[np.int64], columns: PlyColumns
) -> None:
    """Write the plies of one block; those of ply ``k`` begin at ``first_row[k]``, which is moved past them.

    The ids of its games begin with ``game_id`` and are ``step`` apart.
    """
    rows = _rows_by_ply(games.plies)
    for ply in range(PIECES):
        seat = (ply + 1) & 1
        row = first_row[ply]
        end = row + rows[ply]
        game = 0
        # Each game writes the next row and only one that has this ply keeps it: no branch to mispredict.
        while row < end:
            winner = np.int64(games.winner[game])
            columns.game_id[row] = game_id + step * game
            columns.pairing[row] = pairing
            columns.ply[row] = ply
            columns.seat[row] = seat
            columns.piece[row] = games.pieces[ply, game]
            columns.cell[row] = games.cells[ply, game]
            columns.outcome[row] = np.int64(winner >= 0) * (2 * np.int64(winner == seat) - 1)
            row += np.int64(ply < games.plies[game])
            game += 1
        first_row[ply] = row


def in_order(blocks: Sequence[Block]) -> list[Block]:
    """Blocks by pairing and first pair, so that game ids ascend."""
    return sorted(blocks, key=lambda block: (block.pairing, block.first_pair))


def tables(blocks: Sequence[Block], pairings: Sequence[tuple[str, str]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The ``games`` and ``plies`` rows of ``blocks``, by the schemas of ``analytics.store.schema``.

    ``pairings[i]`` holds the labels of pairing ``i``: its first and second agent. ``games`` is sorted by ``game_id``,
    ``plies`` by (``ply``, ``game_id``). A game forfeited before its first ply has a row in ``games`` only.
    """
    blocks = in_order(blocks)
    return _games(blocks, pairings), _plies(blocks)


def _plies(blocks: Sequence[Block]) -> pl.DataFrame:
    by_ply = sum((_rows_by_ply(block.games.plies) for block in blocks), np.zeros(PIECES, np.int64))
    first_row = np.cumsum(by_ply) - by_ply
    columns = PlyColumns.empty(int(by_ply.sum()))
    for block in blocks:
        game_id, step = first_game_id(block.pairing, block.first_pair), 3 - block.games_a_pair
        _fill(block.games, game_id, step, block.pairing, first_row, columns)
    return pl.DataFrame(columns._asdict(), schema=PLIES)


def _games(blocks: Sequence[Block], pairings: Sequence[tuple[str, str]]) -> pl.DataFrame:
    labels = sorted({label for block in blocks for label in pairings[block.pairing]})
    number = {label: i for i, label in enumerate(labels)}
    sizes = [len(block.games.plies) for block in blocks]

    def repeated(values: list[int], dtype: type[np.integer]) -> NDArray[np.integer]:
        return np.repeat(np.array(values, dtype), sizes)

    def joined(arrays: list[NDArray[np.integer]], dtype: type[np.integer]) -> NDArray[np.integer]:
        return np.concatenate([np.empty(0, dtype), *arrays])

    game_id = joined(
        [game_ids(block.pairing, block.first_pair, block.pairs, block.swapped) for block in blocks], np.int64
    )
    firsts, seconds = (
        repeated([number[pairings[block.pairing][agent]] for block in blocks], np.uint32) for agent in (0, 1)
    )
    odd = (game_id & 1).astype(bool)
    names = pl.Series(labels, dtype=GAMES["agent_0"])
    endings = joined([block.games.ending for block in blocks], np.int8)
    return pl.DataFrame(
        {
            "game_id": game_id,
            "pair_id": game_id >> 1,
            "pairing": repeated([block.pairing for block in blocks], np.int32),
            "agent_0": names.gather(np.where(odd, seconds, firsts)),
            "agent_1": names.gather(np.where(odd, firsts, seconds)),
            "winner": joined([block.games.winner for block in blocks], np.int8),
            "plies": joined([block.games.plies for block in blocks], np.int8),
            "opening": repeated([block.opening for block in blocks], np.int8),
            "ending": pl.Series(ENDINGS, dtype=ENDING).gather(endings.astype(np.uint32)),
        },
        schema=GAMES,
    )


def table_content(frame: pl.DataFrame, name: str) -> tuple[memoryview, StoredFile]:
    """A table as the bytes of a Parquet file, and how a commit lists the file of that name.

    The table is encoded in memory (a few megabytes), so that a full disk is an ``OSError`` like any other, and so that
    the checksum is that of the intended bytes, not of those that a disk returned.
    """
    content = _encoded(frame)
    return content, StoredFile(name, len(frame), len(content), hashlib.sha256(content).hexdigest())


def _encoded(frame: pl.DataFrame) -> memoryview:
    if all(type(kind) in encoder.TYPES for kind in frame.dtypes):
        return memoryview(encoder.encode(frame, ROW_GROUP_ROWS))
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, compression="zstd", compression_level=COMPRESSION_LEVEL, row_group_size=ROW_GROUP_ROWS, statistics=True
    )
    return buffer.getbuffer()


def read_table(path: Path, stored: StoredFile, schema: pl.Schema) -> pl.DataFrame:
    """The table in a file, checked against its commit. Raises ``ValueError`` with the reason if they differ."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(content) != stored.bytes:
        raise ValueError(f"has {len(content)} bytes, its commit says {stored.bytes}")
    if hashlib.sha256(content).hexdigest() != stored.sha256:
        raise ValueError("its SHA-256 is not that of its commit: some byte has changed since")
    try:
        frame = pl.read_parquet(content, hive_partitioning=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"is not a readable Parquet file: {str(error).partition(chr(10))[0]}") from error
    if frame.schema != schema:
        raise ValueError(f"has columns {dict(frame.schema)}, not {', '.join(schema)} of the right types")
    if len(frame) != stored.rows:
        raise ValueError(f"has {len(frame)} rows, its commit says {stored.rows}")
    if sum(frame.null_count().row(0)):
        raise ValueError("holds nulls")
    return frame
