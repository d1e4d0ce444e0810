"""Draws positions for judging agents, from all positions and from logged games, and solves every turn in them.

The positions depend on the rules, the seed and the logged games alone. Those with one number of pieces do not depend on
other numbers of pieces. A position and its images under the symmetries count as one, but the position that was drawn is
kept as it lay. So an agent that takes the first free cell is not judged on boards that the canonical form has sorted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analytics.derived_tables.jobs import run_jobs
from analytics.perfect.position_set import SCHEMA, SOURCES
from analytics.perfect.tablebase import base_for, largest_for, same_game
from analytics.store.archive import Archive
from analytics.store.range_files import read_games
from quarto.batch import Batch
from quarto.canonical import canonical_forms
from quarto.errors import RequestError
from quarto.notation import format_position
from quarto.position import ALL_PIECES, Position
from quarto.rng import Streams, stream
from quarto.rules import ATTRIBUTES, CELLS, PIECES, Rules
from quarto.solver.solver import SolvedTurn, Solver
from quarto.symmetry import symmetries

NUMBERS = range(1, PIECES)  # of pieces on the board: without any, all turns are equal up to symmetry
DRAWN_AT_ONCE = 8192
MOST_DRAWN = 64 * DRAWN_AT_ONCE  # arrangements of one number of pieces: under some rules hardly any is without a line
SOLVED_AT_ONCE = 8


class Candidates(NamedTuple):
    """``C`` arrangements of ``n`` pieces and one in hand, in the order of drawing."""

    pieces: NDArray[np.int64]  # [C, n + 1] the last is in hand
    cells: NDArray[np.int64]  # [C, n] the last was filled last


class LoggedPlies(NamedTuple):
    """The plies of ``G`` logged games under some rules."""

    pieces: NDArray[np.int8]  # [16, G]
    cells: NDArray[np.int8]  # [16, G]
    plies: NDArray[np.int8]  # [G]


def logged_plies(archive: Archive, rules: Rules) -> LoggedPlies:
    """The games of an archive under some rules, by run id, then by game id: whatever files they are in.

    Raises ``RequestError`` if there is none, ``FailureError`` for a file that is missing or damaged.
    """
    parts = [
        _plies_of_run(archive, record.run_id)
        for record in sorted(archive.runs(), key=lambda each: each.run_id)
        if same_game(record.rules, rules) and len(archive.ranges(record.run_id))
    ]
    if not parts:
        raise RequestError(f"archive {archive.root} has no games under rules {rules.name!r}: name one with --archive")
    return LoggedPlies(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))


def _plies_of_run(archive: Archive, run_id: str) -> LoggedPlies:
    found = [read_games(archive, run_id, stored) for stored in archive.ranges(run_id)]
    order = np.argsort(np.concatenate([each.game_id for each in found]))
    columns = ([getattr(each.games, name) for each in found] for name in LoggedPlies._fields)
    return LoggedPlies(*(np.concatenate(column, axis=-1)[..., order] for column in columns))


def drawn(rules: Rules, pieces: int, seed: int) -> Iterator[Candidates]:
    """Arrangements of some number of pieces without a line, each as likely as any other, of ``MOST_DRAWN`` tries."""
    first = stream(seed, pieces, 0)
    for start in range(0, MOST_DRAWN, DRAWN_AT_ONCE):
        words = Streams(np.arange(start, start + DRAWN_AT_ONCE, dtype=np.uint64) + first)
        order = [_shuffled(words, offset) for offset in (0, PIECES)]
        found = Candidates(order[0][:, : pieces + 1], order[1][:, :pieces])
        live = ~_has_line(found, rules)
        yield Candidates(found.pieces[live], found.cells[live])


def met(games: LoggedPlies, pieces: int, seed: int) -> Iterator[Candidates]:
    """The positions with some number of pieces in which a placement was made, in a random order of the games."""
    first = stream(seed, pieces, 1)
    words = Streams(np.arange(len(games.plies), dtype=np.uint64) + first).draw(0)
    order = np.argsort(words, kind="stable")
    order = order[games.plies[order] > pieces]
    for start in range(0, len(order), DRAWN_AT_ONCE):
        chosen = order[start : start + DRAWN_AT_ONCE]
        held, filled = games.pieces[: pieces + 1, chosen], games.cells[:pieces, chosen]
        yield Candidates(held.T.astype(np.int64), filled.T.astype(np.int64))


def _shuffled(words: Streams, first: int) -> NDArray[np.int64]:
    """[B, 16] an order of sixteen things for each stream, by its words from ``first`` on."""
    return np.argsort(np.column_stack([words.draw(first + i) for i in range(PIECES)]), axis=1, kind="stable")


def _has_line(found: Candidates, rules: Rules) -> NDArray[np.bool_]:
    """[C] whether a line is finished: four feature bytes whose AND is not 0."""
    features = np.zeros((len(found.cells), CELLS), np.uint8)
    placed = found.pieces[:, :-1]
    np.put_along_axis(features, found.cells, (placed | (~placed & 15) << ATTRIBUTES).astype(np.uint8), axis=1)
    lines = [np.bitwise_and.reduce(features[:, line], axis=1) != 0 for line in rules.lines]
    finished: NDArray[np.bool_] = np.any(lines, axis=0)
    return finished


def batch_of(found: Candidates) -> Batch:
    """Arrangements as positions."""
    one = np.uint64(1)
    placed, cells = found.pieces[:, :-1].astype(np.uint64), found.cells.astype(np.uint64)
    lanes = np.zeros(len(cells), np.uint64)
    for attribute in range(ATTRIBUTES):
        bits = (placed >> np.uint64(attribute) & one) << (cells + np.uint64(CELLS * attribute))
        lanes |= np.bitwise_or.reduce(bits, axis=1)
    occupied = np.bitwise_or.reduce(one << cells, axis=1).astype(np.uint16)
    gone = np.bitwise_or.reduce(1 << found.pieces, axis=1)
    hand, last_cell = found.pieces[:, -1].astype(np.int8), found.cells[:, -1].astype(np.int8)
    return Batch(lanes, occupied, (ALL_PIECES & ~gone).astype(np.uint16), hand, last_cell)


def positions(rules: Rules, games: LoggedPlies, pieces: int, each: int, seed: int) -> list[tuple[str, list[Position]]]:
    """For each source its name and at most ``each`` positions; no two of all of them are images of each other."""
    seen: set[tuple[int, int]] = set()
    sources = drawn(rules, pieces, seed), met(games, pieces, seed)
    return [(name, _first_new(source, each, rules, seen)) for name, source in zip(SOURCES, sources, strict=True)]


def _first_new(source: Iterator[Candidates], most: int, rules: Rules, seen: set[tuple[int, int]]) -> list[Position]:
    """The first ``most`` positions whose canonical form is not in ``seen``, which is added to."""
    kept: list[Position] = []
    for found in source:
        batch = batch_of(found)
        forms = canonical_forms(batch.lanes, batch.occupied, batch.hand, symmetries(rules))
        for i, form in enumerate(zip(*(column.tolist() for column in forms), strict=True)):
            if len(kept) < most and form not in seen:
                seen.add(form)
                kept.append(batch.position(i))
        if len(kept) == most:
            break
    return kept


class TurnSolver:
    """Solves every turn of positions on several threads, which share what they prove."""

    def __init__(self, rules: Rules, threads: int, megabytes: float, fewest: int = 0) -> None:
        """``fewest`` pieces are on the board in all positions: a tablebase that ends there is not read."""
        self._threads = threads
        known = largest_for(rules)
        self._shared = Solver(rules, megabytes, base_for(rules) if known and fewest < known.card.pieces else None)
        self._local = threading.local()

    def solved(
        self, positions: Sequence[Position], progress: Callable[[int], None] = lambda _positions: None
    ) -> list[list[SolvedTurn]]:
        """The turns in each position; ``progress`` hears of positions that are done."""
        found: dict[int, list[list[SolvedTurn]]] = {}

        def keep(done: tuple[int, list[list[SolvedTurn]]]) -> None:
            found[done[0]] = done[1]
            progress(len(done[1]))

        starts = range(0, len(positions), SOLVED_AT_ONCE)
        jobs = (partial(self._solve, start, positions[start : start + SOLVED_AT_ONCE]) for start in starts)
        run_jobs(jobs, self._threads, keep, self._shared.stop)
        return [turns for start in starts for turns in found[start]]

    def _solve(self, start: int, positions: Sequence[Position]) -> tuple[int, list[list[SolvedTurn]]]:
        if not hasattr(self._local, "solver"):
            self._local.solver = self._shared.fork()
        return start, [list(self._local.solver.turns(each, distance=False)) for each in positions]


def rows_of(source: str, positions: Sequence[Position], turns: Sequence[Sequence[SolvedTurn]]) -> pl.DataFrame:
    """Positions of one source and their turns as rows by the schema ``SCHEMA``."""
    rows = [
        (text, position.occupied.bit_count(), source, position.last_cell, turn.cell, turn.gift, turn.value)
        for position, solved in zip(positions, turns, strict=True)
        for text in [format_position(position)]
        for turn in solved
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
