"""Problems of stored files, and reading a stored table with all checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analytics.store.blocks import read_table
from analytics.store.records import StoredFile


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a file, or with one game in it."""

    file: Path
    what: str
    game_id: int | None = None

    def __str__(self) -> str:
        game = "" if self.game_id is None else f" game {self.game_id}:"
        return f"{self.file}:{game} {self.what}"


def read_checked(path: Path, stored: StoredFile, schema: pl.Schema) -> pl.DataFrame | Problem:
    """The table in a file, or the problem that keeps it from being read."""
    try:
        return read_table(path, stored, schema)
    except ValueError as error:
        return Problem(path, str(error))
