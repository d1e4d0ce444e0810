"""`qarena policy positions`: draws the positions that agents are judged by, and solves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import polars as pl

from analytics.perfect.position_set import NUMBERS, TurnSolver, encoded, logged_plies, origin_of, positions, rows_of
from analytics.store.archive import Archive
from quarto.errors import RequestError
from quarto.rules import Rules
from runners.executors.base import check_tables
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import write_file


class SetOptions(NamedTuple):
    """The positions to draw, and the means to solve them."""

    rules: Rules
    each: int = 500  # of each source and number of pieces, at most
    seed: int = 2026
    numbers: Sequence[int] = NUMBERS  # of pieces on the board
    threads: int = 1
    megabytes: float = 128.0


def make_frame(archive: Archive, options: SetOptions) -> pl.DataFrame:
    """The positions and the value of every turn in them.

    Raises ``RequestError`` where the mover chooses the piece and for an archive without games under these rules.
    """
    rules = options.rules
    if rules.mover_chooses:
        raise RequestError(
            f"under rules {rules.name!r} the mover chooses the piece: sets of positions are for rules under which the "
            "opponent does"
        )
    check_tables(options.megabytes)
    games = logged_plies(archive, rules)
    solver = TurnSolver(rules, options.threads, options.megabytes, min(options.numbers))
    frames = []
    with progress_bar("solving", "positions") as bar:
        bar.start(2 * options.each * len(options.numbers))
        for pieces in options.numbers:
            for source, found in positions(rules, games, pieces, options.each, options.seed):
                frames.append(rows_of(source, found, solver.solved(found, bar.advance)))
    return pl.concat(frames)


def make_set(root: PurePath, options: SetOptions, path: Path) -> None:
    """Draw a set of positions, solve it and write its file, which the caller has checked."""
    frame = make_frame(Archive.open(root), options)
    content = encoded(frame, origin_of(options.rules, options.seed, options.each))
    write_file(path, content)
    count = frame["position"].n_unique()
    console.print_line(f"{count:,} positions, {len(frame):,} turns, {len(content):,} bytes: {path}")
