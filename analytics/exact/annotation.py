"""Annotation of runs: the decisions of their games are evaluated on all cores, chunk by chunk, and stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exact.tablebase import load_tablebase_index
from analytics.store.archive import ArchiveStore, check_record_format
from analytics.store.game_tables import RangeGames
from analytics.store.range_files import read_games
from analytics.store.ranges import FileSlice, Range, StoredRange
from analytics.store.records import RunRecord
from analytics.tables.derived.decisions import (
    DECISIONS_TABLE,
    AnnotationExtent,
    build_extent,
    derive_decisions_sorted_by_ply,
    find_first_annotated_plies,
    record_annotated_units,
)
from analytics.tables.derived.exact_values import ExactValues, fill_exact_game_values
from analytics.tables.derived.range_table import (
    Chunk,
    group_files_by_missing_range,
    list_missing_ranges,
    list_missing_slices,
)
from analytics.tables.derived.threads import StoppedError, run_on_threads
from quarto.batch import Games
from quarto.rules import Rules
from quarto.solver.solver import Solver

CHUNK_GAMES = 2048  # seconds to minutes of work: an interruption loses at most a part of each thread
CHUNKS_PER_WORKER = 4  # for each worker, at least, where there are games enough: so that all end at about the same time
TASK_GAMES = 64  # a tenth of a second of work, so a stop takes no longer, except in the hardest positions


@dataclass(frozen=True)
class AnnotationOptions:
    """The decisions to evaluate, and the resources for evaluating them."""

    choices: bool = False  # count the choices that keep the value too
    from_pieces: int | None = None  # leave out boards with fewer pieces; None: 0, or 5 where the mover chooses
    threads: int = 1
    megabytes: float = 128.0  # of the table of solved boards
    base_pieces: int | None = None  # look up boards of at most this many pieces; None: all boards of the tablebase


class GameSolver:
    """A solver of games under one set of rules. Its threads share solved boards and keep them for later calls."""

    def __init__(self, rules: Rules, options: AnnotationOptions) -> None:
        self._settings = options
        self._shared = Solver(rules, options.megabytes, load_tablebase_index(rules, options.base_pieces))
        self._local = threading.local()

    def solve_games(
        self,
        games: Games,
        first_plies: NDArray[np.int8],
        count_choices: bool,
        progress: Callable[[int], None],
        on_wait: Callable[[], None] = lambda: None,
    ) -> ExactValues:
        """Return the exact values of the decisions in ``games``, from ply ``first_plies[g]`` of game ``g`` on.

        With ``count_choices``, also count the choices that keep each value. ``progress`` is called with the number of
        games in each finished task, and ``on_wait`` is called several times a second. If one of these functions or a
        search raises an error, all searches of this solver end, and other calls that are running raise
        ``StoppedError``.
        """
        values, size = ExactValues.zeros_with_uncounted_choices(len(games.plies)), len(games.plies)
        spans = ((start, min(start + TASK_GAMES, size)) for start in range(0, size, TASK_GAMES))
        jobs = (partial(self._solve_span, span, count_choices, games, first_plies, values) for span in spans)
        run_on_threads(jobs, self._settings.threads, progress, self._shared.stop, on_wait)
        return values

    def _solve_span(
        self, span: Range, count_choices: bool, games: Games, first_plies: NDArray[np.int8], values: ExactValues
    ) -> int:
        """Fill ``values`` for the games with indices in ``span``, and return the number of these games.

        Raises ``StoppedError`` if the solver has been stopped.
        """
        if not hasattr(self._local, "solver"):
            self._local.solver = self._shared.fork()
        solver = self._local.solver
        start, end = span
        fill_exact_game_values(start, end, int(count_choices), games, first_plies, values, *solver.state)
        if solver.stopped:  # perhaps by another thread, whose part failed: these values mean nothing
            raise StoppedError
        return end - start


class AnnotationSummary(NamedTuple):
    """The numbers of units, games and decisions that were annotated."""

    units: int = 0
    games: int = 0
    decisions: int = 0

    def add(self, other: AnnotationSummary) -> AnnotationSummary:
        """Return the sum of this summary and another."""
        return AnnotationSummary(*map(sum, zip(self, other, strict=True)))


def list_annotation_chunks(
    archive: ArchiveStore,
    run_ids: Sequence[str],
    options: AnnotationOptions,
    workers: int = 1,
    is_included: Callable[[str, StoredRange], bool] = lambda _run_id, _games: True,
) -> Iterator[Chunk[AnnotationExtent]]:
    """Yield chunks of the games that lack the requested annotations.

    A chunk has at most ``CHUNK_GAMES`` games, or fewer if there are many ``workers``. ``is_included`` takes a run's id
    and a range of its games, and returns whether to annotate this range. The extent of a chunk says which annotations
    to make: those that are requested, and those that are already stored for its games, so that the new file has both.

    Raises ``FailureError`` for a run without a record, and ``RequestError`` for a run with another schema version.
    """
    for run_id in run_ids:
        record = check_record_format(archive.load_run(run_id))
        requested = build_extent(record.rules, options.choices, options.from_pieces)
        lacks = [
            stored
            for stored in list_missing_ranges(archive, run_id, DECISIONS_TABLE, requested.is_included_in)
            if is_included(run_id, stored)
        ]
        annotated = archive.list_effective_ranges(run_id, DECISIONS_TABLE.name)
        share = sum(games.units for games in lacks) // (CHUNKS_PER_WORKER * workers)
        most = min(CHUNK_GAMES, max(TASK_GAMES, share * record.unit_line.games_a_pair)) // record.unit_line.games_a_pair
        for games, partials in zip(
            lacks, group_files_by_missing_range(archive, run_id, DECISIONS_TABLE, lacks), strict=True
        ):
            extent = requested.union(stored.extent for stored in annotated.select_overlapping(games.first, games.end))
            enough = (stored for stored in partials if extent.is_included_in(stored.extent))
            for part in list_missing_slices(games, enough, most):
                yield Chunk(run_id, part, extent)


def annotate_runs(
    archive: ArchiveStore,
    runs: Sequence[str],
    options: AnnotationOptions,
    on_wait: Callable[[], None] = lambda: None,
) -> AnnotationSummary:
    """In the given runs, evaluate and store all decisions that have no stored value yet, chunk by chunk.

    An exception in ``on_wait`` (see ``GameSolver.solve_games``) or Ctrl-C may end this function at any time; chunks
    that are stored by then remain. Raises ``FailureError`` for a run without a record, or for a file that cannot be
    read or written.
    """
    annotator, total = Annotator(archive, options), AnnotationSummary()
    try:
        for chunk in [*list_annotation_chunks(archive, runs, options)]:
            total = total.add(annotator.annotate(chunk, on_wait=on_wait))
    finally:
        for run_id in runs:
            record_annotated_units(archive, run_id)
    return total


class Annotator:
    """An annotator of chunks of games. It uses any number of threads, and keeps solved boards from chunk to chunk."""

    def __init__(self, archive: ArchiveStore, options: AnnotationOptions) -> None:
        self._archive = archive
        self._settings = options
        self._evaluators: dict[Rules, GameSolver] = {}
        self._read: tuple[str, StoredRange, RangeGames] | None = None  # last: most parts are of the same range of games
        self._lock = threading.Lock()

    def annotate(
        self,
        chunk: Chunk[AnnotationExtent],
        progress: Callable[[int], None] = lambda _games: None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> AnnotationSummary:
        """Evaluate and store the decisions of a chunk, and return how many were annotated.

        See ``GameSolver.solve_games`` for ``progress`` and ``on_wait``. Raises ``FailureError`` for a damaged file.
        """
        run_id, part, extent = chunk
        record = self._archive.load_run(run_id)
        games = self._read_games(record, part)
        stored, first = StoredRange(part.first, part.end, games.fingerprint), find_first_annotated_plies(games, extent)
        values = self._find_or_build_solver(record.rules).solve_games(
            games.games, first, extent.choices, progress, on_wait
        )
        frame = derive_decisions_sorted_by_ply(games, first, values, record.rules)
        DECISIONS_TABLE.write(self._archive, run_id, stored, frame, extent.text)
        return AnnotationSummary(stored.units, len(first), len(frame))

    def _read_games(self, record: RunRecord, part: FileSlice) -> RangeGames:
        with self._lock:
            if self._read is None or self._read[:2] != (record.run_id, part.file):
                self._read = record.run_id, part.file, read_games(self._archive, record.run_id, part.file)
            games = self._read[2]
        return games.select_units(record.unit_line, part.first, part.end)

    def _find_or_build_solver(self, rules: Rules) -> GameSolver:
        with self._lock:
            if rules not in self._evaluators:
                self._evaluators[rules] = GameSolver(rules, self._settings)
            return self._evaluators[rules]
