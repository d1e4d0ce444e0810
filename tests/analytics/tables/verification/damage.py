"""Damages that are done to archives, and what is found of them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import polars as pl

from analytics.store.archive import ArchiveStore
from analytics.store.range_files import write_game_tables
from analytics.store.ranges import compute_checksum
from analytics.tables.verification.archive import verify_archive
from quarto.batch import Block
from tests.analytics.naive_games import (
    PAIRINGS,
    RUN_ID,
    Game,
    build_spec,
    random_game,
    record,
)


def only_problem(archive: ArchiveStore) -> str:
    problems = verify_archive(archive).problems
    assert len(problems) == 1, problems
    return str(problems[0])


def forged(
    archive: ArchiveStore, table: str, content: bytes, number: int = 0, run_id: str = RUN_ID, **name: Any
) -> Path:
    """Put another content in the place of a file that counts, under a name with its check, or with other parts."""
    stored = archive.list_effective_ranges(run_id, table)[number]
    archive.backend.remove(archive.folder(table, run_id) / stored.name)
    path = archive.folder(table, run_id) / stored._replace(checksum=compute_checksum(content), **name).name
    archive.write_file(path, content)
    return Path(path)


def rewrite(
    archive: ArchiveStore,
    table: str,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    number: int = 0,
    run_id: str = RUN_ID,
    **name: Any,
) -> Path:
    """Change the rows of a file, so that only the rows themselves can tell."""
    path = archive.folder(table, run_id) / archive.list_effective_ranges(run_id, table)[number].name
    buffer = io.BytesIO()
    change(pl.read_parquet(archive.backend.read(path))).write_parquet(buffer)
    return forged(archive, table, buffer.getvalue(), number, run_id, **name)


@contextmanager
def rewritten(
    archive: ArchiveStore,
    table: str,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    run_id: str = RUN_ID,
    **name: Any,
) -> Iterator[Path]:
    """Rewrite the first file of a table inside the context, after which it is as it was."""
    original = archive.folder(table, run_id) / archive.list_effective_ranges(run_id, table)[0].name
    content = archive.backend.read(original)
    path = rewrite(archive, table, change, 0, run_id, **name)
    archive.forget_cached_listings()
    yield path
    archive.backend.remove(path)
    archive.write_file(original, content)
    archive.forget_cached_listings()


def file_of(archive: ArchiveStore, table: str, number: int = 0) -> PurePath:
    return archive.find_path_of_containing_file(table, RUN_ID, archive.list_effective_ranges(RUN_ID)[number])


def one_pairing(archive: ArchiveStore, blocks: Sequence[Block], **spec: Any) -> str:
    """Write a run of one pairing with these games, from pair 0 on."""
    run = record(build_spec(pairings=PAIRINGS[:1], **spec))
    archive.write_run_and_unit_count(run)
    pairs = sum(block.pairs for block in blocks)
    write_game_tables(archive, run.run_id, run.unit_line, PAIRINGS[:1], (0, pairs), blocks)
    return run.run_id


def changed(column: str, row: int, value: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row)
        .then(value)
        .otherwise(pl.col(column))
        .cast(frame.schema[column])
        .alias(column)
    )


def map_of_problems(archive: ArchiveStore) -> str:
    return "\n".join(map(str, verify_archive(archive).problems))


def complete_game(ending: int, seed: int = 0) -> Game:
    """Draw a random game that ended in this way, with at least eight plies."""
    dice = random.Random(seed)
    while True:
        game = random_game(dice, forfeits=0.3)
        if game["ending"] == ending and len(game["plies"]) >= 8:
            return game
