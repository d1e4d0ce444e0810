"""Rows of some files of an archive alone: those that a position is in, or the plies of a few games."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from analytics.sql.database import OpenArchive
from analytics.sql.views import RUN_OF_FILE, from_files
from analytics.store.checked_files import CheckedFile

Ply = tuple[int, int]  # piece, cell

_PLY = ("game_id", "ply", "piece", "cell")


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
    plies: dict[tuple[str, int], list[Ply]] = {}
    wanted = pl.DataFrame(list(games), {"run_id": pl.String(), "game_id": pl.Int64()}, orient="row")
    for run_id, game_id, _, piece, cell in ply_rows(opened, wanted).iter_rows():
        plies.setdefault((run_id, game_id), []).append((piece, cell))
    return plies


def ply_rows(opened: OpenArchive, games: pl.DataFrame) -> pl.DataFrame:
    """The same as rows, sorted: ``run_id``, ``game_id``, ``ply``, ``piece``, ``cell``. ``games`` has the first two."""
    wanted = games.unique()
    return opened.again(lambda: _ply_rows(opened, wanted))


def _ply_rows(opened: OpenArchive, wanted: pl.DataFrame) -> pl.DataFrame:
    by_run = wanted.partition_by("run_id", as_dict=True)
    files = [
        file for (run_id,), games in by_run.items() for file in files_with(opened, "plies", run_id, games["game_id"])
    ]
    if not files:
        return pl.DataFrame(schema={"run_id": pl.String()} | dict.fromkeys(_PLY, pl.Int64()))
    ids = ", ".join(map(str, wanted["game_id"].unique().sort()))
    found = rows_in(opened, files, _PLY, f"game_id IN ({ids})")
    return found.join(wanted, on=("run_id", "game_id"), how="semi").sort("run_id", "game_id", "ply")


def files_with(opened: OpenArchive, table: str, run_id: str, game_ids: Iterable[int]) -> list[CheckedFile]:
    """The files of ``games`` or ``plies`` that hold games of a run. Games that are not there are in none."""
    units = np.unique(opened.archive.known_run(run_id).line.units_of(np.array([*game_ids], np.int64)))
    ranges = opened.archive.ranges(run_id)
    held = dict.fromkeys(stored for unit in units.tolist() if (stored := ranges.at(unit)) is not None)
    return opened.files.of_games(table, run_id, held)
