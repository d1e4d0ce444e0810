"""A Delta table of games and one of plies, for Polars, Spark and others that read Delta.

The tables are partitioned by run. They show by themselves which games they have, so nothing needs to be remembered.
Compaction of their files, or of those of the archive, makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl

from analytics.store.archive import Archive
from analytics.store.marker import check_outside_archives
from analytics.store.range_files import read_rows
from analytics.store.ranges import Range, StoredRange, merge_ranges
from analytics.store.records import RunRecord
from analytics.store.schema import MAX_PAIRS, TABLE_SCHEMAS
from quarto.errors import FailureError, RequestError, require_extra

with require_extra("delta", "a Delta table"):
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import DeltaError

TRANSACTION_APPLICATION = "quarto-arena"  # whose writers notice one another: a version that another one took is refused
DELTA_LOG = "_delta_log"


def write_delta_tables(
    archive: Archive, folder: Path, tables: tuple[str, ...], progress: Callable[[int], None] = lambda _games: None
) -> dict[str, int]:
    """Write or update the Delta tables ``games`` and ``plies`` below ``folder``: games that they have are left alone.

    Returns how many rows each table got. Each file of games is one version of a table, so a call that was stopped can
    be repeated and goes on. ``progress`` is called with the games of each file that was dealt with. Raises
    ``RequestError`` for a folder with other files or tables, ``FailureError`` for a damaged file, and when another
    process writes to the same table.
    """
    _check_folder(folder)
    added = dict.fromkeys(TABLE_SCHEMAS, 0)
    for table in tables:
        root = folder / table
        delta_table = _open_table(root, table)
        for run_id in archive.list_run_ids():
            held = _list_stored_pairs(root, delta_table, run_id, table)
            record = archive.load_run(run_id)
            for stored in archive.list_effective_ranges(run_id):
                rows = _read_missing_rows(archive, record, stored, table, held)
                if rows is not None and len(rows):
                    delta_table = _append_rows(root, delta_table, rows)
                    added[table] += len(rows)
                progress(stored.units * record.unit_line.games_a_pair)
    return added


def _check_folder(folder: Path) -> None:
    check_outside_archives(folder)
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file: name a folder")
    foreign_names = (
        sorted(path.name for path in folder.iterdir() if path.name not in TABLE_SCHEMAS) if folder.exists() else []
    )
    if foreign_names:
        raise RequestError(
            f"{folder} has other files in it ({foreign_names[0]}): name a new folder, or one of this command"
        )


def _build_schema(table: str) -> pl.Schema:
    """Build the columns of a Delta table: labels are texts, and the run comes first."""
    texts = (pl.Categorical, pl.Enum)
    columns: dict[str, pl.DataType] = {"run_id": pl.String()}
    columns |= {name: pl.String() if isinstance(kind, texts) else kind for name, kind in TABLE_SCHEMAS[table].items()}
    return pl.Schema(columns)


def _open_table(root: Path, table: str) -> DeltaTable | None:
    """Open the table at ``root``; None if there is none. Raises ``RequestError`` for another one."""
    if not (root / DELTA_LOG).is_dir():
        if root.is_dir() and any(root.iterdir()):
            raise RequestError(f"{root} has files and is not a Delta table: name a new folder")
        return None
    try:
        delta_table = DeltaTable(root)
        columns = [field.name for field in delta_table.schema().fields]
    except (DeltaError, OSError) as error:
        raise RequestError(f"{root} is not a readable Delta table ({_format_error(error)})") from error
    if sorted(columns) != sorted(_build_schema(table)):
        raise RequestError(f"{root} has columns {', '.join(columns)}: it is a Delta table of something else")
    return delta_table


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split())


def _list_stored_pairs(root: Path, delta_table: DeltaTable | None, run_id: str, table: str) -> list[Range]:
    """List the pairs of a run that a table has, as ranges of ``pair_id``."""
    if delta_table is None:
        return []
    ranges: list[Range] = []
    files = pl.DataFrame(delta_table.get_add_actions(flatten=True)).filter(pl.col("partition.run_id") == run_id)
    for path in files["path"]:
        rows = pl.scan_parquet(root / unquote(path), glob=False, hive_partitioning=False)
        rows = rows.filter(pl.col("ply") == 0) if table == "plies" else rows
        pairs = np.unique(rows.select(pl.col("game_id") // 2).collect()["game_id"].to_numpy())
        ends = np.flatnonzero(np.diff(pairs) > 1)
        if len(pairs):
            firsts, lasts = pairs[np.r_[0, ends + 1]], pairs[np.r_[ends, len(pairs) - 1]]
            ranges += zip(firsts.tolist(), (lasts + 1).tolist(), strict=True)
    return merge_ranges(ranges)


def _read_missing_rows(
    archive: Archive, record: RunRecord, stored: StoredRange, table: str, stored_pairs: list[Range]
) -> pl.DataFrame | None:
    """Read the rows of a range that a table lacks; None if it lacks none."""
    if _has_all_pairs(stored_pairs, record, stored):
        return None
    frame = read_rows(archive, record.run_id, stored, table)
    if stored_pairs:
        firsts, ends = np.array(stored_pairs).T
        pairs = frame["game_id"].to_numpy() >> 1
        at = np.searchsorted(firsts, pairs, side="right") - 1  # the range that may have it; -1: none
        frame = frame.filter((at < 0) | (pairs >= ends[at]))
    return frame.select(pl.lit(record.run_id).alias("run_id"), pl.all()).cast(_build_schema(table))


def _has_all_pairs(stored_pairs: list[Range], record: RunRecord, stored: StoredRange) -> bool:
    """Return whether all pairs of a range are in ``stored_pairs``.

    That is never known of imported games, whose pairs are of any pairing, so the answer for them is False.
    """
    for pairing in range(len(record.pairings)):
        first, end = (
            pairing * MAX_PAIRS + pair for pair in record.unit_line.pair_range(pairing, stored.first, stored.end)
        )
        if first < end and not any(low <= first and end <= high for low, high in stored_pairs):
            return False
    return True


def _append_rows(root: Path, delta_table: DeltaTable | None, rows: pl.DataFrame) -> DeltaTable:
    """Add rows as one version, unless another writer added one since the table was read."""
    before = delta_table.transaction_version(TRANSACTION_APPLICATION) if delta_table is not None else None
    mark = Transaction(TRANSACTION_APPLICATION, 0 if before is None else before + 1)
    options: dict[str, Any] = {"commit_properties": CommitProperties(app_transactions=[mark], max_commit_retries=0)}
    try:
        if delta_table is None:
            root.mkdir(parents=True, exist_ok=True)
            write_deltalake(root, rows, mode="error", partition_by=["run_id"], **options)
            return DeltaTable(root)
        write_deltalake(delta_table, rows, mode="append", **options)
        delta_table.update_incremental()
    except (DeltaError, OSError) as error:
        raise FailureError(
            f"cannot write to {root}: {_format_error(error)}; if another process writes to it, run the same command "
            "again"
        ) from error
    return delta_table
