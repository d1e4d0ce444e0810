"""Annotates runs: evaluates the decisions of their games on all cores, part by part, and stores them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analytics.exact.tablebase import base_for
from analytics.store.archive import Archive, readable
from analytics.store.blocks import RangeGames
from analytics.store.range_files import read_games
from analytics.store.ranges import Range, StoredRange
from analytics.store.records import RunRecord
from analytics.tables.derived.decisions import (
    DECISIONS_TABLE,
    AnnotationExtent,
    decisions_of,
    first_plies,
    least_extent,
    note_annotations,
)
from analytics.tables.derived.derived_table import GamesPart, lacking, made_inside, parts_lacking
from analytics.tables.derived.exact_values import ExactValues, evaluate
from analytics.tables.derived.jobs import StoppedError, run_jobs
from quarto.batch import Games
from quarto.rules import Rules
from quarto.solver.solver import Solver

PART_GAMES = 2048  # seconds to minutes of work: an interruption loses at most a part of each thread
PARTS_EACH = 4  # for each worker, at least, where there are games enough: so that all end at about the same time
TASK_GAMES = 64  # a tenth of a second of work, so a stop takes no longer, except in the hardest positions


@dataclass(frozen=True)
class AnnotationSettings:
    """The decisions to evaluate, and the means."""

    choices: bool = False  # count the choices that keep the value too
    from_pieces: int | None = None  # leave out boards with fewer pieces; None: 0, or 5 where the mover chooses
    threads: int = 1
    megabytes: float = 128.0  # of the table of solved boards
    base_pieces: int | None = None  # look up boards of at most this many pieces; None: all boards of the tablebase


class Evaluator:
    """Evaluates games by one set of rules on several threads, which share and keep what they solve."""

    def __init__(self, rules: Rules, settings: AnnotationSettings) -> None:
        self._settings = settings
        self._shared = Solver(rules, settings.megabytes, base_for(rules, settings.base_pieces))
        self._local = threading.local()

    def values(
        self,
        games: Games,
        first: NDArray[np.int8],
        choices: bool,
        progress: Callable[[int], None],
        on_wait: Callable[[], None] = lambda: None,
    ) -> ExactValues:
        """The values of all decisions from ply ``first`` [G] on, with ``choices`` how many choices keep them too.

        ``progress`` is called with the number of games of each task that is done, ``on_wait`` several times a second.
        All searches end when one of them raises, also those of other calls: they raise ``StoppedError``.
        """
        values, size = ExactValues.empty(len(games.plies)), len(games.plies)
        spans = ((start, min(start + TASK_GAMES, size)) for start in range(0, size, TASK_GAMES))
        jobs = (partial(self._evaluate, span, choices, games, first, values) for span in spans)
        run_jobs(jobs, self._settings.threads, progress, self._shared.stop, on_wait)
        return values

    def _evaluate(self, span: Range, choices: bool, games: Games, first: NDArray[np.int8], values: ExactValues) -> int:
        """Fill in the values of the games from one to before another; returns how many they are."""
        if not hasattr(self._local, "solver"):
            self._local.solver = self._shared.fork()
        solver = self._local.solver
        start, end = span
        evaluate(start, end, int(choices), games, first, values, *solver.state)
        if solver.stopped:  # perhaps by another thread, whose part failed: these values mean nothing
            raise StoppedError
        return end - start


class AnnotationSummary(NamedTuple):
    """Totals of what was annotated."""

    units: int = 0
    games: int = 0
    decisions: int = 0

    def plus(self, other: AnnotationSummary) -> AnnotationSummary:
        """The totals of both."""
        return AnnotationSummary(*map(sum, zip(self, other, strict=True)))


class AnnotationPart(NamedTuple):
    """A part of a run that is to be annotated."""

    part: GamesPart
    extent: AnnotationExtent  # it includes what is stored of these games


def annotation_parts(
    archive: Archive,
    run_ids: Sequence[str],
    settings: AnnotationSettings,
    workers: int = 1,
    wanted: Callable[[str, StoredRange], bool] = lambda _run_id, _games: True,
) -> Iterator[AnnotationPart]:
    """The games that lack requested annotations, in parts of some thousand games, or fewer for so many workers.

    ``wanted`` takes a run's id and a range of its games, and says whether this range is to be annotated.

    Raises ``FailureError`` for a run without a record, ``RequestError`` for a run of another schema version.
    """
    for run_id in run_ids:
        record = readable(archive.known_run(run_id))
        asked = least_extent(record.rules, settings.choices, settings.from_pieces)
        lacks = [each for each in lacking(archive, run_id, DECISIONS_TABLE, asked.is_in) if wanted(run_id, each)]
        known = archive.ranges(run_id, DECISIONS_TABLE.name)
        share = sum(games.units for games in lacks) // (PARTS_EACH * workers)
        most = min(PART_GAMES, max(TASK_GAMES, share * record.line.games_a_pair)) // record.line.games_a_pair
        for games, made in zip(lacks, made_inside(archive, run_id, DECISIONS_TABLE, lacks), strict=True):
            extent = asked.joined(each.extent for each in known.inside(games.first, games.end))
            enough = (each for each in made if extent.is_in(each.extent))
            for part in parts_lacking(run_id, games, enough, most):
                yield AnnotationPart(part, extent)


def annotate_runs(
    archive: Archive,
    runs: Sequence[str],
    settings: AnnotationSettings,
    on_wait: Callable[[], None] = lambda: None,
) -> AnnotationSummary:
    """Evaluate and store every decision of some runs that is not stored yet, part by part.

    It may be stopped at any time by an exception in ``on_wait`` (see ``Evaluator``) or by Ctrl-C: parts
    that are stored stay. Raises ``FailureError`` for a run without a record or a file that cannot be read or written.
    """
    annotator, total = Annotator(archive, settings), AnnotationSummary()
    try:
        for part in [*annotation_parts(archive, runs, settings)]:
            total = total.plus(annotator.annotate(part, on_wait=on_wait))
    finally:
        for run_id in runs:
            note_annotations(archive, run_id)
    return total


class Annotator:
    """Annotates parts on any number of threads, and keeps what it solves from one to the next."""

    def __init__(self, archive: Archive, settings: AnnotationSettings) -> None:
        self._archive = archive
        self._settings = settings
        self._evaluators: dict[Rules, Evaluator] = {}
        self._read: tuple[str, StoredRange, RangeGames] | None = None  # last: most parts are of the same range of games
        self._lock = threading.Lock()

    def annotate(
        self,
        wanted: AnnotationPart,
        progress: Callable[[int], None] = lambda _games: None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> AnnotationSummary:
        """Evaluate and store the decisions of a part. Raises ``FailureError`` for a damaged file."""
        part, extent = wanted
        record = self._archive.known_run(part.run_id)
        found = self._games(record, part)
        stored, first = StoredRange(part.first, part.end, found.fingerprint), first_plies(found, extent)
        values = self._evaluator(record.rules).values(found.games, first, extent.choices, progress, on_wait)
        frame = decisions_of(found, first, values, record.rules)
        DECISIONS_TABLE.store(self._archive, part.run_id, stored, frame, extent.text)
        return AnnotationSummary(stored.units, len(first), len(frame))

    def _games(self, record: RunRecord, part: GamesPart) -> RangeGames:
        with self._lock:
            if self._read is None or self._read[:2] != (part.run_id, part.games):
                self._read = part.run_id, part.games, read_games(self._archive, part.run_id, part.games)
            games = self._read[2]
        return games.within(record.line, part.first, part.end)

    def _evaluator(self, rules: Rules) -> Evaluator:
        with self._lock:
            if rules not in self._evaluators:
                self._evaluators[rules] = Evaluator(rules, self._settings)
            return self._evaluators[rules]
