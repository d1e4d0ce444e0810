"""What can be wrong with a stored file, and reading one so that nothing wrong goes unnoticed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analytics.records import StoredFile


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
        return _checked(path.read_bytes(), stored, schema)
    except OSError as error:
        return Problem(path, f"cannot be read: {error.strerror}")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return Problem(path, f"is not a readable Parquet file: {str(error).partition(chr(10))[0]}")
    except ValueError as error:
        return Problem(path, str(error))


def _checked(content: bytes, stored: StoredFile, schema: pl.Schema) -> pl.DataFrame:
    """The frame in the content of a file. Raises ``ValueError`` saying what is wrong, or what Polars raises."""
    if len(content) != stored.bytes:
        raise ValueError(f"has {len(content)} bytes, its commit says {stored.bytes}")
    if hashlib.sha256(content).hexdigest() != stored.sha256:
        raise ValueError("its SHA-256 is not that of its commit: some byte has changed since")
    frame = pl.read_parquet(content, hive_partitioning=False)
    if frame.schema != schema:
        raise ValueError(f"has columns {dict(frame.schema)}, not {', '.join(schema)} of the right types")
    if len(frame) != stored.rows:
        raise ValueError(f"has {len(frame)} rows, its commit says {stored.rows}")
    if sum(frame.null_count().row(0)):
        raise ValueError("holds nulls")
    return frame
