"""Carrying out a test of strength: pairs are played, taken into the test in the order of their numbers, and written.

Blocks are played ahead of the test, since threads must not wait for one another. They are finished in any order and
sorted by their first pair. They are written once the test has taken their pairs; games beyond its end are dropped. So
neither the verdict nor the games that a test leaves in the archive depend on threads, blocks or interruptions.
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

OnPairs = Callable[[SequentialTest], None]  # called with the test whenever it has taken more pairs


@dataclass(frozen=True)
class SprtExperiment:
    """A test that is ready to be carried out. The games of its run do not depend on the hypotheses."""

    experiment: Experiment
    hypotheses: Hypotheses

    @property
    def most_pairs(self) -> int:
        """After so many pairs the test ends without a decision."""
        return self.experiment.request.games // 2

    def load_test_state(self) -> SequentialTest:
        """The state of the test after the games that the archive holds now."""
        return sprt_verdicts.run_sequential_test(
            self.experiment.archive, self.experiment.run_id, self.hypotheses, self.most_pairs
        )


@dataclass(frozen=True)
class SprtOutcome:
    """The state of a test when playing has ended."""

    experiment: Experiment
    trial: SequentialTest
    played: int  # games, by this process
    seconds: float  # playing and writing them
    stopped: bool  # because the user asked to


def execute_sprt(
    sprt_experiment: SprtExperiment, command: str, stop: threading.Event, on_pairs: OnPairs
) -> SprtOutcome:
    """Play until the test ends or ``stop`` is set, and store the verdict.

    Raises ``FailureError`` when the disk refuses; games written before are kept.
    """
    experiment, trial = sprt_experiment.experiment, sprt_experiment.load_test_state()
    archive, spec = experiment.archive, experiment.request.spec
    begun = replace(experiment, request=replace(experiment.request, games=2 * trial.horizon))
    with record_contribution(begun, command) as contribution:
        try:
            # Repeated only if another process plays the same run: the test takes the games that the archive holds.
            while not (trial.ended or stop.is_set()):
                contribution.games += _play_missing_pairs(sprt_experiment, trial, stop, on_pairs)
                trial = sprt_experiment.load_test_state()
        finally:  # the run's record asks for the games up to the next look; none are missing once the test has ended
            save_run_start(archive, spec, experiment.code, 2 * trial.horizon, command)
    if trial.ended:
        sprt_verdicts.write_verdict(archive, SprtVerdict.from_test(experiment.run_id, trial, command))
    return SprtOutcome(experiment, trial, contribution.games, contribution.seconds, stop.is_set())


def _play_missing_pairs(
    sprt_experiment: SprtExperiment, trial: SequentialTest, stop: threading.Event, on_pairs: OnPairs
) -> int:
    """Play and write what ``trial`` lacks until it ends or ``stop`` is set; returns the number of games written."""
    experiment, most = sprt_experiment.experiment, sprt_experiment.most_pairs
    outcomes = _PairOutcomes(sprt_verdicts.read_outcomes(experiment.archive, experiment.run_id, most))
    gaps, pace, held = (
        experiment.missing_units(2 * most),
        Pace(experiment.request.storage.shard_games // 16),
        dict[int, Block](),
    )
    source = takewhile(lambda _: not (stop.is_set() or trial.ended), _list_pair_ranges(gaps, most, pace))
    reached = gaps[0][0] if gaps else 0  # a unit is a pair: there is one pairing
    with RangeWriter(experiment, reached) as writer:
        for block in experiment.engine.play(source, experiment.request.threads, stop, writer.write_if_due):
            pace.add_block_time(block.pairing, block.pairs, block.seconds)
            outcomes.put(block.first_pair, pair_outcomes(block.games.winner))
            held[block.first_pair] = block
            trial.add_outcomes(outcomes.select_known_from(trial.pairs))
            for first in sorted(held):
                if first + held[first].pairs <= trial.pairs:
                    taken = held.pop(first)
                    if first != reached:  # the archive holds the pairs between
                        writer.skip_to(first)
                    reached = first + taken.pairs
                    writer.add(reached, [taken])
            on_pairs(trial)
            if trial.ended:
                break
    return writer.games_written


def _list_pair_ranges(gaps: list[tuple[int, int]], max_pairs: int, pace: Pace) -> Iterator[PairRange]:
    """The pairs in ``gaps``, ascending. No block crosses a look, since a test ends at a look and so with a block."""
    start = 0
    for look in pair_counts_at_looks(max_pairs):
        for gap, gap_end in gaps:
            first, end = max(gap, start), min(gap_end, look)
            while first < end:
                pairs = min(pace.next_pair_count(0), end - first)
                yield PairRange(0, first, pairs)
                first += pairs
        start = look


class _PairOutcomes:
    """The outcomes of pairs by number, as ``sprt_verdicts.outcomes`` returns them; it grows as needed."""

    def __init__(self, known_outcomes: NDArray[np.int8]) -> None:
        self._outcomes = known_outcomes

    def put(self, first_pair: int, outcomes: NDArray[np.int8]) -> None:
        """Add those of consecutive pairs from number ``first_pair`` on."""
        end = first_pair + len(outcomes)
        if end > len(self._outcomes):
            room = max(end, 2 * len(self._outcomes)) - len(self._outcomes)
            self._outcomes = np.concatenate([self._outcomes, np.full(room, sprt_verdicts.UNKNOWN, np.int8)])
        self._outcomes[first_pair:end] = outcomes

    def select_known_from(self, first_pair: int) -> NDArray[np.int8]:
        """The outcomes from pair number ``first_pair`` to before the first unknown one."""
        return sprt_verdicts.select_known_outcomes(self._outcomes, first_pair)
