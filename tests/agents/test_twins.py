"""Each built-in player's turns are its slow twin's: position for position, and over whole games."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

import pytest

from agents.alpha_beta import AlphaBeta
from agents.best_mixed import BestMixed
from agents.dumb import Dumb
from agents.ga2 import Ga2
from agents.ga5 import Ga5
from agents.ga_minimax import GaMinimax
from agents.genetic_minimax import GeneticMinimax
from agents.minimax import Minimax
from agents.mixed import Mixed
from agents.mixed_rl import MixedRl
from agents.own_piece_alpha_beta import OwnPieceAlphaBeta
from agents.random import Random
from agents.rule_based import RuleBased
from agents.semi_random import SemiRandom
from quarto.position import PackedPosition
from quarto.rules import CLASSIC, NONE, Rules
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.naive_players import ga, genetic_minimax, minimax, study_a
from tests.naive_players.agreement import Players, assert_same_match, assert_same_turns, list_endgames
from tests.positions import build_view, list_positions

Positions = Callable[[Rules], list[PackedPosition]]

ALL, GIVEN = tuple(PRESETS), tuple(name for name, rules in PRESETS.items() if not rules.mover_chooses)
LONG = tuple(name for name in GIVEN if name != "torus_square")  # its games end before they are late
GENES2 = [(0.1, 0.3), (1.0, 1.0), (0.5, 0.5)]
GENES5 = [ga.PUBLISHED, (1.0, -1.0, 0.5, 2.0, -3.0), (0.0, 0.0, 0.0, 0.0, 0.0)]
SMALL: dict[str, Any] = {"population": 6, "offspring": 4, "generations": 3}


def late(most_empty: int, count: int) -> Positions:
    return lambda rules: list_endgames(rules, most_empty, count)


def asked_positions(games: int) -> Positions:
    return lambda rules: list_positions(rules, games)


def many_unused(rules: Rules) -> list[PackedPosition]:
    return [position for position in list_positions(rules, 30) if position.available.bit_count() >= 8]


@cache
def boards(most_empty: int, rules: Rules) -> list[PackedPosition]:
    """List boards of the classic game, which lasts longer, without a piece in hand, mostly without a win at once."""
    positions = [position for position in list_endgames(CLASSIC, most_empty, 4000) if position.hand == NONE]
    views = ((position, build_view(position, rules)) for position in positions)
    safe = (one for one, view in views if naive.safe_pieces(view.board, view.available, rules) == view.available)
    return [*islice(safe, 12), *positions[:10]]


def five_genes(genes: tuple[float, ...], faithful: bool) -> Players:
    named = dict(zip(("alpha", "beta", "gamma", "delta", "epsilon"), genes, strict=True))
    return Ga5(**named, faithful=faithful), (ga.FaithfulGa5 if faithful else ga.Ga5)(genes)


def turns() -> Iterator[tuple[str, Players, Positions, tuple[str, ...]]]:
    """Name, players, the positions that they are asked about, and the rules by name."""
    yield "random", (Random(), naive.Random()), asked_positions(40), ALL
    yield "dumb", (Dumb(), naive.Dumb()), asked_positions(40), ALL
    yield "semi_random", (SemiRandom(), naive.SemiRandom()), asked_positions(40), ALL
    yield "rule_based", (RuleBased(), naive.RuleBased()), asked_positions(40), GIVEN
    for version in ("last", "earlier"):
        players = RuleBased(True, version), study_a.FaithfulRuleBased(version)
        yield f"rule_based faithful {version}", players, asked_positions(20), GIVEN
    for genes in GENES2:
        yield f"ga2 {genes}", (Ga2(*genes), ga.Ga2(*genes)), asked_positions(40), GIVEN
    for number, genes5 in enumerate(GENES5):
        for faithful in (False, True):
            yield f"ga5 {number} {faithful}", five_genes(genes5, faithful), asked_positions(30), GIVEN
    for faithful in (False, True):
        for genes in GENES2:
            one, other = GaMinimax(*genes, faithful=faithful), ga.GaMinimax(*genes, faithful=faithful)
            yield f"ga_minimax {genes} {faithful}", (one, other), late(12, 150), GIVEN
        for depth, most_empty in ((2, 6), (3, 5), (4, 5 - faithful)):
            one, other = GaMinimax(depth=depth, faithful=faithful), ga.GaMinimax(depth=depth, faithful=faithful)
            yield f"ga_minimax {depth} {faithful}", (one, other), late(most_empty, 60), LONG
        for depth, most_empty in ((1, 9), (2, 6), (4, 4), (16, 4), (3, 5)):
            slow = minimax.FaithfulMinimax(depth) if faithful else minimax.Minimax(depth)
            yield f"minimax {depth} {faithful}", (Minimax(depth, faithful), slow), late(most_empty, 40), LONG
        for depth, most_empty in ((2, 7), (4, 4), (1, 11), (3, 5), (5, 4), (9, 4)):
            pair = OwnPieceAlphaBeta(depth, faithful), minimax.OwnPieceAlphaBeta(depth, faithful)
            yield f"own_piece_alpha_beta {depth} {faithful}", pair, partial(boards, most_empty), ("own_piece",)
    for depth, most_empty in {1: 16, 2: 7, 3: 5, 4: 4, 16: 4}.items():
        yield f"alpha_beta {depth}", (AlphaBeta(depth), minimax.AlphaBeta(depth)), late(most_empty, 40), LONG
    yield "mixed early", (Mixed(), study_a.Mixed()), many_unused, GIVEN
    yield "mixed late", (Mixed(), study_a.Mixed()), late(4, 100), LONG
    yield "mixed 7", (Mixed(7, depth=1), study_a.Mixed(7, depth=1)), late(9, 150), LONG
    yield "mixed faithful", (Mixed(faithful=True), study_a.FaithfulMixed()), late(5, 60), LONG
    yield "best_mixed", (BestMixed(), study_a.Mixed(6, 3)), late(5, 100), LONG
    yield "best_mixed faithful", (BestMixed(faithful=True), study_a.FaithfulMixed(8, 5)), late(5, 100), LONG
    yield "best_mixed faithful 7", (BestMixed(7, 2, faithful=True), study_a.FaithfulMixed(7, 2)), late(7, 60), LONG
    yield "mixed_rl early", (MixedRl(), study_a.MixedRl()), many_unused, GIVEN
    yield "mixed_rl late", (MixedRl(), study_a.MixedRl()), late(4, 100), LONG
    learning = MixedRl(few_unused=7, depth=2, faithful=True), study_a.FaithfulMixedRl(7, 2)
    yield "mixed_rl faithful", learning, late(7, 60), LONG
    settings: tuple[dict[str, Any], ...] = ({}, {"faithful": True}, {"tournament": 4})
    for more in settings:
        bred = GeneticMinimax(**SMALL, **more), genetic_minimax.GeneticMinimax(**SMALL, **more)
        yield f"genetic_minimax {more}", bred, asked_positions(4), ALL


def turn_cases() -> Iterator[Any]:
    """Yield cases under the first rules and, in turn, under one of the others.

    The other rules are slow, because they take longer than ``make test`` may.
    """
    for number, (name, players, positions, rules) in enumerate(turns()):
        quick = {rules[0], rules[-1 - number % len(rules)]}
        for rules_name in rules:
            marks = [] if rules_name in quick and "3 True" not in name else [pytest.mark.slow]
            yield pytest.param(players, positions, PRESETS[rules_name], id=f"{name} {rules_name}", marks=marks)


@pytest.mark.parametrize("one_in", [3, *seldom(1)])
@pytest.mark.parametrize(("players", "positions", "rules"), [*turn_cases()])
def test_turns_are_those_of_the_slow_twin(players: Players, positions: Positions, rules: Rules, one_in: int) -> None:
    assert assert_same_turns(*players, rules, positions(rules)[::one_in]) > 5


ANYBODY: Players = (Random(), naive.Random())
STUDY_A: Players = (RuleBased(True), study_a.FaithfulRuleBased())
MIXED: Players = (Mixed(7, 2, True), study_a.FaithfulMixed(7, 2))
OWN_PIECE = PRESETS["own_piece"]
GAMES: list[tuple[Players, Players, Rules, int, int]] = [
    ((Ga2(), ga.Ga2()), ANYBODY, CLASSIC, 60, 0),
    (five_genes(ga.PUBLISHED, False), ANYBODY, CLASSIC, 30, 0),
    ((GaMinimax(), ga.GaMinimax()), ANYBODY, PRESETS["square"], 10, 4),
    ((GaMinimax(depth=2, faithful=True), ga.GaMinimax(depth=2, faithful=True)), ANYBODY, CLASSIC, 4, 10),
    ((AlphaBeta(2), minimax.AlphaBeta(2)), ANYBODY, CLASSIC, 20, 10),
    ((Minimax(), minimax.Minimax()), ANYBODY, CLASSIC, 3, 7),
    ((BestMixed(4), study_a.Mixed(4, 3)), ANYBODY, CLASSIC, 30, 0),
    ((MixedRl(few_unused=5), study_a.MixedRl(few_unused=5)), ANYBODY, CLASSIC, 20, 0),
    ((OwnPieceAlphaBeta(4), minimax.OwnPieceAlphaBeta(4)), ANYBODY, OWN_PIECE, 4, 11),
    ((GeneticMinimax(**SMALL), genetic_minimax.GeneticMinimax(**SMALL)), ANYBODY, OWN_PIECE, 1, 3),
    # These remember the game.
    (STUDY_A, ANYBODY, CLASSIC, 30, 5),
    (STUDY_A, (Dumb(), naive.Dumb()), CLASSIC, 60, 0),
    (STUDY_A, five_genes(ga.PUBLISHED, True), CLASSIC, 60, 0),
    (MIXED, STUDY_A, CLASSIC, 10, 3),
]


@pytest.mark.parametrize(("one", "other", "rules", "pairs", "opening_plies"), GAMES)
def test_games_are_those_of_the_slow_twin(
    one: Players, other: Players, rules: Rules, pairs: int, opening_plies: int
) -> None:
    assert_same_match(one, other, rules, pairs, opening_plies)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["last", "earlier"])
def test_longer_matches_by_the_code_are_those_of_the_slow_twin(version: str) -> None:
    """Play on until the study's old board matters, which the search leaves as it was.

    It matters when a turn that was found is worth nothing.
    """
    one: Players = Mixed(7, 2, True, version), study_a.FaithfulMixed(7, 2, version)
    assert_same_match(one, ANYBODY, CLASSIC, 60)
    assert_same_match(one, (Dumb(), naive.Dumb()), CLASSIC, 40)
    assert_same_match((BestMixed(5, 4, True, version), study_a.FaithfulMixed(5, 4, version)), ANYBODY, CLASSIC, 20)
    assert_same_match((RuleBased(True, version), study_a.FaithfulRuleBased(version)), ANYBODY, CLASSIC, 60)
