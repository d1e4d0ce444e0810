"""Rows of some files of an archive alone: those that a position is in, or the plies of a few games."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from analytics.sql.database import OpenArchive
from analytics.sql.views import RUN_OF_FILE, from_files
from analytics.store.checked_files import CheckedFile

Ply = tuple[int, int]  # piece, cell


def rows_in(opened: OpenArchive, files: Sequence[CheckedFile], columns: Sequence[str], where: str) -> pl.DataFrame:
    """The rows of files of one table that meet a condition: some of its columns, with ``run_id`` in front.

    Raises ``FailureError`` for a damaged file, ``MissingFileError`` for one that is gone.
    """
    opened.files.require_sound(files)
    source = from_files(opened.location(file.path) for file in files)
    return opened.ask_files(f"SELECT {RUN_OF_FILE} AS run_id, {', '.join(columns)} {source} WHERE {where}")


def plies_of(opened: OpenArchive, games: Iterable[tuple[str, int]]) -> dict[tuple[str, int], list[Ply]]:
    """The plies of games given by ``run_id`` and ``game_id``, in order. Reads only the files that hold them.

    Games that are not in the archive are left out. Raises ``FailureError`` for a damaged file.
    """
    wanted = sorted(set(games))
    return opened.again(lambda: _plies_of(opened, wanted))


def _plies_of(opened: OpenArchive, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[Ply]]:
    files = dict.fromkeys(file for run_id, game_id in wanted for file in files_with(opened, "plies", run_id, game_id))
    plies: dict[tuple[str, int], list[Ply]] = {}
    if files:
        ids = ", ".join(str(game_id) for game_id in sorted({game_id for _, game_id in wanted}))
        columns = ("game_id", "ply", "piece", "cell")
        found = rows_in(opened, list(files), columns, f"game_id IN ({ids})").sort("ply")
        for run_id, game_id, _, piece, cell in found.iter_rows():
            plies.setdefault((run_id, game_id), []).append((piece, cell))
    return plies


def files_with(opened: OpenArchive, table: str, run_id: str, game_id: int) -> list[CheckedFile]:
    """The file of ``games`` or ``plies`` that holds a game; none if the game is not there."""
    (unit,) = opened.archive.known_run(run_id).line.units_of(np.array([game_id])).tolist()
    stored = opened.archive.ranges(run_id).at(unit)
    return [] if stored is None else opened.files.of_games(table, run_id, [stored])
