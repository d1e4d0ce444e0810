from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from quarto.canonical import orbit_size
from quarto.errors import RequestError
from quarto.perft import (
    CLASSIC_LIVE_PREFIXES,
    MAX_PLIES,
    CanonicalBoards,
    PerftLayer,
    count_next_layer,
    length_probabilities,
    perft,
    undecided_probabilities,
)
from quarto.rules import CLASSIC, NONE, Rules
from quarto.symmetry import build_symmetries
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_quarto import ORACLES, live_prefixes


def known_layer(ply: int) -> PerftLayer:
    """Return the known counts of classic games, without the number of live boards."""
    return PerftLayer(
        ply,
        ORACLES["live_game_prefixes_after_k_plies"][ply],
        ORACLES["games_won_at_ply_k"][ply],
        ORACLES["canonical_boards_with_k_pieces_including_won"][ply],
        0,
    )


@pytest.mark.parametrize("plies", [5, *seldom(7)])
def test_classic_counts_are_the_known_ones(plies: int) -> None:
    counted = perft(CLASSIC, plies)
    expected = [known_layer(ply) for ply in range(plies + 1)]
    assert [layer._replace(canonical_live_boards=0) for layer in counted] == expected
    assert counted[4].canonical_live_boards == ORACLES["canonical_live_boards_k4"]
    assert all(type(field) is int for layer in counted for field in layer)


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS.keys())
def test_live_and_won_games_of_any_rules_equal_those_counted_from_the_lines(rules: Rules) -> None:
    counted = perft(rules, 5)
    live = [live_prefixes(rules, plies) for plies in range(6)]
    assert [layer.live_prefixes for layer in counted] == live
    won = [0] + [live[ply - 1] * (17 - ply) ** 2 - live[ply] for ply in range(1, 6)]
    assert [layer.games_won for layer in counted] == won


def test_a_number_of_plies_that_cannot_be_counted_is_refused_before_counting() -> None:
    with pytest.raises(RequestError, match="plies=-1 is negative: ask for 0 to 7"):
        perft(CLASSIC, -1)
    with pytest.raises(RequestError, match="plies=8 is too many: ask for 7 at most, because"):
        perft(CLASSIC, MAX_PLIES + 1)


@pytest.mark.slow
def test_every_live_board_is_reached_in_each_order_of_its_plies() -> None:
    """Count the prefixes that lead to an orbit in a second way: as its boards times the orders of their plies."""
    boards, orders = CanonicalBoards(np.zeros(1, np.uint64), np.ones(1, np.uint64), {0: (0, 1)}), 1
    for ply in range(1, 5):
        _, boards = count_next_layer(CLASSIC, boards, ply, is_last=False)
        orders *= ply
        for mask, (first, end) in boards.slices.items():
            for lanes, ways in zip(boards.lanes[first:end], boards.ways[first:end], strict=True):
                assert int(ways) == orders * orbit_size(lanes, mask, NONE, build_symmetries(CLASSIC))


# Random play.


def test_the_counts_and_the_drawn_full_boards_are_the_known_ones() -> None:
    assert list(CLASSIC_LIVE_PREFIXES) == ORACLES["live_game_prefixes_after_k_plies"]
    assert CLASSIC_LIVE_PREFIXES[16] == 414_298_141_056 * factorial(16)  # codegolf.stackexchange 154335; any order


def test_chances_are_those_of_the_known_random_play() -> None:
    live, ends = undecided_probabilities(CLASSIC), length_probabilities(CLASSIC)
    assert live is not None
    assert ends is not None
    oracle = ORACLES["random_play"]
    assert live[16] == Fraction(*oracle["draw"]) == Fraction(CLASSIC_LIVE_PREFIXES[16], factorial(16) ** 2)
    assert sum(ends) == 1
    assert not any(ends[:4])
    won = [float(chance) for chance in (*ends[4:16], ends[16] - live[16])]
    assert won == pytest.approx(oracle["win_probability_at_placement_4_to_16"], abs=6e-7)
    assert float(sum(plies * chance for plies, chance in enumerate(ends))) == pytest.approx(
        oracle["mean_placements"], abs=1e-6
    )
    assert sum(ends[1::2]) == Fraction(*oracle["seat_1_wins"])  # which places plies 0, 2, 4, …


def test_who_chooses_the_piece_makes_no_difference_and_the_lines_do() -> None:
    assert (
        length_probabilities(PRESETS["own_piece"])
        == length_probabilities(replace(CLASSIC, name="mine"))
        == length_probabilities(CLASSIC)
    )
    for name in ("square", "torus", "torus_square"):
        assert length_probabilities(PRESETS[name]) is None
        assert undecided_probabilities(PRESETS[name]) is None
