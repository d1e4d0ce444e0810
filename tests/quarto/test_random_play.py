from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import factorial

import pytest

from quarto.perft import CLASSIC_LIVE_PREFIXES, lengths, undecided
from quarto.rules import CLASSIC
from tests.naive import PRESETS
from tests.naive_quarto import ORACLES


def test_the_counts_and_the_drawn_full_boards_are_the_known_ones() -> None:
    assert list(CLASSIC_LIVE_PREFIXES) == ORACLES["live_game_prefixes_after_k_plies"]
    assert CLASSIC_LIVE_PREFIXES[16] == 414_298_141_056 * factorial(16)  # codegolf.stackexchange 154335; any order


def test_chances_are_those_of_the_known_random_play() -> None:
    live, ends = undecided(CLASSIC), lengths(CLASSIC)
    assert live is not None
    assert ends is not None
    known = ORACLES["random_play"]
    assert live[16] == Fraction(*known["draw"]) == Fraction(CLASSIC_LIVE_PREFIXES[16], factorial(16) ** 2)
    assert sum(ends) == 1
    assert not any(ends[:4])
    won = [float(chance) for chance in (*ends[4:16], ends[16] - live[16])]
    assert won == pytest.approx(known["win_probability_at_placement_4_to_16"], abs=6e-7)
    assert float(sum(plies * chance for plies, chance in enumerate(ends))) == pytest.approx(
        known["mean_placements"], abs=1e-6
    )
    assert sum(ends[1::2]) == Fraction(*known["seat_1_wins"])  # which places plies 0, 2, 4, …


def test_who_chooses_the_piece_makes_no_difference_and_the_lines_do() -> None:
    assert lengths(PRESETS["own_piece"]) == lengths(replace(CLASSIC, name="mine")) == lengths(CLASSIC)
    for name in ("square", "torus", "torus_square"):
        assert lengths(PRESETS[name]) is None
        assert undecided(PRESETS[name]) is None
