"""Carrying out a request: the missing games are played by an executor, then the results are read from the archive.

A task plays a chunk, which is a range of units, writes its files, and reports how far it came. Only chunks and these
reports travel between processes.
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

MANY_FILES_TO_COMPACT = 8  # number of a run's files from which on small files are compacted
MIN_CHUNK_SECONDS = 1.0  # work in a chunk, if enough is missing
LISTING_SECONDS, LISTING_PAUSE = 30.0, 0.5  # greatest age of a bucket's listing; pause between two listings


@dataclass(frozen=True)
class RunOutcome:
    """The result of carrying out a request to play a run."""

    run_id: str
    results: Sequence[PairingResult]
    fingerprint: int  # of all games of the run, uint64
    played: int  # games that this process and its workers played
    seconds: float  # time of playing and writing them
    interrupted: bool  # games are still missing
    stopped: bool  # the user asked for it
    root: PurePath  # location of the archive
    misbehaviour: Sequence[str] = ()  # a line for each way in which an agent forfeited some of these games
    mover_chooses: bool = False  # under the run's rules the mover chooses the piece


def execute_request(
    request: RunRequest, command: str, stop: threading.Event, progress: Progress | None = None
) -> RunOutcome:
    """Open the experiment that a request describes, and execute it.

    Raises the errors of ``open_experiment`` and ``execute_experiment``.
    """
    return execute_experiment(open_experiment(request), command, stop, progress)


def execute_experiment(
    experiment: Experiment, command: str, stop: threading.Event, progress: Progress | None = None
) -> RunOutcome:
    """Play the games that the archive lacks, write them, and load the results of the run.

    Games whose evaluations are requested but missing are played again, too.

    Args:
        experiment: The opened request.
        command: The user's command, for the run's record.
        stop: Event that ends playing early: no further chunk is begun, and chunks in progress are cut short.
        progress: Display of the number of games played, if there is one.

    Raises:
        FailureError: A file could not be written, workers were lost, files vanished, games came out differently when
            they were played again, or an agent forfeited all its games. All files written before that are kept.

    """
    request, archive, run_id = experiment.request, experiment.archive, experiment.run_id
    with record_contribution(experiment, command) as contribution:
        missing = [*experiment.missing_units(request.games), *experiment.units_to_replay_for_evaluations(request.games)]
        written_ranges = (
            _play_missing_units(experiment, missing, stop, progress) if missing and not stop.is_set() else []
        )
        contribution.games = experiment.unit_line.count_games(written_ranges)
        _check_written_units(experiment, written_ranges)
        write_slices(archive, run_id)
    experiment.engine.check_no_agent_forfeits_everything()
    missing = experiment.missing_units(request.games)
    missing_evaluations = experiment.units_to_replay_for_evaluations(request.games)
    if not stop.is_set() and any(
        first < written_end and written_first < end
        for first, end in missing_evaluations
        for written_first, written_end in written_ranges
    ):
        raise FailureError(
            f"games of run {run_id} came out differently when they were played again, so their evaluations are "
            "not stored: an agent's turns depend on more than the position and rng"
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
        interrupted=bool(missing or missing_evaluations),
        stopped=stop.is_set(),
        root=request.storage.root,
        misbehaviour=experiment.engine.describe_misbehaviour(),
        mover_chooses=experiment.request.spec.rules.mover_chooses,
    )


def _play_missing_units(
    experiment: Experiment, missing_ranges: Sequence[Range], stop: threading.Event, progress: Progress | None
) -> list[Range]:
    """Play the units that the archive lacks, and return the ranges that were written.

    Neighbouring ranges are merged. Exceptions of tasks are passed on after all finished games have been written.
    """
    request, line, written = experiment.request, experiment.unit_line, list[Range]()
    local_player, reporter = ChunkPlayer(experiment), _ProgressReporter(progress)
    work = local_player.play if request.executor.shares_memory else PlayTask.from_experiment(experiment)
    max_units, seconds = request.storage.max_units_per_file(line.games_a_pair), request.storage.shard_seconds
    workers = request.executor.count_workers(request.threads)
    queue = ChunkQueue(missing_ranges, line.count_units_of_all_pairings(request.games), max_units, workers, seconds)
    reporter.start(line.count_games(missing_ranges))

    def write_due_games_and_report() -> None:
        local_player.write_if_due()
        reporter.report_total_games(local_player.games, experiment.engine.turns)

    try:
        for result in request.executor.map(work, queue, request.threads, stop, write_due_games_and_report):
            queue.put_back_rest_and_update_pace(result)
            if result.misbehaviour:
                experiment.engine.add_misbehaviour(result.misbehaviour)
            written += result.written
            reporter.report_total_games(line.count_games(written))
    except KeyboardInterrupt:  # the user insists on leaving at once
        raise
    except BaseException:
        local_player.close_writers_and_list_ranges()
        raise
    return merge_ranges(
        [*written, *local_player.close_writers_and_list_ranges()]
    )  # also games of chunks that did not end in time


class _ProgressReporter:
    """A reporter that turns total numbers of games into updates of a progress display, if there is one."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._games = progress, 0

    def start(self, games: int) -> None:
        if self._progress:
            self._progress.start(games)

    def report_total_games(self, games_played: int, turns_taken: int | None = None) -> None:
        """Report the total number of games played or, if it has not grown, the number of turns taken."""
        if self._progress and games_played > self._games:
            self._progress.advance(games_played - self._games)
            self._games = games_played
        elif self._progress and turns_taken is not None:
            self._progress.report_turns(turns_taken)


def _check_written_units(experiment: Experiment, written_ranges: Sequence[Range]) -> None:
    """Raise ``FailureError`` if the archive lacks units that tasks have written, because somebody has removed files.

    A bucket may list an object only some seconds after it was written, so the list of its files is read repeatedly for
    a while.
    """
    archive, run_id = experiment.archive, experiment.run_id
    deadline = time.monotonic() + (0.0 if isinstance(archive.root, Path) else LISTING_SECONDS)
    while missing_ranges := _list_unlisted_ranges(archive, run_id, written_ranges):
        if time.monotonic() < deadline:
            time.sleep(LISTING_PAUSE)
            continue
        raise FailureError(
            f"units {missing_ranges[0][0]} to {missing_ranges[0][1] - 1} of run {run_id} were written to archive "
            f"{archive.root} and are not there: something removes files while the run is played; stop that, then "
            "repeat the command, which plays these units again (if the whole archive was removed, first remove the "
            "rest of its folder)"
        )


def _list_unlisted_ranges(archive: ArchiveStore, run_id: str, written_ranges: Sequence[Range]) -> list[Range]:
    """List the parts of ``written_ranges`` that are in none of the files that the archive lists."""
    listed_ranges = (
        archive.list_effective_ranges(run_id).covered_ranges
        if written_ranges and archive.find_run(run_id) is not None
        else []
    )
    return [gap for first, end in written_ranges for gap in list_gaps(listed_ranges, end, first)]


class ChunkQueue:
    """An iterator over the missing units of a run, in ascending order and in chunks. Each chunk becomes a file.

    If a chunk takes too long, its task plays only the beginning, and the rest is put back into the queue.
    """

    def __init__(
        self, missing_ranges: Iterable[Range], total_units: int, max_units: int, workers: int, max_seconds: float
    ) -> None:
        """Fill the queue with missing ranges of a run of ``total_units`` units, which ``workers`` workers will play.

        ``max_units`` is the largest number of units in a chunk, and ``max_seconds`` is the longest time that a chunk
        should take.
        """
        self._missing_ranges = [*missing_ranges]
        heapq.heapify(self._missing_ranges)
        self._total_units, self._max_units = total_units, max_units
        self._workers, self._max_seconds = workers, max_seconds
        self.unit_count = sum(end - first for first, end in self._missing_ranges)  # not yet handed out
        self._share = -(-self.unit_count // workers)
        self._seconds_per_unit: float | None = None  # unknown until a chunk has ended

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Range:
        if not self._missing_ranges:
            raise StopIteration
        first, end = self._missing_ranges[0]
        chunk = next(split_into_files(first, end, self._total_units, self._compute_chunk_size()))
        if chunk[1] < end:
            heapq.heapreplace(self._missing_ranges, (chunk[1], end))
        else:
            heapq.heappop(self._missing_ranges)
        self.unit_count -= chunk[1] - chunk[0]
        return chunk

    def put_back_rest_and_update_pace(self, result: ChunkResult) -> None:
        """Return the unplayed units of a chunk to the queue, and update the estimated time per unit."""
        (first, end), reached = result.chunk, result.reached
        if reached > first:
            self._seconds_per_unit = max(result.seconds / (reached - first), 1e-9)
        if reached < end:
            heapq.heappush(self._missing_ranges, (reached, end))
            self.unit_count += end - reached

    def _compute_chunk_size(self) -> int:
        """Return the number of units for the next chunk, so that all workers get work and no chunk takes too long."""
        if self._seconds_per_unit is None:
            return min(self._max_units, 1 << (self._share - 1).bit_length())
        share = self.unit_count // (2 * self._workers)  # so that the last chunks end at about the same time
        min_units = int(MIN_CHUNK_SECONDS / self._seconds_per_unit)
        return max(
            1,
            min(
                self._max_units,
                power_of_two_units_within(self._max_seconds, self._seconds_per_unit),
                max(share, min_units),
            ),
        )
