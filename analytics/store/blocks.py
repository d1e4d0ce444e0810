"""Blocks of games as the files of a shard: ``games`` and ``plies`` as Parquet, and reading a table's file."""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import IO, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.files.backend import Backend
from analytics.parquet.encoder import ParquetFile, buffer_for, encode, integers, labels
from analytics.store.records import StoredFile
from analytics.store.schema import GAMES, PLIES, game_ids
from quarto.batch import ENDINGS, GAME_BITS, Block, Games
from quarto.jit import kernel
from quarto.rules import PIECES

# Small enough that a row group holds few different plies, so that its statistics let readers skip it; large enough
# that its headers cost nothing.
ROW_GROUP_ROWS = 65536


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


class _Shard(NamedTuple):
    """All games of a shard, by ``game_id``."""

    game_id: NDArray[np.int64]  # [G]
    pairing: NDArray[np.int32]  # [G]
    opening: NDArray[np.int8]  # [G]
    games: Games


class GameRows(NamedTuple):
    """Rows of ``games``, ascending by id: the columns that do not follow from others."""

    game_id: NDArray[np.int64]  # [R]
    winner: NDArray[np.int8]  # [R]
    plies: NDArray[np.int8]  # [R]
    opening: NDArray[np.int8]  # [R]
    ending: NDArray[np.int8]  # [R] index into ``ENDINGS``

    def part(self, of: slice) -> GameRows:
        """Some of the rows, as views."""
        return GameRows(self.game_id[of], self.winner[of], self.plies[of], self.opening[of], self.ending[of])


class Table(NamedTuple):
    """A table as the bytes of its file."""

    content: bytes | bytearray
    rows: int

    def stored(self, name: str) -> StoredFile:
        """The entry of a commit for the file of that name."""
        return StoredFile(name, self.rows, len(self.content), hashlib.sha256(self.content).hexdigest())


def in_order(blocks: Sequence[Block]) -> list[Block]:
    """Blocks by pairing and first pair, so that game ids ascend."""
    return sorted(blocks, key=lambda block: (block.pairing, block.first_pair))


def tables(blocks: Sequence[Block], pairings: Sequence[tuple[str, str]]) -> tuple[Table, Table]:
    """The tables ``games`` and ``plies`` of ``blocks``, by the schemas of ``analytics.store.schema``.

    ``pairings[i]`` holds the labels of pairing ``i``: its first and second agent. ``games`` is sorted by ``game_id``,
    ``plies`` by (``ply``, ``game_id``). A game forfeited before its first ply has a row in ``games`` only. They are
    encoded in memory (a few megabytes), so that a full disk is an ``OSError`` like any other, and so that checksums are
    those of the intended bytes, not of those that a disk returned.
    """
    return _encoded(_joined(in_order(blocks)), pairings)


def _encoded(shard: _Shard, pairings: Sequence[tuple[str, str]]) -> tuple[Table, Table]:
    room = buffer_for(min(ROW_GROUP_ROWS, PIECES * len(shard.game_id)))
    return _games(shard, pairings, room), _plies(shard, room)


def _joined(blocks: Sequence[Block]) -> _Shard:
    """The games of blocks that are in order."""
    sizes = [len(block.games.plies) for block in blocks]
    ids = [game_ids(block.pairing, block.first_pair, block.pairs, block.swapped) for block in blocks]
    return _Shard(
        np.concatenate([np.empty(0, np.int64), *ids]),
        np.repeat(np.array([block.pairing for block in blocks], np.int32), sizes),
        np.repeat(np.array([block.opening for block in blocks], np.int8), sizes),
        blocks[0].games if len(blocks) == 1 else _concatenated([block.games for block in blocks]),
    )


def _concatenated(parts: Sequence[Games]) -> Games:
    return Games(*(np.concatenate(each, axis=-1) for each in zip(Games.zeros(0), *parts, strict=True)))


@kernel()
def _next_rows(
    games: Games, game_id: NDArray[np.int64], pairing: NDArray[np.int32], cursor: NDArray[np.int64], columns: PlyColumns
) -> int:
    """Write the next rows of ``plies`` into ``columns``, as many as there are, but one less than it has room for.

    ``cursor`` [2] is the ply and the game to begin with, and is moved on. Returns the number of rows.
    """
    # Unsigned, so that no index is taken for one that counts from the end.
    most, size = np.uint64(columns.game_id.shape[0] - 1), np.uint64(games.plies.shape[0])
    ply, game, row, one = np.uint64(cursor[0]), np.uint64(cursor[1]), np.uint64(0), np.uint64(1)
    while ply < PIECES and row < most:
        seat, first, first_game = np.int64((ply + one) & one), row, game
        pieces, cells = games.pieces[ply], games.cells[ply]
        # Each game writes the next row and only one that has this ply keeps it: no branch to mispredict.
        while game < size and row < most:
            columns.game_id[row] = game_id[game]
            columns.piece[row] = pieces[game]
            columns.cell[row] = cells[game]
            columns.outcome[row] = games.winner[game]
            row += np.uint64(ply < np.uint64(games.plies[game]))
            game += one
        columns.ply[first:row] = ply
        columns.seat[first:row] = seat
        for of_row in range(first, row):
            winner = np.int64(columns.outcome[of_row])
            columns.outcome[of_row] = np.int64(winner >= 0) * (2 * np.int64(winner == seat) - 1)
        if pairing[first_game] == pairing[game - one]:
            columns.pairing[first:row] = pairing[first_game]
        else:
            for of_row in range(first, row):
                columns.pairing[of_row] = columns.game_id[of_row] >> GAME_BITS
        if game == size:
            ply, game = ply + one, np.uint64(0)
    cursor[0], cursor[1] = ply, game
    return int(row)


def _plies(shard: _Shard, room: NDArray[np.uint8]) -> Table:
    """The rows exist for one row group at a time: they are packed while the processor's cache holds them."""
    file = ParquetFile(PLIES)
    columns, cursor = PlyColumns.empty(min(ROW_GROUP_ROWS, PIECES * len(shard.game_id)) + 1), np.zeros(2, np.int64)
    while rows := _next_rows(shard.games, shard.game_id, shard.pairing, cursor, columns):
        file.add([integers(column[:rows], room) for column in columns], rows)
    return Table(file.ended(), file.rows)


def _games(shard: _Shard, pairings: Sequence[tuple[str, str]], room: NDArray[np.uint8]) -> Table:
    games = shard.games
    rows = GameRows(shard.game_id, games.winner, games.plies, shard.opening, games.ending)
    starts = range(0, len(shard.game_id), ROW_GROUP_ROWS)
    parts = (rows.part(slice(first, first + ROW_GROUP_ROWS)) for first in starts)
    return games_table(parts, np.unique(shard.pairing).tolist(), pairings, room)


def games_table(
    parts: Iterable[GameRows], used: Sequence[int], pairings: Sequence[tuple[str, str]], room: NDArray[np.uint8]
) -> Table:
    """The table ``games`` from the rows of its row groups; ``used`` are the numbers of the pairings that have games.

    ``room`` is for the rows of a row group (``buffer_for``).
    """
    known = sorted({label for number in used for label in pairings[number]})
    number_of = {label: number for number, label in enumerate(known)}
    agents = np.zeros((2, max(used, default=0) + 1), np.int32)  # [first or second, pairing] index into ``known``
    for number in used:
        agents[:, number] = [number_of[label] for label in pairings[number]]
    file = ParquetFile(GAMES, _types_of_games())
    for part in parts:
        odd, pairing = part.game_id & 1, (part.game_id >> GAME_BITS).astype(np.int32)
        chunks = [
            integers(part.game_id, room),
            integers(part.game_id >> 1, room),
            integers(pairing, room),
            labels(agents[odd, pairing], known, room),
            labels(agents[1 - odd, pairing], known, room),
            integers(part.winner, room),
            integers(part.plies, room),
            integers(part.opening, room),
            labels(part.ending, ENDINGS, room),
        ]
        file.add(chunks, len(part.game_id))
    return Table(file.ended(), file.rows)


@functools.cache
def _types_of_games() -> Mapping[str, str]:
    """The metadata by which Polars knows which texts are labels: what it writes itself."""
    buffer = io.BytesIO()
    pl.DataFrame(schema=GAMES).write_parquet(buffer)
    buffer.seek(0)
    return pl.read_parquet_metadata(buffer)


def integer_table(groups: Iterable[pl.DataFrame], schema: pl.Schema) -> Table:
    """A table of integers from its row groups, which need not be in memory at once."""
    file = ParquetFile(schema)
    room = buffer_for(0)
    for group in groups:
        room = room if len(room) >= len(buffer_for(len(group))) else buffer_for(len(group))
        file.add([integers(group[name].to_numpy(), room) for name in schema], len(group))
    return Table(file.ended(), file.rows)


def table_of(frame: pl.DataFrame, group_rows: int = ROW_GROUP_ROWS) -> Table:
    """A frame of integers as the bytes of a file, in row groups of so many rows."""
    return Table(encode(frame, group_rows), len(frame))


def read_table(backend: Backend, path: PurePath, stored: StoredFile, schema: pl.Schema) -> pl.DataFrame:
    """The table in a file, checked against its commit. Raises ``ValueError`` with the reason if they differ."""
    parts = [*table_parts(backend, path, stored, schema, max(1, stored.rows))]
    return parts[0] if parts else pl.DataFrame(schema=schema)


def table_parts(
    backend: Backend, path: PurePath, stored: StoredFile, schema: pl.Schema, rows: int
) -> Iterator[pl.DataFrame]:
    """The same in parts of so many rows, in memory for one part. All bytes are checked before the first one."""
    try:
        with backend.open(path) as file:
            _require_same_bytes(file, stored)
            yield from _parts(file, stored, schema, rows)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error


def _require_same_bytes(file: io.BufferedIOBase, stored: StoredFile) -> None:
    size = file.seek(0, io.SEEK_END)
    if size != stored.bytes:
        raise ValueError(f"has {size} bytes, its commit says {stored.bytes}")
    file.seek(0)
    if hashlib.file_digest(file, "sha256").hexdigest() != stored.sha256:
        raise ValueError("has another SHA-256 than its commit says: some byte has changed since")


def _parts(file: io.BufferedIOBase, stored: StoredFile, schema: pl.Schema, rows: int) -> Iterator[pl.DataFrame]:
    whole = _scanned(file, lambda frame: frame.select(pl.len())).item()
    found = _scanned(file, lambda frame: frame.head(0)).schema
    if found != schema:
        raise ValueError(f"has columns {dict(found)}, not {', '.join(schema)} of the right types")
    if whole != stored.rows:
        raise ValueError(f"has {whole} rows, its commit says {stored.rows}")
    for first in range(0, whole, rows):  # no name is given to a part: its reader alone keeps it
        yield _without_nulls(_scanned(file, functools.partial(pl.LazyFrame.slice, offset=first, length=rows)))


def _without_nulls(part: pl.DataFrame) -> pl.DataFrame:
    if sum(part.null_count().row(0)):
        raise ValueError("holds nulls")
    return part


def _scanned(file: io.BufferedIOBase, of: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
    file.seek(0)
    try:
        return of(pl.scan_parquet(cast(IO[bytes], file), hive_partitioning=False)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"is not a readable Parquet file: {str(error).partition(chr(10))[0]}") from error
