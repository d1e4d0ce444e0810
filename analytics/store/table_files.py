"""Reading the files of tables, which are named by their content, and building games, without an open archive.

Every byte that is read is compared with the check in the file's name.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import IO, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.store.files.backend import Backend
from analytics.store.game_tables import RangeGames
from analytics.store.parquet.metadata import Footer, read_footer
from analytics.store.ranges import UnitLine, parse_file_name
from analytics.store.schema import TABLE_SCHEMAS
from analytics.store.texts import format_count_with_noun
from quarto.batch import Games
from quarto.errors import FailureError
from quarto.jit import kernel
from quarto.rules import PIECES

RowsT = TypeVar("RowsT")

VERIFY_REMEDY = "see 'qarena archive verify'"


def read_table_file(backend: Backend, path: PurePath, schema: pl.Schema) -> pl.DataFrame:
    """Read the table in a file whose name states its checksum. Raises the errors of ``read_file_in_parts``."""
    parts = [*read_file_in_parts(backend, path, schema)]
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)


def read_file_in_parts(
    backend: Backend, path: PurePath, schema: pl.Schema, rows_per_part: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the table in a file whose name states its checksum, in parts of ``rows_per_part`` rows, or as one part.

    Raises ``FileNotFoundError`` if there is no such file, ``FailureError`` if it is damaged.
    """
    try:
        yield from read_parts_or_raise_value_error(backend, path, schema, rows_per_part)
    except ValueError as error:
        raise damaged_file_error(path, error) from error


def read_parts_or_raise_value_error(
    backend: Backend, path: PurePath, schema: pl.Schema, rows_per_part: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield a table as ``read_file_in_parts`` does, but raise ``ValueError`` if the file is damaged.

    The message of this error says what is wrong with the file. Raises ``FileNotFoundError`` if there is no such file.
    """
    try:
        with backend.open(path) as file:
            yield from _decode_checked_file_in_parts(
                file, schema, check_content_and_read_footer(file, path.name).rows, rows_per_part
            )
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error


def damaged_file_error(path: PurePath, reason: object) -> FailureError:
    """Build the error for a file whose content is wrong; ``reason`` says what is wrong with the content."""
    return FailureError(f"{path} {reason}: {VERIFY_REMEDY}")


def check_content_and_read_footer(file: io.BufferedIOBase, name: str) -> Footer:
    """Return the footer of a table's file, without reading its columns.

    Raises ``ValueError`` if the content of the file does not match its ``name``.
    """
    named = parse_file_name(name)
    if named is None:
        raise ValueError("does not have the name of a table's file")
    if not hashlib.file_digest(file, "sha256").hexdigest().startswith(named.checksum):
        raise ValueError("has other bytes than its name says: some have changed since it was written")
    footer = read_footer(file)
    rows = footer.rows
    if rows > named.max_rows:
        raise ValueError(
            f"has {format_count_with_noun(rows, 'row')}: a table of "
            f"{format_count_with_noun(named.units, 'unit')} has at most {named.max_rows:,}"
        )
    return footer


def _decode_checked_file_in_parts(
    file: io.BufferedIOBase, schema: pl.Schema, total_rows: int, rows_per_part: int | None
) -> Iterator[pl.DataFrame]:
    file.seek(0)
    scanned = _call_polars(lambda: pl.scan_parquet(cast(IO[bytes], file), hive_partitioning=False))
    stored_schema = _call_polars(scanned.collect_schema)
    if stored_schema != schema:
        raise ValueError(f"has columns {dict(stored_schema)}, not {', '.join(schema)} of the right types")
    if 0 < total_rows <= (rows_per_part or total_rows):
        yield check_no_nulls(_call_polars(scanned.collect))
        return
    for first in range(
        0, total_rows, rows_per_part or max(1, total_rows)
    ):  # no name is given to a part: its reader alone keeps it
        yield check_no_nulls(_call_polars(scanned.slice(first, rows_per_part or total_rows).collect))


def check_no_nulls(part: pl.DataFrame) -> pl.DataFrame:
    """Return ``part``, or raise ``ValueError`` if it holds nulls."""
    if sum(part.null_count().row(0)):
        raise ValueError("holds nulls")
    return part


def _call_polars(read: Callable[[], RowsT]) -> RowsT:
    """Return the result of ``read``, which reads a file with Polars.

    Raises ``ValueError`` if Polars cannot read the file.
    """
    try:
        return read()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"is not a readable Parquet file: {str(error).partition(chr(10))[0]}") from error


def select_units(rows: pl.DataFrame, line: UnitLine, first: int, end: int) -> pl.DataFrame:
    """Select the rows of ``games`` or ``plies`` in the units from ``first`` up to but not including ``end``."""
    unit = line.compute_units(rows["game_id"].to_numpy())
    return rows.filter(pl.Series((first <= unit) & (unit < end)))


def load_games(backend: Backend, games: PurePath, plies: PurePath) -> RangeGames:
    """Load games from a file of the table ``games`` and the corresponding file of ``plies``.

    Raises ``FileNotFoundError`` if a file is missing, ``FailureError`` if one is damaged.
    """
    frame, rows = (read_table_file(backend, path, TABLE_SCHEMAS[path.parts[-3]]) for path in (games, plies))
    return build_checked_games(frame, rows, plies)


def build_checked_games(game_rows: pl.DataFrame, ply_rows: pl.DataFrame, path: PurePath) -> RangeGames:
    """Build games from rows of ``games`` and of ``plies``; ``path`` is the file of the plies, for messages.

    Raises ``FailureError`` if the number of rows of ``plies`` is not the number of plies that the games have.
    """
    plies = np.array(game_rows["plies"])  # a copy: kernels take arrays that may be written to
    expected = int(np.clip(plies, 0, PIECES).sum(dtype=np.int64))
    if len(ply_rows) != expected:
        raise damaged_file_error(
            path,
            (
                f"has {format_count_with_noun(len(ply_rows), 'row')}, the games of its range have "
                f"{format_count_with_noun(expected, 'ply', 'plies')}"
            ),
        )
    return build_games(game_rows, ply_rows)


def build_games(game_rows: pl.DataFrame, ply_rows: pl.DataFrame) -> RangeGames:
    """Build games from rows of the tables ``games`` and ``plies``.

    ``ply_rows`` is sorted by ply and then by game. It must have exactly as many rows for each game as the column
    ``plies`` of ``game_rows`` says.
    """
    ends = build_games_without_plies(game_rows)
    games = Games.allocate(len(game_rows))._replace(plies=ends.plies, winner=ends.winner, ending=ends.ending)
    for column, matrix in (("piece", games.pieces), ("cell", games.cells)):
        fill_matrix_from_ply_major_column(np.array(ply_rows[column]), games.plies, matrix)
    return RangeGames(np.array(game_rows["game_id"]), np.array(game_rows["opening"]), games)


def build_games_without_plies(frame: pl.DataFrame) -> Games:
    """Build games from rows of ``games`` alone, without their plies."""
    nothing, ending = np.empty((PIECES, 0), np.int8), frame["ending"].to_physical().cast(pl.Int8)
    return Games(nothing, nothing, np.array(frame["plies"]), np.array(frame["winner"]), np.array(ending))


@kernel()
def fill_matrix_from_ply_major_column(
    column: NDArray[np.int8], plies: NDArray[np.int8], matrix: NDArray[np.int8]
) -> None:
    """Write a column [R] of the table ``plies``, which is sorted by ply and then by game, into ``matrix`` [16, G].

    Game g has ``plies[g]`` rows. Entries beyond the last ply of a game stay unchanged.
    """
    row = 0
    for ply in range(PIECES):
        for game in range(plies.shape[0]):
            if ply < plies[game]:
                matrix[ply, game] = column[row]
                row += 1
