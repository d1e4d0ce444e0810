"""A game as a value equals the naive twin's after each step, and refuses illegal steps."""

from __future__ import annotations

import re

import pytest

from quarto.batch import ENDINGS, FORFEIT_RESIGNED
from quarto.errors import RequestError
from quarto.rules import CLASSIC, NONE, Rules
from runners.play.game import Game, NextDecision
from tests import naive
from tests.naive import PRESETS


@pytest.mark.parametrize("rules", PRESETS.values(), ids=list(PRESETS))
def test_a_game_asks_the_seats_in_turn_and_ends_as_the_naive_twin_does(rules: Rules) -> None:
    for pair in range(40):
        twin = naive.play_game(rules, (naive.Random(), naive.Random()), 5, pair, 0)
        game = Game(rules)
        for ply, (piece, cell) in enumerate(zip(twin.pieces, twin.cells, strict=True)):
            assert game.ending is None
            if rules.mover_chooses:
                assert (game.asked, game.seat, game.turn) == (NextDecision.PLY, (ply + 1) % 2, ply + 1)
                game = game.play(piece, cell)
                continue
            assert (game.asked, game.seat, game.turn) == (NextDecision.GIFT, ply % 2, ply)
            assert game.halfway == (ply > 0)
            game = game.give(piece)
            assert (game.asked, game.seat, game.turn) == (NextDecision.PLACEMENT, (ply + 1) % 2, ply + 1)
            assert not game.halfway
            assert piece not in game.left
            game = game.place(cell)
        assert game.asked is NextDecision.NOTHING
        assert (ENDINGS[game.ending or 0], game.winner) == (twin.ending, twin.winner)
        assert game.board == naive.board_after(game.plies)


PLAYED = Game(CLASSIC, ((15, 1), (3, 5)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: PLAYED.give(15), "piece F is already on b1; left: 0 1 2 4 5 6 7 8 9 A B C D E"),
        (lambda: PLAYED.give(16), "16 is not the number of a piece"),
        (lambda: PLAYED.give(NONE), "-1 is not the number of a piece"),
        (lambda: PLAYED.give(7).place(5), "b2 is taken by piece 3; free: a1 c1 d1 a2 c2 d2 a3 b3 c3 d3 a4 b4 c4 d4"),
        (lambda: PLAYED.give(7).place(-2), "-2 is not the number of a cell"),
        (lambda: PLAYED.give(7).give(8), "the game expects placement now, not gift"),
        (lambda: PLAYED.place(0), "the game expects gift now, not placement"),
        (lambda: PLAYED.play(7, 0), "the game expects gift now, not ply"),
        (lambda: PLAYED.forfeited(FORFEIT_RESIGNED).give(7), "the game expects nothing now, not gift"),
    ],
)
def test_what_the_rules_forbid_is_refused_and_what_is_legal_said(wrong: object, message: str) -> None:
    assert callable(wrong)
    with pytest.raises(RequestError, match=re.escape(message)):
        wrong()
