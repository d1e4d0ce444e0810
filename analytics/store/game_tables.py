"""Games in memory, and their encoding as the two tables of a range of units, ``games`` and ``plies``, in Parquet."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.parquet.encoder import (
    ColumnChunk,
    ParquetBuilder,
    allocate_buffer,
    allocate_facts,
    encode_integers,
    encode_labels,
)
from analytics.store.parquet.packing import LARGEST_DICTIONARY, ColumnFacts, pack_int8_or_int32, pack_int64_as_deltas
from analytics.store.ranges import UnitLine, compute_game_ids
from analytics.store.schema import EVALUATIONS_SCHEMA, GAMES_SCHEMA, PLIES_SCHEMA
from quarto.batch import ENDINGS, GAME_BITS, NO_TURN, Block, Games, concat_game_columns
from quarto.bits import array_pointer
from quarto.jit import inline_function, int64, kernel, uint64
from quarto.rng import GAMMA, mix
from quarto.rules import NONE, PIECES

# Small enough that a row group holds few different plies, so that its statistics let readers skip it; large enough
# that its headers cost nothing.
ROW_GROUP_ROWS = 65536
# Blocks of this many games or more are read where they are, 16 times each. Smaller blocks are concatenated first.
MIN_ENCODED_GAMES = 16384
GAMES_COPIED_AT_ONCE = 64  # if all of them have the ply


# The bytes of a table's file.
TableBytes = bytes | bytearray


def select_games(games: Games, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Games:
    """Return the games at ``rows``: copies for a mask [G] or for indices, views for a slice."""
    pieces, cells, *columns = games
    return Games(pieces[:, rows], cells[:, rows], *(column[rows] for column in columns))


def build_game(plies: Sequence[tuple[int, int]], winner: int = NONE, ending: int = 0) -> Games:
    """Build a ``Games`` that holds one game, given its plies as ``(piece, cell)`` tuples.

    ``winner`` is a seat, or ``NONE`` for a draw; ``ending`` is an index into ``ENDINGS``.
    """
    games = Games.allocate(1)
    for ply, (piece, cell) in enumerate(plies):
        games.pieces[ply, 0], games.cells[ply, 0] = piece, cell
    games.plies[0], games.winner[0], games.ending[0] = len(plies), winner, ending
    return games


class RangeGames(NamedTuple):
    """The ``G`` games of one range of units, in ascending order of game id."""

    game_id: NDArray[np.int64]  # [G]
    opening: NDArray[np.int8]  # [G] plies that were imposed, not chosen
    games: Games

    @property
    def pairing(self) -> NDArray[np.int64]:
        """The pairing of each game, [G], an index into the run's pairings."""
        return self.game_id >> GAME_BITS

    @property
    def fingerprint(self) -> int:
        """The fingerprint of the games, a uint64; see ``compute_fingerprint``."""
        return int(compute_fingerprint(*self, (0, len(self.game_id))))

    def group_by_pairing(self) -> Iterator[tuple[int, Games]]:
        """Yield the number and the games of each pairing; the games are views."""
        pairing = self.pairing
        ends = [*(np.flatnonzero(np.diff(pairing)) + 1).tolist(), len(pairing)]
        for first, end in zip([0, *ends[:-1]], ends, strict=True):
            if first < end:
                yield int(pairing[first]), select_games(self.games, slice(first, end))

    def select_as_contiguous_arrays(self, rows: slice) -> RangeGames:
        """Select the games of a slice as contiguous arrays, because kernels are compiled only for contiguous arrays."""
        games = (np.ascontiguousarray(column) for column in select_games(self.games, rows))
        return RangeGames(self.game_id[rows], self.opening[rows], Games(*games))

    def select_units(self, line: UnitLine, first: int, end: int) -> RangeGames:
        """Select the games of the units from ``first`` up to but not including ``end``, as contiguous arrays.

        ``line`` is the numbering of the run's units.
        """
        unit = line.compute_units(self.game_id)
        return self.select_rows(np.flatnonzero((first <= unit) & (unit < end))).select_as_contiguous_arrays(slice(None))

    def select_rows(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> RangeGames:
        """Select games by a mask or by indices, as copies."""
        return RangeGames(self.game_id[rows], self.opening[rows], select_games(self.games, rows))


def merge_games(parts: Sequence[RangeGames]) -> RangeGames:
    """Merge the games of several parts in ascending order of game id."""
    ids = np.concatenate([part.game_id for part in parts])
    opening = np.concatenate([part.opening for part in parts])
    games = Games(*(np.concatenate(columns, axis=-1) for columns in zip(*(part.games for part in parts), strict=True)))
    return RangeGames(ids, opening, games).select_rows(np.argsort(ids))


class PlyColumns(NamedTuple):
    """The columns of the table ``plies``, with ``R`` rows."""

    game_id: NDArray[np.int64]  # [R]
    pairing: NDArray[np.int32]  # [R]
    ply: NDArray[np.int8]  # [R]
    seat: NDArray[np.int8]  # [R]
    piece: NDArray[np.int8]  # [R]
    cell: NDArray[np.int8]  # [R]
    outcome: NDArray[np.int8]  # [R]

    @staticmethod
    def empty(rows: int) -> PlyColumns:
        """Allocate columns with ``rows`` uninitialised rows."""
        small = (np.empty(rows, np.int8) for _ in range(5))
        return PlyColumns(np.empty(rows, np.int64), np.empty(rows, np.int32), *small)


class GameRows(NamedTuple):
    """Rows of the table ``games`` in ascending order of game id, without the columns that are computed from that id."""

    game_id: NDArray[np.int64]  # [R]
    winner: NDArray[np.int8]  # [R]
    plies: NDArray[np.int8]  # [R]
    opening: NDArray[np.int8]  # [R]
    ending: NDArray[np.int8]  # [R] index into ``ENDINGS``

    @staticmethod
    def empty() -> GameRows:
        """Return columns with no rows."""
        return GameRows(np.empty(0, np.int64), *(np.empty(0, np.int8) for _ in range(4)))

    def select_rows(self, rows: slice) -> GameRows:
        """Select the rows of a slice, as views."""
        return GameRows(self.game_id[rows], self.winner[rows], self.plies[rows], self.opening[rows], self.ending[rows])


class _IdColumns(NamedTuple):
    """The columns of the table ``games`` that are computed from the game ids, with ``R`` rows."""

    pair_id: NDArray[np.int64]  # [R]
    pairing: NDArray[np.int32]  # [R]
    agent_0: NDArray[np.int32]  # [R] number of the agent in seat 0
    agent_1: NDArray[np.int32]  # [R]

    @staticmethod
    def empty(rows: int) -> _IdColumns:
        """Allocate columns with ``rows`` uninitialised rows."""
        return _IdColumns(np.empty(rows, np.int64), *(np.empty(rows, np.int32) for _ in range(3)))


@kernel()
def _fill_id_columns(game_id: NDArray[np.int64], agents: NDArray[np.int32], columns: _IdColumns) -> None:
    """Fill ``columns`` from the game ids.

    ``agents`` [2, pairing] holds, for each pairing, the indices of its first and its second agent in the list of
    labels.
    """
    for row in range(game_id.shape[0]):
        game = game_id[row]
        pairing, odd = game >> GAME_BITS, game & 1
        columns.pair_id[row] = game >> 1
        columns.pairing[row] = pairing
        columns.agent_0[row] = agents[odd, pairing]
        columns.agent_1[row] = agents[1 - odd, pairing]


def concat_blocks_into_large_parts(blocks: Sequence[Block]) -> list[RangeGames]:
    """Concatenate the games of blocks into parts of at least ``MIN_ENCODED_GAMES`` games.

    ``blocks`` come in ascending order of game id, and so do the parts. Only the last part may be smaller.
    """
    return [
        _concat_block_group(group)
        for group in _group_blocks_by_min_games(block for block in blocks if len(block.games.plies))
    ]


class GameTables(NamedTuple):
    """The encoded tables ``games`` and ``plies`` of the same games."""

    games: TableBytes
    plies: TableBytes


def encode_game_tables(
    parts: Sequence[RangeGames], used_pairings: Sequence[int], pairings: Sequence[tuple[str, str]]
) -> GameTables:
    """Encode games as the tables ``games`` and ``plies`` of ``analytics.store.schema``.

    ``parts`` come in ascending order of game id. ``used_pairings`` are the numbers of the pairings that have games.
    ``pairings[i]`` holds the labels of the first and the second agent of pairing ``i``. The table ``games`` is sorted
    by ``game_id``, the table ``plies`` by ``ply`` and then by ``game_id``. A game that was forfeited before its first
    ply has a row in ``games`` only.

    The tables, which take a few megabytes, are encoded in memory for two reasons: if the disk is full, writing the
    bytes raises an ordinary ``OSError``, and checksums are computed from the intended bytes, not from what a disk
    returns.
    """
    games = sum(len(part.game_id) for part in parts)
    room = allocate_buffer(min(ROW_GROUP_ROWS, PIECES * games), len(PLIES_SCHEMA))
    return GameTables(_encode_games(parts, used_pairings, pairings, room), _encode_plies(parts, games, room))


def _group_blocks_by_min_games(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield groups of consecutive blocks. Every group but the last has at least ``MIN_ENCODED_GAMES`` games."""
    group, games = list[Block](), 0
    for block in blocks:
        group.append(block)
        games += len(block.games.plies)
        if games >= MIN_ENCODED_GAMES:
            yield group
            group, games = [], 0
    if group:
        yield group


def _concat_block_group(blocks: Sequence[Block]) -> RangeGames:
    """Concatenate the games of ``blocks``, which must be in ascending order of game id."""
    sizes = [len(block.games.plies) for block in blocks]
    ids = [compute_game_ids(block.pairing, block.first_pair, block.pairs, block.swapped) for block in blocks]
    openings = np.repeat(np.array([block.opening for block in blocks], np.int8), sizes)
    return RangeGames(
        ids[0] if len(ids) == 1 else np.concatenate(ids), openings, concat_game_columns([b.games for b in blocks])
    )


def evaluations_to_frame_if_complete(blocks: Sequence[Block]) -> pl.DataFrame | None:
    """Convert the evaluations in blocks to a frame with ``EVALUATIONS_SCHEMA``.

    ``blocks`` come in ascending order of game id. Returns None if there are no blocks, or if any block lacks
    evaluations because the players were not asked for them.
    """
    if not blocks or any(block.evaluations is None for block in blocks):
        return None
    every = [block.evaluations for block in blocks if block.evaluations is not None]
    value, visits, microseconds = concat_game_columns(every)
    ids = [compute_game_ids(block.pairing, block.first_pair, block.pairs, block.swapped) for block in blocks]
    turn, game = np.nonzero(microseconds != NO_TURN)
    columns = (value[turn, game], visits[turn, game], microseconds[turn, game])
    ply, seat = (turn - 1).astype(np.int8), (turn & 1).astype(np.int8)
    values = (np.concatenate(ids)[game], ply, seat, *columns)
    return pl.DataFrame(dict(zip(EVALUATIONS_SCHEMA, values, strict=True)), schema=EVALUATIONS_SCHEMA)


# The games of a part, as a kernel finds them: addresses of arrays, because one call takes all parts of a file.
PART_ARRAYS = np.dtype(
    [(name, np.uint64) for name in ("game_id", "pieces", "cells", "plies", "winner")] + [("size", np.int64)]
)


def _encode_plies(parts: Sequence[RangeGames], game_count: int, buffer: NDArray[np.uint8]) -> TableBytes:
    """Encode the table ``plies`` one row group at a time, so that each is still in the CPU cache when it is packed."""
    file, facts = ParquetBuilder(PLIES_SCHEMA), allocate_facts(len(PLIES_SCHEMA))
    columns, cursor = PlyColumns.empty(min(ROW_GROUP_ROWS, PIECES * game_count)), np.zeros(3, np.int64)
    arrays = np.array([_list_array_addresses(part) for part in parts], PART_ARRAYS)
    while rows := _fill_and_pack_row_group(arrays, cursor, columns, buffer, facts):
        file.add_packed_row_group(buffer, facts, rows)
    return file.finish()


def _list_array_addresses(part: RangeGames) -> tuple[int, ...]:
    """List the addresses of the arrays of a part, and its number of games, in the order of ``PART_ARRAYS``.

    Raises ``ValueError`` if an array is not contiguous or has another type than kernels expect.
    """
    games, size = part.games, len(part.game_id)
    matrix_shape = PIECES, size
    expected: list[tuple[NDArray[np.integer], type[np.integer], tuple[int, ...]]] = [
        (part.game_id, np.int64, (size,)),
        (games.pieces, np.int8, matrix_shape),
        (games.cells, np.int8, matrix_shape),
        (games.plies, np.int8, (size,)),
        (games.winner, np.int8, (size,)),
    ]
    for array, kind, shape in expected:
        if array.dtype != kind or array.shape != shape or not array.flags.c_contiguous:
            raise ValueError(
                f"an array of games is {array.dtype}{array.shape}, not a contiguous {kind.__name__}{shape}"
            )
    return (*(array.ctypes.data for array, _, _ in expected), size)


@kernel()
def _fill_and_pack_row_group(
    parts: NDArray[Any], cursor: NDArray[np.int64], columns: PlyColumns, buffer: NDArray[np.uint8], facts: ColumnFacts
) -> int:
    """Fill ``columns`` with the next rows of the table ``plies``, pack each column, and return the number of rows.

    The number is 0 once all rows have been packed. ``parts`` [P] are ``PART_ARRAYS``. ``cursor`` [3] holds the ply, the
    part and the game to go on with. The columns are packed in ``buffer``, and ``facts`` describes them. One call does
    it all: between two calls, a thread might have to wait until another thread that encodes releases the interpreter
    lock (GIL).
    """
    rows, (ply, part, game) = int64(0), cursor
    while ply < PIECES and rows < columns.game_id.shape[0]:
        rows, game = _append_rows(parts[part], ply, game, columns, rows)
        if game == parts[part].size:
            part, game = part + 1, 0
        if part == parts.shape[0]:
            ply, part = ply + 1, 0
    cursor[0], cursor[1], cursor[2] = ply, part, game
    if rows == 0:
        return 0
    end = pack_int64_as_deltas(columns.game_id[:rows], buffer, 0, facts, 0)
    end = pack_int8_or_int32(columns.pairing[:rows].view(np.uint8), 4, LARGEST_DICTIONARY, buffer, end, facts, 1)
    for number, column in enumerate(columns[2:]):
        end = pack_int8_or_int32(column[:rows].view(np.uint8), 1, LARGEST_DICTIONARY, buffer, end, facts, 2 + number)
    return rows


@inline_function
def _append_rows(part: Any, ply: int, first_game: int, columns: PlyColumns, first_row: int) -> tuple[int, int]:
    """Append rows of one ply of a part to ``columns``, until these are full or all games of the part have been read.

    The games are read from ``first_game``, the rows are written from ``first_row``. Returns the number of rows that
    ``columns`` then has, and the index of the next game.
    """
    game_id = numba.carray(array_pointer(part.game_id), part.size, np.int64)
    pieces = numba.carray(array_pointer(part.pieces), (PIECES, part.size), np.int8)[ply]
    cells = numba.carray(array_pointer(part.cells), (PIECES, part.size), np.int8)[ply]
    plies = numba.carray(array_pointer(part.plies), part.size, np.int8)
    winners = numba.carray(array_pointer(part.winner), part.size, np.int8)
    # Unsigned, so that no index is taken for one that counts from the end.
    most, size = uint64(columns.game_id.shape[0]), uint64(part.size)
    row, game, one = uint64(first_row), uint64(first_game), uint64(1)
    seat, first = (ply + 1) & 1, row
    while game < size and row < most:
        end = min(size, game + uint64(GAMES_COPIED_AT_ONCE))
        having = uint64(0)
        for i in range(game, end):
            having += uint64(ply < plies[i])
        if having == end - game and row + having <= most:  # in the first plies, nearly always
            for i in range(having):  # loops of their own, so that LLVM makes vector instructions
                columns.game_id[row + i] = game_id[game + i]
            for i in range(having):
                columns.piece[row + i] = pieces[game + i]
            for i in range(having):
                columns.cell[row + i] = cells[game + i]
            for i in range(having):
                columns.outcome[row + i] = winners[game + i]
            row, game = row + having, end
            continue
        # Each game writes the next row and only one that has this ply keeps it: no branch to mispredict.
        while game < end and row < most:
            columns.game_id[row] = game_id[game]
            columns.piece[row] = pieces[game]
            columns.cell[row] = cells[game]
            columns.outcome[row] = winners[game]
            row += uint64(ply < plies[game])
            game += one
    columns.ply[first:row] = ply
    columns.seat[first:row] = seat
    for of_row in range(first, row):
        winner = int64(columns.outcome[of_row])
        columns.outcome[of_row] = int64(winner >= 0) * (2 * int64(winner == seat) - 1)
        columns.pairing[of_row] = columns.game_id[of_row] >> GAME_BITS
    return int64(row), int64(game)


def _encode_games(
    parts: Sequence[RangeGames],
    used_pairings: Sequence[int],
    pairings: Sequence[tuple[str, str]],
    buffer: NDArray[np.uint8],
) -> TableBytes:
    rows = [
        GameRows(part.game_id, part.games.winner, part.games.plies, part.opening, part.games.ending) for part in parts
    ]
    all_rows = GameRows(*map(np.concatenate, zip(GameRows.empty(), *rows, strict=True)))
    starts = range(0, len(all_rows.game_id), ROW_GROUP_ROWS)
    groups = (all_rows.select_rows(slice(first, first + ROW_GROUP_ROWS)) for first in starts)
    return encode_games_table(groups, used_pairings, pairings, buffer)


def encode_games_table(
    parts: Iterable[GameRows],
    used_pairings: Sequence[int],
    pairings: Sequence[tuple[str, str]],
    buffer: NDArray[np.uint8],
) -> TableBytes:
    """Encode the table ``games``. Each part becomes one row group.

    ``pairings`` holds the labels of both agents of every pairing, ``used_pairings`` the numbers of the pairings that
    have games. ``buffer`` has room for one row group (see ``allocate_buffer``). Raises ``ValueError`` if the number of
    a game's pairing is greater than all ``used_pairings``.
    """
    labels = sorted({label for number in used_pairings for label in pairings[number]})
    number_of = {label: number for number, label in enumerate(labels)}
    agents = np.zeros((2, max(used_pairings, default=0) + 1), np.int32)  # [first or second, pairing] of ``labels``
    for number in used_pairings:
        agents[:, number] = [number_of[label] for label in pairings[number]]
    file = ParquetBuilder(GAMES_SCHEMA, _build_polars_metadata())
    for part in parts:
        file.add_row_group(_encode_game_columns(part, agents, labels, buffer), len(part.game_id))
    return file.finish()


def _encode_game_columns(
    rows: GameRows, agents: NDArray[np.int32], labels: Sequence[str], buffer: NDArray[np.uint8]
) -> Iterator[ColumnChunk]:
    if rows.game_id[-1] >> GAME_BITS >= agents.shape[1]:  # ids ascend
        raise ValueError("there is a game of a pairing that is not named")
    columns = _IdColumns.empty(len(rows.game_id))
    _fill_id_columns(rows.game_id, agents, columns)
    yield encode_integers(rows.game_id, buffer)
    yield encode_integers(columns.pair_id, buffer)
    yield encode_integers(columns.pairing, buffer)
    yield encode_labels(columns.agent_0, labels, buffer)
    yield encode_labels(columns.agent_1, labels, buffer)
    yield encode_integers(rows.winner, buffer)
    yield encode_integers(rows.plies, buffer)
    yield encode_integers(rows.opening, buffer)
    yield encode_labels(rows.ending, ENDINGS, buffer)


@functools.cache
def _build_polars_metadata() -> Mapping[str, str]:
    """Build the metadata that tells Polars which text columns hold labels, exactly as Polars itself writes it."""
    buffer = io.BytesIO()
    pl.DataFrame(schema=GAMES_SCHEMA).write_parquet(buffer)
    buffer.seek(0)
    return pl.read_parquet_metadata(buffer)


# The fingerprint of a set of games is the sum, modulo 2^64, of one number for each game, which mixes its id, its
# plies and its end. So the fingerprint of a range is the sum of its parts' fingerprints, and the fingerprint of a run
# is the same whoever played which part on how many threads.

GAMES_AT_ONCE = 512  # games whose plies are packed at a time: their words stay in the processor's cache


@kernel()
def compute_fingerprint(
    game_id: NDArray[np.int64], opening: NDArray[np.int8], games: Games, span: tuple[int, int]
) -> int:
    """Compute the fingerprint (uint64) of the games with indices from ``span[0]`` up to but not including ``span[1]``.

    The fingerprint is the sum of a hash of each game. A game is hashed as four words: its id; its number of plies,
    winner, opening and ending, packed in one word; and two words with its plies. Each ply is one byte, piece * 16 +
    cell.
    """
    total = uint64(0)
    words = np.empty((2, GAMES_AT_ONCE), np.uint64)  # [half, game] the plies, packed
    # Unsigned, because LLVM makes no vector instructions of an index that may count from the end.
    for start in range(uint64(span[0]), uint64(span[1]), uint64(GAMES_AT_ONCE)):
        size = min(uint64(GAMES_AT_ONCE), uint64(span[1]) - start)
        _pack_plies(games, start, size, words)
        for i in range(size):
            game = start + i
            plies = int64(games.plies[game])
            end = plies | (int64(games.winner[game]) + 1) << 8 | int64(opening[game]) << 16
            end |= int64(games.ending[game]) << 24
            word = mix(uint64(game_id[game]) + GAMMA)
            word = mix(word ^ (uint64(end) + GAMMA))
            word = mix(word ^ (words[0, i] & _low_bytes_mask(min(plies, 8))))
            total += mix((word + GAMMA) ^ (words[1, i] & _low_bytes_mask(max(plies - 8, 0))))
    return total


@inline_function
def _pack_plies(games: Games, start: int, size: int, words: NDArray[np.uint64]) -> None:
    """Pack the plies of ``size`` games, beginning at index ``start``, into ``words`` [2, GAMES_AT_ONCE].

    Each ply takes one byte. The unused entries beyond the end of a game are packed too, so the caller has to mask them.
    """
    words[:] = 0
    for ply in range(PIECES):
        half, shift = ply >> 3, uint64(8 * (ply & 7))
        for i in range(size):
            byte = (int64(games.pieces[ply, start + i]) & 15) << 4 | (int64(games.cells[ply, start + i]) & 15)
            words[half, i] |= uint64(byte) << shift


@inline_function
def _low_bytes_mask(plies: int) -> int:
    """Return a word whose ``plies`` lowest bytes are all ones."""
    return ~uint64(0) if plies == 8 else (uint64(1) << uint64(8 * plies)) - uint64(1)
