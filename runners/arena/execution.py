"""Carrying out a request: what is missing is mapped over an executor, and what is there then is the result.

A task plays a chunk, which is a range of units, writes its files, and says how far it came. Nothing else goes back and
forth.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Self

from analytics.questions.pairings import PairingResult, load_results
from analytics.store.archive import ArchiveStore
from analytics.store.range_files import write_slices
from analytics.store.ranges import Range, list_gaps, merge_ranges, split_into_files
from quarto.errors import FailureError
from runners.arena.experiment import Experiment, open_experiment, record_contribution
from runners.arena.play_task import ChunkPlayer, ChunkResult, PlayTask, power_of_two_units_within
from runners.arena.progress import Progress
from runners.arena.request import RunRequest

MANY_FILES_TO_COMPACT = 8  # of a run: then it is looked whether small ones become larger ones
MIN_CHUNK_SECONDS = 1.0  # of work in a chunk, if there is so much
LISTING_SECONDS, LISTING_PAUSE = 30.0, 0.5  # that the listings of a store may be old; between two of them


@dataclass(frozen=True)
class RunOutcome:
    """The result of carrying out a request."""

    run_id: str
    results: Sequence[PairingResult]
    fingerprint: int  # of all games of the run, uint64
    played: int  # games, by this process and its workers
    seconds: float  # playing and writing them
    interrupted: bool  # games are still missing
    stopped: bool  # because the user asked to
    root: PurePath  # of the archive
    misbehaviour: Sequence[str] = ()  # a line for each way in which an agent forfeited these games
    mover_chooses: bool = False  # the piece, by the rules


def execute_request(
    request: RunRequest, command: str, stop: threading.Event, progress: Progress | None = None
) -> RunOutcome:
    """``open_experiment`` and ``execute_experiment``."""
    return execute_experiment(open_experiment(request), command, stop, progress)


def execute_experiment(
    experiment: Experiment, command: str, stop: threading.Event, progress: Progress | None = None
) -> RunOutcome:
    """Play what the archive lacks, and write it. Once ``stop`` is set, only what ends soon is finished.

    Raises ``FailureError`` when the disk refuses, workers are lost, files vanish, or an agent forfeits all its games;
    what was written before is kept.
    """
    request, archive, run_id = experiment.request, experiment.archive, experiment.run_id
    with record_contribution(experiment, command) as contribution:
        left = [*experiment.missing_units(request.games), *experiment.units_missing_evaluations(request.games)]
        written = _play_missing_units(experiment, left, stop, progress) if left and not stop.is_set() else []
        contribution.games = experiment.unit_line.count_games(written)
        _check_written_units(experiment, written)
        write_slices(archive, run_id)
    experiment.engine.check_forfeits()
    left = experiment.missing_units(request.games)
    again = experiment.units_missing_evaluations(request.games)
    if not stop.is_set() and any(first < ended and begun < end for first, end in again for begun, ended in written):
        raise FailureError(
            f"games of run {run_id} went otherwise when they were played again, so their evaluations are left "
            "out: the answers of an agent depend on more than the position and rng"
        )
    if not stop.is_set() and len(archive.list_effective_ranges(run_id)) >= MANY_FILES_TO_COMPACT:
        from analytics.tables.upkeep.compaction import compact_small_files  # most runs do not need it

        compact_small_files(archive, run_id)
    return RunOutcome(
        run_id=run_id,
        results=load_results(archive, run_id),
        fingerprint=archive.list_effective_ranges(run_id).fingerprint,
        played=contribution.games,
        seconds=contribution.seconds,
        interrupted=bool(left or again),
        stopped=stop.is_set(),
        root=request.storage.root,
        misbehaviour=experiment.engine.describe_misbehaviour(),
        mover_chooses=experiment.request.spec.rules.mover_chooses,
    )


def _play_missing_units(
    experiment: Experiment, missing_ranges: Sequence[Range], stop: threading.Event, progress: Progress | None
) -> list[Range]:
    """Play units that the archive lacks; returns those that were written, as few ranges as possible.

    Raises what tasks raise; what is finished by then is written.
    """
    request, line, written = experiment.request, experiment.unit_line, list[Range]()
    here, shown = ChunkPlayer(experiment), _ProgressReporter(progress)
    work = here.play if request.executor.shares_memory else PlayTask.from_experiment(experiment)
    most, seconds = request.storage.max_units_per_file(line.games_a_pair), request.storage.shard_seconds
    workers = request.executor.count_workers(request.threads)
    queue = ChunkQueue(missing_ranges, line.count_units(request.games), most, workers, seconds)
    shown.start(line.count_games(missing_ranges))

    def idle() -> None:
        here.write_if_due()
        shown.report_total_games(here.games, experiment.engine.turns)

    try:
        for result in request.executor.map(work, queue, request.threads, stop, idle):
            queue.put_back_rest(result)
            if result.misbehaviour:
                experiment.engine.add_misbehaviour(result.misbehaviour)
            written += result.written
            shown.report_total_games(line.count_games(written))
    except KeyboardInterrupt:  # nothing more is to be written
        raise
    except BaseException:
        here.close_writers_and_list_ranges()
        raise
    return merge_ranges([*written, *here.close_writers_and_list_ranges()])  # also of turns that were given up


class _ProgressReporter:
    """The progress as somebody sees it, if anybody does."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._games = progress, 0

    def start(self, games: int) -> None:
        if self._progress:
            self._progress.start(games)

    def report_total_games(self, games_played: int, turns_taken: int | None = None) -> None:
        """So many games were played in all. If they are no more than before, ``turns_taken`` say that agents play."""
        if self._progress and games_played > self._games:
            self._progress.advance(games_played - self._games)
            self._games = games_played
        elif self._progress and turns_taken is not None:
            self._progress.report_turns(turns_taken)


def _check_written_units(experiment: Experiment, written_ranges: Sequence[Range]) -> None:
    """Raise ``FailureError`` if units are not there that tasks wrote: somebody has removed files.

    A store may list an object only seconds after it was written, so there it is waited for.
    """
    archive, run_id = experiment.archive, experiment.run_id
    until = time.monotonic() + (0.0 if isinstance(archive.root, Path) else LISTING_SECONDS)
    while gone := _list_unlisted_ranges(archive, run_id, written_ranges):
        if time.monotonic() < until:
            time.sleep(LISTING_PAUSE)
            continue
        raise FailureError(
            f"units {gone[0][0]} to {gone[0][1] - 1} of run {run_id} were written to archive {archive.root} and are "
            "not there: somebody removes files while the run is played; once that ends, the same command plays them "
            "again (if the whole archive was removed, remove what is left of its folder first)"
        )


def _list_unlisted_ranges(archive: ArchiveStore, run_id: str, written_ranges: Sequence[Range]) -> list[Range]:
    """Return the units that were written and that no listed file has."""
    there = (
        archive.list_effective_ranges(run_id).covered_ranges
        if written_ranges and archive.find_run(run_id) is not None
        else []
    )
    return [each for first, end in written_ranges for each in list_gaps(there, end, first)]


class ChunkQueue:
    """Yields what a run lacks in chunks, each of which becomes one file; the first units come first.

    Its end is not final: a task that finds that its chunk takes too long plays its beginning and gives back the rest.
    """

    def __init__(
        self, missing_ranges: Iterable[Range], total_units: int, max_units: int, workers: int, max_seconds: float
    ) -> None:
        """``max_units``: units in a chunk; ``max_seconds``: that a chunk takes at most."""
        self._left = [*missing_ranges]
        heapq.heapify(self._left)
        self._total, self._most, self._workers, self._seconds = total_units, max_units, workers, max_seconds
        self._share = -(-self._count_units() // workers)
        self._a_unit: float | None = None  # seconds, once that is known

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Range:
        if not self._left:
            raise StopIteration
        first, end = self._left[0]
        chunk = next(split_into_files(first, end, self._total, self._compute_chunk_size()))
        if chunk[1] < end:
            heapq.heapreplace(self._left, (chunk[1], end))
        else:
            heapq.heappop(self._left)
        return chunk

    def put_back_rest(self, result: ChunkResult) -> None:
        """Requeue the unplayed rest of a chunk, and update the pace."""
        (first, end), reached = result.chunk, result.reached
        if reached > first:
            self._a_unit = max(result.seconds / (reached - first), 1e-9)
        if reached < end:
            heapq.heappush(self._left, (reached, end))

    def _compute_chunk_size(self) -> int:
        """Return the units of the next chunk: few enough for all workers to have some, and for its time."""
        if self._a_unit is None:
            return min(self._most, 1 << (self._share - 1).bit_length())
        share = self._count_units() // (2 * self._workers)  # so that the last ones end at about one time
        least = int(MIN_CHUNK_SECONDS / self._a_unit)
        return max(1, min(self._most, power_of_two_units_within(self._seconds, self._a_unit), max(share, least)))

    def _count_units(self) -> int:
        return sum(end - first for first, end in self._left)
