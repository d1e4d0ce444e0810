"""The review of a game in words."""

from __future__ import annotations

from analytics.perfect.game_review import GameReview, JudgedDecision
from quarto.rules import NONE
from runners.play.review import review_lines
from runners.play.wording import Players

YOU = Players(1, "dumb")


def test_the_mover_who_chooses_the_piece_has_one_column() -> None:
    decisions = (JudgedDecision(4, "placement", 1, 3, 0, 0, 0), JudgedDecision(5, "placement", 0, 10, 5, 1, -1))
    assert review_lines(GameReview(decisions, 4, {1: ((0, 1), (2, 15))}), YOU, 10) == [
        "Each decision and its exact value, for the player who took it:",
        "ply  placement",
        "4    you 3@a1: draw",
        "5    dumb A@b2: win -> loss",
        "Mistake at ply 5 by dumb: placing A@b2 turned a win into a loss; 0@b1 or 2@d4 would have kept it.",
        "4 earlier decisions were not judged within 10 s: early positions take long under these rules.",
    ]


def test_a_review_without_mistakes_or_decisions_says_so() -> None:
    gift = JudgedDecision(0, "gift", 0, 7, NONE, 0, 0)
    assert review_lines(GameReview((gift,), 0, {}), YOU, 1)[1:] == [
        "ply  gift",
        "0    dumb 7: draw",
        "Neither side erred.",
    ]
    assert review_lines(GameReview((), 0, {}), YOU, 1) == ["No decision was taken, so none is judged."]
