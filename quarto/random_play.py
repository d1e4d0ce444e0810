"""Exact probabilities of uniformly random play: that nobody has won after a number of plies.

The piece and the cell of every ply are uniform over those that are left, whichever player chooses them. So all
sequences of plies are equally likely, and a share of games is a share of sequences, which ``perft`` counts. The counts
for the ten lines of the classic rules come from inclusion and exclusion over sets of lines. Tests count the plies that
``quarto.perft`` can reach again and check the others against each other.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from quarto.rules import CELLS, CLASSIC, PIECES, Rules

# Sequences of 0 to 16 plies after which no line is finished: entry k counts those of k plies.
CLASSIC_LIVE_PREFIXES = (
    1,
    256,
    57_600,
    11_289_600,
    1_904_855_040,
    272_520_806_400,
    32_437_075_968_000,
    3_136_813_961_379_840,
    239_252_459_187_732_480,
    13_864_726_403_741_122_560,
    582_039_311_690_524_262_400,
    16_637_779_212_451_813_785_600,
    298_205_956_844_805_213_388_800,
    2_991_826_538_539_144_917_811_200,
    14_287_655_705_878_169_911_296_000,
    24_838_669_974_296_232_198_144_000,
    8_668_272_956_303_674_441_728_000,
)


def undecided(rules: Rules) -> tuple[Fraction, ...] | None:
    """[17] the probability that nobody has won after 0 to 16 plies; None for rules with other lines than classic.

    The last one is the probability of a draw.
    """
    if set(rules.lines) != set(CLASSIC.lines):
        return None
    shares, sequences = [], 1
    for plies, live in enumerate(CLASSIC_LIVE_PREFIXES):
        shares.append(Fraction(live, sequences))
        sequences *= (CELLS - plies) * (PIECES - plies)
    return tuple(shares)


def lengths(rules: Rules) -> tuple[Fraction, ...] | None:
    """[17] the probability that a game ends after 0 to 16 plies: won or, after the last one, drawn; None as above."""
    live = undecided(rules)
    if live is None:
        return None
    return (Fraction(0), *(before - after for before, after in pairwise((*live[:-1], Fraction(0)))))
