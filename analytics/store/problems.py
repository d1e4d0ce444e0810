"""What can be wrong with a stored file, and reading one so that nothing wrong goes unnoticed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analytics.store.blocks import read_table
from analytics.store.records import StoredFile


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and where."""

    file: Path
    what: str
    game_id: int | None = None

    def __str__(self) -> str:
        game = "" if self.game_id is None else f" game {self.game_id}:"
        return f"{self.file}:{game} {self.what}"


def read_checked(path: Path, stored: StoredFile, schema: pl.Schema) -> pl.DataFrame | Problem:
    """The frame in a file, or what is wrong with the file."""
    try:
        return read_table(path, stored, schema)
    except ValueError as error:
        return Problem(path, str(error))
