"""Carrying out a sequential test: pairs are played, added to the test by ascending number, and written.

Blocks are played ahead of the test, since threads must not wait for one another. They end in any order, are sorted by
their first pair, and are written once the test has taken their pairs; games beyond the test's end are dropped.
Therefore neither the verdict nor the stored games depend on threads, blocks or interruptions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from analytics.statistics.sprt import Hypotheses, SequentialTest, pair_counts_at_looks, pair_outcomes
from analytics.store import sprt_verdicts
from analytics.store.sprt_verdicts import SprtVerdict
from quarto.batch import Block
from runners.arena.batch_engine import Pace, PairRange
from runners.arena.experiment import Experiment, RangeWriter, record_contribution, save_run_start

OnPairs = Callable[[SequentialTest], None]  # called with the test after more pairs were added to it


@dataclass(frozen=True)
class SprtExperiment:
    """A sequential test that is ready to be carried out. The games of its run do not depend on the hypotheses."""

    experiment: Experiment
    hypotheses: Hypotheses

    @property
    def max_pairs(self) -> int:
        """The number of pairs after which the test ends without a decision."""
        return self.experiment.request.games // 2

    def load_test_state(self) -> SequentialTest:
        """Load the state of the test after all games that the archive now holds."""
        return sprt_verdicts.run_sequential_test(
            self.experiment.archive, self.experiment.run_id, self.hypotheses, self.max_pairs
        )


@dataclass(frozen=True)
class SprtOutcome:
    """The state of a sequential test when playing has ended, and the games played for it."""

    experiment: Experiment
    trial: SequentialTest
    played: int  # games that this process played
    seconds: float  # time of playing and writing them
    stopped: bool  # the user asked for it


def execute_sprt(
    sprt_experiment: SprtExperiment, command: str, stop: threading.Event, on_pairs: OnPairs
) -> SprtOutcome:
    """Play pairs until the test ends or ``stop`` is set; store the verdict if the test has ended.

    Args:
        sprt_experiment: The test.
        command: The user's command, for the records.
        stop: Event that ends playing early.
        on_pairs: Called with the test each time pairs have been added to it.

    Raises:
        FailureError: A file could not be written. Games written before are kept.

    """
    experiment, trial = sprt_experiment.experiment, sprt_experiment.load_test_state()
    archive, spec = experiment.archive, experiment.request.spec
    started_experiment = replace(experiment, request=replace(experiment.request, games=2 * trial.horizon))
    with record_contribution(started_experiment, command) as contribution:
        try:
            # The loop repeats only if another process plays the same run: the test takes the games in the archive.
            while not (trial.ended or stop.is_set()):
                contribution.games += _play_missing_pairs_and_count_games(sprt_experiment, trial, stop, on_pairs)
                trial = sprt_experiment.load_test_state()
        finally:  # the record requests the games up to the next look, so none are missing once the test has ended
            save_run_start(archive, spec, experiment.code, 2 * trial.horizon, command)
    if trial.ended:
        sprt_verdicts.write_verdict_and_list_in_run(archive, SprtVerdict.from_test(experiment.run_id, trial, command))
    return SprtOutcome(experiment, trial, contribution.games, contribution.seconds, stop.is_set())


def _play_missing_pairs_and_count_games(
    sprt_experiment: SprtExperiment, trial: SequentialTest, stop: threading.Event, on_pairs: OnPairs
) -> int:
    """Play and write the pairs that ``trial`` lacks until the test ends or ``stop`` is set.

    Returns the number of games that were written.
    """
    experiment, max_pairs = sprt_experiment.experiment, sprt_experiment.max_pairs
    outcomes = _PairOutcomes(sprt_verdicts.read_outcomes(experiment.archive, experiment.run_id, max_pairs))
    gaps, pace = experiment.missing_units(2 * max_pairs), Pace(experiment.request.storage.shard_games // 16)
    waiting_blocks = dict[int, Block]()
    source = takewhile(
        lambda _: not (stop.is_set() or trial.ended), _list_gap_ranges_between_looks(gaps, max_pairs, pace)
    )
    reached = gaps[0][0] if gaps else 0  # a unit is a pair: there is one pairing
    with RangeWriter(experiment, reached) as writer:
        for block in experiment.engine.play_in_any_order(
            source, experiment.request.threads, stop, writer.write_if_full_or_overdue
        ):
            pace.add_block_time(block.pairing, block.pairs, block.seconds)
            outcomes.put(block.first_pair, pair_outcomes(block.games.winner))
            waiting_blocks[block.first_pair] = block
            trial.add_outcomes(outcomes.select_known_from(trial.pairs))
            for first in sorted(waiting_blocks):
                if first + waiting_blocks[first].pairs <= trial.pairs:
                    taken_block = waiting_blocks.pop(first)
                    if first != reached:  # the archive holds the pairs between
                        writer.skip_to(first)
                    reached = first + taken_block.pairs
                    writer.add(reached, [taken_block])
            on_pairs(trial)
            if trial.ended:
                break
    return writer.games_written


def _list_gap_ranges_between_looks(gaps: list[tuple[int, int]], max_pairs: int, pace: Pace) -> Iterator[PairRange]:
    """Yield the pairs in ``gaps`` in ascending order, in ranges that the pace determines.

    A test looks at its pairs, and may end, only at certain numbers of pairs, the looks. No range extends beyond a look.
    """
    start = 0
    for look in pair_counts_at_looks(max_pairs):
        for gap_start, gap_end in gaps:
            first, end = max(gap_start, start), min(gap_end, look)
            while first < end:
                pairs = min(pace.next_pair_count(0), end - first)
                yield PairRange(0, first, pairs)
                first += pairs
        start = look


class _PairOutcomes:
    """An array of the outcomes of pairs, indexed by number of the pair. It grows when outcomes are added.

    Outcomes have the form in which ``sprt_verdicts.read_outcomes`` returns them.
    """

    def __init__(self, known_outcomes: NDArray[np.int8]) -> None:
        self._outcomes = known_outcomes

    def put(self, first_pair: int, outcomes: NDArray[np.int8]) -> None:
        """Set the outcomes of consecutive pairs, from pair number ``first_pair`` on."""
        end = first_pair + len(outcomes)
        if end > len(self._outcomes):
            added_size = max(end, 2 * len(self._outcomes)) - len(self._outcomes)
            self._outcomes = np.concatenate([self._outcomes, np.full(added_size, sprt_verdicts.UNKNOWN, np.int8)])
        self._outcomes[first_pair:end] = outcomes

    def select_known_from(self, first_pair: int) -> NDArray[np.int8]:
        """Select the outcomes from pair ``first_pair`` up to but not including the first unknown outcome."""
        return sprt_verdicts.select_known_outcomes(self._outcomes, first_pair)
