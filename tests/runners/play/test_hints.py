"""Hints agree with an exhaustive search of the next placements."""

from __future__ import annotations

import random
import re

import pytest

from analytics.perfect.game_review import GameReview, JudgedDecision
from quarto.notation import format_cell, format_piece, parse_cell, parse_piece
from quarto.rules import NONE, Rules
from runners.play.dialogue import game_after
from runners.play.game import Game, NextDecision, Players
from runners.play.hints import hint, review_lines
from tests import naive
from tests.marks import seldom
from tests.naive import PRESETS
from tests.runners.play.people import any_line


def moments(rules: Rules, games: int = 30) -> list[Game]:
    """Every moment of some random games at which somebody could ask for a hint."""
    found = []
    for seed in range(games):
        game, dice = Game(rules), random.Random(seed)
        while game.asked is not NextDecision.NOTHING:
            found.append(game)
            game = game_after(any_line(game, dice).split()[0], game)
    return found


def cells(text: str) -> list[int]:
    return [parse_cell(word) for word in text.split()]


@pytest.mark.parametrize("preset", ["classic", "torus_square"])
def test_hints_about_gifts_name_the_safe_ones(preset: str) -> None:
    rules, seen = PRESETS[preset], set()
    for game in moments(rules):
        if game.asked is not NextDecision.GIFT:
            continue
        (line,) = hint(game).lines
        safe = naive.safe_pieces(game.board, game.left, rules)
        if len(safe) == len(game.left):
            expected = "Every gift is safe: none finishes a line now."
        elif safe:
            named = " ".join(format_piece(piece) for piece in safe)
            expected = f"Safe gifts: {named}. Any other finishes a line."
        else:
            expected = "No gift is safe: every piece left finishes a line somewhere."
        assert line == expected
        seen.add(expected[:4])
    assert seen == {"Ever", "Safe", "No g"}


@pytest.mark.parametrize("preset", ["classic", *seldom("square")])
def test_hints_about_placements_name_winning_cells_or_count_safe_gifts(preset: str) -> None:
    rules, seen = PRESETS[preset], set()
    for game in moments(rules):
        if game.asked is not NextDecision.PLACEMENT:
            continue
        first, *more = hint(game).lines
        hand = format_piece(game.hand)
        if wins := naive.winning_cells(game.board, game.hand, rules):
            assert first == f"{hand} finishes a line on {' '.join(map(format_cell, wins))}."
            assert more == []
            seen.add("wins")
            continue
        assert first == f"{hand} finishes no line now."
        safe = {
            cell: naive.safe_pieces(naive.with_piece(game.board, game.hand, cell), game.left, rules)
            for cell in game.empty_cells
        }
        counts = {cell: len(pieces) for cell, pieces in safe.items()}
        if not game.left:
            assert more == []
            seen.add("last")
        elif not any(counts.values()):
            assert more == ["Wherever it goes, every gift then lets your opponent finish one."]
            seen.add("lost")
        else:
            listed, suggestion = more
            if len(set(counts.values())) == 1:
                assert listed == f"Number of safe gifts: {counts[game.empty_cells[0]]} wherever it goes."
            else:
                groups = re.findall(r"(\d+) after ([a-d1-4 ]+)", listed)
                assert {cell: int(count) for count, where in groups for cell in cells(where)} == counts
                assert [int(count) for count, _ in groups] == sorted(set(counts.values()), reverse=True)
            found = re.match(r"Suggestion: place it on (\w\w) and give (\w)\.", suggestion)
            assert found
            assert counts[parse_cell(found[1])] == max(counts.values())
            assert parse_piece(found[2]) in safe[parse_cell(found[1])]
            seen.add("counted")
    assert seen >= {"wins", "lost", "counted"}


@pytest.mark.slow
def test_hints_where_the_mover_chooses_name_what_wins_and_what_is_safe() -> None:
    rules, seen = PRESETS["own_piece"], set()
    late = [game for game in moments(rules) if len(game.plies) > 8]
    for game in [*moments(rules, games=2), *late]:
        lines = hint(game).lines
        wins, safe = [], []
        for piece in game.left:
            others = [other for other in game.left if other != piece]
            winning = naive.winning_cells(game.board, piece, rules)
            wins += [f"{format_piece(piece)}@{format_cell(cell)}" for cell in winning]
            for cell in game.empty_cells:
                after = naive.with_piece(game.board, piece, cell)
                if not any(naive.winning_cells(after, other, rules) for other in others):
                    safe.append(f"{format_piece(piece)}@{format_cell(cell)}")
        if wins:
            assert lines == [f"This finishes a line: {shortened(wins)}."]
        elif safe:
            expected = f"After these your opponent cannot finish one either: {shortened(safe)}."
            assert lines == ["Nothing finishes a line now.", expected]
        else:
            assert len(lines) == 1
            assert lines[0].startswith("Nothing finishes a line now, and after each of your plies")
        seen.add((bool(wins), bool(safe)))
    assert {(True, False), (False, True), (False, False)} <= seen


def shortened(turns: list[str]) -> str:
    return " ".join(turns[:6]) + (f" and {len(turns) - 6} more" if len(turns) > 6 else "")


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
