"""Carrying out a test of strength: pairs are played, looked at in the order of their numbers, and kept up to its end.

Blocks are played ahead of the looks, since threads must not wait for one another. They come in any order, are put in
theirs, and are committed once the test has gone past them; what was played beyond its end is dropped. So both the
verdict and the games that a test leaves in the archive depend on neither threads nor blocks nor interruptions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analytics.statistics.sprt import Trial, looks, pair_outcomes
from analytics.store import sprt_verdicts
from quarto.batch import Block
from runners.arena.engine import Order
from runners.arena.experiment import Experiment, begin, contribute, prepare, refuse_other_code
from runners.arena.schedule import Pace, missing
from runners.strength.sprt_config import TrialRequest

Watcher = Callable[[Trial], None]  # told whenever more pairs were looked at


@dataclass(frozen=True)
class Contest:
    """A test that can be carried out."""

    request: TrialRequest
    experiment: Experiment

    def trial(self) -> Trial:
        """The test by the games that the archive holds by now."""
        experiment = self.experiment
        return sprt_verdicts.trial(
            experiment.archive, experiment.run_id, self.request.hypotheses, self.request.most_pairs
        )


@dataclass(frozen=True)
class Found:
    """What a test has come to."""

    contest: Contest
    trial: Trial
    played: int  # games in this session
    seconds: float  # playing and writing them
    stopped: bool  # somebody asked to stop


def arrange(request: TrialRequest) -> Contest:
    """Make the agents and open the archive, creating it if need be; no run is touched.

    Raises ``RequestError`` as ``prepare`` does; a run begun by other code is fine if its games decide the test.
    """
    contest = Contest(request, prepare(replace(request.run, games=0)))
    if not contest.trial().ended:
        asked = replace(contest.experiment.request, games=request.run.games)
        refuse_other_code(replace(contest.experiment, request=asked))
    return contest


def carry_out(contest: Contest, command: str, stop: threading.Event, watch: Watcher) -> Found:
    """Play until the test ends or ``stop`` is set, and keep the verdict. Raises ``FailureError`` as a run does."""
    experiment, trial = contest.experiment, contest.trial()
    archive, spec = experiment.archive, experiment.request.spec
    begun = replace(experiment, request=replace(experiment.request, games=2 * trial.horizon))
    with contribute(begun, command) as contribution:
        try:
            # More than once only if another process plays the same run: what counts is what the archive holds.
            while not (trial.ended or stop.is_set()):
                contribution.games += _play(contest, trial, stop, watch)
                trial = contest.trial()
        finally:  # the run asks for the games that its test needs next: none are missing once that has ended
            begin(archive, spec, experiment.code, 2 * trial.horizon, command)
    if trial.ended:
        sprt_verdicts.save(archive, sprt_verdicts.Verdict.of(experiment.run_id, trial, command))
    return Found(contest, trial, contribution.games, contribution.seconds, stop.is_set())


def _play(contest: Contest, trial: Trial, stop: threading.Event, watch: Watcher) -> int:
    """Play and commit what ``trial`` lacks until it ends or ``stop`` is set; returns the games committed."""
    experiment, most = contest.experiment, contest.request.most_pairs
    outcomes = _Outcomes(sprt_verdicts.outcomes(experiment.archive, experiment.run_id, most))
    covered = experiment.archive.covered(experiment.run_id).get(0, [])
    gaps, pace, held = missing(most, covered), Pace(), dict[int, Block]()
    source = _until(stop, trial, _orders(gaps, most, pace))
    with experiment.shard_writer() as writer:
        for block, seconds in experiment.engine.play(source, experiment.request.threads):
            pace.update(block.pairing, block.pairs, seconds)
            outcomes.put(block.first_pair, pair_outcomes(block.games.winner))
            held[block.first_pair] = block
            trial.take(outcomes.after(trial.pairs))
            for first in sorted(held):
                if first + held[first].pairs <= trial.pairs:
                    writer.add(held.pop(first))
            watch(trial)
            if trial.ended:
                break
    return writer.committed


def _until(stop: threading.Event, trial: Trial, source: Iterator[Order]) -> Iterator[Order]:
    """``source`` as long as the test goes on and nobody has asked to stop."""
    for order in source:
        if stop.is_set() or trial.ended:
            return
        yield order


def _orders(gaps: list[tuple[int, int]], most: int, pace: Pace) -> Iterator[Order]:
    """The pairs in ``gaps`` in order, in blocks none of which goes beyond a look: a test ends with a block."""
    start = 0
    for look in looks(most):
        for gap, gap_end in gaps:
            first, end = max(gap, start), min(gap_end, look)
            while first < end:
                pairs = min(pace.pairs(0), end - first)
                yield Order(0, first, pairs)
                first += pairs
        start = look


class _Outcomes:
    """The outcomes of pairs by number, as ``verdicts.outcomes`` has them, with room for more."""

    def __init__(self, known: NDArray[np.int8]) -> None:
        self._found = known

    def put(self, first: int, outcomes: NDArray[np.int8]) -> None:
        """Learn those of consecutive pairs."""
        end = first + len(outcomes)
        if end > len(self._found):
            room = max(end, 2 * len(self._found)) - len(self._found)
            self._found = np.concatenate([self._found, np.full(room, sprt_verdicts.UNKNOWN, np.int8)])
        self._found[first:end] = outcomes

    def after(self, pairs: int) -> NDArray[np.int8]:
        """All that follow one another after the first ``pairs``."""
        return sprt_verdicts.known(self._found, pairs)
