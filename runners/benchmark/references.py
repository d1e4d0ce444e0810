"""Reference scores: the mean returns of random and of perfect play against one opponent, by which others are measured.

Minari's normalised score is (return - least) / (greatest - least), where the references are those of a random and of an
expert player. A return is that of one episode: 1 won, 0 drawn, -1 lost.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from analytics.statistics.intervals import Estimate, score, wilson
from analytics.statistics.tally import Tally
from quarto.rules import CLASSIC
from runners.arena.spec import AgentSpec
from runners.benchmark.datasets import EXPERT, RANDOM, player
from runners.judge.judging import JudgeOptions, games_with

OPPONENT = "semi_random"  # unless another one is named
GAMES = 4_000
SECONDS = 2.4  # of processor time that references against semi_random take, measured
FEW_PAIRS = 30  # the variance of fewer says little: they may all have ended alike
SEED = (1 << 31) - 1  # of their openings, which neither datasets nor judged games have


class References(NamedTuple):
    """The mean returns between which scores are 0 and 1."""

    least: float
    greatest: float

    def normalised(self, returns: Estimate) -> Estimate:
        """A mean return and its interval as Minari's normalised score. The references are taken as exact."""
        width = self.greatest - self.least
        mean, low, high = ((each - self.least) / width for each in returns)
        return Estimate(mean, low, high)


def mean_return(games: Tally) -> Estimate:
    """The first agent's mean return, -1 to 1, with its 95 % interval over pairs.

    Of fewer than ``FEW_PAIRS`` it is Wilson's for as many wins and losses, the scores that vary most.
    """
    share, low, high = score(games, by_pairs=True)
    if games.pair_count < FEW_PAIRS:
        low, high = wilson(share * games.pair_count, games.pair_count)
    return Estimate(2 * share - 1, 2 * low - 1, 2 * high - 1)


def references(opponent: AgentSpec, threads: int, stop: threading.Event) -> References:
    """The references against an opponent under classic rules: the same for the same code on any number of threads."""
    options = JudgeOptions(games=GAMES, seed=SEED, threads=threads)
    least, greatest = (
        mean_return(games_with(opponent, player(name), CLASSIC, options, stop)[0]).mean for name in (RANDOM, EXPERT)
    )
    return References(least, greatest)
